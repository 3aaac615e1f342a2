package log

import (
	"context"
	"math"
	"net/http"
	"slices"
	"sync"
)

// Memory is a Store in this process. If a log grows and all logs together exceed its MaxMemory,
// Memory deletes logs that have ended, the oldest first; then it cancels runs that go on without a
// client, the oldest first, and deletes all but the end of their logs; then it deletes the oldest
// events of the log that grows. Other logs with readers are left alone. Weak logs go before others,
// and while they have no reader they cancel only each other.
type Memory struct {
	mu     sync.Mutex // guards all logs as well
	used   int64      // bytes
	byID   map[string]*memoryLog
	byKey  map[Digest]*memoryLog
	unread []*memoryLog // logs that have begun and have no readers, in the order of place
}

// NewMemory returns a Memory that is empty.
func NewMemory() *Memory {
	return &Memory{byID: make(map[string]*memoryLog), byKey: make(map[Digest]*memoryLog)}
}

// Used returns the size of all logs in bytes, and how many logs there are, without empty ones.
func (m *Memory) Used() (bytes int64, logs int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.byID {
		if !l.entry.Empty {
			logs++
		}
	}
	return m.used, logs
}

// Claim implements Store.
func (m *Memory) Claim(_ context.Context, e Entry, run Run) (Entry, Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.byKey[e.Key]; l != nil && !e.Takes && l.hasKey() {
		return l.entry, nil, nil
	}
	l := newMemoryLog(m, e, run)
	m.byID[e.ID] = l
	if e.Key != (Digest{}) {
		m.byKey[e.Key] = l
	}
	m.used += l.size()
	return e, l, nil
}

// Find implements Store.
func (m *Memory) Find(_ context.Context, id string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.byID[id]; l != nil && !l.hidden {
		return l.entry, nil
	}
	return Entry{}, ErrDropped
}

// Read implements Store.
func (m *Memory) Read(ctx context.Context, id string, n uint64) Reader {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.byID[id]
	if l == nil {
		l = newMemoryLog(m, Entry{}, Run{})
		l.state = Dropped
	}
	return l.read(ctx, n)
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.byID[id]
	switch {
	case l == nil || l.hidden:
		return ErrDropped
	case l.state > Begun:
		m.remove(l)
	default:
		m.hide(l)
		l.cancel(ReasonDeleted)
	}
	return nil
}

// SetElsewhere sets how many readers the log with the id has in other replicas. It is for stores
// that replicas share.
func (m *Memory) SetElsewhere(id string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.byID[id]; l != nil && l.elsewhere != n {
		l.elsewhere = n
		l.readersChanged()
	}
}

// Callers of the methods below hold the lock.

// hide frees the log's key. Only its run finds the log from now on.
func (m *Memory) hide(l *memoryLog) {
	l.hidden = true
	if m.byKey[l.entry.Key] == l {
		delete(m.byKey, l.entry.Key)
	}
}

// remove removes the log. Only its readers have it from now on.
func (m *Memory) remove(l *memoryLog) {
	if m.byID[l.entry.ID] != l {
		return
	}
	m.used -= l.size()
	m.hide(l)
	delete(m.byID, l.entry.ID)
	m.removeUnread(l)
	if l.timer != nil {
		l.timer.Stop()
	}
}

// updateUnread puts the log at the end of unread if it has begun and has no readers, or else takes it out.
func (m *Memory) updateUnread(l *memoryLog) {
	m.removeUnread(l)
	if len(l.readers) == 0 && l.state != Claimed && m.byID[l.entry.ID] == l {
		m.unread = append(m.unread, l)
	}
}

// removeUnread removes l from unread.
func (m *Memory) removeUnread(l *memoryLog) {
	if i := slices.Index(m.unread, l); i >= 0 {
		m.unread = slices.Delete(m.unread, i, i+1)
	}
}

// makeRoom makes room for n more bytes of l at the cost of other logs. It returns how many bytes
// are still missing.
func (m *Memory) makeRoom(l *memoryLog, n int64) (over int64) {
	for {
		if over = m.used + n - l.entry.MaxMemory; over <= 0 || !m.evict(l) {
			return max(over, 0)
		}
	}
}

// evict deletes a log without readers that has ended or, if there is none, cancels the run of one
// other than l and deletes all but its end. It returns false if there is no such log either.
func (m *Memory) evict(l *memoryLog) bool {
	if i := slices.IndexFunc(m.unread, func(o *memoryLog) bool { return o.state > Begun }); i >= 0 {
		victim := m.unread[i]
		m.remove(victim)
		victim.segments.clear()
		return true
	}
	i := slices.IndexFunc(m.unread, func(o *memoryLog) bool { return o != l && o.entry.Weak })
	if i < 0 && !(l.entry.Weak && len(l.readers) == 0) {
		i = slices.IndexFunc(m.unread, func(o *memoryLog) bool { return o != l })
	}
	if i < 0 {
		return false
	}
	victim := m.unread[i]
	m.removeUnread(victim)
	victim.cancel(ReasonMemory)
	victim.trim(0, math.MaxInt64)
	return true
}

// Sizes in bytes of a field and a value of a header in memory, without their text.
const (
	fieldOverhead = 160
	valueOverhead = 32
)

// HeaderSize returns the size of header in memory, in bytes.
func HeaderSize(header http.Header) (n int) {
	for name, values := range header {
		n += fieldOverhead + len(name)
		for _, v := range values {
			n += valueOverhead + len(v)
		}
	}
	return n
}
