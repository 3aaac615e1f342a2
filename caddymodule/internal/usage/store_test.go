package usage

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// clock is a clock that stands still until it is moved.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// newUsage returns a store on storage with a memory of its own, its clock, and
// what it logs.
func newUsage(storage certmagic.Storage) (*Store, *clock, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	c := &clock{time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	return &Store{
		Memory:      &Memory{now: c.now},
		Storage:     storage,
		Logger:      zap.New(core),
		lookupLimit: time.Hour,
	}, c, logs
}

// written waits until everything reported so far has been written.
func written(t *testing.T, s *Store) {
	t.Helper()
	s.Memory.Flush(time.Hour)
	if s.Memory.queue.hung {
		t.Fatal("the writer hangs")
	}
}

func TestUsageIsKnownForThePairThatReportedIt(t *testing.T) {
	s, _, logs := newUsage(new(fakeStorage))
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
}

func TestUsageSurvivesARestart(t *testing.T) {
	dir := &certmagic.FileStorage{Path: t.TempDir()}
	s, _, _ := newUsage(dir)
	s.Of("127.0.0.1:8642").Report("hermes-agent")
	written(t, s)

	again, _, _ := newUsage(dir)
	if !again.Of("127.0.0.1:8642").Reported("hermes-agent") {
		t.Error("forgotten after a restart")
	}
	if again.Of("127.0.0.1:8642").Reported("other") {
		t.Error("another model is known after a restart")
	}
}

func TestUsageIsOneSmallKeyForEachPair(t *testing.T) {
	storage := new(fakeStorage)
	s, _, _ := newUsage(storage)
	s.Of("10.1.2.3:8642").Report("hermes-agent")
	written(t, s)

	// printf '10.1.2.3:8642\0hermes-agent' | sha256sum | cut -c -32
	const key = "hermes/usage/6c034bab8ecfd2e14ea65b58105d2a81"
	const want = `{"model":"hermes-agent","reported":"2026-11-20T09:00:00Z"}`
	if got := storage.values[key]; got != want {
		t.Errorf("storage has %v, want %s at %s", storage.values, want, key)
	}
	if len(storage.values) != 1 {
		t.Errorf("%d keys, want 1", len(storage.values))
	}
}

func TestUsageStoresAtMostTheBeginningOfALongModelName(t *testing.T) {
	storage := new(fakeStorage)
	s, _, _ := newUsage(storage)
	model := strings.Repeat("é", 1<<19) // cut inside a character
	s.Of("a:1").Report("x" + model)
	written(t, s)
	for _, v := range storage.values {
		var r record
		if err := json.Unmarshal([]byte(v), &r); err != nil {
			t.Fatal(err)
		}
		if want := "x" + strings.Repeat("é", (maxUsageModel-1)/2); r.Model != want {
			t.Errorf("model is stored as %q, want %q", r.Model, want)
		}
	}
	if !s.Of("a:1").Reported("x"+model) || s.Of("a:1").Reported("x"+model+"é") {
		t.Error("long names that begin alike are confused")
	}
}

func TestUsageIsWrittenOnceForANewPair(t *testing.T) {
	storage := new(fakeStorage)
	s, _, _ := newUsage(storage)
	for range 100 {
		s.Of("a:1").Report("m")
	}
	s.Of("a:1").Report("n")
	written(t, s)
	if _, stores, _ := storage.counts(); stores != 2 {
		t.Errorf("%d writes, want 2", stores)
	}
}

func TestUsageThatStorageHasIsNotWrittenAgain(t *testing.T) {
	storage := new(fakeStorage)
	first, _, _ := newUsage(storage)
	first.Of("a:1").Report("m")
	written(t, first)

	s, _, _ := newUsage(storage)
	if !s.Of("a:1").Reported("m") {
		t.Fatal("not in storage")
	}
	s.Of("a:1").Report("m")
	written(t, s)
	if loads, stores, _ := storage.counts(); stores != 1 || loads != 2 {
		t.Errorf("%d loads and %d writes, want 2, of the pair and of its upstream, and 1", loads, stores)
	}
}

func TestUsageLookupThatFoundNothingIsBelievedForAWhile(t *testing.T) {
	storage := new(fakeStorage)
	s, c, _ := newUsage(storage)
	replica, _, _ := newUsage(storage)

	for range 10 {
		if s.Of("a:1").Reported("m") {
			t.Fatal("reported before the report")
		}
	}
	if loads, _, _ := storage.counts(); loads != 1 {
		t.Errorf("%d lookups, want 1", loads)
	}

	replica.Of("a:1").Report("m")
	written(t, replica)
	c.t = c.t.Add(absentTime - 1)
	if s.Of("a:1").Reported("m") {
		t.Error("storage was asked again too early")
	}
	c.t = c.t.Add(1)
	if !s.Of("a:1").Reported("m") {
		t.Error("storage was not asked again")
	}
}

func TestUsageReportOverridesALookupThatFoundNothing(t *testing.T) {
	s, _, _ := newUsage(new(fakeStorage))
	if s.Of("a:1").Reported("m") {
		t.Fatal("reported before the report")
	}
	s.Of("a:1").Report("m")
	if !s.Of("a:1").Reported("m") {
		t.Error("the miss is still believed")
	}
}

func TestUsageStorageFailureIsLoggedOnceAndHurtsNothing(t *testing.T) {
	storage := &fakeStorage{fail: errors.New("disk full")}
	s, _, logs := newUsage(storage)
	if s.Of("a:1").Reported("m") {
		t.Error("reported when storage fails")
	}
	s.Of("a:1").Report("m")
	s.Of("a:1").Report("n")
	written(t, s)
	if !s.Of("a:1").Reported("m") || !s.Of("a:1").Reported("n") {
		t.Error("forgotten because storage fails")
	}
	if s.Of("a:1").Reported("o") {
		t.Error("reported when storage fails")
	}
	entries := logs.All()
	if len(entries) != 1 || entries[0].Level != zap.WarnLevel {
		t.Fatalf("logged %v, want one warning", entries)
	}
	if got := entries[0].ContextMap()["error"]; got != "disk full" {
		t.Errorf("logged error %v, want storage's", got)
	}
}

func TestUsageFailedWriteIsRetriedByALaterReport(t *testing.T) {
	storage := &fakeStorage{fail: errors.New("disk full")}
	s, c, _ := newUsage(storage)
	s.Of("a:1").Report("m")
	written(t, s)
	storage.setFail(nil)

	s.Of("a:1").Report("m")
	written(t, s)
	if _, stores, _ := storage.counts(); stores != 1 {
		t.Errorf("%d writes, want no second one at once", stores)
	}
	c.t = c.t.Add(retryTime)
	s.Of("a:1").Report("m")
	written(t, s)
	if _, stores, values := storage.counts(); stores != 2 || values != 1 {
		t.Errorf("%d writes and %d values, want 2 and 1", stores, values)
	}
}

func TestUsageStorageThatHangsDoesNotHoldUpAStream(t *testing.T) {
	// All of these return, or the test does not.
	var storage *fakeStorage
	var s *Store
	var logs *observer.ObservedLogs
	for limit := time.Millisecond; ; limit *= 2 {
		storage = &fakeStorage{hang: make(chan struct{})}
		s, _, logs = newUsage(storage)
		s.lookupLimit = limit
		if s.Of("a:1").Reported("m") {
			t.Error("reported when storage hangs")
		}
		if loads, _, _ := storage.counts(); loads == 1 {
			break
		}
		close(storage.hang) // on a busy machine the limit may pass before the lookup begins
	}
	s.lookupLimit = time.Hour
	if s.Of("a:1").Reported("m") {
		t.Error("reported when storage hangs")
	}
	if loads, _, _ := storage.counts(); loads != 1 {
		t.Errorf("%d lookups of a pair whose lookup took too long, want 1", loads)
	}
	s.Of("a:1").Report("n")
	if !s.Of("a:1").Reported("n") {
		t.Error("not reported after the report")
	}
	s.Memory.Flush(time.Millisecond)
	if !s.Memory.queue.hung {
		t.Error("flush has not noticed that storage hangs")
	}
	s.Memory.Flush(time.Hour) // does not wait a second time
	if n := logs.Len(); n != 1 {
		t.Errorf("%d log entries, want 1", n)
	}

	close(storage.hang)
	idle := s.Memory.idleChan()
	if idle != nil {
		<-idle
	}
	if _, _, values := storage.counts(); values != 1 {
		t.Errorf("%d values after storage went on, want 1", values)
	}
}

func TestUsageLookupsAreBounded(t *testing.T) {
	storage := &fakeStorage{hang: make(chan struct{})}
	s, _, _ := newUsage(storage)
	s.lookupLimit = time.Millisecond
	for i, more := 0, 2*maxUsageLookups; more > 0; i++ {
		if loads, _, _ := storage.counts(); loads >= maxUsageLookups { // others may end before they begin
			more--
		}
		s.Of("a:1").Reported(strings.Repeat("m", i))
	}
	if under := s.Memory.lookups.Load(); under != maxUsageLookups {
		t.Errorf("%d lookups under way, want %d", under, maxUsageLookups)
	}
	close(storage.hang)
}

func TestUsageStorageThatCannotBeReadIsNotTakenForAReport(t *testing.T) {
	// A file where a directory should be: FileStorage.Exists says true here.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hermes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, logs := newUsage(&certmagic.FileStorage{Path: dir})
	if s.Of("a:1").Reported("m") {
		t.Error("reported because storage cannot be read")
	}
	if logs.Len() != 1 {
		t.Errorf("logged %v, want one warning", logs.All())
	}
}

func TestUsageValueThatIsNoRecordIsNotTakenForAReport(t *testing.T) {
	storage := &fakeStorage{values: map[string]string{pairKey("a:1", "m"): "torn {"}}
	s, _, logs := newUsage(storage)
	if s.Of("a:1").Reported("m") {
		t.Error("reported because of a torn value")
	}
	if logs.Len() != 1 {
		t.Errorf("logged %v, want one warning", logs.All())
	}
	s.Of("a:1").Report("m")
	written(t, s)
	again, _, _ := newUsage(storage)
	if !again.Of("a:1").Reported("m") {
		t.Error("the torn value was not replaced")
	}
}
