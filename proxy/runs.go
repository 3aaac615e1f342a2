package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A run of POST /v1/runs goes on after the request has been answered, and keeps the request's place
// in line (Options.RunBegan). Answers that say that a run has begun or is over pass unchanged, but
// are read on the way: they are followed.
//
// The invariants: a turn is handed over at most once, before the client can know of the run, and
// otherwise ends with its exchange. Only upstream's own words end a run: the end that the sidecar
// gives to a stream that was cut does not.

// follow follows the answer that is about to pass, if it may say something of a run.
func (x *exchange) follow() {
	path := x.r.URL.Path
	begins := x.line != nil && x.o.RunBegan != nil && rewrite.IsRunsPath(path) && x.status/100 == 2
	tells := x.o.RunOver != nil && x.r.Method == http.MethodGet && rewrite.RunStatusOfPath(path) != ""
	if (begins || tells) && head.MediaType(x.header) == "application/json" && !head.IsEncoded(x.header) {
		x.followed = &followed{begins: begins}
	}
}

// read reads b, the next bytes of a followed answer, before the client gets them.
func (f *followed) read(x *exchange, b []byte) {
	f.body = append(f.body, b[:min(len(b), rewrite.MaxRunAnswer-len(f.body))]...)
	if !f.begins || !f.object.take(b) || !f.object.complete() {
		return
	}
	f.begins = false
	// Hermes answers a repeated request with the run that the first one began, and the state of
	// that run.
	if id := rewrite.BegunRun(f.body); id != "" && rewrite.StateOfRun(f.body) != rewrite.RunOver {
		x.line.kept = true
		x.o.RunBegan(x.r, id, x.line.turn)
	}
}

// endRun calls Options.RunOver if the answer has said that a run is over.
func (x *exchange) endRun() {
	if x.o.RunOver == nil {
		return
	}
	if s, ok := x.answer.(*stream); ok && s.engine.ShowedEndOfRun() {
		x.o.RunOver(x.r, rewrite.RunOfPath(x.r.URL.Path))
	}
	if f := x.followed; f != nil && x.r.Method == http.MethodGet && rewrite.StateOfRun(f.body) == rewrite.RunOver {
		x.o.RunOver(x.r, rewrite.RunStatusOfPath(x.r.URL.Path))
	}
}

// endTurn ends the turn of the request, if it has one that the run that it has begun does not keep.
func (x *exchange) endTurn() {
	x.mu.Lock()
	l := x.line
	x.mu.Unlock()
	if l != nil && !l.kept {
		l.turn.Done()
	}
}

// lateBegin is how long the answer to a POST that begins a run may take after its client has left:
// the run goes on, and only the answer has its id. Hermes answers before the agent begins.
const lateBegin = 10 * time.Second

// outlasting returns next or, if the request begins a run that keeps its place, a handler that
// calls next with a request that ends lateBegin after its client has left.
func (x *exchange) outlasting(next func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	if x.o.RunBegan == nil || !rewrite.IsRunsPath(x.r.URL.Path) {
		return next
	}
	return func(w http.ResponseWriter, up *http.Request) error {
		within := up.Context()
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(within))
		defer cancel(nil)
		defer context.AfterFunc(within, func() {
			if x.r.Context().Err() != nil {
				late := time.NewTimer(lateBegin)
				defer late.Stop()
				select {
				case <-late.C:
				case <-ctx.Done():
				}
			}
			cancel(context.Cause(within))
		})()
		*up = *up.WithContext(ctx)
		return next(w, up)
	}
}
