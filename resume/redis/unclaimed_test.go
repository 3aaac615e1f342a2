package redis

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// signal sends a signal to the server.
func (s *server) signal(pid int, signal syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		s.t.Fatal(err)
	}
}

// TestClaimThatRedisDoesLater has Redis hang for longer than a command may take, and then claim a key for
// a request that no longer wants it: the next request with the key need not wait for the end of a lease.
func TestClaimThatRedisDoesLater(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(func(o *Options) { o.Timeout = 500 * time.Millisecond })
	there, _ := server.replica(nil)
	until(t, "the server knows the script", func() bool {
		_, w, err := here.Claim(context.Background(), entry(""), newRun().callbacks())
		if err == nil {
			w.End(log.Whole)
		}
		return err == nil
	})
	pid := server.pid()
	server.signal(pid, syscall.SIGSTOP)
	_, w, err := here.Claim(context.Background(), entry("a"), newRun().callbacks())
	server.signal(pid, syscall.SIGCONT)
	if w != nil || !errors.Is(err, errDown) {
		t.Fatalf("%v, %v", w, err)
	}
	isFree(t, there, "a")
	until(t, "nobody uses the connections but its replica", func() bool { return here.users.Load() == 1 })
}

// TestKeyThatRedisLosesWhileItIsClaimed again where its log is: it stays the key of that log.
func TestKeyThatRedisLosesWhileItIsClaimed(t *testing.T) {
	server := startServer(t)
	here, there := server.replicas()
	l := begun(t, here, entry("a"), newRun())
	add(t, l, event(1))
	inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
	o := l.Writer.(*owned)
	o.mu.Lock() // it does not write yet
	server.do("FLUSHALL")
	wantKey(t, here, "a", l.Entry)
	o.mu.Unlock()
	inRedis(t, there, l.ID, func(v *view) bool { return v.Events == 1 })
	until(t, "the key has its log", func() bool {
		have, w, err := there.Claim(context.Background(), entry("a"), newRun().callbacks())
		if w != nil || err == nil && have.ID != l.ID {
			t.Fatalf("the key has %v, %v, want %v", have, w, l.Entry)
		}
		return err == nil
	})
	l.End(log.Whole)
	notLost(t, l)
}

// TestClaimWithoutReply that Redis has done is the request's own, if it then looks for its key: it does not
// follow a log that nobody writes.
func TestClaimWithoutReply(t *testing.T) {
	s, _ := startServer(t).replica(nil)
	e := entry("a")
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	key, hasKey := s.keyOf(e)
	if _, err := s.do(context.Background(), claimScript, e.ID,
		s.nameIn(e.KeyPlace(), "log"), e.ID, text, s.replica, s.o.Lease.Milliseconds(), s.ttl(e), key, hasKey, 0); err != nil {
		t.Fatal(err)
	}
	wasAway(s)
	l := claim(t, s, e, newRun())
	begin(t, l)
	l.End(log.Whole)
	notLost(t, l)
}
