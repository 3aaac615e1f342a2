package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// die has a replica refresh nothing any more, as one that is killed, or stalls.
func die(s *Store) {
	s.stop()
	<-s.over
}

// mortal sets a lease that a test can wait for.
func mortal(o *Options) { o.Lease = time.Second }

const chunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n"

// TestDeathOfAReplica ends what it has run with an error for readers elsewhere, after a gap of
// numbers: its clients may have had events that nobody else has. If it is alive after all,
// its own clients go on.
func TestDeathOfAReplica(t *testing.T) {
	server := startServer(t)
	dying, logs := server.replica(mortal)
	other, _ := server.replica(nil)
	run := newRun()
	l := claim(t, dying, entry("a"), run)
	begin(t, l)
	add(t, l, chunk, chunk)
	ours := follow(t, dying, l.ID)
	tothers := follow(t, other, l.ID)
	if got := read(t, tothers, 2*len(chunk)); got != chunk+chunk {
		t.Fatal(got)
	}
	die(dying)
	finish, err := all(tothers)
	if !strings.Contains(finish, `"finish_reason":"error"`) || !strings.Contains(finish, "[DONE]") || !errors.Is(err, io.EOF) {
		t.Fatalf("%q, %v", finish, err)
	}
	if !strings.Contains(finish, "id: "+l.ID+"/1048579\n") {
		t.Errorf("no gap: %q", finish)
	}
	if _, w, err := other.Claim(context.Background(), entry("a"), newRun().callbacks()); w != nil || err != nil {
		t.Errorf("it runs again: %v, %v", w, err)
	}
	for n, want := range map[uint64]string{0: chunk + chunk + finish, 1: chunk + finish, 2: finish, 3: finish, 1000: finish} {
		r, _ := started(t, other, l.ID, n)
		if got, err := all(r); got != want || !errors.Is(err, io.EOF) {
			t.Errorf("behind %d: %q, %v", n, got, err)
		}
	}

	add(t, l, event(3))
	until(t, "the log is lost", l.Writer.(*owned).isLost)
	add(t, l, event(4))
	l.End(resume.Whole)
	if got, err := all(ours); got != chunk+chunk+event(3)+event(4) || !errors.Is(err, io.EOF) {
		t.Errorf("here it is %q, %v", got, err)
	}
	if n := logs.FilterMessageSnippet("goes on here").Len(); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// TestDeathBeforeTheAnswer frees the key, but not before the lease is over.
func TestDeathBeforeTheAnswer(t *testing.T) {
	server := startServer(t)
	dying, _ := server.replica(mortal)
	other, _ := server.replica(nil)
	claim(t, dying, entry("a"), newRun())
	l, err := claimAgain(other, "a")
	if err != nil {
		t.Fatal(err)
	}
	r := other.Read(context.Background(), l.ID, 0)
	defer r.Close()
	die(dying)
	if _, _, err := start(r); !errors.Is(err, resume.ErrDropped) {
		t.Fatal(err)
	}
	claim(t, other, entry("a"), newRun())
}

// TestReaderThatIsAheadWaits has a client come with an event that is not in Redis yet.
func TestReaderThatIsAheadWaits(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(nil)
	there, _ := server.replica(nil)
	l := claim(t, here, entry("a"), newRun())
	begin(t, l)
	add(t, l, event(1))
	r := follow(t, there, l.ID)
	read(t, r, len(event(1)))
	late := []byte(event(2) + event(3))
	ends := []int{len(event(2)), len(late)}
	o := l.Writer.(*owned)
	o.mu.Lock()
	o.events += 2 // which flush has not written yet
	o.mu.Unlock()
	r = followAfter(t, there, l.ID, 2)
	sought := make(chan error)
	go func() {
		_, _, err := start(r)
		sought <- err
	}()
	until(t, "the owner has answered", func() bool {
		v, err := here.look(context.Background(), l.ID, "")
		return err == nil && v.has == 3
	})
	o.mu.Lock()
	pieces, _ := piecesOf(resume.Part{Data: late, Ends: ends})
	o.addLocked(pieces...)
	o.mu.Unlock()
	o.wakeFlush()
	if err := <-sought; err != nil {
		t.Fatal(err)
	}
	if got := read(t, r, len(event(3))); got != event(3) {
		t.Errorf("%q", got)
	}
}

// TestNoSuchEventElsewhere has a client at another replica name an event that has not come: it is
// told as soon as the owner has answered, long before a lease is over.
func TestNoSuchEventElsewhere(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(nil)
	there, _ := server.replica(nil)
	l := claim(t, here, entry("a"), newRun())
	begin(t, l)
	add(t, l, event(1))
	r := follow(t, there, l.ID)
	read(t, r, len(event(1)))
	for n := uint64(2); n < 5; n++ {
		began := time.Now()
		if err := refusal(t, there, l.ID, n); !errors.Is(err, resume.ErrAhead) {
			t.Errorf("%d: %v", n, err)
		}
		if d := time.Since(began); d >= patience {
			t.Errorf("%d took %v, a lease", n, d)
		}
	}
	add(t, l, event(2))
	until(t, "it has come", func() bool { return refusal(t, there, l.ID, 2) == nil })
}

// TestRedisIsKilled in the middle: who reads at the run's replica notices nothing, others are
// cut off after a lease. What is new and has no key is refused at once, a key waits, and
// one that runs here does not run again. When Redis is back, all is well.
func TestRedisIsKilled(t *testing.T) {
	server := startServer(t)
	here, logs := server.replica(mortal)
	there, _ := server.replica(mortal)
	run := newRun()
	l := claim(t, here, entry("a"), run)
	begin(t, l)
	add(t, l, event(1))
	ours, tothers := follow(t, here, l.ID), follow(t, there, l.ID)
	read(t, tothers, len(event(1)))
	until(t, "two read", func() bool { return int(run.readers.Load()) == 2 })
	server.kill()
	add(t, l, event(2))
	if _, err := all(tothers); !errors.Is(err, resume.ErrBroken) {
		t.Errorf("there: %v", err)
	}
	until(t, "the log is lost", l.Writer.(*owned).isLost)
	until(t, "one reads", func() bool { return int(run.readers.Load()) == 1 })
	if _, _, err := here.Claim(context.Background(), entry(""), newRun().callbacks()); err == nil {
		t.Error("a claim succeeds")
	}
	waits := make(chan error)
	go func() { // which no prompt refusal ends: the key may be in use elsewhere
		_, w, err := there.Claim(context.Background(), entry("b"), newRun().callbacks())
		if err == nil && w == nil {
			err = errors.New("it is not the first")
		}
		waits <- err
	}()
	if known, w, err := here.Claim(context.Background(), entry("a"), newRun().callbacks()); w != nil || err != nil || known != l.Entry {
		t.Errorf("a key that runs is claimed: %v, %v", w, err)
	}
	if !found(t, here, l.ID) {
		t.Error("it is not found where it is")
	}
	if _, err := there.Find(context.Background(), l.ID); err == nil {
		t.Error("it is said not to exist")
	}

	select {
	case err := <-waits:
		t.Fatalf("a claim of a key does not wait: %v", err)
	case <-time.After(3 * blocks):
	}
	server.start(program(t))
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if known, w, err := here.Claim(context.Background(), entry("a"), newRun().callbacks()); w != nil || err != nil || known != l.Entry {
		t.Errorf("a key that runs is claimed: %v, %v", w, err)
	}
	add(t, l, event(3))
	l.End(resume.Whole)
	if got, err := all(ours); got != event(1)+event(2)+event(3) || !errors.Is(err, io.EOF) {
		t.Errorf("here: %q, %v", got, err)
	}
	again := follow(t, here, l.ID)
	if got, err := all(again); got != event(1)+event(2)+event(3) || !errors.Is(err, io.EOF) {
		t.Errorf("here again: %q, %v", got, err)
	}
	next := claim(t, here, entry("c"), newRun())
	begin(t, next)
	add(t, next, event(1))
	if got := read(t, follow(t, there, next.ID), len(event(1))); got != event(1) {
		t.Errorf("there: %q", got)
	}
	if n := logs.FilterMessageSnippet("redis fails").Len(); n != 1 {
		t.Errorf("%d warnings within a minute", n)
	}
}

// TestRedisThatTakesNothing bounds what waits for it, and holds nobody up for ever.
func TestRedisThatTakesNothing(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(func(o *Options) { o.Timeout = 50 * time.Millisecond })
	l := claim(t, s, entry("a"), newRun())
	begin(t, l)
	r := follow(t, s, l.ID)
	server.kill()
	e := "data: " + strings.Repeat("x", 1000) + "\n\n"
	for range 3 * maxPending / len(e) {
		add(t, l, e)
		o := l.Writer.(*owned)
		o.mu.Lock()
		waiting := o.size
		o.mu.Unlock()
		if waiting > maxPending+2*len(e) {
			t.Fatalf("%d bytes wait", waiting)
		}
	}
	l.End(resume.Whole)
	if got, err := all(r); err == nil || !strings.HasSuffix(got, e) {
		var gone *resume.GoneError
		if !errors.As(err, &gone) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// TestRedisForgets has all keys go while a log is written.
func TestRedisForgets(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(mortal)
	l := claim(t, s, entry("a"), newRun())
	begin(t, l)
	add(t, l, event(1))
	if err := server.client.FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the log is lost", l.Writer.(*owned).isLost)
	if known, w, err := s.Claim(context.Background(), entry("a"), newRun().callbacks()); w != nil || err != nil || known != l.Entry {
		t.Errorf("a key that runs is claimed: %v, %v", w, err)
	}
}

// TestNoRoomInMemory keeps a run whose log has to go from memory: it is in Redis.
func TestNoRoomInMemory(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(nil)
	run := newRun()
	e := entry("a")
	e.MaxMemory = 256 << 10
	l := claim(t, s, e, run)
	begin(t, l)
	add(t, l, event(1))
	other := entry("b")
	other.MaxMemory = e.MaxMemory
	big := claim(t, s, other, newRun())
	begin(t, big)
	for range 20 {
		add(t, big, "data: "+strings.Repeat("x", 60000)+"\n\n")
	}
	for range 20 {
		add(t, l, "data: "+strings.Repeat("y", 20000)+"\n\n")
	}
	if len(run.cancelled) > 0 {
		t.Error("the run is cancelled")
	}
	until(t, "all is in Redis", func() bool {
		v, err := s.look(context.Background(), e.ID, "")
		return err == nil && v != nil && v.events == 21
	})
	r, _ := started(t, s, e.ID, 0)
	if got := read(t, r, 400000); !strings.HasPrefix(got, event(1)) {
		t.Errorf("it begins with %.20q", got)
	}
}

// TestCloseWaitsForLogs, and closes the connections then.
func TestCloseWaitsForLogs(t *testing.T) {
	server := startServer(t)
	s, logs := server.replica(nil)
	l := claim(t, s, entry("a"), newRun())
	begin(t, l)
	s.Close()
	add(t, l, event(1))
	l.End(resume.Whole)
	other, _ := server.replica(nil)
	if got, err := all(follow(t, other, l.ID)); got != event(1) || !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", got, err)
	}
	<-s.over
	until(t, "its connections are closed", func() bool { return s.client.Ping(context.Background()).Err() != nil })
	if logs.Len() > 0 {
		t.Errorf("it logs %v", logs.All()[0])
	}
}

// TestKeyIsClaimedOnceAroundARestart has equal requests come to another replica while Redis is
// away and as it comes back, whatever that replica has noticed of it: none of them is the
// first, and none is told that there is no log.
func TestKeyIsClaimedOnceAroundARestart(t *testing.T) {
	server := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	here, _ := server.replica(nil)
	there, _ := server.replica(nil)
	for round := range 5 {
		l := claim(t, here, entry(fmt.Sprint(round)), newRun())
		begin(t, l)
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
		until(t, "it is missed", there.away.Load)
		server.start(program(t))
		close(over)
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		l.End(resume.Whole)
	}
}

// TestKeyWaitsNoLongerThanACommand may take, if nothing is at the address.
func TestKeyWaitsNoLongerThanACommand(t *testing.T) {
	s, _ := new(fake).replica(t, func(o *Options) { o.Address = "127.0.0.1:0"; o.Timeout = 50 * time.Millisecond })
	if _, _, err := s.Claim(context.Background(), entry("a"), newRun().callbacks()); !errors.Is(err, errAway) {
		t.Error(err)
	}
}
