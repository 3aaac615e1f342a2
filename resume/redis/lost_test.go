package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// wasAway has a store not be sure what Redis has, for the length of the test.
func wasAway(s *Store) {
	s.settle = patience
	s.failed.Store(time.Now().UnixNano())
}

// adoptsNothing has a store adopt no log, whose owner a busy machine may keep from refreshing a short
// lease, until Redis is down next.
func adoptsNothing(s *Store) { s.failed.Store(time.Now().Add(patience).UnixNano()) }

// notLost fails if a log is lost.
func notLost(t *testing.T, l claimed) {
	t.Helper()
	if l.Writer.(*owned).lost.Load() {
		t.Error("the log is lost")
	}
}

// TestRedisLosesAll has a log that is under way come back: readers elsewhere get all of it, and its
// key is known.
func TestRedisLosesAll(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, server *server, l claimed, there *Store) string{
		"before it begins": func(t *testing.T, server *server, l claimed, _ *Store) string {
			server.do("FLUSHALL")
			begin(t, l)
			add(t, l, event(1))
			return event(1)
		},
		"in the middle": func(t *testing.T, server *server, l claimed, there *Store) string {
			begin(t, l)
			add(t, l, event(1))
			addPart(t, l, "data: ")
			inRedis(t, there, l.ID, func(v *view) bool { return v.Pieces == 3 })
			server.do("FLUSHALL")
			addPart(t, l, "2\n\n", 3)
			return event(1) + event(2)
		},
		"again and again": func(t *testing.T, server *server, l claimed, there *Store) (whole string) {
			begin(t, l)
			for n := range 20 {
				add(t, l, event(n))
				whole += event(n)
				server.do("FLUSHALL")
			}
			return whole
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			here, there := server.replicas()
			wasAway(there) // or it might look in vain
			run := newRun()
			l := claim(t, here, entry("a"), run)
			early := follow(t, there, l.ID)
			until(t, "it reads", func() bool { return run.readers.Load() == 1 })
			whole := test(t, server, l, there)
			inRedis(t, there, l.ID, func(v *view) bool { return v.Events > 0 })
			wantKey(t, there, "a", l.Entry)
			l.End(log.Whole)
			for _, r := range []log.Reader{early, follow(t, there, l.ID)} {
				wantRest(t, r, whole, io.EOF)
			}
			notLost(t, l)
		})
	}
}

// TestRedisLosesALongLog has one come back without its oldest events, of which its owner has only the
// last ones for Redis.
func TestRedisLosesALongLog(t *testing.T) {
	server := startServer(t)
	here, there := server.replicas()
	wasAway(there)
	l := begun(t, here, entry("a"), newRun())
	e := func(n int) string { return fmt.Sprintf("data: %1000d\n\n", n) }
	const events = 2 * maxAgain / 1000
	for n := 1; n <= events; n++ {
		add(t, l, e(n))
	}
	inRedis(t, there, l.ID, func(v *view) bool { return v.Events == events })
	server.do("FLUSHALL")
	inRedis(t, there, l.ID, func(v *view) bool { return v.Events == events })
	add(t, l, e(events+1))
	l.End(log.Whole)
	var gone *log.GoneError
	if err := refusal(t, there, l.ID, 0); !errors.As(err, &gone) || gone.First < 2 || gone.First > events {
		t.Fatalf("from the beginning: %v", err)
	}
	want := ""
	for n := int(gone.First); n <= events+1; n++ {
		want += e(n)
	}
	if len(want) > maxAgain+2*len(e(1)) || len(want) < maxAgain/2 {
		t.Errorf("%d bytes come back", len(want))
	}
	r, _ := started(t, there, l.ID, gone.First-1)
	wantRest(t, r, want, io.EOF)
	notLost(t, l)
}

// TestRedisLosesAHugeEvent has a log that cannot come back, because the event under way is too large
// to be written again, go on at its replica. After that event it would come back.
func TestRedisLosesAHugeEvent(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(nil)
	for _, ends := range []bool{false, true} {
		l := begun(t, s, entry(""), newRun())
		add(t, l, event(1))
		addPart(t, l, "data: "+strings.Repeat("x", 2*maxAgain))
		if ends {
			addPart(t, l, "\n\n", 2)
		}
		inRedis(t, s, l.ID, func(v *view) bool { return v.Pieces >= 2*maxAgain/maxPiece && (v.Events == 2) == ends })
		server.do("FLUSHALL")
		if ends {
			inRedis(t, s, l.ID, func(v *view) bool { return v.Events == 2 })
			notLost(t, l)
		} else {
			until(t, "the log is lost", l.Writer.(*owned).lost.Load)
		}
		l.End(log.Whole)
	}
}

// rewind has the server lose what comes to a log from now on until the function that it returns is
// called.
func (s *server) rewind(keys ...string) (now func()) {
	s.t.Helper()
	var dumps []string
	for _, key := range keys {
		dumps = append(dumps, s.text("DUMP", key))
	}
	return func() {
		s.t.Helper()
		command := []any{"EVAL", "for i, key in ipairs(KEYS) do redis.call('RESTORE', key, 100000, ARGV[i], 'REPLACE') end", len(keys)}
		for _, key := range keys {
			command = append(command, key)
		}
		for _, dump := range dumps {
			command = append(command, dump)
		}
		if err := s.client.Do(context.Background(), command...).Err(); err != nil && err.Error() != "redis: nil" {
			s.t.Fatal(err)
		}
	}
}

// TestRedisLosesTheLast has Redis lose what it said that it has, as if a replica without it took
// the place of its master: readers elsewhere, which have had it, notice nothing.
func TestRedisLosesTheLast(t *testing.T) {
	server := startServer(t)
	here, there := server.replicas()
	l := begun(t, here, entry("a"), newRun())
	add(t, l, event(1))
	r := follow(t, there, l.ID)
	read(t, r, len(event(1)))
	now := server.rewind(here.name("log", l.ID), here.name("events", l.ID))
	add(t, l, event(2), event(3))
	if got := read(t, r, len(event(2)+event(3))); got != event(2)+event(3) {
		t.Fatal(got)
	}
	now()
	add(t, l, event(4))
	if got := read(t, r, len(event(4))); got != event(4) {
		t.Errorf("after that it has %q", got)
	}
	l.End(log.Whole)
	wantRest(t, follow(t, there, l.ID), event(1)+event(2)+event(3)+event(4), io.EOF)
	notLost(t, l)
}

// TestEndIsLost has the end of a log come again, if servers may take the place of each other.
func TestEndIsLost(t *testing.T) {
	master, _, _ := startWatched(t)
	short := func(o *Options) { o.Lease = 10 * time.Second }
	here, _ := master.replica(short)
	there, _ := master.replica(short)
	l := begun(t, here, entry("a"), newRun())
	add(t, l, event(1))
	inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
	now := master.rewind(here.name("log", l.ID), here.name("events", l.ID))
	add(t, l, event(2))
	l.End(log.Whole)
	inRedis(t, there, l.ID, func(v *view) bool { return v.state == log.Whole })
	now()
	inRedis(t, there, l.ID, func(v *view) bool { return v.state == log.Whole })
	wantRest(t, follow(t, there, l.ID), event(1)+event(2), io.EOF)

	dropped := claim(t, here, entry("b"), newRun())
	dropped.End(log.Dropped)
	until(t, "nothing guards it any more", func() bool { return here.users.Load() == 1 })
	if found(t, there, dropped.ID) {
		t.Error("what has gone comes back")
	}
}

// TestKeyWaitsUntilItIsKnown has a request with a key that runs elsewhere come right after Redis has
// come back empty, before the replica that runs it can say so: it does not run again.
func TestKeyWaitsUntilItIsKnown(t *testing.T) {
	server := startServer(t)
	here, there := server.replicas()
	there.settle = patience
	l := begun(t, here, entry("a"), newRun())
	o := l.Writer.(*owned)
	o.mu.Lock() // it says nothing
	server.kill()
	until(t, "it is missed", there.down.Load)
	server.start(program(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		wantKey(t, there, "a", l.Entry)
	}()
	until(t, "redis is not down", func() bool { return !there.down.Load() })
	if _, err := there.Find(context.Background(), l.ID); !errors.Is(err, errUnsettled) {
		t.Errorf("its id is found with %v", err)
	}
	select {
	case <-done:
		t.Error("it does not wait")
	case <-time.After(time.Second):
	}
	o.mu.Unlock()
	<-done
	notLost(t, l)
}

// TestNewKeyWaitsNoLonger than the time that a command may take, if Redis is back.
func TestNewKeyWaitsNoLonger(t *testing.T) {
	const timeout = 500 * time.Millisecond
	s, _ := startServer(t).replica(func(o *Options) { o.Timeout = timeout })
	over := make(chan struct{})
	defer close(over)
	s.failed.Store(time.Now().UnixNano())
	go func() { // a node of a cluster is down for long
		for {
			s.failed.Store(time.Now().UnixNano())
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	began := time.Now()
	until(t, "it is the first", func() bool { // however long commands take on a busy machine
		_, w, err := s.Claim(context.Background(), entry("a"), newRun().callbacks())
		return err == nil && w != nil
	})
	if d := time.Since(began); d < timeout {
		t.Errorf("it waits for %v", d)
	}
	claim(t, s, entry(""), newRun())
}

// TestLeaseIsNotOverAtOnce when Redis comes back after a longer time than a lease: the owner of a
// log, which lives, refreshes it.
func TestLeaseIsNotOverAtOnce(t *testing.T) {
	server := startServer(t)
	dead, _ := server.replica(mortal)
	there, _ := server.replica(nil)
	l := begun(t, dead, entry("a"), newRun())
	add(t, l, chunk)
	inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
	die(t, dead)
	wasAway(there)
	until(t, "its lease is over", func() bool {
		lease, err := server.client.HGet(context.Background(), there.name("log", l.ID), "until").Int64()
		return err == nil && lease < server.client.Time(context.Background()).Val().UnixMilli()
	})
	if v, err := there.look(context.Background(), l.ID, "a reader"); err != nil || v.Adopted {
		t.Errorf("it is adopted: %v", err)
	}
	there.failed.Store(0)
	if finish, err := all(follow(t, there, l.ID)); !strings.Contains(finish, "[DONE]") {
		t.Errorf("it has %q, %v", finish, err)
	}
}

// TestRefusal has requests with a key get 503 while Redis is down, if the operator wants that. The
// client may send them again. Others run.
func TestRefusal(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		server := startServer(t)
		s, _ := server.replica(func(o *Options) { o.Refuse, o.Timeout = refuse, 300*time.Millisecond })
		h := front(t, s, answer)
		server.kill()
		until(t, "it is missed", s.down.Load)
		keyed := ask(t, h, "POST", "/chat", "Idempotency-Key", "a", "Name", "1")
		plain := ask(t, h, "POST", "/chat", "X-Hermes-Detach", "1s", "Name", "2")
		if got := body(t, plain); got != "data: 2\n\n" {
			t.Errorf("without a key it is %q", got)
		}
		got := body(t, keyed)
		switch {
		case !refuse && got != "data: 1\n\n":
			t.Errorf("it does not pass: %q", got)
		case refuse && (keyed.StatusCode != http.StatusServiceUnavailable || keyed.Header.Get("Retry-After") == "" ||
			keyed.Header.Get("X-Should-Retry") != "true" || !strings.Contains(got, "same key")):
			t.Errorf("it is not refused: %v, %q", keyed, got)
		}
		server.start(program(t))
		until(t, "it is kept", func() bool {
			again := ask(t, h, "POST", "/chat", "Idempotency-Key", "a", "Name", "3")
			body(t, again)
			return again.Header.Get("X-Hermes-Stream") != ""
		})
	}
}

// TestKeyThatIsTakenDoesNotWait has an entry that takes its key wait for nothing: whoever has the
// key, it runs. While Redis is down it is refused at once, and the key of what runs here stays.
func TestKeyThatIsTakenDoesNotWait(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(func(o *Options) { o.Refuse = true }) // which would wait for as long as a test does
	open := begun(t, s, entry("a"), newRun())
	wasAway(s)
	taking := func(key string) log.Entry {
		e := entry(key)
		e.Takes = true
		return e
	}
	claim(t, s, taking("b"), newRun())
	server.kill()
	until(t, "it is missed", s.down.Load)
	for _, key := range []string{"a", "c"} {
		if _, w, err := s.Claim(context.Background(), taking(key), newRun().callbacks()); w != nil || err == nil || errors.Is(err, log.ErrUnsure) {
			t.Errorf("%s: %v, %v", key, w, err)
		}
	}
	wantKey(t, s, "a", open.Entry)
}
