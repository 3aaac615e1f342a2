package resume_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// fillMemory has a log that somebody reads take more than most: others can make no room.
func fillMemory(t *testing.T, s *resume.Memory, most int) {
	t.Helper()
	w := claim(t, s, resume.Entry{ID: "full", MaxStream: 1 << 30, MaxMemory: 1 << 30})
	t.Cleanup(s.Read(context.Background(), "full", 0).Close)
	w.fill(t, most+most/4, 1000)
}

// bursts returns n events of the size, in pieces of one write each.
func bursts(n, size int) (all []string) {
	for range n {
		all = append(all, "data: "+strings.Repeat("x", size-8)+"\n\n")
	}
	return all
}

// inPromptBubble runs a test in a bubble, in which no client takes too long. Upstream sends the
// first piece, and the others in a burst when the test closes the channel.
func inPromptBubble(t *testing.T, maxStream, maxMemory int64, pieces []string, test func(t *testing.T, l *lab, burst chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		burst, store := make(chan struct{}), resume.NewMemory()
		l := newLabAt(t, newPipes(), func(o *resume.Options) {
			o.Store, o.MaxStream, o.MaxMemory = store, maxStream, maxMemory
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
		test(t, l, burst)
	})
}

// TestClientIsNotCutOffBecauseAnotherHasRead: once somebody else has read a stream, upstream
// goes on waiting for the client that is still there.
func TestClientIsNotCutOffBecauseAnotherHasRead(t *testing.T) {
	for name, back := range map[string][]string{"the first": nil, "one that has come back": {key, "k"}} {
		t.Run(name, func(t *testing.T) {
			const memory = 1 << 20
			pieces := append([]string{event(1)}, bursts(20, 8<<10)...)
			inPromptBubble(t, 512<<10, memory, pieces, func(t *testing.T, l *lab, burst chan struct{}) {
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
				synctest.Wait()
				close(burst)
				if got, want := stays.rest(), numbered(id, 2, pieces[1:]...); got != want {
					t.Errorf("%d bytes, want %d", len(got), len(want))
				}
				l.wantAsked(1)
			})
		})
	}
}

// TestPromptReadersAreNeverCutOff has some read at once what comes much faster than they
// take it, in pieces smaller and larger than what is kept, with room in memory and without.
func TestPromptReadersAreNeverCutOff(t *testing.T) {
	for _, size := range []int{100, 5000, 16 << 10, 40000, 300000} {
		for _, memory := range []int64{64 << 10, 64 << 20} {
			pieces := append([]string{event(1)}, bursts(4<<20/size, size)...)
			inPromptBubble(t, 64<<10, memory, pieces, func(t *testing.T, l *lab, burst chan struct{}) {
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
				synctest.Wait()
				close(burst)
				all.Wait()
				l.wantAsked(1)
			})
		}
	}
}

// TestWaitingForAReaderEndsWithTheRun: upstream waits for the only reader, which has stopped
// reading, for ever, until its stream is deleted or the process drains.
func TestWaitingForAReaderEndsWithTheRun(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		pieces := append([]string{event(1)}, bursts(100, 1<<20)...)
		inPromptBubble(t, 64<<10, 64<<20, pieces, func(t *testing.T, l *lab, burst chan struct{}) {
			stuck := l.send(post(key, "k"))
			stuck.next()
			why := resume.ReasonShutdown
			if comesBack {
				first := stuck
				stuck, why = l.send(post(key, "k")), resume.ReasonDeleted
				first.leave()
			}
			synctest.Wait()
			close(burst)
			time.Sleep(time.Hour)
			l.wantOpen(1)
			if used, _ := l.store.Used(); used > 3<<20 {
				t.Errorf("upstream has not waited: %d bytes have come", used)
			}
			if comesBack {
				l.send(request{http.MethodDelete, otherPath + "/" + stuck.id(), "", nil}).want(http.StatusNoContent)
			} else {
				l.runs.Shutdown(1)
			}
			if e := l.over(); e.Reason != why {
				t.Errorf("ended for %v", e.Reason)
			}
			stuck.leave()
		})
	}
}

// TestUpstreamWaitsForASlowClient that is the only one, although there is room.
func TestUpstreamWaitsForASlowClient(t *testing.T) {
	pieces := append([]string{event(1)}, bursts(1000, 10<<10)...)
	inPromptBubble(t, 64<<20, 64<<20, pieces, func(t *testing.T, l *lab, burst chan struct{}) {
		slow := l.send(post(key, "k"))
		slow.next()
		close(burst)
		time.Sleep(time.Hour)
		if used, _ := l.store.Used(); used > 1<<20 {
			t.Errorf("upstream has not waited: %d bytes have come", used)
		}
		second := l.send(post(key, "k")) // and no upstream waits any more
		want := numbered(slow.id(), 1, pieces...)
		if got := second.rest(); got != want {
			t.Errorf("the second got %d bytes, want %d", len(got), len(want))
		}
		if got := slow.rest(); got != want[len(numbered(slow.id(), 1, pieces[0])):] {
			t.Errorf("the slow one got %d bytes", len(got))
		}
	})
}
