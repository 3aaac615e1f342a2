package redis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestCloseWaitsForLogs, and closes the connections then.
func TestCloseWaitsForLogs(t *testing.T) {
	server := startServer(t)
	s, logs := server.replica(nil)
	l := begun(t, s, entry("a"), newRun())
	s.Destruct()
	add(t, l, event(1))
	l.End(log.Whole)
	other, _ := server.replica(nil)
	wantRest(t, follow(t, other, l.ID), event(1), io.EOF)
	<-s.over
	until(t, "its connections are closed", func() bool { return s.client.Ping(context.Background()).Err() != nil })
	if logs.Len() > 0 {
		t.Errorf("it logs %v", logs.All()[0])
	}
}

// TestKeyIsClaimedOnceAroundARestart has equal requests come to another replica while Redis is
// down and as it comes back, whatever that replica has noticed of it: none of them is the
// first, and none is told that there is no log.
func TestKeyIsClaimedOnceAroundARestart(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	here, there := server.replicas()
	here.settle = 0 // it need not wait: Redis keeps all
	for round := range 5 {
		l := begun(t, here, entry(fmt.Sprint(round)), newRun())
		server.kill()
		over, done := make(chan struct{}), make(chan error, 4)
		for range cap(done) {
			go func() {
				for {
					got, w, err := there.Claim(context.Background(), entry(fmt.Sprint(round)), newRun().callbacks())
					if w != nil || err != nil || got.ID != l.ID {
						done <- fmt.Errorf("round %d: %v, %w", round, w, cmp.Or(err, errors.New("it is another")))
						return
					}
					select {
					case <-over:
						done <- nil
						return
					default:
					}
				}
			}()
		}
		until(t, "it is missed", there.down.Load)
		server.start(program(t))
		close(over)
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		l.End(log.Whole)
	}
}

// TestKeyWaitsNoLongerThanACommand may take, if nothing is at the address.
func TestKeyWaitsNoLongerThanACommand(t *testing.T) {
	s, _ := (&server{t: t, at: Storage{Address: "unix//no_such/socket"}}).replica(func(o *Options) { o.Timeout = 50 * time.Millisecond })
	if _, _, err := s.Claim(context.Background(), entry("a"), newRun().callbacks()); !errors.Is(err, errDown) {
		t.Error(err)
	}
}

// TestPlaceOfAnotherKey refuses an entry that only one server could keep, everywhere.
func TestPlaceOfAnotherKey(t *testing.T) {
	s, _ := startServer(t).replica(nil)
	e := entry("a")
	e.ID = entry("b").ID
	if _, w, err := s.Claim(context.Background(), e, newRun().callbacks()); w != nil || !errors.Is(err, errPlace) {
		t.Errorf("%v, %v", w, err)
	}
}

// contract is what every store does.
var contract = map[string]func(t *testing.T, s pair){
	"of many claims of a key one is first": func(t *testing.T, s pair) {
		for round := range 50 {
			var wg sync.WaitGroup
			var first atomic.Int64
			logs := make([]log.Entry, 8)
			for i := range logs {
				wg.Go(func() {
					l, w, err := []log.Store{s.here, s.there}[i%2].Claim(context.Background(), entry(fmt.Sprint(round)), newRun().callbacks())
					if err != nil {
						t.Error(err)
						return
					}
					if w != nil {
						first.Add(1)
					}
					logs[i] = l
				})
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			for _, l := range logs {
				if !reflect.DeepEqual(l, logs[0]) {
					t.Fatalf("%v is another than %v", l, logs[0])
				}
			}
			if first.Load() != 1 {
				t.Fatalf("%d are first", first.Load())
			}
		}
	},
	"without a key all are first": func(t *testing.T, s pair) {
		a, b := claim(t, s.here, entry(""), newRun()), claim(t, s.there, entry(""), newRun())
		if a.ID == b.ID {
			t.Error("they are the same")
		}
	},
	"readers get all, and the end": func(t *testing.T, s pair) {
		l := claim(t, s.here, entry("a"), newRun())
		early := follow(t, s.there, l.ID)
		begin(t, l)
		h, _, err := start(early)
		if err != nil || !reflect.DeepEqual(h, http.Header{"Content-Type": {"text/event-stream"}, "Gone": nil}) {
			t.Fatalf("header %v, %v", h, err)
		}
		add(t, l, event(1))
		if got := read(t, early, len(event(1))); got != event(1) {
			t.Errorf("first it is %q", got)
		}
		addPart(t, l, "data")
		addPart(t, l, ": 2\n\n: comment\n", 5)
		late := follow(t, s.there, l.ID)
		l.End(log.Whole)
		wantRest(t, early, "data: 2\n\n: comment\n", io.EOF)
		wantRest(t, late, event(1)+"data: 2\n\n: comment\n", io.EOF)
	},
	"what breaks off does so for all": func(t *testing.T, s pair) {
		l := begun(t, s.here, entry("a"), newRun())
		add(t, l, event(1))
		early := follow(t, s.there, l.ID)
		l.End(log.Broken)
		for _, r := range []log.Reader{early, follow(t, s.there, l.ID)} {
			if _, atEnd, err := start(r); err != nil || atEnd {
				t.Error(atEnd, err)
			}
			wantRest(t, r, event(1), log.ErrBroken)
		}
	},
	"an empty one": func(t *testing.T, s pair) {
		l := begun(t, s.here, entry("a"), newRun())
		l.End(log.Whole)
		r, atEnd := started(t, s.there, l.ID, 0)
		if got, err := all(r); got != "" || !errors.Is(err, io.EOF) || !atEnd {
			t.Errorf("%q, %v", got, err)
		}
	},
	"readers that come as it ends get it": func(t *testing.T, s pair) {
		for range 20 {
			l := begun(t, s.here, entry(""), newRun())
			add(t, l, event(1))
			var wg sync.WaitGroup
			var over atomic.Bool
			for range 4 {
				wg.Go(func() {
					for last := false; !last; {
						last = over.Load()
						r := s.here.Read(context.Background(), l.ID, 0)
						if _, _, err := start(r); err != nil {
							t.Error(err)
						}
						r.Close()
					}
				})
			}
			l.End(log.Whole)
			over.Store(true)
			wg.Wait()
		}
	},
	"what is dropped frees its key, and its readers": func(t *testing.T, s pair) {
		l := claim(t, s.here, entry("a"), newRun())
		r := follow(t, s.there, l.ID)
		l.End(log.Dropped)
		if _, _, err := start(r); !errors.Is(err, log.ErrDropped) {
			t.Error(err)
		}
		isFree(t, s.there, "a")
		if found(t, s.there, l.ID) {
			t.Error("it is found")
		}
	},
	"every event is one to continue after": func(t *testing.T, s pair) {
		l := begun(t, s.here, entry("a"), newRun())
		random := rand.New(rand.NewPCG(1, 2))
		var whole bytes.Buffer
		var after []int
		add(t, l, event(0)) // they are in many pieces, and pieces in many of them
		whole.WriteString(event(0))
		after = append(after, 0, whole.Len())
		for i := 1; i < 60; i++ {
			e := []byte("data: " + strings.Repeat("x", random.IntN(1+random.IntN(100000)*(i%2))) + "\n\n")
			if i%7 == 0 {
				c := []byte(": comment\n\n")
				whole.Write(c)
				addPart(t, l, string(c))
			}
			whole.Write(e)
			after = append(after, whole.Len())
			n := random.IntN(len(e))
			addPart(t, l, string(e[:n]))
			addPart(t, l, string(e[n:]), len(e)-n)
		}
		for _, when := range []string{"while it goes on", "after its end"} {
			for n, at := range after {
				r, atEnd := started(t, s.there, l.ID, uint64(n))
				want := whole.String()[at:]
				if got := read(t, r, len(want)); got != want || atEnd != (want == "" && when == "after its end") {
					t.Fatalf("%s, after %d it is %.50q, want %.50q", when, n, got, want)
				}
				r.Close()
			}
			l.End(log.Whole)
		}
		if err := refusal(t, s.there, l.ID, uint64(len(after))); !errors.Is(err, log.ErrAhead) {
			t.Error(err)
		}
	},
	"a large one loses its oldest events": func(t *testing.T, s pair) {
		l := begun(t, s.here, entry("a"), newRun())
		e := func(n int) string { return fmt.Sprintf("data: %1000d\n\n", n) }
		const events = 4000
		for n := 1; n <= events; n++ {
			add(t, l, e(n))
		}
		l.End(log.Whole)
		var gone *log.GoneError
		if err := refusal(t, s.there, l.ID, 0); !errors.As(err, &gone) {
			t.Fatalf("nothing is gone: %v", err)
		}
		kept := int(events - gone.First + 1)
		if most := 1 << 20 / len(e(1)); kept < most/2 || kept > most {
			t.Errorf("%d events are kept, with room for %d", kept, most)
		}
		if err := refusal(t, s.there, l.ID, gone.First-2); !errors.As(err, &gone) {
			t.Errorf("one before is there: %v", err)
		}
		r, _ := started(t, s.there, l.ID, gone.First-1)
		got, err := all(r)
		if !strings.HasPrefix(got, e(int(gone.First))) || !strings.HasSuffix(got, e(events)) || len(got) != kept*len(e(1)) || !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes: %.20q, %v", len(got), got, err)
		}
	},
	"no event goes because it alone is larger than the rest": func(t *testing.T, s pair) {
		e := entry("a")
		e.MaxStream = 64 << 10
		l := begun(t, s.here, e, newRun())
		large := "data: " + strings.Repeat("x", 5*int(e.MaxStream)) + "\n\n"
		add(t, l, event(1))
		add(t, l, large)
		for n := 3; n <= 1000; n++ {
			add(t, l, event(n))
		}
		l.End(log.Whole)
		r, _ := started(t, s.there, e.ID, 1)
		if got, err := all(r); !strings.HasPrefix(got, large+event(3)) || !strings.HasSuffix(got, event(1000)) || !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	},
	"readers count wherever they are": func(t *testing.T, s pair) {
		run := newRun()
		l := begun(t, s.here, entry("a"), run)
		var readers []log.Reader
		for range 3 {
			readers = append(readers, s.there.Read(context.Background(), l.ID, 0))
		}
		until(t, "three read", func() bool { return run.readers.Load() == 3 })
		for _, r := range readers {
			r.Close()
		}
		until(t, "none reads", func() bool { return run.readers.Load() == 0 })
	},
	"cancelled from anywhere": func(t *testing.T, s pair) {
		run := newRun()
		l := begun(t, s.here, entry("a"), run)
		add(t, l, event(1))
		r := follow(t, s.there, l.ID)
		remove(t, s.there, l.ID)
		if found(t, s.there, l.ID) || found(t, s.here, l.ID) {
			t.Error("it is still found")
		}
		select {
		case why := <-run.cancelled:
			if why != log.ReasonDeleted {
				t.Error(why)
			}
		case <-time.After(patience):
			t.Fatal("the run is not cancelled")
		}
		claim(t, s.there, entry("a"), newRun()) // the key is free
		add(t, l, event(2))
		l.End(log.Whole)
		wantRest(t, r, event(1)+event(2), io.EOF)
		if found(t, s.there, l.ID) || found(t, s.here, l.ID) {
			t.Error("it is found again")
		}
	},
	"cancelled after its end": func(t *testing.T, s pair) {
		l := begun(t, s.here, entry("a"), newRun())
		add(t, l, event(1))
		l.End(log.Whole)
		r, _ := started(t, s.there, l.ID, 0)
		remove(t, s.there, l.ID)
		if found(t, s.there, l.ID) || found(t, s.here, l.ID) {
			t.Error("it is still found")
		}
		wantRest(t, r, event(1), io.EOF)
		claim(t, s.there, entry("a"), newRun())
	},
	"kept for a while": func(t *testing.T, s pair) {
		e := entry("a")
		e.Keep = 50 * time.Millisecond
		l := begun(t, s.here, e, newRun())
		add(t, l, event(1))
		r := follow(t, s.there, e.ID)
		l.End(log.Whole)
		until(t, "it has gone", func() bool { return !found(t, s.there, e.ID) && !found(t, s.here, e.ID) })
		isFree(t, s.there, "a")
		if got, err := all(r); got != event(1) || !errors.Is(err, io.EOF) { // it was there already
			t.Errorf("%q, %v", got, err)
		}
	},
	"a reader that leaves stops waiting": func(t *testing.T, s pair) {
		l := claim(t, s.here, entry("a"), newRun())
		ctx, leave := context.WithCancel(context.Background())
		r := s.there.Read(ctx, l.ID, 0)
		defer r.Close()
		go leave()
		if _, _, err := start(r); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		begin(t, l)
		if _, err := all(r); !errors.Is(err, context.Canceled) { // not before it has what is there
			t.Error(err)
		}
	},
	"a reader that does not wait gets what is there": func(t *testing.T, s pair) {
		done, leave := context.WithCancel(context.Background())
		leave()
		look := func(id string) (header bool, text string, err error) {
			r := s.there.Read(done, id, 0)
			defer r.Close()
			p, err := r.Next()
			if err == nil {
				text, err = all(r)
			}
			return p.Header != nil, text, err
		}
		l := claim(t, s.here, entry("a"), newRun())
		if header, _, err := look(l.ID); header || !errors.Is(err, context.Canceled) {
			t.Errorf("before it begins: %v, %v", header, err)
		}
		begin(t, l)
		add(t, l, event(1), event(2))
		want := event(1) + event(2)
		until(t, "the events are there", func() bool {
			_, text, err := look(l.ID)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%q, %v", text, err)
			}
			return text == want
		})
		l.End(log.Whole)
		until(t, "it is over", func() bool {
			_, text, err := look(l.ID)
			return text == want && errors.Is(err, io.EOF)
		})
	},
	"a log that takes a key has it, whatever becomes of the one before": func(t *testing.T, s pair) {
		old := begun(t, s.here, entry("a"), newRun())
		e := entry("a")
		e.Takes = true
		taken := begun(t, s.there, e, newRun())
		wantKey(t, s.here, "a", taken.Entry)
		wantKey(t, s.there, "a", taken.Entry)
		add(t, old, event(1))
		r, _ := started(t, s.there, old.ID, 0)
		old.End(log.Whole)
		wantRest(t, r, event(1), io.EOF)
		remove(t, s.here, old.ID)
		wantKey(t, s.here, "a", taken.Entry) // there it would be in memory
		wantKey(t, s.there, "a", taken.Entry)
		taken.End(log.Whole)
	},
	"a key that ends before its log is free then, and the log stays": func(t *testing.T, s pair) {
		short, long := entry("short"), entry("long")
		short.KeyKeep, long.KeyKeep = 20*time.Millisecond, 2*time.Hour
		open := begun(t, s.here, short, newRun())
		begun(t, s.here, long, newRun()).End(log.Whole)
		time.Sleep(short.KeyKeep) // it would be over, had it begun
		wantKey(t, s.there, "short", open.Entry)
		open.End(log.Whole)
		gone := entry("gone") // before its key would be
		gone.Keep, gone.KeyKeep = short.KeyKeep, time.Hour
		begun(t, s.here, gone, newRun()).End(log.Whole)
		isFree(t, s.there, "short")
		isFree(t, s.there, "gone")
		if !found(t, s.there, open.ID) {
			t.Error("the log has gone")
		}
		wantKey(t, s.there, "long", long)
	},
	"the status of a body comes with its header, or when its beginning has gone": func(t *testing.T, s pair) {
		l := claim(t, s.here, entry("a"), newRun())
		beginBody(t, l)
		add(t, l, "{}")
		l.End(log.Whole)
		r := follow(t, s.there, l.ID)
		if p, err := r.Next(); p.Status != http.StatusCreated || p.Header.Get("Content-Type") != "application/json" || err != nil {
			t.Errorf("%+v, %v", p, err)
		}
		wantRest(t, r, "{}", io.EOF)

		e := entry("b")
		e.MaxStream = 64 << 10
		large := claim(t, s.here, e, newRun())
		beginBody(t, large)
		for range 64 {
			add(t, large, string(make([]byte, 8<<10)))
		}
		large.End(log.Whole)
		p, err := follow(t, s.there, large.ID).Next()
		if gone := (*log.GoneError)(nil); p.Status != http.StatusCreated || !errors.As(err, &gone) {
			t.Errorf("%+v, %v", p, err)
		}
	},
	"an entry stays as it is": func(t *testing.T, s pair) {
		e := entry("a")
		e.KeyKeep, e.Weak, e.Once, e.Empty = time.Minute, true, true, true
		claim(t, s.here, e, newRun())
		if got, err := s.there.Find(context.Background(), e.ID); !reflect.DeepEqual(got, e) || err != nil {
			t.Errorf("%v, %v, want %v", got, err, e)
		}
		if found(t, s.there, "stream_unknown") {
			t.Error("one that was never claimed is found")
		}
	},
}

// TestContract has each store do what package resume expects.
func TestContract(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) pair{
		"memory": func(*testing.T) pair {
			m := log.NewMemory()
			return pair{m, m}
		},
		"redis": func(t *testing.T) pair {
			s, _ := startServer(t).replica(nil)
			return pair{s, s}
		},
		"redis, another replica": func(t *testing.T) pair {
			here, there := startServer(t).replicas()
			return pair{here, there}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for what, test := range contract {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					test(t, store(t))
				})
			}
		})
	}
}
