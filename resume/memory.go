package resume

import (
	"container/list"
	"context"
	"math"
	"net/http"
	"sync"
	"time"
)

// Memory is a Store in this process. What its logs take together is bounded by the
// MaxMemory of the one that grows: the oldest that have ended go; then the oldest whose
// runs go on without a client are cancelled, and lose all but their end; then the one
// that grows loses its oldest events. A log with a reader is otherwise left alone.
type Memory struct {
	mu     sync.Mutex // guards all logs as well
	used   int64      // bytes
	byID   map[string]*memoryLog
	byKey  map[Digest]*memoryLog
	ended  list.List // logs without readers that have ended, the oldest first
	unread list.List // logs without readers that go on, the one that was left first first
}

// NewMemory returns a Memory that is empty.
func NewMemory() *Memory {
	return &Memory{byID: make(map[string]*memoryLog), byKey: make(map[Digest]*memoryLog)}
}

// Used returns how many bytes all logs take, and how many logs there are.
func (m *Memory) Used() (bytes int64, logs int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used, len(m.byID)
}

// Claim implements Store.
func (m *Memory) Claim(_ context.Context, e Entry, run Run) (Entry, Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.byKey[e.Key]; l != nil {
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

// SetElsewhere sets how many readers the log with the id has in other replicas, for stores
// that share it.
func (m *Memory) SetElsewhere(id string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.byID[id]; l != nil && l.elsewhere != n {
		l.elsewhere = n
		l.readersChanged()
	}
}

// The lock is held when the following are called.

// hide frees the log's key. Only its run finds the log from now on.
func (m *Memory) hide(l *memoryLog) {
	l.hidden = true
	if m.byKey[l.entry.Key] == l {
		delete(m.byKey, l.entry.Key)
	}
}

// remove takes the log out. Only its readers have it from now on.
func (m *Memory) remove(l *memoryLog) {
	if m.byID[l.entry.ID] != l {
		return
	}
	m.used -= l.size()
	m.hide(l)
	delete(m.byID, l.entry.ID)
	m.place(l, nil)
	if l.timer != nil {
		l.timer.Stop()
	}
}

// removeAfter takes the log out after a time.
func (m *Memory) removeAfter(l *memoryLog, d time.Duration) {
	l.timer = time.AfterFunc(d, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.remove(l)
	})
}

// place moves the log to the end of the list; nil means none.
func (m *Memory) place(l *memoryLog, to *list.List) {
	if l.list == to {
		return
	}
	if l.list != nil {
		l.list.Remove(l.element)
	}
	if l.list = to; to != nil {
		l.element = to.PushBack(l)
	}
}

// makeRoom makes room for n bytes more of l at the cost of other logs. It returns how many
// bytes it still has too many.
func (m *Memory) makeRoom(l *memoryLog, n int64) (over int64) {
	for {
		if over = m.used + n - l.entry.MaxMemory; over <= 0 || !m.evict(l) {
			return max(over, 0)
		}
	}
}

// evict deletes a log that has ended or cancels one without readers, other than l. It
// returns false if there is none.
func (m *Memory) evict(l *memoryLog) bool {
	if front := m.ended.Front(); front != nil {
		victim := front.Value.(*memoryLog)
		m.remove(victim)
		victim.segments.clear()
		return true
	}
	for e := m.unread.Front(); e != nil; e = e.Next() {
		if victim := e.Value.(*memoryLog); victim != l {
			m.place(victim, nil)
			victim.cancel(ReasonMemory)
			victim.trim(0, math.MaxInt64)
			return true
		}
	}
	return false
}

// Sizes in bytes of what a header takes beside its names and values.
const (
	fieldOverhead = 160
	valueOverhead = 32
)

// sizeOf returns what a header takes in memory, in bytes.
func sizeOf(header http.Header) (n int) {
	for name, values := range header {
		n += fieldOverhead + len(name)
		for _, v := range values {
			n += valueOverhead + len(v)
		}
	}
	return n
}

// Interface guards
var _ Store = (*Memory)(nil)
