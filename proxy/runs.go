package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A run of POST /v1/runs goes on when that is answered, and so keeps its request's place in line
// (Options.RunBegan). Answers that pass say that it has begun, and that it is over; they are followed,
// and not changed.
//
// The invariants: a turn is handed over at most once, before the client can know of the run, and
// otherwise ends with its exchange. Only upstream's own words end a run: an end that the sidecar
// gives to a stream that was cut is none.

// followed is an answer that passes and is read for what it says of a run.
type followed struct {
	begins bool   // it answers a POST: the run may begin
	body   []byte // its beginning
	object objectEnd
}

// follow follows the answer that is about to pass, if it may say something of a run.
func (x *exchange) follow() {
	path := x.r.URL.Path
	begins := x.line != nil && x.o.RunBegan != nil && rewrite.IsRunsPath(path) && x.status/100 == 2
	tells := x.o.RunOver != nil && x.r.Method == http.MethodGet && rewrite.RunStatusOfPath(path) != ""
	if (begins || tells) && head.MediaType(x.header) == "application/json" && !head.IsEncoded(x.header) {
		x.followed = &followed{begins: begins}
	}
}

// read reads b of a followed answer, before the client gets it.
func (f *followed) read(x *exchange, b []byte) {
	f.body = append(f.body, b[:min(len(b), rewrite.MaxRunAnswer-len(f.body))]...)
	if !f.begins || !f.object.take(b) || !f.object.complete() {
		return
	}
	f.begins = false
	// Hermes answers a repeated request with the run that it began, and what has become of that.
	if id := rewrite.BegunRun(f.body); id != "" && rewrite.StateOfRun(f.body) != rewrite.RunOver {
		x.line.kept = true
		x.o.RunBegan(x.r, id, x.line.turn)
	}
}

// endRun tells of a run that the answer has said is over.
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

// endTurn ends the turn of the request, unless the run that it has begun keeps it.
func (x *exchange) endTurn() {
	if !x.line.kept {
		x.line.turn.Done()
	}
}

// lateBegin is how long the answer to a POST that begins a run may take when its client has left:
// the run goes on, and only the answer says which one it is. Hermes answers before the agent begins.
const lateBegin = 10 * time.Second

// outlasting returns a next handler whose request, if it begins a run that keeps its place, ends
// lateBegin after its client has left.
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
