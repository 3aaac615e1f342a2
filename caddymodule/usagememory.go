package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

const (
	// maxUsagePairs is how many pairs of upstream and model are kept in
	// memory. Upstream names the models, so it has to be bounded. The pair
	// known longest makes room for a new one.
	maxUsagePairs = 1024
	// maxUsageWrites is how many writes to storage one process attempts.
	maxUsageWrites = 1024
	// usageMissTime is how long a lookup that found nothing is believed
	// before storage is asked again; a replica may have reported meanwhile.
	usageMissTime = 30 * time.Second
	// usageRetryTime is how long after a failed write the next report of the
	// pair tries again.
	usageRetryTime = time.Minute
)

// usageKey identifies a pair of upstream and model: a prefix of the SHA-256 of
// both, so that a pair takes the same memory whatever upstream calls its
// models, and no address is readable in storage.
type usageKey [16]byte

// newUsageKey returns the key of a pair.
func newUsageKey(upstream, model string) usageKey {
	sum := sha256.Sum256([]byte(upstream + "\x00" + model))
	return usageKey(sum[:len(usageKey{})])
}

// path is where the pair lies in storage.
func (k usageKey) path() string {
	return usagePrefix + hex.EncodeToString(k[:])
}

// What memory says of a pair.
const (
	usageUnknown = iota // ask storage
	usageKnown          // usage has been reported
	usageMissed         // storage has been asked lately, and had nothing
)

// usageMemory is what the process knows of pairs of upstream and model. The
// zero value knows nothing and is ready. It is safe for concurrent use and
// calls nothing of the caller's while it is locked.
type usageMemory struct {
	// now is the clock, for tests. Nil means time.Now.
	now func() time.Time

	mu     sync.Mutex
	known  map[usageKey]*usagePair
	order  []usageKey             // of known, the pair known longest first
	missed map[usageKey]time.Time // until when the miss is believed

	lookups int           // under way
	writes  int           // attempted so far
	queue   []queuedWrite // to be written
	idle    chan struct{} // closed when the writer has emptied the queue; nil while none runs
	hung    bool          // a flush has waited in vain
}

// usagePair is what is known of one pair.
type usagePair struct {
	stored bool      // or about to be
	retry  time.Time // when a failed write may be tried again
}

// queuedWrite is a write to storage that waits for its turn.
type queuedWrite struct {
	key   usageKey
	write func() error
}

func (m *usageMemory) time() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

// recall says what is known of a pair.
func (m *usageMemory) recall(key usageKey) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[key] != nil {
		return usageKnown
	}
	if until, ok := m.missed[key]; ok && m.time().Before(until) {
		return usageMissed
	}
	return usageUnknown
}

// know remembers a pair that storage has.
func (m *usageMemory) know(key usageKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(key).stored = true
}

// miss remembers that storage does not have a pair. What is known stays known.
func (m *usageMemory) miss(key usageKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[key] != nil {
		return
	}
	if m.missed == nil || len(m.missed) >= maxUsagePairs {
		// Forgetting a miss costs one lookup; so all go at once.
		m.missed = make(map[usageKey]time.Time)
	}
	m.missed[key] = m.time().Add(usageMissTime)
}

// report remembers a pair, and has write called in the background if the pair
// is not in storage yet.
func (m *usageMemory) report(key usageKey, write func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.add(key)
	if p.stored || m.writes >= maxUsageWrites || m.time().Before(p.retry) {
		return
	}
	p.stored = true // or failed will take it back
	m.writes++
	m.queue = append(m.queue, queuedWrite{key, write})
	if m.idle == nil {
		m.idle = make(chan struct{})
		go m.writeAll()
	}
}

// add returns a pair, which is known from now on. m is locked.
func (m *usageMemory) add(key usageKey) *usagePair {
	delete(m.missed, key)
	if p := m.known[key]; p != nil {
		return p
	}
	if m.known == nil {
		m.known = make(map[usageKey]*usagePair)
	}
	if len(m.order) >= maxUsagePairs {
		delete(m.known, m.order[0])
		m.order = append(m.order[:0], m.order[1:]...)
	}
	p := new(usagePair)
	m.known[key] = p
	m.order = append(m.order, key)
	return p
}

// writeAll empties the queue. One goroutine of it runs at a time, so storage
// that hangs holds up one goroutine and at most maxUsageWrites writes.
func (m *usageMemory) writeAll() {
	for {
		m.mu.Lock()
		if len(m.queue) == 0 {
			m.queue = nil
			close(m.idle)
			m.idle = nil
			m.mu.Unlock()
			return
		}
		w := m.queue[0]
		m.queue = m.queue[1:]
		m.mu.Unlock()

		if err := w.write(); err != nil {
			m.failed(w.key)
		}
	}
}

// failed takes back that a pair is stored.
func (m *usageMemory) failed(key usageKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.known[key]; p != nil {
		p.stored = false
		p.retry = m.time().Add(usageRetryTime)
	}
}

// flush waits until the queue is empty, for at most limit. Once it has waited
// in vain, it does not wait again: storage hangs, and every handler of a
// configuration calls it when the process ends.
func (m *usageMemory) flush(limit time.Duration) {
	m.mu.Lock()
	idle, hung := m.idle, m.hung
	m.mu.Unlock()
	if idle == nil || hung {
		return
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
		m.mu.Lock()
		m.hung = true
		m.mu.Unlock()
	}
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
