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
	placed   []string // in their order; those of one moment by name
	now      []string // got places in this moment
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

// come has requests join the line.
func (s *scene) come(names string) {
	s.t.Helper()
	for name := range strings.FieldsSeq(names) {
		if err := s.join(name); err != nil {
			s.t.Fatalf("%s: %v", name, err)
		}
	}
}

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
	s.wait(name)
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
		if err == nil {
			s.now = append(s.now, name)
		}
	}()
	s.settle()
}

// settle waits until all goroutines wait.
func (s *scene) settle() {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.now)
	s.placed = append(s.placed, s.now...)
	s.now = nil
}

// left has the client of a request leave.
func (s *scene) left(name string, cause error) {
	s.requests[name].leave(cause)
	s.settle()
}

// refuse has upstream refuse a request, which waits again.
func (s *scene) refuse(name string, after time.Duration) {
	s.t.Helper()
	if !s.requests[name].turn.Rejoin(after) {
		s.t.Fatalf("%s may not wait again", name)
	}
	s.wait(name)
}

// done ends requests, one after another.
func (s *scene) done(names string) {
	for name := range strings.FieldsSeq(names) {
		s.requests[name].turn.Done()
		s.settle()
	}
}

// answered has upstream take a request.
func (s *scene) answered(name string) {
	s.requests[name].turn.Answered()
	s.settle()
}

// sleep has time pass.
func (s *scene) sleep(d time.Duration) {
	time.Sleep(d)
	s.settle()
}

// wantPlaced checks which requests got places since the last call, in their order.
func (s *scene) wantPlaced(names string) {
	s.t.Helper()
	if got := strings.Join(s.placed, " "); got != names {
		s.t.Fatalf("placed: %q, not %q", got, names)
	}
	s.placed = nil
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

// wantTold checks which numbers a request was told.
func (s *scene) wantTold(name string, want ...int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.requests[name].told; !slices.Equal(got, want) {
		s.t.Fatalf("%s: %d, not %d", name, got, want)
	}
}

// wantErr checks that a request waits no longer.
func (s *scene) wantErr(name string, err error) {
	s.t.Helper()
	if waits, got := s.state(name); waits || got != err {
		s.t.Fatalf("%s: %v (%v), not %v", name, got, waits, err)
	}
}

// wantNothing ends all and checks that nothing is left.
func (s *scene) wantNothing() {
	s.t.Helper()
	for name := range s.requests {
		s.done(name)
	}
	s.sleep(time.Hour) // a pause
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
