package usage

import "time"

const (
	// maxUsageWrites is how many keys one process attempts to add to storage, less
	// those it removes.
	maxUsageWrites = 1024
	// maxUsageChanges is how many keys of storage one process changes or removes
	// in changesTime, and so how many may wait for it.
	maxUsageChanges = 1024
	// changesTime is the time that maxUsageChanges is counted in.
	changesTime = time.Hour
	// retryTime is how long after a failed write it may be tried again.
	retryTime = time.Minute
)

// writeFunc has storage say what is known, which had something else before. It
// returns what is known afterwards: not the same where a replica that shares the
// storage has forgotten it.
type writeFunc func(is, had state) (state, error)

// queue is what waits to be written to storage. Its lock is that of the Memory.
type queue struct {
	added   int       // keys
	changed int       // keys, since
	since   time.Time // or never
	writes  []queuedWrite
	idle    chan struct{} // closed when the writer has emptied the queue; nil while none runs
	hung    bool          // a flush has waited in vain
}

// queuedWrite is a write to storage that waits for its turn.
type queuedWrite struct {
	fact  *fact
	write writeFunc
}

// enqueue has write called in the background, if storage does not have what is
// known. m is locked.
func (m *Memory) enqueue(f *fact, write writeFunc) {
	if f.queued || f.sure && f.is == f.stored || m.time().Before(f.retry) || !m.afford(f) {
		return
	}
	f.queued = true
	m.queue.writes = append(m.queue.writes, queuedWrite{f, write})
	if m.queue.idle == nil {
		m.queue.idle = make(chan struct{})
		go m.writeAll()
	}
}

// afford reports whether one more write is within bounds, and counts it. m is
// locked.
func (m *Memory) afford(f *fact) bool {
	if f.is.yes && !f.stored.yes {
		if m.queue.added >= maxUsageWrites {
			return false
		}
		m.queue.added++
		return true
	}
	if now := m.time(); now.Sub(m.queue.since) >= changesTime {
		m.queue.changed, m.queue.since = 0, now
	}
	if m.queue.changed >= maxUsageChanges {
		return false
	}
	m.queue.changed++
	return true
}

// writeAll empties the queue. One goroutine of it runs at a time, so storage
// that hangs holds up one goroutine.
func (m *Memory) writeAll() {
	for {
		m.mu.Lock()
		if len(m.queue.writes) == 0 {
			m.queue.writes = nil
			close(m.queue.idle)
			m.queue.idle = nil
			m.mu.Unlock()
			return
		}
		w := m.queue.writes[0]
		m.queue.writes = m.queue.writes[1:]
		is, had := w.fact.is, w.fact.stored
		m.mu.Unlock()

		now, err := w.write(is, had)
		m.wrote(w, is, now, err)
	}
}

// wrote records what w has written, which was known then, and what is known now.
func (m *Memory) wrote(w queuedWrite, was, now state, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := w.fact
	f.queued = false
	if err != nil {
		f.sure = false
		f.retry = m.time().Add(retryTime)
		return
	}
	if f.stored.yes && !now.yes && m.queue.added > 0 {
		m.queue.added--
	}
	f.stored, f.sure = now, true
	if was.yes && !now.yes && f.is.missed > 0 {
		f.is = now // forgotten, and no usage has come meanwhile
	}
	m.enqueue(f, w.write) // what has changed meanwhile
}

// Flush waits until the queue is empty, for at most limit. Once it has waited
// in vain, it does not wait again: storage hangs, and every handler of a
// configuration calls it when the process ends.
func (m *Memory) Flush(limit time.Duration) {
	m.mu.Lock()
	idle, hung := m.queue.idle, m.queue.hung
	m.mu.Unlock()
	if idle == nil || hung {
		return
	}
	select {
	case <-idle:
	case <-time.After(limit):
		m.mu.Lock()
		m.queue.hung = true
		m.mu.Unlock()
	}
}
