// Package usage remembers which upstreams and models have reported usage, and which
// upstreams report their failures themselves, for the third rule of false stops
// (contract section 3). That is one bit for each.
//
// A Memory belongs to the process: it survives reloads, is bounded, and is the only owner
// of its state, which one lock guards. A Store is a handler's view of it, with the storage
// of the handler's configuration. What is known is one small file there, which survives
// restarts. It is read when the end of a stream needs what the memory does not know, and
// written in the background some seconds after a change. A stream never waits for a write.
//
// Replicas that share the storage read the file before they write it, and change in it only
// what they have seen change. If two write at the same moment, one of them may lose a bit,
// and learns it again.
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
	// maxKnown is how many pairs of upstream and model, and upstreams, are known, in memory
	// and in the file. Upstream names the models, so their number has to be bounded. If
	// there are more, any other makes room.
	maxKnown = 1024
	// maxFileSize is the size in bytes above which the file is not taken for one of ours.
	maxFileSize = 128 << 10
	// maxMissed is how many answers without usage in a row make a pair forgotten.
	maxMissed = 3

	// saveDelay is the time from a change to the write, so that changes share one.
	saveDelay = 10 * time.Second
	// ioTimeout is how long storage may take to read or to write.
	ioTimeout = 10 * time.Second
	// lookupTimeout is how long the end of a stream waits for storage.
	lookupTimeout = 250 * time.Millisecond
	// rereadInterval is how often the file is read at most for what it did not have. A
	// replica may have written it meanwhile.
	rereadInterval = 30 * time.Second
	// FlushLimit is how long the last Cleanup waits for a write.
	FlushLimit = 2 * time.Second
)

// Memory is what the process knows. What it has seen itself outweighs what storage says.
// The zero value knows nothing and is ready. It is safe for concurrent use, and calls
// nothing of the caller's while it is locked.
type Memory struct {
	mu      sync.Mutex
	facts   map[string]fact // that the process has seen, by pairKey or upstreamKey
	changes map[string]bool // facts that the file may not have yet
	stored  map[string]bool // what the file had when it was read

	reading chan struct{} // closed when the file has been read; nil if no read is under way
	slow    bool          // a stream has waited for this reading in vain
	read    time.Time     // when the last reading ended

	saving chan struct{} // closed when the changes are written, or cannot be; nil if no write is under way
	hurry  chan struct{} // of capacity 1: write without waiting for saveDelay
	hung   bool          // a Flush has waited in vain
}

// fact is the knowledge of a pair or an upstream.
type fact struct {
	yes    bool // the pair reports usage, or the upstream its failures
	missed int  // answers in a row that the pair has ended without usage
}

// file is what storage has: the keys of the facts that are so.
type file struct {
	Known []string `json:"known"`
}

// pairKey returns the key of a pair, a prefix of a SHA-256: it takes the same space
// whatever upstream calls its models, and storage has no address.
func pairKey(upstream, model string) string { return key(upstream + "\x00" + model) }

// upstreamKey returns the key of an upstream, whose name has no NUL.
func upstreamKey(upstream string) string { return key(upstream) }

func key(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:16])
}

// get returns a fact, and whether it is known. m is locked.
func (m *Memory) get(key string) (fact, bool) {
	f, seen := m.facts[key]
	if !seen && m.stored[key] {
		return fact{yes: true}, true
	}
	return f, seen
}

// set records a fact. m is locked.
func (m *Memory) set(key string, f fact) {
	if m.facts == nil {
		m.facts, m.changes = make(map[string]fact), make(map[string]bool)
	}
	makeRoom(m.facts, key)
	m.facts[key] = f
}

// makeRoom deletes another key from a full map that does not have key.
func makeRoom[V any](m map[string]V, key string) {
	if _, there := m[key]; there || len(m) < maxKnown {
		return
	}
	for other := range m {
		delete(m, other)
		return
	}
}

// Flush writes what has changed at once, and waits for that, for at most limit. Once it has
// waited in vain it does not wait again: storage hangs, and every handler of a configuration
// calls it when the process ends.
func (m *Memory) Flush(limit time.Duration) {
	late := time.NewTimer(limit)
	defer late.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.saving != nil && !m.hung {
		saving := m.saving
		select {
		case m.hurry <- struct{}{}:
		default:
		}
		m.mu.Unlock()
		select {
		case <-saving:
			m.mu.Lock()
		case <-late.C:
			m.mu.Lock()
			m.hung = true
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

// Of returns the record of an upstream.
func (s *Store) Of(upstream string) rewrite.UsageMemory { return ofUpstream{s, upstream} }

// ofUpstream is the part of a Store that belongs to an upstream.
type ofUpstream struct {
	*Store
	upstream string
}

// Reported reports whether usage has been reported for the model, by an upstream that does
// not report its failures itself. If storage fails or takes too long, it has not, so that
// the stop passes.
func (u ofUpstream) Reported(model string) bool {
	m, pair, upstream := u.Memory, pairKey(u.upstream, model), upstreamKey(u.upstream)
	recall := func() (reported, sure bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		p, pairKnown := m.get(pair)
		up, upstreamKnown := m.get(upstream)
		return p.yes && !up.yes, pairKnown && (upstreamKnown || !p.yes) || up.yes
	}
	reported, sure := recall()
	if !sure {
		u.lookUp()
		reported, _ = recall()
	}
	return reported
}

// Report remembers that usage has been reported for the model.
func (u ofUpstream) Report(model string) { u.learn(pairKey(u.upstream, model), true) }

// ReportsFailures remembers whether the upstream reports its failures itself.
func (u ofUpstream) ReportsFailures(does bool) { u.learn(upstreamKey(u.upstream), does) }

// Missed counts an answer without usage that has been taken for a crash. With the third in
// a row the pair is forgotten.
func (u ofUpstream) Missed(model string) {
	m, key := u.Memory, pairKey(u.upstream, model)
	m.mu.Lock()
	f, _ := m.get(key)
	if !f.yes { // forgotten while this answer ran
		m.mu.Unlock()
		return
	}
	f.missed++
	f.yes = f.missed < maxMissed
	m.set(key, f)
	if !f.yes {
		u.change(key, false)
	}
	m.mu.Unlock()
	if !f.yes {
		u.Logger.Warn("answers have come without usage one after the other, so the provider is taken for one that reports none: "+
			"such answers pass until one has usage again; see zero_usage",
			zap.String("upstream", bounded.Name(u.upstream)), zap.String("model", bounded.Name(model)), zap.Int("answers", maxMissed))
	}
}

// learn records a fact, and has it written if the file may have something else.
func (s *Store) learn(key string, yes bool) {
	m := s.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	f, known := m.get(key)
	m.set(key, fact{yes: yes})
	if !known || f.yes != yes {
		s.change(key, yes)
	} else if len(m.changes) > 0 { // that could not be written
		s.save()
	}
}

// change has a fact written. The memory is locked.
func (s *Store) change(key string, yes bool) {
	makeRoom(s.Memory.changes, key)
	s.Memory.changes[key] = yes
	s.save()
}

// save starts the goroutine that writes what has changed, unless it runs. The memory is
// locked.
func (s *Store) save() {
	m := s.Memory
	if m.saving != nil {
		return
	}
	saving, hurry := make(chan struct{}), make(chan struct{}, 1)
	m.saving, m.hurry = saving, hurry
	go func() {
		delay := time.NewTimer(saveDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-hurry:
		}
		err := s.write()
		if err != nil { // before the last Flush ends, and with it the process
			s.warn("storing which upstreams report usage", err)
		}
		m.mu.Lock()
		m.saving = nil
		if err == nil && len(m.changes) > 0 { // since the write
			s.save()
		}
		m.mu.Unlock()
		close(saving)
	}()
}

// write changes the file. What cannot be written stays among the changes, and is written
// with the next one.
func (s *Store) write() error {
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	known, err := s.load(ctx)
	if err != nil {
		return err
	}
	m := s.Memory
	m.mu.Lock()
	written := maps.Clone(m.changes)
	m.mu.Unlock()
	for key, yes := range written {
		if !yes {
			delete(known, key)
			continue
		}
		makeRoom(known, key)
		known[key] = true
	}
	value, err := json.Marshal(file{slices.Sorted(maps.Keys(known))})
	if err != nil {
		return err
	}
	if err := s.Storage.Store(ctx, storageKey, value); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.changes, func(key string, yes bool) bool {
		was, there := written[key]
		return there && was == yes
	})
	return nil
}

// lookUp reads the file into memory, and waits for that, for at most lookupTimeout. One
// goroutine of the process reads at a time.
func (s *Store) lookUp() {
	m := s.Memory
	m.mu.Lock()
	if m.reading == nil && (m.read.IsZero() || time.Since(m.read) >= rereadInterval) {
		m.reading, m.slow = make(chan struct{}), false
		go s.read(m.reading)
	}
	reading, slow := m.reading, m.slow
	m.mu.Unlock()
	if reading == nil || slow {
		return
	}
	select {
	case <-reading:
	case <-time.After(lookupTimeout):
		m.mu.Lock()
		m.slow = true
		m.mu.Unlock()
		s.warn("reading which upstreams report usage", context.DeadlineExceeded)
	}
}

// read reads the file into memory, and closes done.
func (s *Store) read(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	known, err := s.load(ctx)
	if err != nil {
		s.warn("reading which upstreams report usage", err)
	}
	m := s.Memory
	m.mu.Lock()
	if err == nil {
		m.stored = known
	}
	m.reading, m.read = nil, time.Now()
	m.mu.Unlock()
	close(done)
}

// load reads the file. One that cannot be read as ours is replaced by the next write, after
// a warning. It does not ask Exists, which for files answers true to any error but a
// missing file (certmagic filestorage.go:67).
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
		s.warn("reading which upstreams report usage", fmt.Errorf("%s: %w", storageKey, err))
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
func (s *Store) warn(doing string, err error) {
	if s.failed.CompareAndSwap(false, true) {
		s.Logger.Warn("storage failed; streams go on, but false stops may pass after a restart",
			zap.String("doing", doing), zap.Error(err))
	}
}
