package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// memory returns how many bytes all keys take.
func (s *server) memory() (bytes int) {
	s.t.Helper()
	for _, key := range s.keys() {
		n, err := s.client.MemoryUsage(context.Background(), key, 0).Result()
		if err != nil {
			s.t.Fatal(err)
		}
		bytes += int(n)
	}
	return bytes
}

// TestConnectionsAreBounded has a replica have more readers than it may have connections for:
// all readers get what comes, and Redis is not taken to be away.
func TestConnectionsAreBounded(t *testing.T) {
	server := startServer(t)
	server.do("ACL", "SETUSER", "there", "on", ">password", "~*", "+@all")
	here, _ := server.replica(nil)
	there, logs := server.replica(func(o *Options) { o.Username, o.Password = "there", "password" })
	connections := func() int {
		clients, err := server.client.ClientList(context.Background()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(clients, " user=there ")
	}
	var owned []claimed
	var readers []resume.Reader
	for n := range maxConnections + 50 {
		l := claim(t, here, entry(fmt.Sprint(n)), newRun())
		begin(t, l)
		owned, readers = append(owned, l), append(readers, follow(t, there, l.ID))
		if _, _, err := start(readers[n]); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		got := make(chan error, len(readers))
		for n, r := range readers {
			go func() {
				p, err := r.Next()
				if want := event(round*1000 + n); err == nil && string(p.Data) != want {
					err = fmt.Errorf("%d gets %q, want %q", n, p.Data, want)
				}
				got <- err
			}()
		}
		until(t, "as many wait as may", func() bool { return connections() >= maxConnections-commandConnections })
		for n, l := range owned {
			add(t, l, event(round*1000+n))
		}
		for range readers {
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
		if n := connections(); n > maxConnections {
			t.Errorf("%d connections", n)
		}
	}
	if n := logs.Len(); n != 0 {
		t.Errorf("%d warnings: %v", n, logs.All()[0])
	}
}

// TestPiecesAreBounded looks at what is in Redis of a long event, and at what a reader has of
// it in memory.
func TestPiecesAreBounded(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(nil)
	there, _ := server.replica(nil)
	l := claim(t, here, entry("a"), newRun())
	begin(t, l)
	e := "data: " + strings.Repeat("x", 400_000) + "\n\n"
	add(t, l, e)
	l.End(resume.Whole)
	r, _ := started(t, there, l.ID, 0)
	got := 0
	for got < len(e) {
		p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got += len(p.Data)
		if len(p.Data) > maxPiece || len(r.(*reader).have) >= maxEntries {
			t.Fatalf("it has %d bytes, and %d pieces more", len(p.Data), len(r.(*reader).have))
		}
	}
	pieces, err := there.next(context.Background(), l.ID, "0-0", false)
	if err != nil || len(pieces) >= maxEntries {
		t.Fatal(len(pieces), err)
	}
	whole := 0
	for _, p := range pieces {
		if len(p.data) > maxPiece {
			t.Errorf("a piece of %d bytes", len(p.data))
		}
		if len(p.data) == maxPiece {
			whole++
		}
	}
	if whole != len(e)/maxPiece {
		t.Errorf("%d whole pieces, want %d", whole, len(e)/maxPiece)
	}
}

// TestUpstreamWaitsForRedis has a run write faster than Redis takes it: what waits is
// bounded, and the log is not lost.
func TestUpstreamWaitsForRedis(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(nil)
	there, _ := server.replica(nil)
	en := entry("a")
	en.MaxStream = 16 << 20
	l := claim(t, here, en, newRun())
	begin(t, l)
	r := follow(t, there, en.ID)
	if _, _, err := start(r); err != nil {
		t.Fatal(err)
	}
	server.do("CLIENT", "PAUSE", 300, "WRITE")
	e := "data: " + strings.Repeat("x", 10_000) + "\n\n"
	const events = 8 * maxPending / 10_000
	for range events {
		add(t, l, e)
		if n := waiting(l); n > maxPending+2*len(e) {
			t.Fatalf("%d bytes wait", n)
		}
	}
	l.End(resume.Whole)
	if got, err := all(r); len(got) != events*len(e) || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, want %d, %v", len(got), events*len(e), err)
	}
}

// waiting returns how many bytes of a log wait for Redis.
func waiting(l claimed) int {
	o := l.Writer.(*owned)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

// TestMemoryOfRedisIsBounded measures what a long stream takes in Redis, whatever its events
// are like: max_stream, and what the allocator rounds up.
func TestMemoryOfRedisIsBounded(t *testing.T) {
	for name, e := range map[string]struct {
		size  int
		alone bool // each is a piece
	}{
		"tiny": {1, false}, "small": {150, false}, "small, one by one": {150, true}, "medium": {1_500, true},
		"some kilobytes": {5_000, true}, "large": {100_000, false},
		"a little more than fits": {16 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			s, _ := server.replica(nil)
			en := entry("a")
			en.MaxStream = 128 << 10
			l := claim(t, s, en, newRun())
			begin(t, l)
			written := func(events int) func() bool {
				return func() bool {
					v, err := s.look(context.Background(), l.ID, "")
					return err == nil && v.events == uint64(events)
				}
			}
			most := int(en.MaxStream)
			text := "data: " + strings.Repeat("x", e.size) + "\n\n"
			n := 0
			for ; n*len(text) < 2*most; n++ {
				add(t, l, text)
				if e.alone {
					until(t, "it is in Redis", written(n+1))
				}
			}
			until(t, "all is in Redis", written(n))
			if len(text) > most/2 { // such an event does not count
				most += len(text)
			}
			if taken := server.memory(); taken < most/2 || taken > most*5/4+8<<10 {
				t.Errorf("%d bytes are taken, want about %d", taken, most)
			}
		})
	}
}

// TestLargeRecords keeps out of Redis what no replica would read there. The answer goes on here.
func TestLargeRecords(t *testing.T) {
	f := new(fake)
	f.start(t)
	s, logs := f.replica(t, nil)
	e := entry("path")
	e.Path = strings.Repeat("/", maxRecord)
	if _, _, err := s.Claim(context.Background(), e, newRun().callbacks()); err == nil {
		t.Error("a large path is kept")
	}
	l := claim(t, s, entry("header"), newRun())
	if err := l.Append(context.Background(), resume.Part{Header: http.Header{"A": {strings.Repeat("x", maxRecord)}}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the log is lost", l.Writer.(*owned).isLost)
	until(t, "that is logged", func() bool { return logs.FilterMessageSnippet("goes on here").Len() == 1 })
	add(t, l, event(1))
	l.End(resume.Whole)
}
