package redis

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestReaderAtTheEndOfWhatCameLast has the log end while the tail is not waiting: the tail
// knows of more bytes than it has, and the reader has to ask for them.
func TestReaderAtTheEndOfWhatCameLast(t *testing.T) {
	server := startServer(t)
	here, _ := server.replica(nil)
	there, _ := server.replica(nil)
	l := claim(t, here, entry("a"), newRun())
	begin(t, l)
	tail := handTail(there, l.Entry)
	r := follow(t, there, l.ID)
	step := func(what string, do func() (bool, error)) {
		t.Helper()
		if _, err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	wait := func() (bool, error) { return tail.wait(context.Background()) }

	step("look", tail.look)
	add(t, l, event(1))
	for tail.end == 0 { // what says that the log has begun may come first
		step("wait", wait)
	}
	if got := read(t, r, len(event(1))); got != event(1) {
		t.Fatalf("%q", got)
	}
	add(t, l, event(2))
	l.End(resume.Whole)
	until(t, "it is whole", func() bool {
		v, err := there.look(context.Background(), l.ID)
		return err == nil && v.state == resume.Whole
	})
	step("look", tail.look)

	rest := make(chan string)
	go func() {
		got, err := all(r)
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		rest <- got
	}()
	select {
	case got := <-rest:
		if got != event(2) {
			t.Errorf("%q", got)
		}
	case <-time.After(patience):
		t.Fatal("the reader is given neither the rest nor the end")
	}
}

// handTail makes the tail of a log that looks and waits when a test has it do so.
func handTail(s *Store, e resume.Entry) *tail {
	t := &tail{s: s, entry: e, stop: func() {}, readers: make(map[string]struct{}), changed: make(chan struct{}), last: "0-0"}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tails[e.ID] = t
	return t
}
