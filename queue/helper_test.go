package queue_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

const backend = "127.0.0.1:8642"

// scene is a line with requests that have names: the first letter is the client's.
type scene struct {
	t        *testing.T
	lines    queue.Lines
	mu       sync.Mutex // of what goroutines of requests write
	o        queue.Options
	requests map[string]*request
}

// request is one of a scene.
type request struct {
	turn  *queue.Turn
	leave context.CancelCauseFunc
	ctx   context.Context
	told  []int
	err   error // of Wait
	waits bool
}

// inScene calls f with an empty line, in a bubble of its own.
func inScene(t *testing.T, o queue.Options, f func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&scene{t: t, o: o, requests: map[string]*request{}})
	})
}

// join has a request join the line.
func (s *scene) join(name string) error {
	o := s.o
	o.Label = name
	turn, err := s.lines.Join(backend, o, queue.Client{name[0]})
	if err != nil {
		return err
	}
	q := &request{turn: turn}
	q.ctx, q.leave = context.WithCancelCause(s.t.Context())
	s.requests[name] = q
	return nil
}

// wait has a request wait for its place.
func (s *scene) wait(name string) {
	q := s.requests[name]
	s.mu.Lock()
	q.waits = true
	s.mu.Unlock()
	go func() {
		err := q.turn.Wait(q.ctx, func(before int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			q.told = append(q.told, before)
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		q.waits, q.err = false, err
	}()
	synctest.Wait()
}

// done ends a request.
func (s *scene) done(name string) {
	s.requests[name].turn.Done()
	synctest.Wait()
}

// wantLine checks who waits, in their order.
func (s *scene) wantLine(names string) {
	s.t.Helper()
	var got []string
	list := s.lines.List(time.Now())
	for i, w := range list {
		if w.Before != list[0].Before+i || w.Backend != backend {
			s.t.Fatalf("%d: %+v", i, w)
		}
		got = append(got, w.Label)
	}
	if strings.Join(got, " ") != names {
		s.t.Fatalf("in line: %q, not %q", got, names)
	}
}

// wantNothing ends all and checks that nothing is left.
func (s *scene) wantNothing() {
	s.t.Helper()
	for name := range s.requests {
		s.done(name)
	}
	time.Sleep(time.Hour) // a pause
	synctest.Wait()
	if size := s.lines.Size(); size != 0 {
		s.t.Fatalf("%d lines and clients are left", size)
	}
}

// state returns whether a request waits, and the error of its Wait.
func (s *scene) state(name string) (waits bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.requests[name]
	return q.waits, q.err
}

// told returns which numbers a request was told.
func (s *scene) told(name string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests[name].told)
}
