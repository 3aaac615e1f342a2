// Package usage remembers which upstreams and models have reported usage, and which
// upstreams report their failures themselves, for the third rule of false stops
// (contract section 3). That is one bit for each.
//
// A Memory belongs to the process: it survives reloads, is bounded, and is the only owner
// of its state, which one lock guards. A Store is a handler's view of it, with the storage
// of the handler's configuration. The facts are one small file there, which survives
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
	// and in the file. Upstream names the models, so their number has to be bounded.
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
	mu     sync.Mutex
	facts  map[string]fact // that the process has seen, by pairKey or upstreamKey
	dirty  bool            // some have changed
	stored map[string]bool // what the file had when it was read

	reading chan struct{} // closed when the file has been read; nil if no read is under way
	began   time.Time     // when that reading began
	read    time.Time     // when the last one ended

	saved chan struct{} // closed when the file is written, or cannot be; nil if no write is planned
	hurry func()        // makes that write begin at once
	hung  bool          // a Flush has waited in vain
}

// fact is the knowledge of a pair or an upstream.
type fact struct {
	yes     bool // the pair reports usage, or the upstream its failures
	missed  int  // answers in a row that the pair has ended without usage
	changed bool // since it was written
}

// file is the content of the file: the keys of the facts that are so.
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

// set records a fact. If there are too many, any other makes room. m is locked.
func (m *Memory) set(key string, f fact) {
	if m.facts == nil {
		m.facts = make(map[string]fact)
	}
	m.facts[key] = f
	for other := range m.facts {
		if len(m.facts) <= maxKnown {
			return
		}
		if other != key {
			delete(m.facts, other)
		}
	}
}

// Flush writes what has changed at once, and waits for that, for at most limit. Once it has
// waited in vain it does not wait again: storage hangs, and every handler of a configuration
// calls it when the process ends.
func (m *Memory) Flush(limit time.Duration) {
	m.mu.Lock()
	saved, hurry, hung := m.saved, m.hurry, m.hung
	m.mu.Unlock()
	if saved == nil || hung {
		return
	}
	hurry()
	select {
	case <-saved:
	case <-time.After(limit):
		m.mu.Lock()
		defer m.mu.Unlock()
		m.hung = true
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
	recall := func() (reported, seen bool) {
		u.Memory.mu.Lock()
		defer u.Memory.mu.Unlock()
		pair, pairSeen := u.Memory.get(pairKey(u.upstream, model))
		upstream, upstreamSeen := u.Memory.get(upstreamKey(u.upstream))
		return pair.yes && !upstream.yes, pairSeen && upstreamSeen
	}
	reported, seen := recall()
	if !seen {
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
	if u.missed(pairKey(u.upstream, model)) < maxMissed {
		return
	}
	u.Logger.Warn("answers have come without usage one after the other, so the provider is taken for one that reports none: "+
		"such answers pass until one has usage again; see zero_usage",
		zap.String("upstream", bounded.Name(u.upstream)), zap.String("model", bounded.Name(model)), zap.Int("answers", maxMissed))
}

// missed counts an answer of the pair, and returns how many there have been in a row, 0 if
// the pair was forgotten while this answer ran.
func (s *Store) missed(pair string) int {
	m := s.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	f, _ := m.get(pair)
	if !f.yes {
		return 0
	}
	f.missed++
	if f.missed == maxMissed {
		f.yes, f.changed = false, true
	}
	m.set(pair, f)
	if !f.yes {
		s.save()
	}
	return f.missed
}

// learn records a fact, and writes it if the file may have something else.
func (s *Store) learn(key string, yes bool) {
	m := s.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	f, known := m.get(key)
	changed := f.changed || !known || f.yes != yes
	m.set(key, fact{yes: yes, changed: changed})
	if changed || m.dirty {
		s.save()
	}
}

// save starts the goroutine that writes the file, unless it runs. The memory is locked.
func (s *Store) save() {
	m := s.Memory
	m.dirty = true
	if m.saved != nil {
		return
	}
	hurried, hurry := context.WithCancel(context.Background())
	saved := make(chan struct{})
	m.saved, m.hurry = saved, hurry
	go func() {
		defer close(saved)
		defer hurry()
		for again := true; again; {
			select {
			case <-time.After(saveDelay):
			case <-hurried.Done():
			}
			again = s.write()
		}
	}()
}

// write writes the file, and reports whether to write it again, because a fact has changed
// meanwhile. If it fails, the next fact that is learnt has it tried again.
func (s *Store) write() (again bool) {
	m := s.Memory
	changed := make(map[string]fact)
	m.mu.Lock()
	m.dirty = false
	for key, f := range m.facts {
		if f.changed {
			f.changed = false
			changed[key], m.facts[key] = f, f
		}
	}
	m.mu.Unlock()
	err := s.merge(changed)
	if err != nil { // before the last Flush ends, and with it the process
		s.warn("storing which upstreams report usage", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && m.dirty {
		return true
	}
	if err != nil {
		m.dirty = true
		for key := range changed {
			if f, there := m.facts[key]; there {
				f.changed = true
				m.facts[key] = f
			}
		}
	}
	m.saved = nil
	return false
}

// merge writes the facts that have changed to the file, and leaves what else is there as far
// as there is room.
func (s *Store) merge(changed map[string]fact) error {
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	stored, err := s.load(ctx)
	if err != nil {
		return err
	}
	var known []string
	for key, f := range changed {
		if f.yes {
			known = append(known, key)
		}
	}
	for key := range stored {
		if _, other := changed[key]; !other && len(known) < maxKnown {
			known = append(known, key)
		}
	}
	slices.Sort(known)
	value, err := json.Marshal(file{known})
	if err != nil {
		return err
	}
	return s.Storage.Store(ctx, storageKey, value)
}

// lookUp reads the file into memory, unless it has lately. The streams that need it wait
// for that until lookupTimeout after it began. One goroutine of the process reads at a time.
func (s *Store) lookUp() {
	m := s.Memory
	m.mu.Lock()
	if m.reading == nil && time.Since(m.read) >= rereadInterval {
		m.reading, m.began = make(chan struct{}), time.Now()
		go s.read(m.reading)
	}
	reading, wait := m.reading, time.Until(m.began.Add(lookupTimeout))
	m.mu.Unlock()
	if reading == nil {
		return
	}
	select {
	case <-reading:
	case <-time.After(wait):
		s.warn("reading which upstreams report usage", context.DeadlineExceeded)
	}
}

// read reads the file into memory, and closes done.
func (s *Store) read(done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), ioTimeout)
	defer cancel()
	known, err := s.load(ctx)
	if err != nil {
		s.warn("reading which upstreams report usage", err)
	}
	m := s.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.stored = known
	}
	m.reading, m.read = nil, time.Now()
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
