package usage

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// idleChan returns the channel that is closed when all has been written, nil
// when it has.
func (m *Memory) idleChan() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.idle
}

func noWrite(is, _ state) (state, error) { return is, nil }

// report is set for a pair that reports usage.
func (m *Memory) report(key string, write writeFunc) { m.set(key, true, write) }

// known is recall for one that has nothing to write.
func (m *Memory) known(key string) answer { return m.recall(key, noWrite) }

func numbered(i int) string { return pairKey("a:1", strconv.Itoa(i)) }

func TestUsageMemoryKeepsABoundedNumberOfPairs(t *testing.T) {
	var m Memory
	for i := range maxUsagePairs + 10 {
		m.report(numbered(i), noWrite)
	}
	m.Flush(time.Hour)
	if len(m.facts) != maxUsagePairs {
		t.Errorf("%d pairs, want %d", len(m.facts), maxUsagePairs)
	}
	if m.known(numbered(maxUsagePairs+9)) != answerYes {
		t.Error("the last pair has made room")
	}
}

func TestUsageMemoryKeepsABoundedNumberOfMisses(t *testing.T) {
	var m Memory
	for i := range 3*maxUsagePairs + 1 {
		m.learn(numbered(i), state{})
		if len(m.absent) > maxUsagePairs {
			t.Fatalf("%d misses, want at most %d", len(m.absent), maxUsagePairs)
		}
	}
	if m.known(numbered(3*maxUsagePairs)) != answerNo {
		t.Error("the last miss is forgotten")
	}
}

func TestUsageMemoryAttemptsABoundedNumberOfWrites(t *testing.T) {
	var m Memory
	var mu sync.Mutex
	writes := 0
	for i := range maxUsageWrites + 10 {
		m.report(numbered(i), func(is, _ state) (state, error) {
			mu.Lock()
			defer mu.Unlock()
			writes++
			return is, nil
		})
	}
	m.Flush(time.Hour)
	mu.Lock()
	defer mu.Unlock()
	if writes != maxUsageWrites {
		t.Errorf("%d writes, want %d", writes, maxUsageWrites)
	}
	if m.known(numbered(maxUsageWrites+9)) != answerYes {
		t.Error("a pair that was not written is not known")
	}
}

func TestUsageMemoryMissDoesNotUndoAReport(t *testing.T) {
	var m Memory
	m.report(numbered(1), noWrite)
	m.learn(numbered(1), state{}) // a slow lookup that ends after the report
	if m.known(numbered(1)) != answerYes {
		t.Error("forgotten")
	}
	m.Flush(time.Hour)
}

func TestUsageMemoryFlushReturnsWhenNothingWaits(t *testing.T) {
	var m Memory
	m.Flush(time.Hour)
	m.report(numbered(1), noWrite)
	m.Flush(time.Hour)
	m.Flush(time.Hour)
	if m.queue.hung {
		t.Error("flush took a writer that is done for one that hangs")
	}
}

func TestUsageMemoryIsSafeForConcurrentUse(t *testing.T) {
	storage := new(fakeStorage)
	s, _, _ := newUsage(storage)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				model := strconv.Itoa(i % 10)
				s.Of("a:1").Reported(model)
				if g%2 == 0 {
					s.Of("a:1").Report(model)
				}
			}
		})
	}
	wg.Wait()
	s.Memory.Flush(time.Hour)
	for i := range 10 {
		if !s.Of("a:1").Reported(strconv.Itoa(i)) {
			t.Errorf("model %d is not known", i)
		}
	}
	if _, _, values := storage.counts(); values != 10 {
		t.Errorf("%d values, want 10", values)
	}
}

// TestPairsHaveTheirOwnKeys whichever was asked for before.
func TestPairsHaveTheirOwnKeys(t *testing.T) {
	m := new(Memory)
	long := strings.Repeat("m", maxUsageModel+1)
	for _, p := range [][2]string{{"a:1", "m"}, {"a:1", "m"}, {"a:1", "n"}, {"b:1", "n"}, {"a:1", long}, {"a:1", long}, {"b:1", "n"}} {
		if got, want := m.pairKey(p[0], p[1]), pairKey(p[0], p[1]); got != want {
			t.Errorf("%q: %q, want %q", p, got, want)
		}
	}
	if len(m.last.Load().model) > maxUsageModel {
		t.Error("a name of any length is kept")
	}
}
