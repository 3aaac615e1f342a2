package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// miss has n answers without usage come, each taken for a crash.
func miss(t *testing.T, s *Store, upstream, model string, n int) {
	t.Helper()
	for i := range n {
		if !s.Of(upstream).Reported(model) {
			t.Fatalf("answer %d of %d without usage passes", i+1, n)
		}
		s.Of(upstream).Missed(model)
	}
	written(t, s)
}

// forgettings returns the warnings that a pair has been forgotten.
func forgettings(logs *observer.ObservedLogs) []observer.LoggedEntry {
	var all []observer.LoggedEntry
	for _, e := range logs.FilterLevelExact(zap.WarnLevel).All() {
		if strings.Contains(e.Message, "zero_usage") {
			all = append(all, e)
		}
	}
	return all
}

func TestUsageIsForgottenAfterThreeAnswersWithoutIt(t *testing.T) {
	storage := new(fakeStorage)
	s, _, logs := newUsage(storage)
	s.Of("a:1").Report("m")
	s.Of("a:1").Report("n")
	miss(t, s, "a:1", "m", 2)
	if n := len(forgettings(logs)); n != 0 {
		t.Errorf("%d warnings after two answers", n)
	}
	miss(t, s, "a:1", "m", 1)
	if s.Of("a:1").Reported("m") {
		t.Error("not forgotten after three")
	}
	if !s.Of("a:1").Reported("n") {
		t.Error("another model is forgotten, too")
	}
	told := forgettings(logs)
	if len(told) != 1 {
		t.Fatalf("logged %v, want one warning that names zero_usage", logs.All())
	}
	if got := told[0].ContextMap(); got["upstream"] != "a:1" || got["model"] != "m" {
		t.Errorf("logged %v", got)
	}
	if storage.has("a:1", "m") || !storage.has("a:1", "n") {
		t.Errorf("storage has %v", storage.values)
	}

	again, _, _ := newUsage(storage)
	if again.Of("a:1").Reported("m") {
		t.Error("known again after a restart")
	}

	// The next answer with usage makes it known again, and the count begins anew.
	s.Of("a:1").Report("m")
	miss(t, s, "a:1", "m", 3)
	if s.Of("a:1").Reported("m") || len(forgettings(logs)) != 2 {
		t.Errorf("not forgotten a second time; logged %v", logs.All())
	}
}

func TestUsageBetweenAnswersWithoutItKeepsItKnown(t *testing.T) {
	s, _, logs := newUsage(new(fakeStorage))
	s.Of("a:1").Report("m")
	for range 5 {
		miss(t, s, "a:1", "m", 2)
		s.Of("a:1").Report("m")
	}
	if !s.Of("a:1").Reported("m") || logs.Len() != 0 {
		t.Errorf("forgotten; logged %v", logs.All())
	}
}

// TestUsageIsForgottenAcrossRestarts: whoever asks the agent little, and restarts
// often, would otherwise get errors for ever.
func TestUsageIsForgottenAcrossRestarts(t *testing.T) {
	dir := &certmagic.FileStorage{Path: t.TempDir()}
	s, _, _ := newUsage(dir)
	s.Of("a:1").Report("m")
	written(t, s)
	for range 3 {
		s, _, _ = newUsage(dir)
		miss(t, s, "a:1", "m", 1)
	}
	s, _, _ = newUsage(dir)
	if s.Of("a:1").Reported("m") {
		t.Error("not forgotten after three answers of three processes")
	}

	s.Of("a:1").Report("m")
	miss(t, s, "a:1", "m", 2)
	s.Of("a:1").Report("m")
	written(t, s)
	s, _, _ = newUsage(dir)
	miss(t, s, "a:1", "m", 2)
	if !s.Of("a:1").Reported("m") {
		t.Error("usage in the process before has not begun the count anew")
	}
}

func TestUsageAnswersThatRanAtOnceAreForgottenOnce(t *testing.T) {
	storage := new(fakeStorage)
	s, _, logs := newUsage(storage)
	s.Of("a:1").Report("m")
	for range 10 {
		s.Of("a:1").Missed("m") // Reported was asked before the first of them
	}
	written(t, s)
	if n := len(forgettings(logs)); n != 1 || s.Of("a:1").Reported("m") || storage.has("a:1", "m") {
		t.Errorf("%d warnings, storage has %v", n, storage.values)
	}
}

// TestUsageUpstreamThatReportsItsFailuresIsBelieved, for all its models.
func TestUsageUpstreamThatReportsItsFailuresIsBelieved(t *testing.T) {
	dir := &certmagic.FileStorage{Path: t.TempDir()}
	s, _, _ := newUsage(dir)
	s.Of("a:1").Report("m")
	s.Of("b:1").Report("m")
	s.Of("a:1").ReportsFailures(true)
	s.Of("a:1").Report("n")
	if s.Of("a:1").Reported("m") || s.Of("a:1").Reported("n") {
		t.Error("it is not believed")
	}
	if !s.Of("b:1").Reported("m") {
		t.Error("another upstream is believed, too")
	}
	written(t, s)

	s, _, _ = newUsage(dir)
	if s.Of("a:1").Reported("m") {
		t.Error("it is not believed after a restart")
	}
	if !s.Of("b:1").Reported("m") {
		t.Error("another upstream is believed after a restart")
	}

	s.Of("a:1").ReportsFailures(false) // somebody has gone back to an older Hermes
	if !s.Of("a:1").Reported("m") {
		t.Error("it is believed although it has shown that it is too old")
	}
	written(t, s)
	s, _, _ = newUsage(dir)
	if !s.Of("a:1").Reported("m") || !s.Of("a:1").Reported("n") {
		t.Error("it is believed again after a restart")
	}
}

// TestUsageOldUpstreamIsNotBelievedBecauseStorageSaysSo: what it shows outweighs
// what is stored, before anybody has asked storage, and for good.
func TestUsageOldUpstreamIsNotBelievedBecauseStorageSaysSo(t *testing.T) {
	storage := new(fakeStorage)
	before, _, _ := newUsage(storage)
	before.Of("a:1").Report("m")
	before.Of("a:1").ReportsFailures(true)
	written(t, before)

	s, c, _ := newUsage(storage)
	s.Of("a:1").ReportsFailures(false)
	c.t = c.t.Add(time.Hour) // an agent may take its time
	if !s.Of("a:1").Reported("m") {
		t.Error("believed")
	}
	written(t, s)
	again, _, _ := newUsage(storage)
	if !again.Of("a:1").Reported("m") {
		t.Error("believed after a restart")
	}
}

// TestUsageThatDoesNotChangeIsNotWritten, however many streams say it again.
func TestUsageThatDoesNotChangeIsNotWritten(t *testing.T) {
	storage := new(fakeStorage)
	s, _, _ := newUsage(storage)
	for range 100 {
		s.Of("a:1").Report("m")
		s.Of("a:1").ReportsFailures(true)
		s.Of("b:1").Report("m")
		s.Of("b:1").ReportsFailures(false)
	}
	written(t, s)
	loads, stores, values := storage.counts()
	if loads != 0 || stores != 3 || storage.deletes != 1 || values != 3 {
		t.Errorf("%d loads, %d stores, %d deletes, %d values, want 0, 3, 1 and 3", loads, stores, storage.deletes, values)
	}
}

// TestUsageIsForgottenByAllReplicas: they share storage, and each has its memory.
func TestUsageIsForgottenByAllReplicas(t *testing.T) {
	storage := new(fakeStorage)
	a, _, _ := newUsage(storage)
	a.Of("a:1").Report("m")
	written(t, a)
	b, _, logs := newUsage(storage)
	other, _, _ := newUsage(storage)
	for _, s := range []*Store{b, other} {
		if !s.Of("a:1").Reported("m") {
			t.Fatal("not in storage")
		}
	}

	miss(t, a, "a:1", "m", 3)
	miss(t, b, "a:1", "m", 1)
	if b.Of("a:1").Reported("m") || len(forgettings(logs)) != 1 {
		t.Errorf("a replica needs as many answers again; it logged %v", logs.All())
	}
	if storage.has("a:1", "m") {
		t.Error("its count has made the pair known again")
	}

	// One that goes on seeing usage does not forget.
	other.Of("a:1").Missed("m")
	other.Of("a:1").Report("m")
	written(t, other)
	if !other.Of("a:1").Reported("m") {
		t.Error("usage does not make it known again")
	}
}

// TestUsageStaysForgottenWhereStorageCannotForget, and storage is told later.
func TestUsageStaysForgottenWhereStorageCannotForget(t *testing.T) {
	storage := new(fakeStorage)
	s, c, logs := newUsage(storage)
	s.Of("a:1").Report("m")
	s.Of("a:1").Report("n")
	s.Of("b:1").ReportsFailures(true)
	written(t, s)
	storage.setFail(errors.New("read-only file system"))
	miss(t, s, "a:1", "m", 3)
	s.Of("b:1").ReportsFailures(false)
	written(t, s)
	c.t = c.t.Add(absentTime)
	if s.Of("a:1").Reported("m") {
		t.Error("storage has brought it back")
	}
	if n := len(logs.FilterMessageSnippet("storage failed").All()); n != 1 {
		t.Errorf("%d warnings of storage, want 1", n)
	}
	if !storage.has("a:1", "m") {
		t.Fatal("storage has not failed")
	}

	storage.setFail(nil)
	c.t = c.t.Add(retryTime)
	s.Of("a:1").Reported("m")
	s.Of("b:1").ReportsFailures(false)
	written(t, s)
	if storage.has("a:1", "m") || len(storage.values) != 1 {
		t.Errorf("storage has %v", storage.values)
	}
}

// TestUsageChangesWaitForNoStorage: nothing waits for storage that hangs, and what
// changes meanwhile is one write.
func TestUsageChangesWaitForNoStorage(t *testing.T) {
	storage := new(fakeStorage)
	s, _, _ := newUsage(storage)
	s.Of("a:1").ReportsFailures(false)
	s.Of("a:1").Report("m")
	written(t, s)
	storage.hang = make(chan struct{})
	for range 1000 {
		s.Of("a:1").Missed("m")
		s.Of("a:1").Missed("m")
		s.Of("a:1").Report("m")
		s.Of("a:1").ReportsFailures(true)
		s.Of("a:1").ReportsFailures(false)
	}
	s.Of("a:1").Missed("m")
	close(storage.hang)
	written(t, s)
	loads, stores, _ := storage.counts()
	if loads+stores+storage.deletes > 10 {
		t.Errorf("%d loads, %d stores, %d deletes of what has changed back and forth", loads, stores, storage.deletes)
	}
	var r record
	if err := json.Unmarshal([]byte(storage.values[pairKey("a:1", "m")]), &r); err != nil || r.Missed != 1 {
		t.Errorf("stored is %+v, %v; want the last count", r, err)
	}
}

// TestUsageChangesOfStorageAreBounded: an upstream whose answers change it each
// time.
func TestUsageChangesOfStorageAreBounded(t *testing.T) {
	storage := new(fakeStorage)
	s, c, _ := newUsage(storage)
	flap := func() {
		for range maxUsageChanges {
			s.Of("a:1").Report("m")
			written(t, s)
			s.Of("a:1").Missed("m")
			written(t, s)
		}
	}
	flap()
	if _, stores, _ := storage.counts(); stores > maxUsageChanges+1 {
		t.Errorf("%d writes in an hour, want at most %d", stores, maxUsageChanges)
	}
	c.t = c.t.Add(changesTime)
	_, before, _ := storage.counts()
	flap()
	if _, stores, _ := storage.counts(); stores == before || stores > before+maxUsageChanges {
		t.Errorf("%d writes in the next hour, want 1 to %d", stores-before, maxUsageChanges)
	}
	if !s.Of("a:1").Reported("m") {
		t.Error("forgotten because it is not written")
	}
}

// TestUsageKeysThatAreRemovedMakeRoom for others: the bound is what storage holds.
func TestUsageKeysThatAreRemovedMakeRoom(t *testing.T) {
	storage := new(fakeStorage)
	s, c, _ := newUsage(storage)
	for i := range maxUsageWrites + 10 {
		c.t = c.t.Add(time.Minute)
		model := fmt.Sprint(i)
		s.Of("a:1").Report(model)
		written(t, s)
		miss(t, s, "a:1", model, 3)
	}
	if _, _, values := storage.counts(); values != 0 {
		t.Errorf("%d values", values)
	}
	for i := range maxUsageWrites + 10 {
		s.Of("b:1").Report(fmt.Sprint(i))
	}
	written(t, s)
	if _, _, values := storage.counts(); values != maxUsageWrites {
		t.Errorf("%d values, want %d", values, maxUsageWrites)
	}
}
