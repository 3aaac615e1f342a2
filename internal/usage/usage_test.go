package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// fakeStorage is storage in memory that counts, fails and hangs on demand.
type fakeStorage struct {
	certmagic.Storage // nil: what is not below must not be called

	mu     sync.Mutex
	values map[string]string
	loads  int
	stores int
	fail   error
	hang   chan struct{} // while not closed, calls wait; nil for never
}

func (s *fakeStorage) enter(count *int) error {
	if s.hang != nil {
		<-s.hang
	}
	s.mu.Lock()
	*count++
	return s.fail
}

func (s *fakeStorage) Load(_ context.Context, key string) ([]byte, error) {
	err := s.enter(&s.loads)
	defer s.mu.Unlock()
	if v, ok := s.values[key]; ok || err != nil {
		return []byte(v), err
	}
	return nil, fs.ErrNotExist
}

func (s *fakeStorage) Store(_ context.Context, key string, value []byte) error {
	err := s.enter(&s.stores)
	defer s.mu.Unlock()
	if err == nil {
		if s.values == nil {
			s.values = make(map[string]string)
		}
		s.values[key] = string(value)
	}
	return err
}

// newUsage returns a store on storage with a memory of its own, as that of a process that
// has just begun, and what it logs.
func newUsage(storage certmagic.Storage) (*Store, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	return &Store{Memory: new(Memory), Storage: storage, Logger: zap.New(core)}, logs
}

// restarted ends the process of s, and returns the store of the next one.
func restarted(s *Store) *Store {
	s.Flush(FlushLimit)
	next, _ := newUsage(s.Storage)
	return next
}

// miss has n answers without usage come, each taken for a crash.
func miss(t *testing.T, s *Store, upstream, model string, n int) {
	t.Helper()
	for i := range n {
		if !s.Of(upstream).Reported(model) {
			t.Fatalf("answer %d of %d without usage passes", i+1, n)
		}
		s.Of(upstream).Missed(model)
	}
}

func TestUsageIsKnownForThePairThatReportedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // storage answers in time
		s, logs := newUsage(new(fakeStorage))
		if s.Of("a:1").Reported("m") {
			t.Error("reported before the report")
		}
		s.Of("a:1").Report("m")
		if !s.Of("a:1").Reported("m") {
			t.Error("not reported after the report")
		}
		for _, other := range [][2]string{{"a:1", "n"}, {"b:1", "m"}, {"", "a:1m"}, {"a:1m", ""}, {"", ""}} {
			if s.Of(other[0]).Reported(other[1]) {
				t.Errorf("reported for %q, which has not", other)
			}
		}
		if logs.Len() != 0 {
			t.Errorf("logged %v although storage works", logs.All())
		}
	})
}

func TestUsageSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // storage answers in time
		s, _ := newUsage(&certmagic.FileStorage{Path: t.TempDir()})
		s.Of("a:1").Report("m")
		s.Of("b:1").Report("m")
		s.Of("c:1").Report("m")
		s.Of("b:1").ReportsFailures(true)
		s.Of("c:1").ReportsFailures(false)
		s = restarted(s)
		for upstream, want := range map[string]bool{"a:1": true, "b:1": false, "c:1": true, "d:1": false} {
			if got := s.Of(upstream).Reported("m"); got != want {
				t.Errorf("%s: %t after a restart", upstream, got)
			}
		}
		if s.Of("a:1").Reported("n") {
			t.Error("another model is known after a restart")
		}
	})
}

func TestUsageIsOneSmallFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(fakeStorage)
		s, _ := newUsage(storage)
		for range 1000 {
			s.Of("10.1.2.3:8642").Report("hermes-agent")
			s.Of("10.1.2.3:8642").ReportsFailures(false)
			time.Sleep(time.Second)
		}
		// printf '10.1.2.3:8642\0hermes-agent' | sha256sum | cut -c -32
		const want = `{"known":["6c034bab8ecfd2e14ea65b58105d2a81"]}`
		if got := storage.values[storageKey]; got != want || len(storage.values) != 1 {
			t.Errorf("storage has %q, want %s", storage.values, want)
		}
		if storage.stores != 1 || storage.loads != 1 {
			t.Errorf("%d reads and %d writes, want one of each", storage.loads, storage.stores)
		}
	})
}

func TestUsageIsForgottenAfterThreeAnswersWithoutIt(t *testing.T) {
	s, logs := newUsage(new(fakeStorage))
	s.Of("a:1").Report("m")
	s.Of("a:1").Report("n")
	miss(t, s, "a:1", "m", 2)
	for range 10 { // of the last ten, none is without usage
		s.Of("a:1").Report("m")
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
	miss(t, s, "a:1", "m", 3)
	if s.Of("a:1").Reported("m") || !s.Of("a:1").Reported("n") {
		t.Error("not forgotten after three, or another model is forgotten, too")
	}
	for range 10 {
		s.Of("a:1").Missed("m") // answers that ran at once
	}
	told := logs.FilterMessageSnippet("zero_usage").All()
	if len(told) != 1 || told[0].ContextMap()["upstream"] != "a:1" || told[0].ContextMap()["model"] != "m" {
		t.Errorf("logged %v, want one warning that names zero_usage", logs.All())
	}
	if s = restarted(s); s.Of("a:1").Reported("m") || !s.Of("a:1").Reported("n") {
		t.Error("known again after a restart, or the other model is not")
	}
	s.Of("a:1").Report("m")
	miss(t, s, "a:1", "m", 3)
}

// A provider that reports usage for some answers only, in any order, is soon left alone, and stays
// so through restarts. One that does so again is known again.
func TestUsageNowAndThen(t *testing.T) {
	for pattern, most := range map[string]int{"10": 3, "100": 3, "110": 3, "1000": 5, "100000": 5, "1111111100": 0} {
		s, logs := newUsage(new(fakeStorage))
		crashes, answers := 0, 30*len(pattern)
		for i := range answers {
			if i == answers/2 {
				s = restarted(s)
			}
			if u := s.Of("a:1"); pattern[i%len(pattern)] == '1' {
				u.Report("m")
			} else {
				if u.Reported("m") {
					crashes++
				}
				u.Missed("m")
			}
		}
		if most == 0 { // two of ten contradict nothing
			if crashes != 60 || logs.Len() > 0 {
				t.Errorf("%s: %d of 60 answers without usage are crashes; logged %v", pattern, crashes, logs.All())
			}
			continue
		}
		if crashes == 0 || crashes > most {
			t.Errorf("%s: %d answers are taken for crashes, want 1 to %d", pattern, crashes, most)
		}
		if n := logs.FilterMessageSnippet("zero_usage").Len(); n == 0 || n > 2 {
			t.Errorf("%s: %d warnings", pattern, n)
		}
		known := s.Of("a:1").Reported("m")
		for range 8 {
			s.Of("a:1").Report("m")
		}
		if s = restarted(s); known || !s.Of("a:1").Reported("m") {
			t.Errorf("%s: known (%t), or not known after eight answers with usage", pattern, known)
		}
	}
}

// An upstream that reports its failures contradicts nothing by answers without usage.
func TestUsageOfABelievedUpstream(t *testing.T) {
	s, logs := newUsage(new(fakeStorage))
	s.Of("a:1").Report("m")
	s.Of("a:1").ReportsFailures(true)
	for range 10 {
		s.Of("a:1").Missed("m")
	}
	s.Of("a:1").ReportsFailures(false)
	if !s.Of("a:1").Reported("m") || logs.Len() > 0 {
		t.Errorf("forgotten, or logged %v", logs.All())
	}
}

// What an upstream shows outweighs what storage says, before anybody has asked storage.
func TestUsageOldUpstreamIsNotBelievedBecauseStorageSaysSo(t *testing.T) {
	s, _ := newUsage(new(fakeStorage))
	s.Of("a:1").Report("m")
	s.Of("a:1").ReportsFailures(true)
	s = restarted(s)
	s.Of("a:1").ReportsFailures(false)
	if !s.Of("a:1").Reported("m") || !restarted(s).Of("a:1").Reported("m") {
		t.Error("believed")
	}
}

// Replicas share the file: each changes only what it has seen change.
func TestUsageOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(fakeStorage)
		a, _ := newUsage(storage)
		b, _ := newUsage(storage)
		b.Of("a:1").Reported("m") // not there
		a.Of("a:1").Report("m")
		time.Sleep(time.Second)
		b.Of("a:1").Report("n")
		time.Sleep(2 * saveDelay)
		if !b.Of("a:1").Reported("m") {
			t.Error("what a has written is not known after a write of b")
		}
		loads := storage.loads
		for range rereadInterval / time.Second {
			b.Of("a:1").Reported("l")
			time.Sleep(time.Second)
		}
		if n := storage.loads - loads; n > 1 {
			t.Errorf("the file was read %d times", n)
		}
		a.Of("a:1").Report("k")
		time.Sleep(rereadInterval)
		if !b.Of("a:1").Reported("k") {
			t.Error("the file was not read again")
		}
		miss(t, a, "a:1", "m", 3)
		time.Sleep(2 * saveDelay)
		b.Of("b:1").Report("m")
		time.Sleep(2 * saveDelay)
		c, _ := newUsage(storage)
		if c.Of("a:1").Reported("m") || !c.Of("a:1").Reported("n") || !c.Of("b:1").Reported("m") {
			t.Errorf("storage has %v", storage.values)
		}

		c.Of("a:1").Report("m")
		miss(t, c, "a:1", "n", 3)
		time.Sleep(2 * saveDelay)
		b.Of("b:1").Report("n")
		time.Sleep(2 * saveDelay)
		if c = restarted(c); c.Of("a:1").Reported("n") {
			t.Error("a pair that c has forgotten has come back, with another that b has learnt")
		}
		a.Of("b:1").Report("o")
		time.Sleep(2 * saveDelay)
		if c = restarted(c); !c.Of("a:1").Reported("m") {
			t.Error("a, which had forgotten it, has taken back what c has learnt since")
		}
	})
}

func TestUsageStorageThatFailsIsLoggedOnceAndHurtsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &fakeStorage{fail: errors.New("disk full")}
		s, logs := newUsage(storage)
		if s.Of("a:1").Reported("m") {
			t.Error("reported when storage fails")
		}
		s.Of("a:1").Report("m")
		s.Of("a:1").ReportsFailures(false)
		time.Sleep(time.Hour)
		if !s.Of("a:1").Reported("m") {
			t.Error("forgotten because storage fails")
		}
		if entries := logs.All(); len(entries) != 1 || entries[0].ContextMap()["error"] != "disk full" {
			t.Errorf("logged %v, want one warning", entries)
		}
		storage.fail = nil
		s.Of("a:1").Report("m") // nothing new, but not written yet
		if !restarted(s).Of("a:1").Reported("m") {
			t.Error("the write is not tried again")
		}
	})
}

func TestUsageStorageThatHangsHoldsUpNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &fakeStorage{hang: make(chan struct{})}
		s, logs := newUsage(storage)
		begun := time.Now()
		for range 10 {
			if s.Of("a:1").Reported("m") {
				t.Error("reported when storage hangs")
			}
		}
		if took := time.Since(begun); took != lookupTimeout {
			t.Errorf("ten ends of streams waited %s", took)
		}
		s.Of("a:1").Report("n")
		begun = time.Now()
		s.Flush(FlushLimit)
		if took := time.Since(begun); took != FlushLimit {
			t.Errorf("the flush waited %s", took)
		}
		if !s.Of("a:1").Reported("n") || logs.Len() != 1 {
			t.Errorf("not reported after the report; logged %v", logs.All())
		}
		close(storage.hang)
		synctest.Wait()
		if !restarted(s).Of("a:1").Reported("n") {
			t.Error("not written after storage went on")
		}
	})
}

// What changes while the file is being written is also written.
func TestUsageFlushWritesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &fakeStorage{hang: make(chan struct{})}
		s, _ := newUsage(storage)
		s.Of("a:1").Report("m")
		time.Sleep(saveDelay)
		synctest.Wait()
		s.Of("a:1").Report("n")
		go func() {
			time.Sleep(time.Second)
			close(storage.hang)
		}()
		s.Flush(FlushLimit)
		next, _ := newUsage(storage)
		if !next.Of("a:1").Reported("m") || !next.Of("a:1").Reported("n") {
			t.Errorf("storage has %v", storage.values)
		}
	})
}

// TestUsageIsBounded in memory, in the file and in writes, whatever upstream calls its models.
func TestUsageIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := new(fakeStorage)
		s, _ := newUsage(storage)
		for i := range 3 * maxKnown {
			s.Of("a:1").Report(strconv.Itoa(i) + strings.Repeat("x", 1000))
			time.Sleep(time.Second)
		}
		if !s.Of("a:1").Reported(strconv.Itoa(3*maxKnown-1) + strings.Repeat("x", 1000)) {
			t.Error("the last pair has made room")
		}
		if most := 3*maxKnown/int(saveDelay/time.Second) + 1; storage.stores > most {
			t.Errorf("%d writes, want at most %d", storage.stores, most)
		}
		restarted(s)
		var f file
		if err := json.Unmarshal([]byte(storage.values[storageKey]), &f); err != nil || len(f.Known) != maxKnown {
			t.Errorf("%d keys in the file, %v, want %d", len(f.Known), err, maxKnown)
		}
		for i := range 3 * maxKnown {
			s.Of("b:1").Report(strconv.Itoa(i))
			s.Of("b:1").Missed(strconv.Itoa(i))
		}
		m := s.Memory
		if n := max(len(m.seen), len(m.stored), len(m.unsaved), len(m.last)); n > maxKnown {
			t.Errorf("%d of a kind in memory, want at most %d", n, maxKnown)
		}
	})
}

func TestUsageFileThatIsNotOurs(t *testing.T) {
	for name, value := range map[string]string{
		"torn": `{"known":["`, "an array": `[1]`, "other keys": `{"known":["x",""]}`,
		"too large": `{"known":["` + strings.Repeat("a", maxFileSize) + `"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			storage := &fakeStorage{values: map[string]string{storageKey: value}}
			s, logs := newUsage(storage)
			if s.Of("a:1").Reported("m") || logs.Len() > 1 {
				t.Errorf("reported, or logged %v", logs.All())
			}
			s.Of("a:1").Report("m")
			if !restarted(s).Of("a:1").Reported("m") {
				t.Error("the file was not replaced")
			}
		})
	}
	t.Run("a file where a folder should be", func(t *testing.T) { // FileStorage.Exists says true here
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "hermes"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s, logs := newUsage(&certmagic.FileStorage{Path: dir})
		if s.Of("a:1").Reported("m") || logs.Len() != 1 {
			t.Errorf("reported because storage cannot be read, or logged %v", logs.All())
		}
	})
}

func TestUsageIsSafeForConcurrentUse(t *testing.T) {
	s, _ := newUsage(new(fakeStorage))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				u, model := s.Of("a:1"), fmt.Sprint(i%10)
				u.Reported(model)
				if g%2 == 0 {
					u.Report(model)
				}
				if i%10 == 0 {
					s.Flush(FlushLimit)
				}
			}
		})
	}
	wg.Wait()
	next := restarted(s)
	for i := range 10 {
		if !next.Of("a:1").Reported(fmt.Sprint(i)) {
			t.Errorf("model %d is not known", i)
		}
	}
}

// TestEventsOfAnUpstream are remembered through a restart, and forgotten once an upstream has shown that
// it is too old. Files of earlier releases know of none.
func TestEventsOfAnUpstream(t *testing.T) {
	s, _ := newUsage(&fakeStorage{values: map[string]string{storageKey: `{"known":["` + key("a:1") + `"]}`}})
	if s.Of("a:1").SendsEvents() {
		t.Error("known before a stream has shown any")
	}
	s.Of("a:1").ShowedEvents(true)
	s = restarted(s)
	if !s.Of("a:1").SendsEvents() || s.Of("b:1").SendsEvents() {
		t.Error("not known after a restart, or of another upstream")
	}
	s.Of("a:1").ShowedEvents(false)
	if s.Of("a:1").SendsEvents() || restarted(s).Of("a:1").SendsEvents() {
		t.Error("known after a marker")
	}
}
