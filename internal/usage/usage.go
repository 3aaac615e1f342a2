// Package usage remembers which upstreams and models have reported usage, which of them do so
// only now and then, and which upstreams report their failures themselves, for the third rule of
// false stops (contract section 3), and which upstreams send tool events, for imitated markers
// (section 1). That is one bit for each.
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
	"math/bits"
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
	// maxFileSize is the size in bytes of the largest file that may be one of ours.
	maxFileSize = 128 << 10
	// maxMissed is the number of answers without usage, among the last ten, that disprove the
	// memory of a pair.
	maxMissed = 3
	// lastTen are the bits of an answers that stand for the last ten.
	lastTen answers = 1<<10 - 1

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
	seen    map[string]bool    // bits that the process has seen itself, by key; they override the file
	last    map[string]answers // the last answers, by the key of the pair
	unsaved map[string]bool    // bits that have changed since the last sync
	stored  map[string]bool    // keys of the bits that the file had then

	planned bool          // a sync runs soon
	syncing chan struct{} // closed when the sync that runs ends, nil if none runs
	began   time.Time     // when the last sync began
}

// answers are the last answers of a pair, the youngest in the lowest bit. A bit is set if that
// answer had no usage.
type answers uint16

// disprove reports whether the answers show that the pair does not always report usage.
func (a answers) disprove() bool { return bits.OnesCount16(uint16(a)) >= maxMissed }

// key returns the key of an upstream or a pair. of is the name of the upstream or, for a pair, that
// name, a NUL and the model; for the bit that disproves a pair, another NUL follows, and for that of
// tool events, events and a NUL precede the name. The key is a prefix of a SHA-256: it has the same size whatever
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

// doubt is the key of the bit that says that answers disprove the pair.
func (u ofUpstream) doubt(model string) string { return key(u.upstream + "\x00" + model + "\x00") }

// Reported reports whether usage has been reported for the model, by an upstream that does not
// report its failures itself, and the last answers do not disprove that. If storage fails or takes
// too long, it returns false, so that the stop passes.
func (u ofUpstream) Reported(model string) bool {
	return u.recall(func() (reported, known bool) {
		pair, pairKnown := u.Memory.get(u.pair(model))
		upstream, upstreamKnown := u.Memory.get(key(u.upstream))
		doubted, doubtKnown := u.Memory.get(u.doubt(model))
		return pair && !upstream && !doubted, pairKnown && upstreamKnown && doubtKnown
	})
}

// recall returns what get reads in the memory, whose lock is held meanwhile. If get does not know
// all of it, recall looks in storage once.
func (u ofUpstream) recall(get func() (is, known bool)) bool {
	locked := func() (is, known bool) {
		u.Memory.mu.Lock()
		defer u.Memory.mu.Unlock()
		return get()
	}
	is, known := locked()
	if !known {
		u.lookUp()
		is, _ = locked()
	}
	return is
}

// Report remembers that usage has been reported for the model. Answers that disprove it count
// until they are none of the last ten.
func (u ofUpstream) Report(model string) {
	m, pair, doubt := u.Memory, u.pair(model), u.doubt(model)
	m.mu.Lock()
	defer m.mu.Unlock()
	doubted, _ := m.get(doubt)
	last := m.answered(pair, doubted, 0)
	u.learn(pair, true)
	if doubted && !last.disprove() {
		u.learn(doubt, false)
	}
}

// ReportsFailures remembers whether the upstream reports its failures itself.
func (u ofUpstream) ReportsFailures(does bool) {
	u.Memory.mu.Lock()
	defer u.Memory.mu.Unlock()
	u.learn(key(u.upstream), does)
}

// events is the key of the bit that says that the upstream sends tool events.
func (u ofUpstream) events() string { return key("events\x00" + u.upstream) }

// SendsEvents reports whether the upstream is known to send tool events. If storage fails or takes
// too long, it returns false.
func (u ofUpstream) SendsEvents() bool {
	return u.recall(func() (sends, known bool) { return u.Memory.get(u.events()) })
}

// ShowedEvents remembers whether the upstream sends tool events.
func (u ofUpstream) ShowedEvents(does bool) {
	u.Memory.mu.Lock()
	defer u.Memory.mu.Unlock()
	u.learn(u.events(), does)
}

// Missed counts an answer without usage. Three among the last ten disprove that the pair always
// reports usage: as long as they do, answers without usage pass.
func (u ofUpstream) Missed(model string) {
	if u.recordMissed(model) {
		u.Logger.Warn("three of the last ten answers reported no usage, so the provider does not seem to report it reliably: "+
			"such answers pass until it reports usage again; see zero_usage",
			zap.String("upstream", bounded.Name(u.upstream)), zap.String("model", bounded.Name(model)))
	}
}

// recordMissed records an answer without usage, and reports whether it disproves the memory of the
// pair. If the last three answers do, and no others, the provider has most likely been
// changed: the pair is forgotten until it reports usage, and then the three count as one. All others
// have to make room for answers with usage, so that a provider that reports usage now and then is
// not known and forgotten in turns.
func (u ofUpstream) recordMissed(model string) bool {
	m, pair, doubt := u.Memory, u.pair(model), u.doubt(model)
	m.mu.Lock()
	defer m.mu.Unlock()
	reports, _ := m.get(pair)
	believed, _ := m.get(key(u.upstream))
	if !reports || believed { // no usage is expected, or not any more
		return false
	}
	doubted, _ := m.get(doubt)
	switch last := m.answered(pair, doubted, 1); {
	case doubted || !last.disprove():
		return false
	case last&0b111 == 0b111:
		put(&m.last, pair, 1)
		u.learn(pair, false)
	default:
		u.learn(doubt, true)
	}
	return true
}

// answered records the next answer of the pair, which is doubted or not, and returns the last ones.
// m is locked.
func (m *Memory) answered(pair string, doubted bool, missed answers) answers {
	last, ok := m.last[pair]
	if doubted && !ok { // before a restart
		last = 0b111
	}
	last = (last<<1 | missed) & lastTen
	if put(&m.last, pair, last); last == 0 { // as for almost every pair
		delete(m.last, pair)
	}
	return last
}

// learn remembers a bit, and plans a sync if the file may have another value. The memory is locked.
func (s *Store) learn(key string, yes bool) {
	m := s.Memory
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
		err = fmt.Errorf("larger than the limit, with %d bytes", len(value))
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
		s.Logger.Warn("storage failed; streams are not affected, but false stops may pass after a restart",
			zap.String("doing", "remembering which upstreams report usage"), zap.Error(err))
	}
}
