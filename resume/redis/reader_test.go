package redis

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// TestConnectionsAreBounded has a replica have more readers than it may have connections: all
// readers get what comes, and Redis is not taken to be down.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	server.do("ACL", "SETUSER", "there", "on", ">password", "~*", "+@all")
	here, _ := server.replica(nil)
	there, logs := server.replica(func(o *Options) { o.Username, o.Password = "there", "password" })
	l := begun(t, here, entry("a"), newRun())
	const readers = 4 * maxConnections
	got := make(chan error, readers)
	for range readers {
		r, _ := started(t, there, l.ID, 0)
		go func() {
			b, err := all(r)
			if errors.Is(err, io.EOF) && b == event(1)+event(2) {
				err = nil
			}
			got <- err
		}()
	}
	for n := range 2 {
		add(t, l, event(n+1))
		clients, err := server.client.ClientList(context.Background()).Result()
		if n := strings.Count(clients, " user=there "); err != nil || n > maxConnections {
			t.Errorf("%d connections, %v", n, err)
		}
	}
	l.End(log.Whole)
	for range readers {
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
	if n := logs.Len(); n != 0 {
		t.Errorf("%d warnings: %v", n, logs.All()[0])
	}
}

// TestEventsThatAreNotThereYet has a client at another replica name them: it is told as soon as the
// owner has answered, long before a lease is over, that there is none, or gets what comes after
// one that is not in Redis yet.
func TestEventsThatAreNotThereYet(t *testing.T) {
	t.Parallel()
	here, there := startServer(t).replicas()
	l := begun(t, here, entry("a"), newRun())
	add(t, l, event(1))
	for n := uint64(2); n < 5; n++ {
		began := time.Now()
		if err := refusal(t, there, l.ID, n); !errors.Is(err, log.ErrAhead) {
			t.Errorf("%d: %v", n, err)
		}
		if d := time.Since(began); d >= patience {
			t.Errorf("%d took %v, a lease", n, d)
		}
	}
	o := l.Writer.(*owned)
	o.mu.Lock() // its clients have two more, which wait for room
	r := followAfter(t, there, l.ID, 2)
	sought := make(chan error)
	go func() {
		_, _, err := start(r)
		sought <- err
	}()
	until(t, "the other replica looks", func() bool { return here.client.ZCard(context.Background(), here.name("readers", l.ID)).Val() == 4 })
	o.addLocked(piece{kind: kindEnd, data: event(2)}, piece{kind: kindEnd, data: event(3)})
	o.mu.Unlock()
	o.wakeFlush()
	if err := <-sought; err != nil {
		t.Fatal(err)
	}
	if got := read(t, r, len(event(3))); got != event(3) {
		t.Errorf("%q", got)
	}
}

// TestReaderOfASilentStreamAsksLess looks less and less often for what comes.
func TestReaderOfASilentStreamAsksLess(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	here, there := server.replicas()
	l := begun(t, here, entry("a"), newRun())
	started(t, there, l.ID, 0)
	r, began := follow(t, there, l.ID), time.Now()
	go func() { _, _ = all(r) }()
	until(t, "it has asked often", func() bool {
		info := server.client.Info(context.Background(), "commandstats").Val()
		_, calls, _ := strings.Cut(info, "cmdstat_xread:calls=")
		calls, _, _ = strings.Cut(calls, ",")
		n, _ := strconv.Atoi(calls)
		return n > 3*looksAfter
	})
	if d := time.Since(began); d < 5*looksAfter*poll {
		t.Errorf("it has asked %d times in %v", 3*looksAfter, d)
	}
	add(t, l, event(1))
	l.End(log.Whole)
}

// TestReaderOfADeletedLog has all of it, however long it takes: here it reads nothing until the time has
// passed for which a log without readers stays.
func TestReaderOfADeletedLog(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(nil)
	there, _ := server.replica(func(o *Options) { o.Lease = time.Second }) // of which it looks four times
	l := begun(t, here, entry("a"), newRun())
	add(t, l, event(1))
	r := follow(t, there, l.ID)
	if _, _, err := start(r); err != nil {
		t.Fatal(err)
	}
	l.End(log.Whole)
	inRedis(t, there, l.ID, func(v *view) bool { return v.state == log.Whole })
	remove(t, there, l.ID)
	const soon = 30 * time.Second
	for _, kind := range []string{"log", "events"} {
		name := there.name(kind, l.ID)
		server.do("PEXPIRE", name, soon.Milliseconds())
		until(t, "it stays for its reader", func() bool {
			ttl, err := server.client.PTTL(context.Background(), name).Result()
			if err != nil || ttl <= 0 {
				t.Fatal(ttl, err)
			}
			return ttl > soon
		})
	}
	if found(t, there, l.ID) {
		t.Error("others find it")
	}
	if got, err := all(r); got != event(1) || !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", got, err)
	}
}
