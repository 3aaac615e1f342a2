package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// Options are the options of a Store.
type Options struct {
	// UniversalOptions are the addresses of Redis and the credentials: Addrs, IsClusterMode,
	// MasterName, Username, Password, SentinelUsername, SentinelPassword and TLSConfig. New sets
	// all other fields. An address is a host and port, or the path of a socket.
	goredis.UniversalOptions
	// Prefix is the prefix of the names of all keys.
	Prefix string
	// Lease is how long a replica that sends nothing counts as alive.
	Lease time.Duration
	// Timeout is how long a command may take.
	Timeout time.Duration
	// Refuse is whether a request with a key is refused if Redis cannot be asked for the key,
	// instead of running the agent.
	Refuse bool
	// Local keeps the logs of the runs in this process.
	Local *log.Memory
	// Finish completes the log of a run whose replica is gone.
	Finish log.Finish
	// Logger is told, at most once a minute, when Redis fails.
	Logger *zap.Logger
}

// Store is a log.Store in Redis.
type Store struct {
	o       Options
	client  goredis.UniversalClient
	replica string
	down    atomic.Bool   // the last command failed; in a cluster, no master answers
	settle  time.Duration // how long after a failure Redis may lack what owners write again
	failed  atomic.Int64  // when Redis was last down, in nanoseconds since 1970; 0 for never
	warned  atomic.Int64  // when a failure was last logged, in nanoseconds since 1970
	refused atomic.Int64  // when an error reply was last logged, in nanoseconds since 1970
	members atomic.Int64  // how many readers have been named
	stop    context.CancelFunc
	over    chan struct{} // closed when watch is over
	users   atomic.Int64  // users of the connections: logs, readers, and one until Destruct

	mu    sync.Mutex
	owned map[string]*owned
}

// New returns a Store. Destruct must be called once.
func New(o Options) *Store {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	s := &Store{
		o: o, settle: min(o.Timeout, settleTime), replica: hex.EncodeToString(random[:]),
		owned: make(map[string]*owned), over: make(chan struct{}), client: o.connect(),
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.use(1)
	go s.watch(ctx)
	return s
}

// Destruct closes the connections as soon as no log needs them any more. It implements
// caddy.Destructor.
func (s *Store) Destruct() error {
	s.use(-1)
	return nil
}

// use adds n users of the connections. When there are none left, watch closes the connections.
func (s *Store) use(n int64) {
	if s.users.Add(n) == 0 {
		s.stop()
	}
}

// do runs script for the log id. It waits for at most Options.Timeout, or until ctx's deadline if
// that is earlier, but goes on if ctx is canceled.
func (s *Store) do(ctx context.Context, script *goredis.Script, id string, args ...any) (any, error) {
	limit := time.Now().Add(s.o.Timeout)
	if t, ok := ctx.Deadline(); ok && t.Before(limit) {
		limit = t
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
	defer cancel()
	keys := []string{s.name("log", id), s.name("events", id), s.name("readers", id)}
	v, err := script.Run(ctx, s.client, keys, args...).Result()
	return v, s.checked(err)
}

// errPlace means that a cluster could not have a key and its log in one slot.
var errPlace = errors.New("the id of a log is not in the slot of its key")

// errLarge means that a header, or the path of a request, is too large to be kept in Redis.
var errLarge = errors.New("a header or a path is too large for redis")

// ttl returns how long the keys of a log stay in Redis if they are not refreshed, in milliseconds.
func (s *Store) ttl(e log.Entry) int64 {
	return (e.Keep + 2*s.o.Lease + time.Minute).Milliseconds()
}

// Claim implements log.Store. While Redis is down, a request with a key waits for up to
// Options.Timeout: the agent may run for that key already, or have run. If Redis is back in that
// time, it waits until the key is known, at most as long again. A request that takes its key from
// another log runs the agent without waiting.
func (s *Store) Claim(
	client context.Context, e log.Entry, run log.Run,
) (log.Entry, log.Writer, error) {
	text, _ := json.Marshal(e) // never fails: it has only strings and numbers
	switch {
	case len(text) > maxRecord:
		return log.Entry{}, nil, errLarge
	case log.Place(e.ID) != e.KeyPlace():
		return log.Entry{}, nil, errPlace
	}
	longer, stop := context.WithTimeout(client, 2*s.o.Timeout+s.settle)
	defer stop()
	ctx, cancel := context.WithTimeout(longer, s.o.Timeout)
	defer cancel()
	var taken error
	var known time.Time // when a key that Redis lacks counts as free
	keyed := e.Key != (log.Digest{}) && !e.Takes
	sent := false // Redis may claim e although it does not say so
	defer s.unclaimLater(e, &sent)
	for first := true; ; first = false {
		sure := !keyed || s.isSettled() || !known.IsZero() && time.Now().After(known)
		have, w, err := s.claim(ctx, e, text, run, sure, &sent)
		if err == nil && w == nil && e.Once && s.isDead(client, have.ID) {
			return s.Claim(client, e, run)
		}
		if err == nil {
			return have, w, nil
		}
		if first && !e.Takes {
			if have, ok := s.local(ctx, e); ok {
				return have, nil, nil
			}
		}
		switch {
		case errors.Is(err, log.ErrTaken):
			taken = err
		case errors.Is(err, errUnsettled) && known.IsZero():
			known, ctx = time.Now().Add(s.settle), longer
		}
		// The log of the key may be about to free it, Redis to be back, or the key to be known.
		wait := errors.Is(err, log.ErrDropped) || errors.Is(err, errUnsettled) || keyed && errors.Is(err, errDown)
		if !wait || !pause(ctx, retryAfter) {
			if s.o.Refuse && keyed && taken == nil {
				err = fmt.Errorf("%w: %w", log.ErrUnsure, err)
			}
			return log.Entry{}, nil, cmp.Or(taken, err)
		}
	}
}

// local returns the log of the key of e if it is in this process: Redis may have lost it.
func (s *Store) local(ctx context.Context, e log.Entry) (have log.Entry, ok bool) {
	have, w, _ := s.o.Local.Claim(ctx, e, log.Run{})
	if w != nil {
		w.End(log.Dropped)
	}
	return have, w == nil
}

// keyOf returns the name in Redis of the key of e, and 1 if e has a key.
func (s *Store) keyOf(e log.Entry) (name string, has int) {
	if e.Key != (log.Digest{}) {
		has = 1
	}
	return s.nameIn(e.KeyPlace(), "key") + hex.EncodeToString(e.Key[:]), has
}

// claim tries once to claim e. If sure is false, Redis may have lost the key: claim then only looks
// for the log of the key, and returns errUnsettled if there is none. It sets sent if Redis does not reply
// to a claim, and clears it if Redis says which log has the key.
func (s *Store) claim(
	ctx context.Context, e log.Entry, text []byte, run log.Run, sure bool, sent *bool,
) (log.Entry, log.Writer, error) {
	if s.down.Load() {
		return e, nil, errDown
	}
	var id string
	var err error
	if sure {
		id, err = s.claimIn(ctx, e, text)
		*sent = *sent || errors.Is(err, errDown)
	} else {
		id, err = s.lookUp(ctx, e)
	}
	if err != nil {
		return e, nil, err
	}
	*sent = false
	if id == e.ID { // perhaps by a claim that got no reply
		return s.own(ctx, e, run)
	}
	return s.taken(ctx, id)
}

// claimIn has Redis claim e, and returns the id of the log that has its key then, or its own.
func (s *Store) claimIn(ctx context.Context, e log.Entry, text []byte) (id string, err error) {
	takes := 0
	if e.Takes {
		takes = 1
	}
	key, hasKey := s.keyOf(e)
	v, err := s.do(ctx, claimScript, e.ID,
		s.nameIn(e.KeyPlace(), "log"), e.ID, text, s.replica, s.o.Lease.Milliseconds(), s.ttl(e), key, hasKey, takes)
	if err != nil {
		return "", fmt.Errorf("claiming a log in redis: %w", err)
	}
	id, _ = v.(string)
	return id, nil
}

// lookUp returns the id of the log that has the key of e.
func (s *Store) lookUp(ctx context.Context, e log.Entry) (id string, err error) {
	key, _ := s.keyOf(e)
	id, err = s.client.Get(ctx, key).Result()
	if err = s.checked(err); isNil(err) {
		err = errUnsettled
	}
	if err != nil {
		return "", fmt.Errorf("looking for a key in redis: %w", err)
	}
	return id, nil
}

// unclaim undoes a claim of e that no run writes: others would wait for the end of its lease, and then run
// the agent. The key goes to the log heir, unless that is "".
func (s *Store) unclaim(ctx context.Context, e log.Entry, heir string) error {
	key, _ := s.keyOf(e)
	_, err := s.do(ctx, unclaimScript, e.ID, e.ID, key, heir, s.nameIn(e.KeyPlace(), "log")+heir, s.ttl(e))
	return err
}

// unclaimLater undoes a claim of e if it was sent: Redis may have done it, or do it when it is back. It tries for
// a lease, and does not wait for Redis. Nobody may claim e again. Without a key nobody waits for e.
func (s *Store) unclaimLater(e log.Entry, sent *bool) {
	if !*sent || e.Key == (log.Digest{}) {
		return
	}
	s.use(1)
	go func() {
		defer s.use(-1)
		_ = caught(s.o.Logger, func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.o.Lease)
			defer cancel()
			for wait := retryAfter; pause(ctx, wait); {
				if s.down.Load() {
					continue
				}
				if err := s.unclaim(ctx, e, ""); !errors.Is(err, errDown) {
					return
				}
				wait *= 2 // in a cluster, many may wait for a node
			}
		})
	}()
}

// isDead reports whether the run of the log id was another replica's that is dead. It waits for a sign
// of life, of which each tick has one, or for the end of the lease. Then it ends the log, whose key is
// free if the entry says Once: whoever claims that key wants another answer.
func (s *Store) isDead(ctx context.Context, id string) bool {
	if s.ownedLog(id) != nil {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, 2*s.o.Lease)
	defer cancel()
	first, err := s.look(limited, id, "")
	switch {
	case err != nil:
		return false
	case first.state > log.Begun && first.Orphan && first.Entry.Once:
		// The replica that ended it may be about to free the key, or be dead: TestKeyOfALogThatAnotherEnds.
		_, err = s.do(limited, deleteScript, id, id)
		return err == nil
	case first.state > log.Begun:
		return false
	}
	for pause(limited, retryAfter) {
		v, err := s.look(limited, id, "")
		switch {
		case errors.Is(err, log.ErrDropped):
			return true
		case err != nil:
			return false // the reader tells
		case v.state > log.Begun:
			return true // another replica has found it so, or it has ended meanwhile
		case v.Writes != first.Writes && !v.Orphan: // a replica that adopts a log writes its end
			return false
		case v.Lapsed && s.isSettled():
			r := newReader(limited, s, id, 0) // as every reader does
			defer r.Close()
			_, err := r.look(limited)
			return err == nil || errors.Is(err, log.ErrDropped)
		}
	}
	return false
}

// taken returns the entry of the log id, which has the key that is claimed.
func (s *Store) taken(ctx context.Context, id string) (log.Entry, log.Writer, error) {
	have, err := s.find(ctx, id)
	if err != nil {
		err = fmt.Errorf("%w: %w", log.ErrTaken, err)
	}
	return have, nil, err
}

// own creates the log of e, which is claimed in Redis, in this process. If the process already has
// a log with the same key, which Redis has lost, own returns the entry of that log and no writer.
func (s *Store) own(
	ctx context.Context, e log.Entry, run log.Run,
) (log.Entry, log.Writer, error) {
	o := &owned{s: s, entry: e, run: run, wake: make(chan struct{}, 1), done: make(chan struct{})}
	o.room = sync.NewCond(&o.mu)
	s.mu.Lock()
	have, w, err := s.o.Local.Claim(ctx, e, log.Run{ReadersChanged: run.ReadersChanged, Cancel: o.cancel})
	if w != nil {
		o.memory = w
		s.owned[e.ID] = o
		s.use(1)
	}
	s.mu.Unlock()
	if w == nil {
		_ = s.unclaim(ctx, e, have.ID) // if it fails, the lease of e ends
		return have, nil, err
	}
	go o.flushes()
	return e, o, nil
}

func (s *Store) ownedLog(id string) *owned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[id]
}

// Find implements log.Store.
func (s *Store) Find(ctx context.Context, id string) (log.Entry, error) {
	e, err := s.find(ctx, id)
	if err == nil {
		return e, nil
	}
	local, missing := s.o.Local.Find(ctx, id)
	if missing != nil {
		return log.Entry{}, err
	}
	if o := s.ownedLog(id); errors.Is(err, log.ErrDropped) && o != nil && !o.lost.Load() {
		return log.Entry{}, err // a client has just deleted it
	}
	return local, nil
}

// find returns the entry of a log that is in Redis.
func (s *Store) find(ctx context.Context, id string) (log.Entry, error) {
	if s.down.Load() {
		return log.Entry{}, errDown
	}
	v, err := s.look(ctx, id, "")
	if err == nil && v.Gone {
		err = log.ErrDropped
	}
	if err != nil {
		return log.Entry{}, err
	}
	return v.Entry, nil
}

// Read implements log.Store.
func (s *Store) Read(ctx context.Context, id string, n uint64) log.Reader {
	o := s.ownedLog(id)
	local := s.o.Local.Read(ctx, id, n) // before Find: flush may take the log out of memory
	_, missing := s.o.Local.Find(ctx, id)
	remote := func() log.Reader { return newReader(ctx, s, id, n) }
	switch {
	case missing != nil && (o == nil || o.over.Load()):
		local.Close()
		return remote()
	case o == nil || ctx.Err() != nil:
		return local
	}
	return &ownedReader{local, o, remote}
}

// Delete implements log.Store.
func (s *Store) Delete(ctx context.Context, id string) error {
	v, err := s.do(ctx, deleteScript, id, id)
	if o := s.ownedLog(id); err != nil && o != nil {
		o.lose(err)
	}
	if s.o.Local.Delete(ctx, id) == nil {
		return nil
	}
	if err == nil && v != int64(1) {
		err = log.ErrDropped
	}
	return err
}
