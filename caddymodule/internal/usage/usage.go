// Package usage remembers which upstreams and models have reported usage, and which
// upstreams report their failures themselves, for the third rule of false stops
// (contract section 3). That is one bit for each.
//
// A Memory belongs to the process: it survives reloads, is bounded, and is the only owner of its
// state, which one lock guards. A Store is a handler's view of it, with the storage of the
// handler's configuration. The bits are one small file there, which survives restarts. A sync reads
// the file, applies the changes that the process has seen, and writes it if there are any. It runs
// some seconds after a change, and when the end of a stream needs a bit that the memory does not
// know. A stream never waits for a write.
//
// If two replicas that share the storage write at the same moment, one of them may lose a bit,
// which it learns again.
package usage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	// storageKey names the file in Caddy's storage.
	storageKey = "hermes/usage.json"
	// maxKnown is how many upstreams, and pairs of upstream and model, are known, in memory and in
	// the file. It bounds them because upstream names the models.
	maxKnown = 1024
	// maxFileSize is the size in bytes of the largest file that is taken for one of ours.
	maxFileSize = 128 << 10
	// maxMissed is the number of answers in a row without usage after which a pair is forgotten.
	maxMissed = 3

	// saveDelay is the time from a change to the write, so that changes share one.
	saveDelay = 10 * time.Second
	// ioTimeout is how long storage may take for a sync.
	ioTimeout = 10 * time.Second
	// lookupTimeout is how long the end of a stream waits for storage.
	lookupTimeout = 250 * time.Millisecond
	// rereadInterval is the shortest time between two reads of the file for bits that it did not
	// have. A replica may have written them meanwhile.
	rereadInterval = 30 * time.Second
	// FlushLimit is how long the last Cleanup waits for a write.
	FlushLimit = 2 * time.Second
)

// Memory has the bits that the process knows. The zero value knows none and is ready to use. It is
// safe for concurrent use, and calls no code of the caller's while it is locked.
type Memory struct {
	mu      sync.Mutex
	seen    map[string]bool // bits that the process has seen itself, by key; they override the file
	missed  map[string]int  // answers in a row without usage, by the key of the pair
	unsaved map[string]bool // bits that have changed since the last sync
	stored  map[string]bool // keys of the bits that the file had then

	planned bool          // a sync runs soon
	syncing chan struct{} // closed when the sync that runs ends, nil if none runs
	began   time.Time     // when the last sync began
}

// key returns the key of an upstream or a pair. of is the name of the upstream or, for a pair, that
// name, a NUL and the model. The key is a prefix of a SHA-256: it has the same size whatever
// upstream calls its models, and storage has no address.
func key(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:16])
}

// get returns a bit, and whether it is known. m is locked.
func (m *Memory) get(key string) (yes, known bool) {
	if yes, known = m.seen[key]; !known {
		yes = m.stored[key]
	}
	return yes, known || yes
}

// put sets all[key], and deletes other keys if there are too many.
func put[V any](all *map[string]V, key string, v V) {
	if *all == nil {
		*all = make(map[string]V)
	}
	(*all)[key] = v
	for other := range *all {
		if len(*all) <= maxKnown {
			return
		}
		if other != key {
			delete(*all, other)
		}
	}
}

// Store is a handler's view of a Memory. It holds nothing that Cleanup would close, so
// streams that outlive their configuration go on using it.
type Store struct {
	Memory  *Memory
	Storage certmagic.Storage
	Logger  *zap.Logger

	failed atomic.Bool // a failure of storage has been logged
}

// Of returns the memory of an upstream's usage.
func (s *Store) Of(upstream string) rewrite.UsageMemory { return ofUpstream{s, upstream} }

// ofUpstream is the part of a Store that belongs to an upstream.
type ofUpstream struct {
	*Store
	upstream string
}

func (u ofUpstream) pair(model string) string { return key(u.upstream + "\x00" + model) }

// Reported reports whether usage has been reported for the model, by an upstream that does not
// report its failures itself. If storage fails or takes too long, it returns false, so that the
// stop passes.
func (u ofUpstream) Reported(model string) bool {
	recall := func() (reported, known bool) {
		u.Memory.mu.Lock()
		defer u.Memory.mu.Unlock()
		pair, pairKnown := u.Memory.get(u.pair(model))
		upstream, upstreamKnown := u.Memory.get(key(u.upstream))
		return pair && !upstream, pairKnown && upstreamKnown
	}
	reported, known := recall()
	if !known {
		u.lookUp()
		reported, _ = recall()
	}
	return reported
}

// Report remembers that usage has been reported for the model.
func (u ofUpstream) Report(model string) { u.learn(u.pair(model), true) }

// ReportsFailures remembers whether the upstream reports its failures itself.
func (u ofUpstream) ReportsFailures(does bool) { u.learn(key(u.upstream), does) }

// Missed counts an answer without usage that has been taken for a crash. With the third in
// a row the pair is forgotten.
func (u ofUpstream) Missed(model string) {
	m, pair := u.Memory, u.pair(model)
	m.mu.Lock()
	reports, _ := m.get(pair)
	if reports { // it has not been forgotten while this answer ran
		put(&m.missed, pair, m.missed[pair]+1)
	}
	forgotten := reports && m.missed[pair] == maxMissed
	m.mu.Unlock()
	if !forgotten {
		return
	}
	u.learn(pair, false)
	u.Logger.Warn("answers have come without usage one after the other, so the provider is taken for one that reports none: "+
		"such answers pass until one has usage again; see zero_usage",
		zap.String("upstream", bounded.Name(u.upstream)), zap.String("model", bounded.Name(model)), zap.Int("answers", maxMissed))
}

// learn remembers a bit, and plans a sync if the file may have another value.
func (s *Store) learn(key string, yes bool) {
	m := s.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.missed, key)
	if is, known := m.get(key); !known || is != yes {
		put(&m.unsaved, key, yes)
	}
	put(&m.seen, key, yes)
	s.save()
}

// save plans a sync if there is anything to write. The memory is locked.
func (s *Store) save() {
	m := s.Memory
	if m.planned || len(m.unsaved) == 0 {
		return
	}
	m.planned = true
	time.AfterFunc(saveDelay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.planned = false
		if len(m.unsaved) > 0 {
			s.start()
		}
	})
}

// Flush starts to write the changes at once, and waits for at most limit until they are written.
func (s *Store) Flush(limit time.Duration) {
	m := s.Memory
	end := time.After(limit)
	for range 2 { // the sync that runs may have begun before the last change
		m.mu.Lock()
		if len(m.unsaved) > 0 {
			s.start()
		}
		done := m.syncing
		m.mu.Unlock()
		if done == nil {
			return
		}
		select {
		case <-done:
		case <-end:
			return
		}
	}
}

// lookUp starts a sync, unless the last one began less than rereadInterval ago. All streams that
// need the sync wait for it until lookupTimeout after it began.
func (s *Store) lookUp() {
	m := s.Memory
	m.mu.Lock()
	if time.Since(m.began) >= rereadInterval {
		s.start()
	}
	done, wait := m.syncing, time.Until(m.began.Add(lookupTimeout))
	m.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(wait):
		s.warn(context.DeadlineExceeded)
	}
}

// start starts a sync, unless one runs. The memory is locked.
func (s *Store) start() {
	m := s.Memory
	if m.syncing == nil {
		m.syncing, m.began = make(chan struct{}), time.Now()
		changed := m.unsaved
		m.unsaved = nil
		go s.sync(m.syncing, changed)
	}
}

// sync applies changed to the file, reads the file into memory, and closes done. If it fails, the
// changes are written by the sync that the next bit to be learnt plans.
func (s *Store) sync(done chan struct{}, changed map[string]bool) {
	defer close(done)
	stored, err := s.merge(changed)
	if err != nil { // warn before done is closed: then the last Flush ends, and with it the process
		s.warn(err)
	}
	m := s.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncing = nil
	if err == nil {
		m.stored = stored
		s.save()
		return
	}
	for key, yes := range changed {
		if _, later := m.unsaved[key]; !later {
			put(&m.unsaved, key, yes)
		}
	}
}

// merge applies changed to the file, and returns the keys that the file has then.
func (s *Store) merge(changed map[string]bool) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	known, err := s.load(ctx)
	if err != nil || len(changed) == 0 {
		return known, err
	}
	for key, yes := range changed {
		if put(&known, key, yes); !yes {
			delete(known, key)
		}
	}
	value, err := json.Marshal(file{slices.Sorted(maps.Keys(known))})
	if err != nil {
		return nil, err
	}
	return known, s.Storage.Store(ctx, storageKey, value)
}

// file is the content of the file: the keys of the bits that are set.
type file struct {
	Known []string `json:"known"`
}

// load reads the file. A file that cannot be read as ours is replaced by the next write, after a
// warning. load does not call Exists, which for files returns true on any error but a missing file
// (certmagic filestorage.go:67).
func (s *Store) load(ctx context.Context) (map[string]bool, error) {
	known := make(map[string]bool)
	value, err := s.Storage.Load(ctx, storageKey)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	var f file
	if len(value) > maxFileSize {
		err = fmt.Errorf("%d bytes are too many", len(value))
	} else {
		err = json.Unmarshal(value, &f)
	}
	if err != nil {
		s.warn(fmt.Errorf("%s: %w", storageKey, err))
		return known, nil
	}
	for _, key := range f.Known[:min(len(f.Known), maxKnown)] {
		if len(key) == 32 {
			known[key] = true
		}
	}
	return known, nil
}

// warn logs the first failure of storage. Further ones are not logged until the next
// reload.
func (s *Store) warn(err error) {
	if s.failed.CompareAndSwap(false, true) {
		s.Logger.Warn("storage failed; streams go on, but false stops may pass after a restart",
			zap.String("doing", "remembering which upstreams report usage"), zap.Error(err))
	}
}
