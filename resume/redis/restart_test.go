package redis

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestRedisRestarts and has all that it had: who reads a stream, here or elsewhere, notices
// nothing, as long as that takes less than a lease.
func TestRedisRestarts(t *testing.T) {
	server := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	here, logs := server.replica(nil)
	there, _ := server.replica(nil)
	l := claim(t, here, entry("a"), newRun())
	begin(t, l)
	add(t, l, event(1))
	live, late := follow(t, there, l.ID), follow(t, there, l.ID)
	read(t, live, len(event(1)))
	server.kill()
	add(t, l, event(2))
	got := make(chan string)
	for _, r := range []io.Reader{readerOf{live}, readerOf{late}} { // the late one asks Redis for its beginning
		go func() {
			b, err := io.ReadAll(r)
			if err != nil {
				t.Error(err)
			}
			got <- string(b)
		}()
	}
	until(t, "it is missed", func() bool { return here.away.Load() && there.away.Load() })
	server.start(program(t))
	add(t, l, event(3))
	l.End(resume.Whole)
	rest := event(2) + event(3)
	if a, b := <-got, <-got; len(a) == len(b) || !strings.HasSuffix(a, rest) || !strings.HasSuffix(b, rest) {
		t.Errorf("%q and %q", a, b)
	}
	if n := logs.FilterMessageSnippet("goes on here").Len(); n != 0 {
		t.Error("the log is lost")
	}
}

// TestConnectionsAreKilled again and again, and commands wait for a while: nothing is lost.
func TestConnectionsAreKilled(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(nil)
	there, _ := server.replica(nil)
	l := claim(t, here, entry("a"), newRun())
	begin(t, l)
	r := follow(t, there, l.ID)
	want := ""
	for n := range 200 {
		add(t, l, event(n))
		want += event(n)
		command := []any{"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}
		if n%20 == 0 {
			command = []any{"CLIENT", "PAUSE", 20, []string{"ALL", "WRITE"}[n/20%2]}
		}
		server.do(command...)
	}
	l.End(resume.Whole)
	if got, err := all(r); got != want || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, want %d, %v", len(got), len(want), err)
	}
}

// TestWritesFail while leases can be refreshed: the log is lost after a lease all the same.
func TestWritesFail(t *testing.T) {
	server := startServer(t)
	s, _ := server.replica(mortal)
	l := claim(t, s, entry("a"), newRun())
	begin(t, l)
	until(t, "it has begun", func() bool {
		v, err := s.look(context.Background(), l.ID, "")
		return err == nil && v.state == resume.Begun
	})
	if err := server.client.Set(context.Background(), s.names.events(l.ID), "no stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	add(t, l, event(1))
	until(t, "the log is lost", l.Writer.(*owned).isLost)
}
