package resume

import (
	"container/list"
	"context"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
)

// Memory is a Store in this process. What its logs take together is bounded by the
// MaxMemory of the one that grows: the oldest that have ended go; then the oldest whose
// runs go on without a client are cancelled, and lose all but their end; then the one
// that grows loses its oldest events. A log with a reader is otherwise left alone.
//
// Its lock may be taken while that of a log is held, never the other way round.
type Memory struct {
	used atomic.Int64 // bytes

	mu     sync.Mutex
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
	return m.used.Load(), len(m.byID)
}

// Claim implements Store.
func (m *Memory) Claim(_ context.Context, e Entry, run Run) (Entry, Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.byKey[e.Key]; l != nil {
		return l.entry, nil, nil
	}
	l := newMemoryLog(m, e, run)
	m.byID[e.ID], l.kept = l, true
	if e.Key != (Digest{}) {
		m.byKey[e.Key] = l
	}
	m.used.Add(l.size.Load())
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
	l := m.log(id)
	if l == nil {
		l = &memoryLog{store: m, state: Dropped}
	}
	return l.read(ctx, n)
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, id string) error {
	m.mu.Lock()
	l := m.byID[id]
	if l == nil || l.hidden {
		m.mu.Unlock()
		return ErrDropped
	}
	m.hideLocked(l)
	m.mu.Unlock()
	l.cancel(ReasonDeleted)
	return nil
}

// SetElsewhere sets how many readers the log with the id has in other replicas, for stores
// that share it.
func (m *Memory) SetElsewhere(id string, n int) {
	if l := m.log(id); l != nil {
		l.setElsewhere(n)
	}
}

// log returns the log with the id, nil for none.
func (m *Memory) log(id string) *memoryLog {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byID[id]
}

// hideLocked frees the log's key. Only its run finds the log from now on.
func (m *Memory) hideLocked(l *memoryLog) {
	l.hidden = true
	if m.byKey[l.entry.Key] == l {
		delete(m.byKey, l.entry.Key)
	}
}

// isHidden reports whether only its run finds the log.
func (m *Memory) isHidden(l *memoryLog) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return l.hidden
}

// remove takes the log out.
func (m *Memory) remove(l *memoryLog) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeLocked(l)
}

func (m *Memory) removeLocked(l *memoryLog) {
	if !l.kept {
		return
	}
	m.hideLocked(l)
	delete(m.byID, l.entry.ID)
	l.kept = false
	m.placeLocked(l, nil)
	m.used.Add(-l.size.Load())
}

// place moves the log to the end of the list; nil means none.
func (m *Memory) place(l *memoryLog, to *list.List) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.kept {
		m.placeLocked(l, to)
	}
}

func (m *Memory) placeLocked(l *memoryLog, to *list.List) {
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

// count counts n bytes more of a log, or fewer, as long as the store has it.
func (m *Memory) count(l *memoryLog, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.kept {
		l.size.Add(n)
		m.used.Add(n)
	}
}

// makeRoom makes room for n bytes more of l at the cost of other logs. It returns how many
// bytes it still has too many. No lock is held.
func (m *Memory) makeRoom(l *memoryLog, n, most int64) (over int64) {
	for {
		if over = m.used.Load() + n - most; over <= 0 || !m.evict(l) {
			return max(over, 0)
		}
	}
}

// evict deletes a log that has ended or cancels one without readers, other than l. It
// returns false if there is none.
func (m *Memory) evict(l *memoryLog) bool {
	m.mu.Lock()
	if front := m.ended.Front(); front != nil {
		victim := front.Value.(*memoryLog)
		m.removeLocked(victim)
		m.mu.Unlock()
		victim.clear()
		return true
	}
	var victim *memoryLog
	for e := m.unread.Front(); e != nil && victim == nil; e = e.Next() {
		if other := e.Value.(*memoryLog); other != l {
			victim = other
		}
	}
	if victim == nil {
		m.mu.Unlock()
		return false
	}
	m.placeLocked(victim, nil)
	m.mu.Unlock()
	victim.cancel(ReasonMemory)
	victim.trim(victim.size.Load(), math.MaxInt64)
	return true
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
