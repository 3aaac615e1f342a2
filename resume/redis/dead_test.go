package redis

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// die has a replica refresh nothing any more, as one that is killed.
func die(t *testing.T, s *Store) {
	t.Helper()
	s.stop()
	<-s.over
	for _, o := range ownedBy(s) {
		until(t, "no refresh is under way", func() bool {
			select {
			case <-o.done:
				return true
			default:
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.fails
		})
	}
}

// lapse has the leases of a replica be over. A busy machine cannot be late for that, as it can be
// for refreshing a lease that is short enough to wait for.
func (s *server) lapse(of *Store) {
	s.t.Helper()
	for _, o := range ownedBy(of) {
		s.do("HSET", of.name("log", o.entry.ID), "until", 0, "r", "one that stalls")
	}
}

func ownedBy(s *Store) []*owned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.owned))
}

// mortal sets a lease that a test can wait for. Nothing may depend on the replica's being alive until then.
func mortal(o *Options) { o.Lease = time.Second }

const chunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n"

// TestDeathOfAReplica ends what it has run with an error for readers elsewhere, after a gap of
// numbers: its clients may have had events that no other replica has. If it is alive after all,
// its own clients go on.
func TestDeathOfAReplica(t *testing.T) {
	server := startServer(t)
	stalling, logs := server.replica(nil)
	other, _ := server.replica(nil)
	run := newRun()
	l := begun(t, stalling, entry("a"), run)
	add(t, l, chunk, chunk)
	ours := follow(t, stalling, l.ID)
	elsewhere := follow(t, other, l.ID)
	if got := read(t, elsewhere, 2*len(chunk)); got != chunk+chunk {
		t.Fatal(got)
	}
	server.lapse(stalling)
	finish, err := all(elsewhere)
	if !strings.Contains(finish, `"finish_reason":"error"`) || !strings.Contains(finish, "[DONE]") || !errors.Is(err, io.EOF) {
		t.Fatalf("%q, %v", finish, err)
	}
	if !strings.Contains(finish, "id: "+l.ID+"/1048579\n") {
		t.Errorf("no gap: %q", finish)
	}
	wantKey(t, other, "a", l.Entry) // it does not run again
	for n, want := range map[uint64]string{0: chunk + chunk + finish, 1: chunk + finish, 2: finish, 3: finish, 1000: finish} {
		r, _ := started(t, other, l.ID, n)
		wantRest(t, r, want, io.EOF)
	}

	add(t, l, event(3))
	until(t, "the log is lost", l.Writer.(*owned).lost.Load)
	add(t, l, event(4))
	l.End(log.Whole)
	wantRest(t, ours, chunk+chunk+event(3)+event(4), io.EOF)
	if n := logs.FilterMessageSnippet("continues on this replica").Len(); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// TestWhatIsNoAnswer ends with the replica that runs it, but not before the lease is over, and its key is free:
// what has not begun, a part of a body, and what can be had again.
func TestWhatIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		weak  bool
		begin func(t *testing.T, l log.Writer)
		text  string
		end   error
	}{
		"before the answer":   {false, func(*testing.T, log.Writer) {}, "", log.ErrDropped},
		"in a body":           {false, beginBody, `{"choices":`, log.ErrBroken},
		"the events of a run": {true, begin, event(1), log.ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			dying, other := server.replicas()
			e := entry("a")
			e.Weak = c.weak
			l := claim(t, dying, e, newRun())
			c.begin(t, l)
			wantKey(t, other, "a", l.Entry)
			r := follow(t, other, l.ID)
			if c.text != "" {
				add(t, l, c.text)
				read(t, r, len(c.text))
			}
			die(t, dying)
			server.lapse(dying)
			wantRest(t, r, "", c.end)
			isFree(t, other, "a")
		})
	}
}

// once is an entry with a key of the configuration's.
func once(key string) log.Entry {
	e := entry(key)
	e.Once = true
	return e
}

// TestKeyOfADeadReplica has a request with a key of the configuration's come within the lease of a run
// whose replica has died: it runs anew as soon as that is known. Readers of the dead run get its end.
func TestKeyOfADeadReplica(t *testing.T) {
	for name, begins := range map[string]bool{"in the text": true, "before the answer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			dead, there := server.replicas()
			l := claim(t, dead, once("a"), newRun())
			if begins {
				begin(t, l)
				add(t, l, chunk)
				inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
			}
			reads := follow(t, there, l.ID)
			die(t, dead)
			e := once("a")
			var have log.Entry
			var w log.Writer
			var failed error
			done := make(chan struct{})
			go func() {
				defer close(done)
				have, w, failed = there.Claim(context.Background(), e, newRun().callbacks())
			}()
			select {
			case <-done:
				t.Errorf("within the lease it has %v", have.ID)
			case <-time.After(4 * retryAfter):
			}
			server.lapse(dead)
			if <-done; w == nil || have.ID != e.ID || failed != nil {
				t.Fatalf("it has %v, %v", have.ID, failed)
			}
			wantKey(t, there, "a", e)
			finish, err := all(reads)
			if begins && (err != io.EOF || !strings.Contains(finish, chunk) || !strings.Contains(finish, "upstream_aborted")) {
				t.Errorf("a reader gets %q, %v", finish, err)
			}
			w.End(log.Dropped)
		})
	}
}

// TestKeyOfALogThatAnotherEnds is free, also if the replica that has ended the log dies before it has freed the key.
func TestKeyOfALogThatAnotherEnds(t *testing.T) {
	server := startServer(t)
	dead, _ := server.replica(nil)
	heir, there := server.replicas()
	l := claim(t, dead, once("a"), newRun())
	begin(t, l)
	add(t, l, chunk)
	inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
	reads := follow(t, heir, l.ID)
	die(t, dead)
	server.lapse(dead)
	if _, err := all(reads); err != io.EOF {
		t.Fatal(err)
	}
	key, _ := there.keyOf(l.Entry)
	until(t, "the key is free", func() bool { return server.client.Exists(context.Background(), key).Val() == 0 })
	server.do("HDEL", there.name("log", l.ID), "c")
	server.do("SET", key, l.ID)
	e := once("a")
	if w := claim(t, there, e, newRun()); w.ID != e.ID {
		t.Errorf("it has %v", w.ID)
	}
	wantKey(t, there, "a", e)
}

// TestKeyOfALivingReplica joins the run, at another replica as at its own, and after its end.
func TestKeyOfALivingReplica(t *testing.T) {
	server := startServer(t)
	here, there := server.replicas()
	l := claim(t, here, once("a"), newRun())
	lease := func() (end int64) {
		t.Helper()
		end, err := server.client.HGet(context.Background(), here.name("log", l.ID), "until").Int64()
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	first := lease()
	until(t, "its lease is refreshed", func() bool { return lease() > first })
	joins := func() {
		t.Helper()
		for _, s := range []*Store{here, there} {
			if have, w, err := s.Claim(context.Background(), once("a"), newRun().callbacks()); err != nil || w != nil || have.ID != l.ID {
				t.Fatalf("it has %v, %v, %v", have.ID, w, err)
			}
		}
	}
	joins()
	begin(t, l)
	add(t, l, chunk)
	joins()
	l.End(log.Whole)
	joins()
}

// TestHeirFails to end the log of a replica that has died, and succeeds later: a client with an
// event that never came to Redis waits for that.
func TestHeirFails(t *testing.T) {
	server := startServer(t)
	dying, _ := server.replica(mortal)
	heir, _ := server.replica(mortal)
	l := begun(t, dying, entry("a"), newRun())
	add(t, l, chunk)
	inRedis(t, heir, l.ID, func(v *view) bool { return v.Events == 1 })
	die(t, dying)
	events := heir.name("events", l.ID)
	server.do("RENAME", events, "away")
	server.do("SET", events, "no stream")
	r := followAfter(t, heir, l.ID, 7)
	end := make(chan error, 1)
	var got string
	go func() {
		_, _, err := start(r)
		if err == nil {
			got, err = all(r)
		}
		end <- err
	}()
	leases := make(map[string]bool)
	until(t, "it has tried twice", func() bool {
		if len(end) > 0 {
			t.Fatal(<-end)
		}
		leases[server.client.HGet(context.Background(), heir.name("log", l.ID), "until").Val()] = true
		return len(leases) > 4
	})
	server.do("RENAME", "away", events)
	if err := <-end; !strings.Contains(got, "[DONE]") || !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", got, err)
	}
}
