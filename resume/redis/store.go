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

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// Options say where the logs are.
type Options struct {
	// UniversalOptions say where Redis is and who asks: Addrs, IsClusterMode, MasterName,
	// Username, Password, SentinelUsername, SentinelPassword and TLSConfig. New sets all
	// others. An address is a host and port, or the path of a socket.
	goredis.UniversalOptions
	// Prefix is what the names of keys begin with.
	Prefix string
	// Lease is for how long a replica that says nothing counts as alive.
	Lease time.Duration
	// Timeout is how long a command may take.
	Timeout time.Duration
	// Refuse is whether a request with a key is refused if Redis cannot be asked for the key,
	// instead of running the agent.
	Refuse bool
	// Local keeps the logs of the runs in this process.
	Local *resume.Memory
	// Logger is told, at most once a minute, when Redis fails.
	Logger *zap.Logger
}

// Store is a resume.Store in Redis.
type Store struct {
	o       Options
	client  goredis.UniversalClient
	replica string
	away    atomic.Bool   // the last command failed; in a cluster, no master answers
	settle  time.Duration // how long after that it is not sure what Redis has
	failed  atomic.Int64  // when it was away last, in nanoseconds since 1970; 0 for never
	warned  atomic.Int64  // when, in nanoseconds since 1970
	refused atomic.Int64  // likewise, of an error reply
	members atomic.Int64  // readers that were counted
	stop    context.CancelFunc
	over    chan struct{} // closed when watch is over
	users   atomic.Int64  // that need connections: logs, readers, and one until Close

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

// use counts n more that need connections, or fewer.
func (s *Store) use(n int64) {
	if s.users.Add(n) == 0 {
		s.stop()
	}
}

// do runs a script for the log with the id. It waits until ctx's deadline if that comes first,
// but not for its end.
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
var errPlace = errors.New("the id of a log is not in the place of its key")

// errLarge means that a header, or the path of a request, is larger than what is kept in Redis.
var errLarge = errors.New("a header or a path is too large for redis")

// ttl is how long what a log has in Redis stays if it is not refreshed.
func (s *Store) ttl(e resume.Entry) int64 {
	return (e.Keep + 2*s.o.Lease + time.Minute).Milliseconds()
}

// Claim implements resume.Store. While Redis is away, a request with a key waits for as long as a
// command may take: the agent may run for that key already, or have run. If Redis is back then, it
// waits until the key is known, at most as long again. One that takes its key runs the agent anyway.
func (s *Store) Claim(
	client context.Context, e resume.Entry, run resume.Run,
) (resume.Entry, resume.Writer, error) {
	text, _ := json.Marshal(e) // strings and numbers
	switch {
	case len(text) > maxRecord:
		return resume.Entry{}, nil, errLarge
	case resume.Place(e.ID) != e.KeyPlace():
		return resume.Entry{}, nil, errPlace
	}
	longer, stop := context.WithTimeout(client, 2*s.o.Timeout+s.settle)
	defer stop()
	ctx, cancel := context.WithTimeout(longer, s.o.Timeout)
	defer cancel()
	var taken error
	var known time.Time // from when on a key counts as known
	keyed := e.Key != (resume.Digest{}) && !e.Takes
	for first := true; ; first = false {
		sure := !keyed || s.isSettled() || !known.IsZero() && time.Now().After(known)
		have, w, err := s.claim(ctx, e, text, run, sure)
		if err == nil {
			return have, w, nil
		}
		if first && !e.Takes {
			// It may be in this process, and Redis does not know it any more.
			have, w, _ := s.o.Local.Claim(ctx, e, resume.Run{})
			if w == nil {
				return have, nil, nil
			}
			w.End(resume.Dropped)
		}
		if errors.Is(err, resume.ErrTaken) {
			taken = err
		}
		if errors.Is(err, errUnsettled) && known.IsZero() {
			known, ctx = time.Now().Add(s.settle), longer
		}
		// The log of the key is about to free it, Redis may be back, or the key be known.
		wait := errors.Is(err, resume.ErrDropped) || errors.Is(err, errUnsettled) || keyed && errors.Is(err, errAway)
		if !wait || !pause(ctx, retryAfter) {
			if s.o.Refuse && keyed && taken == nil {
				err = fmt.Errorf("%w: %w", resume.ErrUnsure, err)
			}
			return resume.Entry{}, nil, cmp.Or(taken, err)
		}
	}
}

// keyOf returns the name of the key of an entry, and 1 if there is one.
func (s *Store) keyOf(e resume.Entry) (name string, has int) {
	if e.Key != (resume.Digest{}) {
		has = 1
	}
	return s.nameIn(e.KeyPlace(), "key") + hex.EncodeToString(e.Key[:]), has
}

// claim claims an entry once. If it is not sure that Redis knows all keys, it only looks for the log
// of this one.
func (s *Store) claim(
	ctx context.Context, e resume.Entry, text []byte, run resume.Run, sure bool,
) (resume.Entry, resume.Writer, error) {
	if s.away.Load() {
		return e, nil, errAway
	}
	key, hasKey := s.keyOf(e)
	if !sure {
		id, err := s.client.Get(ctx, key).Result()
		if err = s.checked(err); isNil(err) {
			err = errUnsettled
		}
		if err != nil {
			return e, nil, fmt.Errorf("looking for a key in redis: %w", err)
		}
		return s.taken(ctx, id)
	}
	takes := 0
	if e.Takes {
		takes = 1
	}
	v, err := s.do(ctx, claimScript, e.ID,
		s.nameIn(e.KeyPlace(), "log"), e.ID, text, s.replica, s.o.Lease.Milliseconds(), s.ttl(e), key, hasKey, takes)
	if err != nil {
		return e, nil, fmt.Errorf("claiming a log in redis: %w", err)
	}
	id, _ := v.(string)
	if id == e.ID {
		return s.own(ctx, e, run)
	}
	return s.taken(ctx, id)
}

// taken returns the entry of a log that has the key that is asked for.
func (s *Store) taken(ctx context.Context, id string) (resume.Entry, resume.Writer, error) {
	have, err := s.find(ctx, id)
	if err != nil {
		err = fmt.Errorf("%w: %w", resume.ErrTaken, err)
	}
	return have, nil, err
}

// own makes the log in this process of an entry that is claimed. If a log with its key is
// here already, because Redis has lost it, own returns the entry of that and no writer.
func (s *Store) own(
	ctx context.Context, e resume.Entry, run resume.Run,
) (resume.Entry, resume.Writer, error) {
	o := &owned{s: s, entry: e, run: run, wake: make(chan struct{}, 1), done: make(chan struct{})}
	o.room = sync.NewCond(&o.mu)
	s.mu.Lock()
	have, w, err := s.o.Local.Claim(ctx, e, resume.Run{ReadersChanged: run.ReadersChanged, Cancel: o.cancel})
	if w != nil {
		o.memory = w
		s.owned[e.ID] = o
		s.use(1)
	}
	s.mu.Unlock()
	if w == nil {
		return have, nil, err // in Redis, the lease of e ends
	}
	go o.flushes()
	return e, o, nil
}

func (s *Store) ownedLog(id string) *owned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[id]
}

// Find implements resume.Store.
func (s *Store) Find(ctx context.Context, id string) (resume.Entry, error) {
	e, err := s.find(ctx, id)
	if err == nil {
		return e, nil
	}
	local, missing := s.o.Local.Find(ctx, id)
	if missing != nil {
		return resume.Entry{}, err
	}
	if o := s.ownedLog(id); errors.Is(err, resume.ErrDropped) && o != nil && !o.lost.Load() {
		return resume.Entry{}, err // a client has just deleted it
	}
	return local, nil
}

// find returns the entry of a log that is in Redis.
func (s *Store) find(ctx context.Context, id string) (resume.Entry, error) {
	if s.away.Load() {
		return resume.Entry{}, errAway
	}
	v, err := s.look(ctx, id, "")
	if err == nil && v.Gone {
		err = resume.ErrDropped
	}
	if err != nil {
		return resume.Entry{}, err
	}
	return v.Entry, nil
}

// Read implements resume.Store.
func (s *Store) Read(ctx context.Context, id string, n uint64) resume.Reader {
	o := s.ownedLog(id)
	local := s.o.Local.Read(ctx, id, n) // before Find: flush may take the log out of memory
	_, missing := s.o.Local.Find(ctx, id)
	remote := func() resume.Reader { return newReader(ctx, s, id, n) }
	switch {
	case missing != nil && (o == nil || o.over.Load()):
		local.Close()
		return remote()
	case o == nil || ctx.Err() != nil:
		return local
	}
	return &ownedReader{local, o, remote}
}

// Delete implements resume.Store.
func (s *Store) Delete(ctx context.Context, id string) error {
	v, err := s.do(ctx, deleteScript, id, id)
	if o := s.ownedLog(id); err != nil && o != nil {
		o.lose(err)
	}
	if s.o.Local.Delete(ctx, id) == nil {
		return nil
	}
	if err == nil && v != int64(1) {
		err = resume.ErrDropped
	}
	return err
}
