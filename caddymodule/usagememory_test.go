package caddymodule

import (
	"strconv"
	"sync"
	"testing"
	"time"
)

// idleChan returns the channel that is closed when all has been written, nil
// when it has.
func (m *usageMemory) idleChan() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.idle
}

func noWrite(is, _ usageState) (usageState, error) { return is, nil }

// report is set for a pair that reports usage.
func (m *usageMemory) report(key usageKey, write usageWrite) { m.set(key, true, write) }

// known is recall for one that has nothing to write.
func (m *usageMemory) known(key usageKey) int { return m.recall(key, noWrite) }

func numbered(i int) usageKey { return newUsageKey("a:1", strconv.Itoa(i)) }

func TestUsageMemoryKeepsABoundedNumberOfPairs(t *testing.T) {
	var m usageMemory
	for i := range maxUsagePairs + 10 {
		m.report(numbered(i), noWrite)
	}
	m.flush(time.Hour)
	if len(m.facts) != maxUsagePairs || len(m.order) != maxUsagePairs {
		t.Errorf("%d pairs in %d places, want %d", len(m.facts), len(m.order), maxUsagePairs)
	}
	if m.known(numbered(9)) != usageUnknown {
		t.Error("the pair known longest has not made room")
	}
	if m.known(numbered(10)) != usageKnown || m.known(numbered(maxUsagePairs+9)) != usageKnown {
		t.Error("a younger pair has made room")
	}
}

func TestUsageMemoryKeepsABoundedNumberOfMisses(t *testing.T) {
	var m usageMemory
	for i := range 3*maxUsagePairs + 1 {
		m.miss(numbered(i))
		if len(m.missed) > maxUsagePairs {
			t.Fatalf("%d misses, want at most %d", len(m.missed), maxUsagePairs)
		}
	}
	if m.known(numbered(3*maxUsagePairs)) != usageMissed {
		t.Error("the last miss is forgotten")
	}
}

func TestUsageMemoryAttemptsABoundedNumberOfWrites(t *testing.T) {
	var m usageMemory
	var mu sync.Mutex
	writes := 0
	for i := range maxUsageWrites + 10 {
		m.report(numbered(i), func(is, _ usageState) (usageState, error) {
			mu.Lock()
			defer mu.Unlock()
			writes++
			return is, nil
		})
	}
	m.flush(time.Hour)
	mu.Lock()
	defer mu.Unlock()
	if writes != maxUsageWrites {
		t.Errorf("%d writes, want %d", writes, maxUsageWrites)
	}
	if m.known(numbered(maxUsageWrites+9)) != usageKnown {
		t.Error("a pair that was not written is not known")
	}
}

func TestUsageMemoryMissDoesNotUndoAReport(t *testing.T) {
	var m usageMemory
	m.report(numbered(1), noWrite)
	m.miss(numbered(1)) // a slow lookup that ends after the report
	if m.known(numbered(1)) != usageKnown {
		t.Error("forgotten")
	}
	m.flush(time.Hour)
}

func TestUsageMemoryFlushReturnsWhenNothingWaits(t *testing.T) {
	var m usageMemory
	m.flush(time.Hour)
	m.report(numbered(1), noWrite)
	m.flush(time.Hour)
	m.flush(time.Hour)
	if m.hung {
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
				s.Reported("a:1", model)
				if g%2 == 0 {
					s.Report("a:1", model)
				}
			}
		})
	}
	wg.Wait()
	s.memory.flush(time.Hour)
	for i := range 10 {
		if !s.Reported("a:1", strconv.Itoa(i)) {
			t.Errorf("model %d is not known", i)
		}
	}
	if _, _, values := storage.counts(); values != 10 {
		t.Errorf("%d values, want 10", values)
	}
}
