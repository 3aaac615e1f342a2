package redis

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestRedisThatTakesNothing bounds what waits for it, and holds up no client for ever.
func TestRedisThatTakesNothing(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(nil)
	l := begun(t, s, entry("a"), newRun())
	r := follow(t, s, l.ID)
	server.kill()
	e := "data: " + strings.Repeat("x", 1000) + "\n\n"
	addMany(t, l, e, 3*maxPending/len(e))
	l.End(log.Whole)
	if got, err := all(r); err == nil || !strings.HasSuffix(got, e) {
		if _, ok := errors.AsType[*log.GoneError](err); !ok {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// TestNoRoomInMemory keeps a run whose log has to go from memory: it is in Redis.
func TestNoRoomInMemory(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(nil)
	run := newRun()
	e := entry("a")
	e.MaxMemory = 256 << 10
	l := begun(t, s, e, run)
	add(t, l, event(1))
	other := entry("b")
	other.MaxMemory = e.MaxMemory
	big := begun(t, s, other, newRun())
	for range 20 {
		add(t, big, "data: "+strings.Repeat("x", 60000)+"\n\n")
	}
	for range 20 {
		add(t, l, "data: "+strings.Repeat("y", 20000)+"\n\n")
	}
	if len(run.cancelled) > 0 {
		t.Error("the run is cancelled")
	}
	inRedis(t, s, e.ID, func(v *view) bool { return v.Events == 21 })
	r, _ := started(t, s, e.ID, 0)
	if got := read(t, r, 400000); !strings.HasPrefix(got, event(1)) {
		t.Errorf("it begins with %.20q", got)
	}
}

// TestUpstreamWaitsForRedis has a run write faster than Redis takes it: what waits is
// bounded, and the log is not lost.
func TestUpstreamWaitsForRedis(t *testing.T) {
	server := startServer(t)
	here, there := server.replicas()
	en := entry("a")
	en.MaxStream = 16 << 20
	l := begun(t, here, en, newRun())
	r := follow(t, there, en.ID)
	if _, _, err := start(r); err != nil {
		t.Fatal(err)
	}
	server.do("CLIENT", "PAUSE", 300, "WRITE")
	e := "data: " + strings.Repeat("x", 10_000) + "\n\n"
	const events = 8 * maxPending / 10_000
	addMany(t, l, e, events)
	l.End(log.Whole)
	if got, err := all(r); len(got) != events*len(e) || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, want %d, %v", len(got), events*len(e), err)
	}
}

// addMany appends an event n times, and checks how many bytes of the log wait for Redis.
func addMany(t *testing.T, l claimed, e string, n int) {
	t.Helper()
	o := l.Writer.(*owned)
	for range n {
		add(t, l, e)
		o.mu.Lock()
		size := o.size
		o.mu.Unlock()
		if size > maxPending+2*len(e) {
			t.Fatalf("%d bytes wait", size)
		}
	}
}

// TestLargeRecords keeps out of Redis what no replica would read there. The answer goes on here.
func TestLargeRecords(t *testing.T) {
	s, logs := startServer(t).replica(nil)
	e := entry("path")
	e.About = []byte(`{"Path":"` + strings.Repeat("/", maxRecord) + `"}`)
	if _, _, err := s.Claim(context.Background(), e, newRun().callbacks()); err == nil {
		t.Error("a large path is kept")
	}
	l := claim(t, s, entry("header"), newRun())
	if err := l.Append(context.Background(), log.Part{Header: http.Header{"A": {strings.Repeat("x", maxRecord)}}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the log is lost", l.Writer.(*owned).lost.Load)
	until(t, "that is logged", func() bool { return logs.FilterMessageSnippet("continues on this replica").Len() == 1 })
	add(t, l, event(1))
	l.End(log.Whole)
}

// TestPanicsEndNothing has runs panic in each goroutine of a store that calls them: the process
// goes on, and so do other streams of the store.
func TestPanicsEndNothing(t *testing.T) {
	for what, tell := range map[string]func(s log.Store, id string){
		"a reader elsewhere": func(s log.Store, id string) { t.Cleanup(s.Read(context.Background(), id, 0).Close) },
		"it is cancelled":    func(s log.Store, id string) { remove(t, s, id) },
	} {
		t.Run(what, func(t *testing.T) {
			server := startServer(t)
			s, logs := server.replica(nil)
			there, _ := server.replica(nil)
			var told atomic.Int64
			e, l, err := s.Claim(context.Background(), entry(what), log.Run{
				ReadersChanged: func(int) { told.Add(1); panic("a test panics") },
				Cancel:         func(log.Reason) { told.Add(1); panic("a test panics") },
			})
			if err != nil || l == nil {
				t.Fatal(err)
			}
			begin(t, l)
			add(t, l, event(1))
			tell(there, e.ID)
			until(t, "the run panics", func() bool { return told.Load() > 0 })
			until(t, "that is logged", func() bool { return logs.FilterMessageSnippet("panic").Len() > 0 })
			add(t, l, event(2))
			l.End(log.Whole)
			claim(t, s, entry("other"), newRun()).End(log.Dropped)
		})
	}
}

// TestLogIsLost goes on at its replica, which keeps its key, if Redis does not take it any more.
func TestLogIsLost(t *testing.T) {
	for name, spoil := range map[string][]any{
		"its pieces cannot be written":      {"SET", "test:events:{PLACE}:ID", "no stream"},
		"another replica has taken it over": {"HSET", "test:log:{PLACE}:ID", "r", "other"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			s, _ := server.replica(mortal)
			l := begun(t, s, entry("a"), newRun())
			inRedis(t, s, l.ID, func(v *view) bool { return v.state == log.Begun })
			spoil[1] = strings.NewReplacer("PLACE", log.Place(l.ID), "ID", l.ID).Replace(spoil[1].(string))
			server.do(spoil...)
			add(t, l, event(1))
			until(t, "the log is lost", l.Writer.(*owned).lost.Load)
			wantKey(t, s, "a", l.Entry)
			l.End(log.Whole)
			wantRest(t, follow(t, s, l.ID), event(1), io.EOF)
		})
	}
}

// TestLogThatTakesNoLines holds up no stream of the process, even if one that is lost is to make room.
func TestLogThatTakesNoLines(t *testing.T) {
	server := startServer(t)
	stuck, unstick := make(chan struct{}, 100), make(chan struct{})
	s, _ := server.replica(func(o *Options) {
		o.Logger = o.Logger.WithOptions(zap.Hooks(func(zapcore.Entry) error {
			stuck <- struct{}{}
			<-unstick
			return nil
		}))
	})
	defer close(unstick)
	lost := begun(t, s, entry("a"), newRun())
	inRedis(t, s, lost.ID, func(v *view) bool { return v.state == log.Begun })
	server.do("HSET", s.name("log", lost.ID), "r", "other")
	<-stuck
	e := entry("b")
	e.MaxMemory = 64 << 10
	l := begun(t, s, e, newRun())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			add(t, l, "data: "+strings.Repeat("x", 1000)+"\n\n")
		}
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("another stream is held up")
	}
}
