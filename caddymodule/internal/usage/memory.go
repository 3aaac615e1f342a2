package usage

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxUsagePairs is how many pairs of upstream and model, and upstreams, are
	// kept in memory. Upstream names the models, so it has to be bounded. Any of
	// them makes room: storage has it, or will have.
	maxUsagePairs = 1024
	// maxUsageForgotten is how many answers without usage in a row make a pair
	// forgotten (contract section 3, third rule of "false stop").
	maxUsageForgotten = 3
	// absentTime is how long a lookup that found nothing is believed
	// before storage is asked again; a replica may have reported meanwhile.
	absentTime = 30 * time.Second
)

// pairKey returns the key of a pair in storage, with a prefix of the SHA-256: so it
// takes the same memory whatever upstream calls its models, and no address is readable
// in storage.
func pairKey(upstream, model string) string {
	sum := sha256.Sum256([]byte(upstream + "\x00" + model))
	return pairPrefix + hex.EncodeToString(sum[:16])
}

// pair is a pair of upstream and model, and its key.
type pair struct{ upstream, model, key string }

// pairKey returns the key of a pair. That of the last one is known: most processes have
// one agent.
func (m *Memory) pairKey(upstream, model string) string {
	if p := m.last.Load(); p != nil && p.upstream == upstream && p.model == model {
		return p.key
	}
	key := pairKey(upstream, model)
	if len(model) <= maxUsageModel {
		m.last.Store(&pair{upstream, strings.Clone(model), key})
	}
	return key
}

// upstreamKey returns the key of an upstream, likewise.
func upstreamKey(upstream string) string {
	sum := sha256.Sum256([]byte(upstream))
	return upstreamPrefix + hex.EncodeToString(sum[:16])
}

// An answer is what memory says of a pair, or of an upstream.
type answer int

const (
	answerUnknown answer = iota // ask storage
	answerYes                   // it reports usage, or its failures
	answerNo                    // it does not, or storage has been asked lately and had nothing
)

// state is what is known of a pair, or of an upstream.
type state struct {
	// yes is that the pair reports usage, or the upstream its failures.
	yes bool
	// missed counts the answers in a row that a pair has ended without usage.
	missed int
}

// fact is a state, and what storage has of it.
type fact struct {
	is     state
	stored state
	sure   bool      // storage has stored; otherwise it may have anything
	queued bool      // or being written
	retry  time.Time // when a write that failed may be tried again
}

// Memory is what the process knows of pairs of upstream and model, and of
// upstreams. What this process has seen outweighs what storage says. The zero
// value knows nothing and is ready. It is safe for concurrent use and calls
// nothing of the caller's while it is locked.
type Memory struct {
	// now is the clock, for tests. Nil means time.Now.
	now func() time.Time

	lookups atomic.Int64         // under way
	last    atomic.Pointer[pair] // that a key was asked for, nil for none

	mu     sync.Mutex
	facts  map[string]*fact     // by the key in storage
	absent map[string]time.Time // until when storage is taken to have nothing; not of facts
	queue  queue
}

func (m *Memory) time() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

// recall returns what is known. Storage that could not be written is tried again, if
// there is a write.
func (m *Memory) recall(key string, write writeFunc) answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.facts[key]; f != nil {
		if write != nil {
			m.enqueue(f, write)
		}
		if f.is.yes {
			return answerYes
		}
		return answerNo
	}
	if until, ok := m.absent[key]; ok && m.time().Before(until) {
		return answerNo
	}
	return answerUnknown
}

// learn remembers what storage has, or that it has nothing, unless something is known
// already.
func (m *Memory) learn(key string, stored state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.facts[key] != nil:
	case stored.yes:
		f := m.add(key)
		f.is, f.stored, f.sure = stored, stored, true
	default:
		put(&m.absent, key, m.time().Add(absentTime))
	}
}

// stored reports whether it is so, with no miss counted, and storage has that: as of
// almost all answers.
func (m *Memory) stored(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.facts[key]
	return f != nil && f.is == state{yes: true} && f.sure && f.stored == f.is
}

// set remembers whether it is so, with no miss counted, and has write called in
// the background where storage has something else.
func (m *Memory) set(key string, yes bool, write writeFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.facts[key]
	if f == nil {
		f = m.add(key)
	}
	f.is = state{yes: yes}
	m.enqueue(f, write)
}

// count counts an answer without usage of a pair that is known, and reports
// whether it is forgotten with that.
func (m *Memory) count(key string, write writeFunc) (forgotten bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.facts[key]
	if f == nil || !f.is.yes {
		return false // forgotten while this answer ran
	}
	f.is.missed++
	if f.is.missed >= maxUsageForgotten {
		f.is, forgotten = state{}, true
	}
	m.enqueue(f, write)
	return forgotten
}

// add returns a new fact. m is locked.
func (m *Memory) add(key string) *fact {
	delete(m.absent, key)
	f := new(fact)
	put(&m.facts, key, f)
	return f
}

// put sets the value of a key in a map of at most maxUsagePairs keys, where any
// other makes room.
func put[V any](all *map[string]V, key string, value V) {
	if *all == nil {
		*all = make(map[string]V)
	}
	if _, there := (*all)[key]; !there && len(*all) >= maxUsagePairs {
		for other := range *all {
			delete(*all, other)
			break
		}
	}
	(*all)[key] = value
}
