package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// Options say where the logs are.
type Options struct {
	// Network is "tcp" or "unix", and Address the host and port of the server, or the path
	// of its socket.
	Network, Address string
	// Username and Password are those of an ACL user, "" for none.
	Username, Password string
	// TLS is nil for connections that are not encrypted.
	TLS *tls.Config
	// Prefix is what the names of keys begin with.
	Prefix string
	// Secret is the key of the hashes in entries, the same in all replicas.
	Secret []byte
	// Lease is for how long a replica that says nothing counts as alive.
	Lease time.Duration
	// Timeout is how long a command may take.
	Timeout time.Duration
	// Local keeps the logs of the runs in this process.
	Local *resume.Memory
	// Logger is told, at most once a minute, when Redis fails.
	Logger *zap.Logger
}

// Defaults of Options.
const (
	DefaultPrefix  = "hermes:"
	DefaultLease   = 15 * time.Second
	DefaultTimeout = 3 * time.Second
)

// errAway means that Redis does nothing for any client now.
var errAway = errors.New("redis does not answer")

// Store is a resume.Store in Redis.
type Store struct {
	o       Options
	client  *goredis.Client
	replica string
	names   prefix
	away    atomic.Bool   // the last command failed
	warned  atomic.Int64  // when, in nanoseconds since 1970
	refused atomic.Int64  // likewise, of an error reply
	members atomic.Int64  // readers that were counted
	turns   chan struct{} // one for each log that is waited for
	stop    context.CancelFunc

	mu      sync.Mutex
	owned   map[string]*owned
	tails   map[string]*tail
	closing bool
	over    chan struct{} // closed when control is over
}

// New returns a Store. It must be closed.
func New(o Options) *Store {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	options := &goredis.Options{
		Network: o.Network, Addr: o.Address, Username: o.Username, Password: o.Password, TLSConfig: o.TLS,
		DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, ContextTimeoutEnabled: true,
		DialerRetries: 1, MaxRetries: 1, PoolSize: maxConnections, PoolTimeout: o.Timeout,
		ConnMaxIdleTime: time.Minute, MaxIdleConns: 16, DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	dial := goredis.NewDialer(options)
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return checked(c), nil
	}
	s := &Store{
		o: o, names: prefix(o.Prefix), replica: hex.EncodeToString(random[:]),
		owned: make(map[string]*owned), tails: make(map[string]*tail), over: make(chan struct{}),
		turns:  make(chan struct{}, maxConnections-commandConnections),
		client: goredis.NewClient(options),
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.control(ctx)
	return s
}

// maxConnections is how many connections a replica may have. All but commandConnections may
// wait for what comes of a log of another replica that has readers here.
const maxConnections = 256

// commandConnections is for those that are not for waiting for a log.
const commandConnections = 16

// Close closes the connections as soon as no log needs them any more.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.closeIfIdle()
}

// closeIfIdle closes what Close has said should be. s.mu is held.
func (s *Store) closeIfIdle() {
	if s.closing && len(s.owned) == 0 && len(s.tails) == 0 {
		s.stop()
		go func() {
			<-s.over
			_ = s.client.Close() // it is not used any more
		}()
	}
}

// do runs a script. It waits until ctx's deadline if that comes first, but not for its end.
func (s *Store) do(ctx context.Context, script *goredis.Script, keys []string, args ...any) (any, error) {
	limit := time.Now().Add(s.o.Timeout)
	if t, ok := ctx.Deadline(); ok && t.Before(limit) {
		limit = t
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
	defer cancel()
	v, err := script.Run(ctx, s.client, keys, args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		s.failed(err)
		if isAway(err) {
			err = fmt.Errorf("%w: %w", errAway, err)
		}
	}
	return v, err
}

// errLarge means that a header, or the path of a request, is larger than what is kept in Redis.
var errLarge = errors.New("a header or a path is too large for redis")

// write runs a script that writes to a log. It returns errLost if that is another's.
func (s *Store) write(script *goredis.Script, keys []string, args ...any) error {
	v, err := s.do(context.Background(), script, keys, args...)
	if err == nil && v != int64(1) {
		err = errLost
	}
	return err
}

// errLost means that a log is another replica's, or was deleted.
var errLost = errors.New("the log in redis is no longer this replica's")

// ttl is how long what a log has in Redis stays if it is not refreshed.
func (s *Store) ttl(e resume.Entry) int64 {
	return (e.Keep + 2*s.o.Lease + time.Minute).Milliseconds()
}

// A keptLog is a log, wherever it is.
type keptLog interface {
	Entry() resume.Entry
	Read(ctx context.Context, n uint64) resume.Reader
	Delete(ctx context.Context) error
}

// memoryLog is a log in memory.
type memoryLog struct {
	in    *resume.Memory
	entry resume.Entry
}

// Entry implements keptLog.
func (l memoryLog) Entry() resume.Entry { return l.entry }

// Read implements keptLog.
func (l memoryLog) Read(ctx context.Context, n uint64) resume.Reader {
	return l.in.Read(ctx, l.entry.ID, n)
}

// Delete implements keptLog.
func (l memoryLog) Delete(ctx context.Context) error { return l.in.Delete(ctx, l.entry.ID) }

// Claim implements resume.Store.
func (s *Store) Claim(ctx context.Context, e resume.Entry, run resume.Run) (resume.Entry, resume.Writer, error) {
	l, w, err := s.claimLog(ctx, e, run)
	if l == nil {
		return resume.Entry{}, nil, err
	}
	return l.Entry(), w, err
}

// Read implements resume.Store.
func (s *Store) Read(ctx context.Context, id string, n uint64) resume.Reader {
	if o := s.ownedLog(id); o != nil {
		return o.Read(ctx, n)
	}
	if l, err := s.findLog(ctx, id); l != nil && err == nil {
		return l.Read(ctx, n)
	}
	return (&remoteLog{s, resume.Entry{ID: id}}).Read(ctx, n)
}

// Delete implements resume.Store.
func (s *Store) Delete(ctx context.Context, id string) error {
	if o := s.ownedLog(id); o != nil {
		return o.Delete(ctx)
	}
	l, err := s.findLog(ctx, id)
	switch {
	case err != nil:
		return err
	case l == nil:
		return resume.ErrDropped
	}
	return l.Delete(ctx)
}

// Find implements resume.Store.
func (s *Store) Find(ctx context.Context, id string) (resume.Entry, error) {
	l, err := s.findLog(ctx, id)
	switch {
	case err != nil:
		return resume.Entry{}, err
	case l == nil:
		return resume.Entry{}, resume.ErrDropped
	}
	return l.Entry(), nil
}

// claimLog claims a log. While Redis is away, a request with a key waits for as long as a
// command may take: the agent may run for that key already, or have run.
func (s *Store) claimLog(ctx context.Context, e resume.Entry, run resume.Run) (keptLog, resume.Writer, error) {
	entry, err := json.Marshal(e)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a log's entry: %w", err)
	}
	if len(entry) > maxRecord {
		return nil, nil, errLarge
	}
	keyed := e.Key != (resume.Digest{})
	limit := time.Now().Add(s.o.Timeout)
	var taken error
	for first := true; ; first = false {
		l, w, err := s.claim(ctx, e, entry, keyed, run, limit)
		if l != nil {
			return l, w, nil
		}
		if err != nil && first {
			if l := s.known(ctx, e); l != nil {
				return l, nil, nil
			}
		}
		if errors.Is(err, resume.ErrTaken) {
			taken = err
		}
		if err != nil && (!keyed || !errors.Is(err, errAway)) || time.Now().After(limit) {
			return nil, nil, cmp.Or(taken, err, resume.ErrTaken)
		}
		if !pause(ctx, blocks/50) {
			return nil, nil, ctx.Err()
		}
	}
}

// claim claims an entry once. It returns no log and no error if the one that has the key goes.
func (s *Store) claim(ctx context.Context, e resume.Entry, entry []byte, keyed bool, run resume.Run, limit time.Time) (keptLog, resume.Writer, error) {
	if s.away.Load() {
		return nil, nil, errAway
	}
	hasKey := 0
	if keyed {
		hasKey = 1
	}
	limited, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	v, err := s.do(limited, claimScript, []string{s.names.log(e.ID), s.names.key(e.Key)},
		s.o.Prefix, e.ID, entry, s.replica, s.o.Lease.Milliseconds(), s.ttl(e), hasKey)
	if err != nil {
		return nil, nil, fmt.Errorf("claiming a log in redis: %w", err)
	}
	id, _ := v.(string)
	if id == e.ID {
		return s.own(ctx, e, run)
	}
	l, err := s.find(ctx, id)
	if err != nil {
		err = fmt.Errorf("%w: %w", resume.ErrTaken, err)
	}
	return l, nil, err
}

// own makes the log in this process of an entry that is claimed. If a log with its key is
// here already, because Redis has lost it, own returns that and no writer.
func (s *Store) own(ctx context.Context, e resume.Entry, run resume.Run) (keptLog, resume.Writer, error) {
	o := newOwned(s, e, run)
	s.mu.Lock()
	have, w, err := s.o.Local.Claim(ctx, e, resume.Run{ReadersChanged: run.ReadersChanged, Cancel: o.Cancel})
	if w != nil {
		o.memoryLog, o.memory = memoryLog{s.o.Local, e}, w
		s.owned[e.ID] = o
	}
	s.mu.Unlock()
	if w == nil {
		go caught(s.o.Logger, func() { _ = s.write(dropScript, s.names.all(e), s.replica, e.ID, "0-1") }) // or its time to live ends it
		return s.here(have), nil, err
	}
	go o.flushes()
	return o, o, nil
}

// known returns a log in this process that has the key of e, nil for none.
func (s *Store) known(ctx context.Context, e resume.Entry) keptLog {
	have, w, err := s.o.Local.Claim(ctx, e, resume.Run{})
	switch {
	case err != nil:
		return nil
	case w != nil:
		w.End(resume.Dropped)
		return nil
	}
	return s.here(have)
}

// here returns the log of a run in this process as it is to be used.
func (s *Store) here(e resume.Entry) keptLog {
	if o := s.ownedLog(e.ID); o != nil {
		return o
	}
	return memoryLog{s.o.Local, e}
}

func (s *Store) ownedLog(id string) *owned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[id]
}

// findLog returns the log with the id, nil for none.
func (s *Store) findLog(ctx context.Context, id string) (keptLog, error) {
	local, missing := s.o.Local.Find(ctx, id)
	l, err := s.find(ctx, id)
	switch {
	case err != nil && missing == nil:
		return s.here(local), nil
	case err != nil:
		return nil, err
	case l == nil && missing == nil:
		// Redis has lost it, or a client has just deleted it.
		if o := s.ownedLog(id); o == nil || o.isLost() {
			return s.here(local), nil
		}
	}
	return l, nil
}

// find returns the log that is in Redis, nil for none. If it is one of a run in this process, that
// is the one.
func (s *Store) find(ctx context.Context, id string) (keptLog, error) {
	if s.away.Load() {
		return nil, errAway
	}
	v, err := s.look(ctx, id)
	if err != nil || v == nil || v.gone {
		return nil, err
	}
	if o := s.ownedLog(id); o != nil {
		return o, nil
	}
	return &remoteLog{s, v.entry}, nil
}

// Interface guards
var _ resume.Store = (*Store)(nil)
