package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddypki"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/site"
)

const (
	// proxyFrom and proxyTo are the ports of the documentation: the sidecar's,
	// and Hermes' own.
	proxyFrom = ":8643"
	proxyTo   = "127.0.0.1:8642"

	// proxyUpstreamIdle is how long idle connections to the upstream are kept.
	// Caddy's own two minutes are longer than what Hermes' servers keep them
	// (Caddyfile.example).
	proxyUpstreamIdle = 4 * time.Second

	// proxyGraceReserve is how much longer than drain_timeout connections have
	// when the proxy stops, for what is no stream of Hermes.
	proxyGraceReserve = 10 * time.Second
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "hermes-proxy",
		Usage: `[--from <addr>] [--to <addr>] [--bind <ip>] [--change-host-header] [--insecure] [--internal-certs] [--install-trust] [--disable-redirects] ` +
			`[--header-up "Field: value"] [--header-down "Field: value"] [--access-log] [--debug] [--<option of the hermes directive> <value>]`,
		Short: "Repairs the streams of a Hermes agent, as a reverse proxy in front of it",
		Long: `
A reverse proxy like caddy reverse-proxy, with the Hermes sidecar in it. It
needs no configuration file, and saves none:

  $ caddy hermes-proxy
  $ caddy hermes-proxy --from :8643 --to 127.0.0.1:8642 --progress unnamed

Multiple --to addresses may be specified by repeating the flag. Unless
otherwise specified in the addresses, the --from address will be assumed to be
HTTPS if a host or IP is given, and the --to address will be assumed to be HTTP.

WHO MAY CONNECT. Hermes runs commands, and asks for no key unless its
API_SERVER_KEY is set. So, unlike caddy reverse-proxy, a --from address without
a host is open to this machine only:

  --from :8643                    http on 127.0.0.1
  --from localhost:8643           https on 127.0.0.1
  --from http://192.168.1.5:8643  http on this address
  --from 0.0.0.0:8643             http on every interface
  --from hermes.example.com       https on every interface

--bind says otherwise: it takes the IP addresses to listen on, whatever --from
says, such as 0.0.0.0 in a container.

If serving HTTPS:
  --disable-redirects can be used to avoid binding to the HTTP port, which
    is bound to redirect from it. It is not for certs of the internal CA on
    another port than 443.
  --internal-certs can be used to force issuance certs using the internal
    CA instead of attempting to issue a public certificate. It is used for
    localhost and IP addresses in any case.
  --install-trust puts the internal CA's root certificate in the trust stores
    of this system, if the user may. Without it, unlike in caddy
    reverse-proxy, clients have to be given the certificate: the log says
    where it is.

For proxying:
  --header-up can be used to set a request header to send to the upstream.
  --header-down can be used to set a response header to send back to the client.
  --change-host-header sets the Host header on the request to the address
    of the upstream, instead of defaulting to the incoming Host header.
    This is a shortcut for --header-up "Host: {http.reverse_proxy.upstream.hostport}".
  --insecure disables TLS verification with the upstream. WARNING: THIS
    DISABLES SECURITY BY NOT VERIFYING THE UPSTREAM'S CERTIFICATE.

Idle connections to the upstream are closed after 4 seconds, before Hermes
closes them.

All other flags are the options of the hermes directive, with the same values
and defaults; --keepalive-form is its keepalive_form.

On SIGTERM and Ctrl-C open streams may end in good order for --drain-timeout;
those still open then get an error and a clean end. 10 seconds later every
connection is closed.
`,
		CobraFunc: func(cmd *cobra.Command) {
			var c proxyCommand
			c.flags(cmd)
			cmd.Args = cobra.NoArgs
			cmd.RunE = caddycmd.WrapCommandFuncForCobra(c.run)
		},
	})
}

// proxyCommand is a run of caddy hermes-proxy: its flags, of which options are
// those of the handler.
type proxyCommand struct {
	from             string
	to, bind         []string
	headerUp         []string
	headerDown       []string
	changeHost       bool
	insecure         bool
	disableRedirects bool
	internalCerts    bool
	installTrust     bool
	accessLog, debug bool
	options          optionFlags
}

// run starts the proxy. It returns only if it does not start: from then on
// signals end the process (caddy.TrapSignals).
func (c *proxyCommand) run(caddycmd.Flags) (int, error) {
	caddy.TrapSignals()

	p, err := c.prepare()
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	for _, addr := range p.listen {
		if err := site.PortFree(addr); err != nil {
			return caddy.ExitCodeFailedStartup, fmt.Errorf("%w (--from and --bind choose where to listen)", err)
		}
	}
	if err := caddy.Run(p.config); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}

	log := caddy.Log()
	log.Info("hermes proxying", zap.String("from", p.from.String()), zap.Strings("to", c.to), zap.Strings("listen", p.listen))
	if len(c.to) > 1 {
		log.Info("using default load balancing policy", zap.String("policy", "random"))
	}
	if c.internal(p.from) && !c.installTrust {
		log.Info("the certificate is the internal CA's: clients have to trust its root, or use --install-trust",
			zap.String("root", filepath.Join(caddy.AppDataDir(), "pki", "authorities", caddypki.DefaultCAID, "root.crt")))
	}
	if !onlyLoopback(p.listen) {
		log.Warn("other machines may connect, and Hermes runs commands: set its API_SERVER_KEY, or use --bind 127.0.0.1")
	}
	select {}
}

// A preparedProxy is what the flags stand for.
type preparedProxy struct {
	from   fromAddr
	listen []string // host:port
	config *caddy.Config
}

// prepare reads the flags.
func (c *proxyCommand) prepare() (p preparedProxy, err error) {
	handler := new(Handler)
	if err := c.options.set(handler); err != nil {
		return p, err
	}
	if p.from, err = parseFrom(c.from); err != nil {
		return p, err
	}
	if c.internalCerts && p.from.scheme != "https" {
		return p, fmt.Errorf("--internal-certs: --from %s is served without TLS; name a host, such as --from localhost:8643", c.from)
	}
	if c.installTrust && !c.internal(p.from) {
		return p, fmt.Errorf("--install-trust: --from %s has no certificate of the internal CA; add --internal-certs", c.from)
	}
	if p.listen, err = p.from.listen(c.bind); err != nil {
		return p, err
	}
	proxy, err := c.upstreams()
	if err != nil {
		return p, err
	}
	if proxy.Headers, err = c.headers(); err != nil {
		return p, err
	}
	p.config, err = c.config(p.from, p.listen, handler, proxy)
	return p, err
}

// internal reports whether the certificate is one of Caddy's internal CA.
func (c *proxyCommand) internal(from fromAddr) bool {
	return from.scheme == "https" && (c.internalCerts || !certmagic.SubjectQualifiesForPublicCert(from.host))
}

// config is the configuration of a proxy with these two handlers.
func (c *proxyCommand) config(from fromAddr, listen []string, handler *Handler, proxy *reverseproxy.Handler) (*caddy.Config, error) {
	options, err := handler.options()
	if err != nil {
		return nil, err
	}
	route := caddyhttp.Route{HandlersRaw: site.Handlers(handler, proxy)}
	if from.host != "" {
		route.MatcherSetsRaw = []caddy.ModuleMap{{"host": caddyconfig.JSON(caddyhttp.MatchHost{from.host}, nil)}}
	}
	server := &caddyhttp.Server{Listen: listen, Routes: caddyhttp.RouteList{route}}
	switch {
	case from.scheme == "http":
		server.AutoHTTPS = &caddyhttp.AutoHTTPSConfig{Disabled: true}
		server.Protocols = []string{"h1"} // the others need TLS
	case c.disableRedirects, c.internal(from) && from.port != strconv.Itoa(caddyhttp.DefaultHTTPSPort):
		// Nobody looks for that on port 80, which may be taken, or not allowed.
		server.AutoHTTPS = &caddyhttp.AutoHTTPSConfig{DisableRedir: true}
	}
	if c.accessLog {
		server.Logs = new(caddyhttp.ServerLogConfig)
	}
	cfg := site.Config(caddyhttp.App{
		GracePeriod: caddy.Duration(options.DrainTimeout + proxyGraceReserve),
		Servers:     map[string]*caddyhttp.Server{"hermes-proxy": server},
	})
	if c.internal(from) && !c.installTrust {
		no := false
		cfg.AppsRaw["pki"] = caddyconfig.JSON(caddypki.PKI{
			CAs: map[string]*caddypki.CA{caddypki.DefaultCAID: {InstallTrust: &no}},
		}, nil)
	}
	if c.internalCerts {
		cfg.AppsRaw["tls"] = caddyconfig.JSON(caddytls.TLS{Automation: &caddytls.AutomationConfig{
			Policies: []*caddytls.AutomationPolicy{{
				SubjectsRaw: []string{from.host},
				IssuersRaw:  []json.RawMessage{caddyconfig.JSON(map[string]string{"module": "internal"}, nil)},
			}},
		}}, nil)
	}
	if c.debug {
		cfg.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{
			"default": {BaseLog: caddy.BaseLog{Level: zap.DebugLevel.CapitalString()}},
		}}
	}
	return cfg, nil
}

// upstreams is a reverse_proxy to the addresses of --to, which are read as a
// Caddyfile's are: with schemes, ranges of ports and unix sockets.
func (c *proxyCommand) upstreams() (*reverseproxy.Handler, error) {
	line := []caddyfile.Token{{File: "--to", Line: 1, Text: "reverse_proxy"}}
	for _, to := range c.to {
		line = append(line, caddyfile.Token{File: "--to", Line: 1, Text: to})
	}
	proxy := new(reverseproxy.Handler)
	if err := proxy.UnmarshalCaddyfile(caddyfile.NewDispenser(line)); err != nil {
		return nil, err
	}
	if len(proxy.Upstreams) == 0 {
		return nil, errors.New("--to is required: an address such as " + proxyTo)
	}

	transport := new(reverseproxy.HTTPTransport)
	if proxy.TransportRaw != nil { // https or h2c
		if err := json.Unmarshal(proxy.TransportRaw, transport); err != nil {
			return nil, err
		}
	}
	transport.KeepAlive = &reverseproxy.KeepAlive{IdleConnTimeout: caddy.Duration(proxyUpstreamIdle)}
	if c.insecure && transport.TLS != nil {
		transport.TLS.InsecureSkipVerify = true
	}
	proxy.TransportRaw = caddyconfig.JSONModuleObject(transport, "protocol", "http", nil)
	return proxy, nil
}

// headers is what --header-up, --header-down and --change-host-header set, nil
// for nothing.
func (c *proxyCommand) headers() (*headers.Handler, error) {
	up, err := headerFlags("header-up", c.headerUp)
	if err != nil {
		return nil, err
	}
	down, err := headerFlags("header-down", c.headerDown)
	if err != nil {
		return nil, err
	}
	if c.changeHost {
		up.Set("Host", "{http.reverse_proxy.upstream.hostport}")
	}
	if len(up)+len(down) == 0 {
		return nil, nil
	}
	h := new(headers.Handler)
	if len(up) > 0 {
		h.Request = &headers.HeaderOps{Set: up}
	}
	if len(down) > 0 {
		h.Response = &headers.RespHeaderOps{HeaderOps: &headers.HeaderOps{Set: down}}
	}
	return h, nil
}

// headerFlags reads the values of a flag as header fields. Errors do not repeat
// the value, which may be a key.
func headerFlags(flag string, values []string) (http.Header, error) {
	fields := make(http.Header)
	for i, v := range values {
		field, value, found := strings.Cut(v, ":")
		field, value = strings.TrimSpace(field), strings.TrimSpace(value)
		if !found || field == "" || value == "" {
			return nil, fmt.Errorf("%s %d: invalid format (expecting \"Field: value\")", flag, i)
		}
		fields.Set(field, value)
	}
	return fields, nil
}
