package redis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

func init() {
	caddy.RegisterModule(new(Storage))
	goredis.SetLogger(quiet{})
}

// quiet takes what go-redis logs by itself, such as each attempt to connect, and logs it at the
// level debug. Store logs what the operator must know.
type quiet struct{}

func (quiet) Printf(_ context.Context, format string, v ...any) {
	caddy.Log().Named("go-redis").Debug(fmt.Sprintf(format, v...))
}

// Storage keeps the streams of `hermes_resume` in Redis or Valkey, so that each replica can
// continue, repeat or cancel a stream of another one. If a replica dies, the readers of its
// streams get an error finish.
//
// All replicas need the same `secret` and `prefix`. It requires Redis 6.2 or Valkey 7.2 or newer:
// one server, a cluster, or a master and replicas that Sentinels watch. While it is down,
// `on_failure` decides about requests with a key; all others pass as without `hermes_resume`.
type Storage struct {
	// The host and port of the server, or `unix/` and the path of its socket. Several addresses,
	// separated by spaces, are nodes of a cluster or, with `master_name`, Sentinels. Default:
	// `127.0.0.1:6379`. This and all other strings may contain placeholders.
	Address string `json:"address,omitempty"`

	// Whether the only address is one of a cluster. Default: false.
	Cluster bool `json:"cluster,omitempty"`

	// The name of the master that the Sentinels watch. If set, the addresses are those of
	// Sentinels. Default: none.
	MasterName string `json:"master_name,omitempty"`

	// The name of an ACL user of the Sentinels. Default: none.
	SentinelUsername string `json:"sentinel_username,omitempty"`

	// The password of the Sentinels; `password` is not used for them. Default: none.
	SentinelPassword string `json:"sentinel_password,omitempty"`

	// The name of an ACL user. Default: none.
	Username string `json:"username,omitempty"`

	// The password, preferably a placeholder such as `{env.REDIS_PASSWORD}`. Default: none.
	Password string `json:"password,omitempty"`

	// Whether to use TLS, also with Sentinels. The server's certificate must name the host that
	// a connection goes to. Default: false.
	TLS bool `json:"tls,omitempty"`

	// A PEM file of the CA certificates with which to verify the server's certificate. It turns
	// TLS on. Default: the certificates of the system.
	TLSCA string `json:"tls_ca,omitempty"`

	// The prefix of the names of all keys. Default: `hermes:`.
	Prefix string `json:"prefix,omitempty"`

	// The key of the hashes of credentials, the same in all replicas: at least 16
	// characters, preferably a placeholder such as `{env.HERMES_RESUME_SECRET}`. Required.
	Secret string `json:"secret,omitempty"`

	// How long a silent replica counts as alive, at least 1s. Default: 15s.
	Lease caddy.Duration `json:"lease,omitempty"`

	// How long a command may take, and how long a request with a key waits for Redis to return,
	// at least 1ms. After that return, the request waits until it is known whether Redis has lost
	// its key, for at most the same time again and no longer than 3s. Default: 3s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// What happens to a request with a key if Redis does not answer within the timeout: with
	// `pass` the agent runs, perhaps for the second time, and the answer cannot be resumed; with
	// `503` the client gets that status, and may send the request again. Default: `pass`.
	OnFailure string `json:"on_failure,omitempty"`

	options Options
	ca      []byte // the content of the file TLSCA
	logger  *zap.Logger
	used    bool // ResumeStore has taken one of stores, which Cleanup must release
}

// CaddyModule returns the Caddy module information.
func (*Storage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.hermes_resume.stores.redis",
		New: func() caddy.Module { return new(Storage) },
	}
}

// stores has the Stores of the process by a hash of their options, so that a reload ends no stream.
var stores = caddy.NewUsagePool()

// texts returns the options that are texts, by the names of their subdirectives.
func (s *Storage) texts() map[string]*string {
	return map[string]*string{
		"address": &s.Address, "username": &s.Username, "password": &s.Password,
		"prefix": &s.Prefix, "secret": &s.Secret, "tls_ca": &s.TLSCA, "master_name": &s.MasterName,
		"sentinel_username": &s.SentinelUsername, "sentinel_password": &s.SentinelPassword,
		"on_failure": &s.OnFailure,
	}
}

// Provision replaces placeholders and checks the values.
func (s *Storage) Provision(ctx caddy.Context) error {
	s.logger = ctx.Logger()
	replacer := caddy.NewReplacer()
	for name, text := range s.texts() {
		value, err := replacer.ReplaceOrErr(*text, true, true)
		if err != nil {
			return fmt.Errorf("replacing placeholders of %s: %w", name, err)
		}
		*text = value
	}
	if len(s.Secret) < 16 {
		return errors.New("the redis storage needs a secret of at least 16 characters: write the output of " +
			"`openssl rand -hex 32` into an environment variable that is the same at all replicas, and configure " +
			"secret {env.HERMES_RESUME_SECRET}")
	}
	o := &s.options
	*o = Options{
		UniversalOptions: goredis.UniversalOptions{
			Username: s.Username, Password: s.Password, IsClusterMode: s.Cluster, MasterName: s.MasterName,
			SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword,
		},
		Refuse:  s.OnFailure == "503",
		Prefix:  cmp.Or(s.Prefix, "hermes:"),
		Lease:   cmp.Or(time.Duration(s.Lease), 15*time.Second),
		Timeout: cmp.Or(time.Duration(s.Timeout), 3*time.Second),
	}
	var err error
	if o.Addrs, err = addresses(cmp.Or(s.Address, "127.0.0.1:6379")); err != nil {
		return err
	}
	if s.TLS || s.TLSCA != "" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if s.TLSCA != "" {
		if s.ca, err = os.ReadFile(s.TLSCA); err != nil {
			return fmt.Errorf("reading the CA certificates of redis: %w", err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(s.ca) {
			return fmt.Errorf("invalid CA certificates in %s: must be a PEM file", s.TLSCA)
		}
	}
	return nil
}

// addresses returns the addresses in text in the form that go-redis takes.
func addresses(text string) ([]string, error) {
	if path, ok := strings.CutPrefix(text, "unix/"); ok {
		if !strings.HasPrefix(path, "@") {
			path, _ = filepath.Abs(path)
		}
		return []string{path}, nil
	}
	all := strings.Fields(text)
	if len(all) == 0 {
		return nil, errors.New("the address is empty: must be host:port or unix/path")
	}
	for i, address := range all {
		network, err := caddy.ParseNetworkAddress(address)
		if err != nil {
			return nil, fmt.Errorf("invalid address %q: must be host:port or unix/path: %w", address, err)
		}
		if network.Network != "tcp" || network.Host == "" || network.StartPort == 0 || network.PortRangeSize() != 1 {
			return nil, fmt.Errorf("invalid address %q: must be host:port or, if it is the only one, unix/path", address)
		}
		all[i] = network.JoinHostPort(0)
	}
	return all, nil
}

// Validate reports a value that is not allowed.
func (s *Storage) Validate() error {
	o := &s.options
	socket := isSocket(o.Addrs[0])
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("invalid prefix %q: must not contain braces, which determine where a cluster keeps a key", o.Prefix)
	case s.OnFailure != "" && s.OnFailure != "pass" && s.OnFailure != "503":
		return fmt.Errorf("invalid on_failure %q: must be pass or 503", s.OnFailure)
	case s.Cluster && s.MasterName != "":
		return errors.New("cluster and master_name are mutually exclusive, because Sentinels watch no cluster: use one of them")
	case s.MasterName == "" && s.SentinelUsername+s.SentinelPassword != "":
		return errors.New("sentinel_username and sentinel_password need master_name, the name of the master that the Sentinels watch")
	case socket && (s.Cluster || s.MasterName != ""):
		return fmt.Errorf("invalid address %q: the address of a cluster or a Sentinel must be host:port", s.Address)
	}
	for name, d := range map[string]struct{ is, least time.Duration }{
		"lease": {s.options.Lease, time.Second}, "timeout": {s.options.Timeout, time.Millisecond},
	} {
		if d.is < d.least {
			return fmt.Errorf("invalid %s %q: must be a duration of at least %v; a number in JSON is nanoseconds",
				name, d.is, d.least)
		}
	}
	return nil
}

// key returns the key of the store in stores, a hash of its options.
func (s *Storage) key() [sha256.Size]byte {
	o := s.options
	return sha256.Sum256(fmt.Appendf(nil, "%q %v %v %v %v %v", append([]string{
		o.MasterName, o.Username, o.Password, o.SentinelUsername, o.SentinelPassword, o.Prefix, string(s.ca),
	}, o.Addrs...), o.Refuse, o.IsClusterMode, o.TLSConfig != nil, o.Lease, o.Timeout))
}

// ResumeStore implements resumecaddy.Storage.
func (s *Storage) ResumeStore(local *log.Memory, finish log.Finish) (log.Store, []byte) {
	v, _, _ := stores.LoadOrNew(s.key(), func() (caddy.Destructor, error) { // New never fails
		o := s.options
		o.Local, o.Finish, o.Logger = local, finish, s.logger
		return New(o), nil
	})
	s.used = true
	return v.(*Store), []byte(s.Secret)
}

// Cleanup releases the store, which stays open until its streams are over.
func (s *Storage) Cleanup() error {
	if !s.used {
		return nil
	}
	_, err := stores.Delete(s.key())
	return err
}
