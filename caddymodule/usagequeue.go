package caddymodule

import "time"

const (
	// maxUsageWrites is how many keys one process attempts to add to storage, less
	// those it removes.
	maxUsageWrites = 1024
	// maxUsageChanges is how many keys of storage one process changes or removes
	// in usageChangesTime, and so how many may wait for it.
	maxUsageChanges = 1024
	// usageChangesTime is the time that maxUsageChanges is counted in.
	usageChangesTime = time.Hour
	// usageRetryTime is how long after a failed write it may be tried again.
	usageRetryTime = time.Minute
)

// usageWrite has storage say what is known, which had something else before. It
// returns what is known afterwards: not the same where a replica that shares the
// storage has forgotten it.
type usageWrite func(is, had usageState) (usageState, error)

// usageQueue is what waits to be written to storage. The lock is that of the
// usageMemory.
type usageQueue struct {
	added   int       // keys
	changed int       // keys, since
	since   time.Time // or never
	queue   []queuedWrite
	idle    chan struct{} // closed when the writer has emptied the queue; nil while none runs
	hung    bool          // a flush has waited in vain
}

// queuedWrite is a write to storage that waits for its turn.
type queuedWrite struct {
	fact  *usageFact
	write usageWrite
}

// enqueue has write called in the background, if storage does not have what is
// known. m is locked.
func (m *usageMemory) enqueue(f *usageFact, write usageWrite) {
	if f.queued || f.sure && f.is == f.stored || m.time().Before(f.retry) || !m.afford(f) {
		return
	}
	f.queued = true
	m.queue = append(m.queue, queuedWrite{f, write})
	if m.idle == nil {
		m.idle = make(chan struct{})
		go m.writeAll()
	}
}

// afford reports whether one more write is within bounds, and counts it. m is
// locked.
func (m *usageMemory) afford(f *usageFact) bool {
	if f.is.yes && !f.stored.yes {
		if m.added >= maxUsageWrites {
			return false
		}
		m.added++
		return true
	}
	if now := m.time(); now.Sub(m.since) >= usageChangesTime {
		m.changed, m.since = 0, now
	}
	if m.changed >= maxUsageChanges {
		return false
	}
	m.changed++
	return true
}

// writeAll empties the queue. One goroutine of it runs at a time, so storage
// that hangs holds up one goroutine.
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
		is, had := w.fact.is, w.fact.stored
		m.mu.Unlock()

		now, err := w.write(is, had)
		m.wrote(w, is, now, err)
	}
}

// wrote notes that w has written what was known then, and what is known now.
func (m *usageMemory) wrote(w queuedWrite, was, now usageState, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := w.fact
	f.queued = false
	if err != nil {
		f.sure = false
		f.retry = m.time().Add(usageRetryTime)
		return
	}
	if f.stored.yes && !now.yes && m.added > 0 {
		m.added--
	}
	f.stored, f.sure = now, true
	if was.yes && !now.yes && f.is.missed > 0 {
		f.is = now // forgotten, and no usage has come meanwhile
	}
	m.enqueue(f, w.write) // what has changed meanwhile
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
