package resume_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume/internal/clocktest"
)

// fillMemory has a log that somebody reads take more than most: others can make no room.
func fillMemory(t *testing.T, s *resume.Memory, most int) {
	t.Helper()
	w := claim(t, s, resume.Entry{ID: "full", MaxStream: 1 << 30, MaxMemory: 1 << 30})
	r, err := w.log.Follow(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	w.fill(t, most+most/4, 1000)
}

// bursts returns n events of the size, in pieces of one write each.
func bursts(n, size int) (all []string) {
	for range n {
		all = append(all, "data: "+strings.Repeat("x", size-8)+"\n\n")
	}
	return all
}

// newPromptLab is a lab in which no client takes too long: its clock stands still. Upstream
// sends the first piece, and the others when it is told to, in a burst.
func newPromptLab(t *testing.T, maxStream, maxMemory int64, pieces []string) (l *lab, burst chan struct{}) {
	clock, store := clocktest.New(), (*resume.Memory)(nil)
	burst = make(chan struct{})
	l = newLab(t, func(o *resume.Options) {
		store = resume.NewMemory(clock)
		o.Clock, o.Store, o.MaxStream, o.MaxMemory = clock, store, maxStream, maxMemory
	}, func(w http.ResponseWriter, r *http.Request) error {
		if err := streams(pieces[:1], always())(w, r); err != nil {
			return err
		}
		select {
		case <-burst:
		case <-r.Context().Done():
			return context.Cause(r.Context())
		}
		return streams(pieces[1:], always())(w, r)
	})
	l.store = store
	return l, burst
}

// TestClientIsNotCutOffBecauseAnotherHasRead: once somebody else has read a stream, upstream
// goes on waiting for the client that is still there.
func TestClientIsNotCutOffBecauseAnotherHasRead(t *testing.T) {
	for name, back := range map[string][]string{"the first": nil, "one that has come back": {key, "k"}} {
		t.Run(name, func(t *testing.T) {
			const memory = 1 << 20
			pieces := append([]string{event(1)}, bursts(20, 8<<10)...)
			l, burst := newPromptLab(t, 512<<10, memory, pieces)
			fillMemory(t, l.store, memory)
			first := l.send(post(key, "k"))
			id := first.id()
			first.next()
			second := l.send(post(key, "k"))
			second.next()
			stays, leaves := first, second
			if back != nil {
				stays, leaves = second, first
			}
			leaves.leave()
			until(t, "the other has left", func() bool { return l.runs.Stats().Readers == 1 })
			close(burst)
			if got, want := stays.rest(), numbered(id, 2, pieces[1:]...); got != want {
				t.Errorf("%d bytes, want %d", len(got), len(want))
			}
			l.wantAsked(1)
		})
	}
}

// TestPromptReadersAreNeverCutOff has some read at once what comes much faster than they
// take it, in pieces smaller and larger than what is kept, with room in memory and without.
func TestPromptReadersAreNeverCutOff(t *testing.T) {
	for _, size := range []int{100, 5000, 16 << 10, 40000, 300000} {
		for _, memory := range []int64{64 << 10, 64 << 20} {
			pieces := append([]string{event(1)}, bursts(4<<20/size, size)...)
			l, burst := newPromptLab(t, 64<<10, memory, pieces)
			if memory < 1<<20 {
				fillMemory(t, l.store, int(memory))
			}
			var all sync.WaitGroup
			first := l.send(post(key, "k"))
			want := numbered(first.id(), 1, pieces...)
			for i := range 3 {
				r := first
				if i > 0 {
					r = l.send(post(key, "k"))
				}
				all.Go(func() {
					if b, err := io.ReadAll(r.in); string(b) != want || err != nil {
						t.Errorf("events of %d bytes, memory of %d: the reader %d gets %d bytes of %d, %v", size, memory, i, len(b), len(want), err)
					}
				})
			}
			until(t, "all read", func() bool { return l.runs.Stats().Readers == 3 })
			close(burst)
			all.Wait()
			l.wantAsked(1)
		}
	}
}

// TestWaitingForAReaderEndsWithTheRun: upstream waits for the only reader, which has stopped
// reading, until its stream is deleted.
func TestWaitingForAReaderEndsWithTheRun(t *testing.T) {
	pieces := append([]string{event(1)}, bursts(100, 1<<20)...)
	l, burst := newPromptLab(t, 64<<10, 64<<20, pieces)
	first := l.send(post(key, "k"))
	first.next()
	stuck := l.send(post(key, "k"))
	first.leave()
	until(t, "the first has left", func() bool { return l.runs.Stats().Readers == 1 })
	close(burst)
	log, err := l.store.Find(context.Background(), stuck.id())
	if err != nil {
		t.Fatal(err)
	}
	before := uint64(0)
	until(t, "upstream waits", func() bool {
		was := before
		before = log.Events()
		time.Sleep(20 * time.Millisecond)
		return was == before && was > 1
	})
	if before == uint64(len(pieces)) {
		t.Error("upstream has not waited")
	}
	l.send(request{http.MethodDelete, otherPath + "/" + stuck.id(), "", nil}).want(http.StatusNoContent)
	if e := l.over(); e.Reason != resume.ReasonDeleted {
		t.Errorf("ended for %v", e.Reason)
	}
}
