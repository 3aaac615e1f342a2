// Package runs keeps the places in line of runs that go on after their requests have been answered:
// the runs of POST /v1/runs, whose end shows only in their events and their status.
//
// A run is known by its id and its client, so that an answer to another client about a run with the
// same id frees nothing. Its invariants:
//
//   - Each turn that Began gets is done once, whatever happens: when an answer to its client (Over)
//     or the run's status shows the end, or when upstream says nothing of the run for too long.
//   - As long as upstream says that the run goes on, it has its place.
//   - Each run has one goroutine and one timer, which end with it. There are no more runs than places.
package runs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Times of asking for the status of a run.
const (
	// askEvery is the time between two requests. If no client reads the events of a run, its place
	// is free at most that long after its end. Hermes answers from memory.
	askEvery = 5 * time.Second
	// askLimit is how long an answer may take.
	askLimit = 10 * time.Second
	// lostAfter is how long upstream may give no answer, or only server errors, before a run loses
	// its place. If the run goes on nevertheless, Hermes refuses further runs with its own 429.
	lostAfter = 30 * time.Second
	// untoldAfter is how long upstream may answer without the state of a run before the run loses
	// its place. Hermes before 0.13 tells the state only in the events. It counts a run whose
	// events no client reads for five minutes, and checks that each minute.
	untoldAfter = 6 * time.Minute
)

// Runs are the runs of a process that keep their places. The zero value has none. It is safe for
// concurrent use.
type Runs struct {
	mu   sync.Mutex
	runs map[key]*run
}

// key identifies a run.
type key struct {
	client client.ID
	id     string
}

// run is a run that keeps its place.
type run struct {
	turns    []*queue.Turn // guarded by the mutex of Runs until the run ends
	upstream string
	stop     context.CancelFunc // ends the requests for the status
}

// Keeper keeps the runs of one handler. All fields must be set.
type Keeper struct {
	Runs   *Runs
	Logger *zap.Logger
	// Upstream names the upstream that answers a request, "" if it has no name.
	Upstream func(*http.Request) string
}

// Began makes the run id, which r has begun, keep the place of t until the run is over. The context
// of r is from behalf.Begin. Began is called in the goroutine that handles r. A run that has a place
// already, because its request was repeated with an Idempotency-Key, needs no other. Without an
// Idempotency-Key it is another run, even with the same id, and both places are kept.
func (k *Keeper) Began(r *http.Request, id string, t *queue.Turn) {
	s := behalf.New(r, k.Upstream)
	ctx, stop := context.WithCancel(context.Background())
	of, x := key{client.Of(r, behalf.Site(r)...), id}, &run{[]*queue.Turn{t}, s.Upstream(), stop}
	if !k.Runs.add(of, x, r.Header.Get("Idempotency-Key") != "") {
		stop()
		return
	}
	go func() {
		err := ask(ctx, s, s.Path()+"/"+id)
		if k.Runs.end(of, x) && err != nil {
			k.Logger.Warn("upstream does not say whether a run is still active; its place goes to another request", zap.String("run_id", bounded.Name(id)), zap.Error(bounded.Error(err)))
		}
	}()
}

// Over frees the place of the run id, because the answer to the client's request r has said that
// the run is over. The answer of an upstream that did not begin the run has no effect. Over is
// called in the goroutine that handles r.
func (k *Keeper) Over(r *http.Request, id string) {
	if k.Runs.none() {
		return
	}
	of := key{client.Of(r, behalf.Site(r)...), id}
	if x := k.Runs.of(of); x != nil && x.upstream == k.Upstream(r) {
		k.Runs.end(of, x)
	}
}

// add adds x. It returns false if there is a run with the key already: then that run gets the place
// of x as well, unless x is a repeat, whose place is freed.
func (s *Runs) add(of key, x *run, repeat bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.runs[of]; there != nil {
		if repeat {
			x.turns[0].Done()
		} else {
			there.turns = append(there.turns, x.turns...)
		}
		return false
	}
	if s.runs == nil {
		s.runs = make(map[key]*run)
	}
	s.runs[of] = x
	return true
}

// none reports whether there are no runs.
func (s *Runs) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs) == 0
}

// of returns the run with the key, nil for none.
func (s *Runs) of(of key) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[of]
}

// end frees the places of x, and reports whether x was still kept.
func (s *Runs) end(of key, x *run) bool {
	s.mu.Lock()
	had := s.runs[of] == x
	if had {
		delete(s.runs, of)
	}
	s.mu.Unlock()
	x.stop()
	for _, t := range x.turns {
		t.Done()
	}
	return had
}

// The errors of ask and stateOf.
var (
	errLost   = errors.New("upstream does not answer")
	errUntold = errors.New("upstream reports no status for the run")
)

// ask requests the status of the run at path until the run is over or ctx is done. It fails with
// errLost or errUntold if upstream does not tell the status for too long.
func ask(ctx context.Context, s *behalf.Sender, path string) error {
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	told := time.Now()
	for answered := told; ; timer.Reset(askEvery) {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		state, err := stateOf(ctx, s, path)
		now := time.Now()
		switch {
		case state == rewrite.RunOver:
			return nil
		case state == rewrite.RunGoesOn:
			told, answered = now, now
		case err == nil:
			answered = now
		case now.Sub(answered) >= lostAfter:
			return err
		}
		if now.Sub(told) >= untoldAfter {
			return errUntold
		}
	}
}

// stateOf returns the state of the run at path. It wraps errLost if upstream gives no answer, or a
// server error.
func stateOf(ctx context.Context, s *behalf.Sender, path string) (rewrite.RunState, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	said, err := s.Send(ctx, http.MethodGet, path, nil)
	switch {
	case err != nil:
		return rewrite.RunUnknown, fmt.Errorf("%w: %w", errLost, err)
	case said.Status == 0 || said.Status >= http.StatusInternalServerError:
		return rewrite.RunUnknown, fmt.Errorf("%w: status %d", errLost, said.Status)
	case said.Status == http.StatusOK || said.Status == http.StatusNotFound:
		return rewrite.StateOfRun(said.Body), nil
	}
	return rewrite.RunUnknown, nil
}
