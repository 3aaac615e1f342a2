package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

const (
	// maxUsagePairs is how many pairs of upstream and model, and upstreams, are
	// kept in memory. Upstream names the models, so it has to be bounded. What
	// has been known longest makes room.
	maxUsagePairs = 1024
	// maxUsageForgotten is how many answers without usage in a row make a pair
	// forgotten (contract section 3, third rule of "false stop").
	maxUsageForgotten = 3
	// usageMissTime is how long a lookup that found nothing is believed
	// before storage is asked again; a replica may have reported meanwhile.
	usageMissTime = 30 * time.Second
)

// usageKey identifies a pair of upstream and model, or an upstream: a prefix of
// the SHA-256, so that it takes the same memory whatever upstream calls its
// models, and no address is readable in storage.
type usageKey struct {
	sum      [16]byte
	upstream bool // not a pair
}

// newUsageKey returns the key of a pair.
func newUsageKey(upstream, model string) usageKey {
	sum := sha256.Sum256([]byte(upstream + "\x00" + model))
	return usageKey{sum: [16]byte(sum[:16])}
}

// newUpstreamKey returns the key of an upstream.
func newUpstreamKey(upstream string) usageKey {
	sum := sha256.Sum256([]byte(upstream))
	return usageKey{sum: [16]byte(sum[:16]), upstream: true}
}

// path is where it lies in storage.
func (k usageKey) path() string {
	prefix := usagePrefix
	if k.upstream {
		prefix = upstreamPrefix
	}
	return prefix + hex.EncodeToString(k.sum[:])
}

// What memory says of a pair, or of an upstream.
const (
	usageUnknown = iota // ask storage
	usageKnown          // it reports usage, or its failures
	usageMissed         // it does not, or storage has been asked lately and had nothing
)

// usageState is what is known of a pair, or of an upstream.
type usageState struct {
	// yes is that the pair reports usage, or the upstream its failures.
	yes bool
	// missed counts the answers in a row that a pair has ended without usage.
	missed int
}

// usageFact is a usageState, and what storage has of it.
type usageFact struct {
	key    usageKey
	is     usageState
	stored usageState
	sure   bool      // storage has stored; otherwise it may have anything
	queued bool      // or being written
	retry  time.Time // when a write that failed may be tried again
}

// usageMemory is what the process knows of pairs of upstream and model, and of
// upstreams. What this process has seen outweighs what storage says. The zero
// value knows nothing and is ready. It is safe for concurrent use and calls
// nothing of the caller's while it is locked.
type usageMemory struct {
	// now is the clock, for tests. Nil means time.Now.
	now func() time.Time

	mu     sync.Mutex
	facts  map[usageKey]*usageFact
	order  []usageKey             // of facts, the one known longest first
	missed map[usageKey]time.Time // until when the miss is believed

	lookups int // under way
	usageQueue
}

func (m *usageMemory) time() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

// recall says what is known. Storage that could not be written is tried again, if
// there is a write.
func (m *usageMemory) recall(key usageKey, write usageWrite) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.facts[key]; f != nil {
		if write != nil {
			m.enqueue(f, write)
		}
		if f.is.yes {
			return usageKnown
		}
		return usageMissed
	}
	if until, ok := m.missed[key]; ok && m.time().Before(until) {
		return usageMissed
	}
	return usageUnknown
}

// know remembers what storage has, unless something is known already.
func (m *usageMemory) know(key usageKey, state usageState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.facts[key] != nil {
		return
	}
	f := m.add(key)
	f.is, f.stored, f.sure = state, state, true
}

// miss remembers that storage has nothing. What is known stays known.
func (m *usageMemory) miss(key usageKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.facts[key] != nil {
		return
	}
	if m.missed == nil || len(m.missed) >= maxUsagePairs {
		// Forgetting a miss costs one lookup; so all go at once.
		m.missed = make(map[usageKey]time.Time)
	}
	m.missed[key] = m.time().Add(usageMissTime)
}

// set remembers whether it is so, with no miss counted, and has write called in
// the background where storage has something else.
func (m *usageMemory) set(key usageKey, yes bool, write usageWrite) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.facts[key]
	if f == nil {
		f = m.add(key)
	}
	f.is = usageState{yes: yes}
	m.enqueue(f, write)
}

// count counts an answer without usage of a pair that is known, and reports
// whether it is forgotten with that.
func (m *usageMemory) count(key usageKey, write usageWrite) (forgotten bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.facts[key]
	if f == nil || !f.is.yes {
		return false // forgotten while this answer ran
	}
	f.is.missed++
	if f.is.missed >= maxUsageForgotten {
		f.is, forgotten = usageState{}, true
	}
	m.enqueue(f, write)
	return forgotten
}

// add returns a new fact. m is locked.
func (m *usageMemory) add(key usageKey) *usageFact {
	delete(m.missed, key)
	if m.facts == nil {
		m.facts = make(map[usageKey]*usageFact)
	}
	if len(m.order) >= maxUsagePairs {
		delete(m.facts, m.order[0])
		m.order = append(m.order[:0], m.order[1:]...)
	}
	f := &usageFact{key: key}
	m.facts[key] = f
	m.order = append(m.order, key)
	return f
}

// beginLookup reports whether one more lookup may begin; endLookup has to
// follow if so.
func (m *usageMemory) beginLookup() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lookups >= maxUsageLookups {
		return false
	}
	m.lookups++
	return true
}

func (m *usageMemory) endLookup() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lookups--
}
