package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// asked returns a client's request, which upstream a:1 answers.
func asked(method, url, credentials string) *http.Request {
	r := caddytest.Request(method, url, `{"input":"hello"}`, "Authorization", credentials, "Idempotency-Key", "k")
	caddytest.AnswerBy(r, "a:1")
	return r
}

// lab is a keeper with places, and an upstream that answers as the test says.
type lab struct {
	t     *testing.T
	lines queue.Lines
	*Keeper
	logs  *observer.ObservedLogs
	next  behalf.Next // answers questions
	mu    sync.Mutex
	asked []*http.Request
}

// inBubble runs f with a lab.
func inBubble(t *testing.T, name string, f func(*lab)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zapcore.DebugLevel)
			l := &lab{t: t, logs: logs, Keeper: &Keeper{new(Runs), zap.New(core), caddytest.Upstream}}
			f(l)
		})
	})
}

// serve is the next handler: upstream.
func (l *lab) serve(w http.ResponseWriter, r *http.Request) error {
	l.mu.Lock()
	l.asked = append(l.asked, r)
	next := l.next
	l.mu.Unlock()
	caddytest.AnswerBy(r, "a:1")
	return next(w, r)
}

// answers has upstream answer so from now on.
func (l *lab) answers(next behalf.Next) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = next
}

// begins begins a run for a client.
func (l *lab) begins(credentials, id string) *queue.Turn {
	l.t.Helper()
	return l.beginsBy(asked(http.MethodPost, "http://agent/v1/runs", credentials), id)
}

// beginsBy begins a run by a request.
func (l *lab) beginsBy(r *http.Request, id string) *queue.Turn {
	l.t.Helper()
	r = r.WithContext(behalf.Begin(r, l.serve))
	turn, err := l.lines.Join("a", queue.Options{Runs: 8}, queue.Client{})
	if err != nil {
		l.t.Fatal(err)
	}
	l.Began(r, id, turn)
	return turn
}

// wantHeld checks how many places are taken, and how many questions there were.
func (l *lab) wantHeld(held, questions int) {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.lines.Stats().Running; n != held || len(l.asked) != questions {
		l.t.Errorf("%d places are taken after %d questions; want %d after %d", n, len(l.asked), held, questions)
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// says answers with a status and a body.
func says(status int, body string) behalf.Next {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, err := io.WriteString(w, body)
		return err
	}
}

// is answers with the status of a run.
func is(status string) behalf.Next {
	return says(http.StatusOK, `{"object": "hermes.run", "run_id": "run_1", "status": "`+status+`"}`)
}

const notFound = `{"error": {"message": "Run not found: run_1", "type": "invalid_request_error", "param": null, "code": "run_not_found"}}`

// TestRunsAreAskedFor until they are over.
func TestRunsAreAskedFor(t *testing.T) {
	for name, last := range map[string]behalf.Next{
		"completed": is("completed"), "failed": is("failed"), "cancelled": is("cancelled"), "interrupted": is("interrupted"),
		"forgotten, or the process is another": says(http.StatusNotFound, notFound),
	} {
		inBubble(t, name, func(l *lab) {
			l.answers(is("queued"))
			l.begins("k", "run_1")
			pass(4999 * time.Millisecond)
			l.wantHeld(1, 0)
			pass(time.Millisecond)
			l.wantHeld(1, 1)
			if r := l.asked[0]; r.Method != http.MethodGet || r.RequestURI != "/v1/runs/run_1" {
				t.Errorf("asked %s %s", r.Method, r.RequestURI)
			}
			for i, state := range []string{"running", "waiting_for_approval", "running", "stopping"} {
				l.answers(is(state))
				pass(askEvery)
				l.wantHeld(1, 2+i)
			}
			l.answers(is("running"))
			pass(time.Hour)
			l.wantHeld(1, 5+720)
			l.answers(last)
			pass(askEvery)
			l.wantHeld(0, 6+720)
			pass(time.Hour)
			l.wantHeld(0, 6+720)
			if l.logs.Len() > 0 {
				t.Errorf("logged %v", l.logs.All())
			}
		})
	}
}

// TestUpstreamThatDoesNotTell: the place is given back after a time, with a line in the log.
func TestUpstreamThatDoesNotTell(t *testing.T) {
	hangs := func(_ http.ResponseWriter, r *http.Request) error {
		<-r.Context().Done()
		return r.Context().Err()
	}
	for name, c := range map[string]struct {
		next  behalf.Next
		after time.Duration
	}{
		"a Hermes without statuses":  {says(http.StatusNotFound, "404: Not Found"), untoldAfter},
		"a key that is revoked":      {says(http.StatusUnauthorized, `{"error": {"code": "invalid_api_key"}}`), untoldAfter},
		"a status that is not known": {is("resting"), untoldAfter},
		"another program":            {says(http.StatusOK, "<html>"), untoldAfter},
		"502":                        {says(http.StatusBadGateway, ""), lostAfter},
		"no answer":                  {func(http.ResponseWriter, *http.Request) error { return nil }, lostAfter},
		"a hanging upstream":         {hangs, lostAfter},
		"another upstream": {func(w http.ResponseWriter, r *http.Request) error {
			caddytest.AnswerBy(r, "b:1")
			return says(http.StatusNotFound, notFound)(w, r)
		}, lostAfter},
	} {
		inBubble(t, name, func(l *lab) {
			l.answers(c.next)
			l.begins("k", "run_1")
			pass(c.after - time.Millisecond)
			if l.lines.Stats().Running != 1 {
				t.Error("the place is free too early")
			}
			pass(askEvery)
			questions := len(l.asked)
			l.wantHeld(0, questions)
			pass(time.Hour)
			l.wantHeld(0, questions)
			if l.logs.Len() != 1 || l.logs.All()[0].ContextMap()["run_id"] != "run_1" {
				t.Errorf("logged %v", l.logs.All())
			}
		})
	}
}

// TestUpstreamThatComesBack in time loses no run.
func TestUpstreamThatComesBack(t *testing.T) {
	inBubble(t, "", func(l *lab) {
		l.answers(is("running"))
		l.begins("k", "run_1")
		for range 100 {
			l.answers(says(http.StatusBadGateway, ""))
			pass(25 * time.Second)
			l.answers(is("running"))
			pass(5 * time.Second)
		}
		l.wantHeld(1, 600)
		for range 10 { // an answer of another kind says that upstream is there
			l.answers(says(http.StatusBadGateway, ""))
			pass(25 * time.Second)
			l.answers(says(http.StatusTooManyRequests, ""))
			pass(5 * time.Second)
		}
		l.wantHeld(1, 660)
		l.answers(is("completed"))
		pass(askEvery)
		l.wantHeld(0, 661)
	})
}

// TestRunsThatAreOver: an answer to the client frees the place at once, and one to others does not.
func TestRunsThatAreOver(t *testing.T) {
	inBubble(t, "", func(l *lab) {
		l.answers(is("running"))
		l.Over(asked(http.MethodGet, "http://agent/v1/runs/run_1", "k"), "run_1") // of none
		turn := l.begins("k", "run_1")
		l.begins("other", "run_1")
		for name, r := range map[string]*http.Request{
			"another key":     asked(http.MethodGet, "http://agent/v1/runs/run_1", "third"),
			"another site":    asked(http.MethodGet, "http://other/v1/runs/run_1", "k"),
			"another profile": asked(http.MethodGet, "http://agent/p/work/v1/runs/run_1", "k"),
		} {
			l.Over(r, "run_1")
			if l.lines.Stats().Running != 2 {
				t.Errorf("%s frees the place", name)
			}
		}
		l.Over(asked(http.MethodGet, "http://agent/v1/runs/run_2", "k"), "run_2")
		elsewhere := asked(http.MethodGet, "http://agent/v1/runs/run_1", "k")
		caddytest.AnswerBy(elsewhere, "b:1")
		l.Over(elsewhere, "run_1")
		l.wantHeld(2, 0)
		l.Over(asked(http.MethodGet, "http://agent/v1/runs/run_1/events", "k"), "run_1")
		l.wantHeld(1, 0)
		turn.Done()
		l.Over(asked(http.MethodGet, "http://agent/v1/runs/run_1", "k"), "run_1")
		pass(askEvery)
		l.wantHeld(1, 1) // of the other client
		l.answers(is("completed"))
		pass(askEvery)
		l.wantHeld(0, 2)
	})
}

// TestRepeatedRunHasOnePlace: Hermes answers a repeated request with the run that it began.
func TestRepeatedRunHasOnePlace(t *testing.T) {
	inBubble(t, "", func(l *lab) {
		l.answers(is("running"))
		l.begins("k", "run_1")
		l.begins("k", "run_1")
		l.wantHeld(1, 0)
		pass(askEvery)
		l.wantHeld(1, 1)
		l.answers(is("completed"))
		pass(askEvery)
		l.wantHeld(0, 2)
		l.begins("k", "run_1")
		l.wantHeld(1, 2)
		pass(askEvery)
		l.wantHeld(0, 3)
	})
}

// TestRunsOfOneID: requests that are no repeat begin a run each, whatever upstream calls them.
func TestRunsOfOneID(t *testing.T) {
	inBubble(t, "", func(l *lab) {
		l.answers(is("running"))
		for range 3 {
			r := asked(http.MethodPost, "http://agent/v1/runs", "k")
			r.Header.Del("Idempotency-Key")
			l.beginsBy(r, "run_1")
		}
		pass(askEvery)
		l.wantHeld(3, 1)
		l.answers(is("completed"))
		pass(askEvery)
		l.wantHeld(0, 2)
	})
}

// TestAnswerToAQuestionComesTooLate: the run is over by then, and the question ends.
func TestAnswerToAQuestionComesTooLate(t *testing.T) {
	inBubble(t, "", func(l *lab) {
		var cause error
		l.next = func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			cause = context.Cause(r.Context())
			return cause
		}
		l.begins("k", "run_1")
		pass(askEvery + time.Second)
		l.wantHeld(1, 1)
		l.Over(asked(http.MethodGet, "http://agent/v1/runs/run_1", "k"), "run_1")
		l.wantHeld(0, 1)
		if !errors.Is(cause, context.Canceled) || l.logs.Len() > 0 {
			t.Errorf("the question ended with %v; logged %v", cause, l.logs.All())
		}
	})
}

// TestRandomRuns: runs begin, end, are repeated and reported over at random, by several goroutines; no
// place is lost, and none is given back twice.
func TestRandomRuns(t *testing.T) {
	for seed := range uint64(50) {
		inBubble(t, fmt.Sprint(seed), func(l *lab) {
			var mu sync.Mutex
			over := map[string]bool{}
			l.next = func(w http.ResponseWriter, r *http.Request) error {
				mu.Lock()
				defer mu.Unlock()
				if over[r.URL.Path] {
					return is("completed")(w, r)
				}
				return is("running")(w, r)
			}
			var all sync.WaitGroup
			for client := range 4 {
				all.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(client)))
					for range 50 {
						id := fmt.Sprintf("run_%d", random.IntN(5))
						r := asked(http.MethodPost, "http://agent/v1/runs", fmt.Sprint(client%2))
						if random.IntN(2) == 0 {
							r.Header.Del("Idempotency-Key")
						}
						switch random.IntN(4) {
						case 0:
							turn, err := l.lines.Join("a", queue.Options{Runs: 8}, queue.Client{byte(client)})
							if err == nil {
								l.Began(r.WithContext(behalf.Begin(r, l.serve)), id, turn)
							}
						case 1:
							mu.Lock()
							over["/v1/runs/"+id] = random.IntN(2) == 0
							mu.Unlock()
						case 2:
							l.Over(r, id)
						case 3:
							time.Sleep(time.Duration(random.Int64N(int64(10 * time.Second))))
						}
					}
				})
			}
			all.Wait()
			for i := range 5 {
				mu.Lock()
				over[fmt.Sprintf("/v1/runs/run_%d", i)] = true
				mu.Unlock()
			}
			pass(2 * askEvery)
			if n := l.lines.Stats().Running; n != 0 || len(l.Runs.runs) > 0 {
				t.Errorf("%d places are taken, %d runs kept", n, len(l.Runs.runs))
			}
		})
	}
}
