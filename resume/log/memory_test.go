package log_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// writing is a log with its writer, and why its store has cancelled it.
type writing struct {
	log.Writer
	cancelled log.Reason
}

// claim makes a log that has begun.
func claim(t *testing.T, s log.Store, e log.Entry) *writing {
	t.Helper()
	w := new(writing)
	run := log.Run{Cancel: func(why log.Reason) { w.cancelled = why }}
	var err error
	if _, w.Writer, err = s.Claim(context.Background(), e, run); err != nil || w.Writer == nil {
		t.Fatal(err)
	}
	if err := w.Append(context.Background(), log.Part{Header: http.Header{}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// done is a context that is done: nothing waits.
var done = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// fill appends so many bytes in events of the size. It waits for no readers.
func (w *writing) fill(t *testing.T, bytes, size int) {
	t.Helper()
	e := []byte("data: " + strings.Repeat("x", max(size-8, 0)) + "\n\n")
	for n := 0; n < bytes; n += len(e) {
		if err := w.Append(done, log.Part{Data: e, Ends: []int{len(e)}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMaxMemoryBoundsAllLogs fills many logs: the oldest that have ended go, then the
// oldest without readers are cancelled and lose what they have, and go once they have ended;
// then those with readers lose their oldest events. Those are never cancelled, and nor are those that
// have not begun.
func TestMaxMemoryBoundsAllLogs(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	const most, each = 4 << 20, 256 << 10
	s := log.NewMemory()
	entry := func(id string) log.Entry {
		return log.Entry{ID: id, MaxStream: most, MaxMemory: most, Keep: time.Hour}
	}
	before := alone.Heap()
	check := func() {
		t.Helper()
		used, logs := s.Used()
		if grown := alone.Heap() - before; used > most+int64(logs)*(20<<10) || grown > used+used/8+256<<10 {
			t.Errorf("%d logs take %d bytes, counted are %d", logs, grown, used)
		}
	}
	there := func(id string) bool {
		_, err := s.Find(context.Background(), id)
		return err == nil
	}
	run := log.Run{Cancel: func(log.Reason) { t.Error("a run is cancelled before its answer, which frees nothing") }}
	if _, _, err := s.Claim(context.Background(), entry("claimed"), run); err != nil {
		t.Fatal(err)
	}
	s.Read(context.Background(), "claimed", 0).Close()
	var ended, alone, read []*writing
	for i := range 20 { // five of them go
		w := claim(t, s, entry(fmt.Sprint("ended", i)))
		w.fill(t, each, 250)
		w.End(log.Whole)
		ended = append(ended, w)
	}
	check()
	if there("ended0") || !there("ended19") {
		t.Error("not the oldest have gone")
	}
	for i := range 20 {
		w := claim(t, s, entry(fmt.Sprint("alone", i)))
		w.fill(t, each, 250)
		alone = append(alone, w)
	}
	check()
	if there("ended19") {
		t.Error("one that has ended is there, and one that has not is cancelled")
	}
	if alone[0].cancelled != log.ReasonMemory || alone[9].cancelled != log.ReasonNone || !there("alone0") {
		t.Error("not the oldest is cancelled, or more are than have to be")
	}
	alone[0].End(log.Broken)
	for i := range 40 {
		w := claim(t, s, entry(fmt.Sprint("read", i)))
		r := s.Read(context.Background(), fmt.Sprint("read", i), 0)
		defer r.Close()
		w.fill(t, each, 250)
		read = append(read, w)
	}
	check()
	for i, w := range alone {
		if w.cancelled != log.ReasonMemory {
			t.Errorf("alone%d is not cancelled", i)
		}
	}
	if there("alone0") || !there("alone1") {
		t.Error("of those that are cancelled, one that has ended is there, or one that has not is gone")
	}
	for i, w := range read {
		if w.cancelled != log.ReasonNone || !there(fmt.Sprint("read", i)) {
			t.Errorf("read%d is cancelled for %v", i, w.cancelled)
		}
	}
	runtime.KeepAlive(ended)
}

// TestDeletedLogsTakeNothing: they are not counted any more, so nothing may hold them for all of their keep.
func TestDeletedLogsTakeNothing(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	runtime.GOMAXPROCS(1) // what has stopped a timer is what then cleans up
	s := log.NewMemory()
	before := alone.Heap()
	w := claim(t, s, log.Entry{ID: "a", MaxStream: 8 << 20, MaxMemory: 8 << 20, Keep: time.Hour})
	w.fill(t, 4<<20, 250)
	w.End(log.Whole)
	if err := s.Delete(context.Background(), "a"); err != nil {
		t.Error(err)
	}
	used, _ := s.Used()
	if grown := alone.Heap() - before; used != 0 || grown > 1<<20 {
		t.Errorf("it takes %d bytes, counted are %d", grown, used)
	}
	runtime.KeepAlive(s)
}

// TestWeakLogsTakeNoRoomOfOthers: without a reader they lose the oldest of their events, and another log
// goes on. With a reader that goes, as for any reader that is there.
func TestWeakLogsTakeNoRoomOfOthers(t *testing.T) {
	s := log.NewMemory()
	entry := log.Entry{ID: "asked for", MaxStream: 128 << 10, MaxMemory: 128 << 10, Keep: time.Hour}
	asked := claim(t, s, entry)
	asked.fill(t, 40<<10, 250)
	entry.ID, entry.Weak = "events", true
	events := claim(t, s, entry)
	events.fill(t, 200<<10, 250)
	if asked.cancelled != log.ReasonNone || events.cancelled != log.ReasonNone {
		t.Errorf("cancelled are the stream for %v, and the events for %v", asked.cancelled, events.cancelled)
	}
	if used, _ := s.Used(); used > 128<<10 {
		t.Errorf("%d bytes are used", used)
	}
	r := s.Read(context.Background(), "events", 0)
	defer r.Close()
	events.fill(t, 100<<10, 250)
	if asked.cancelled != log.ReasonMemory {
		t.Errorf("the stream without a client is cancelled for %v", asked.cancelled)
	}
}

// TestNothingIsCopiedForAReader has a hundred readers of a large log take hardly more
// memory than one.
func TestNothingIsCopiedForAReader(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	s := log.NewMemory()
	w := claim(t, s, log.Entry{ID: "a", MaxStream: 16 << 20, MaxMemory: 1 << 30})
	w.fill(t, 8<<20, 250)
	before := alone.Heap()
	var readers []log.Reader
	for range 100 {
		r := s.Read(context.Background(), "a", 0)
		for range 100 {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		readers = append(readers, r)
	}
	if grown := alone.Heap() - before; grown > 100<<10 {
		t.Errorf("a hundred readers take %d bytes", grown)
	}
	runtime.KeepAlive(readers)
}
