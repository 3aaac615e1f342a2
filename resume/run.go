package resume

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A run is a call of the next handler, in a goroutine of its own.
type run struct {
	life   *life   // for all goroutines
	answer *answer // for the goroutine of next, once that has started
	ctx    context.Context
	// opened and over hand the first client what concerns it alone. The client receives from
	// opened after it has read the header from the log, and from over if it waits for next.
	opened chan opening
	over   chan outcome
	// background says that the request asks for a run that goes on without a client, and gets it.
	background bool
}

// outcome is how a run has ended.
type outcome struct {
	ended    Ended
	panicked any         // the panic of next, as panics.Catch returns it
	header   http.Header // next's, with trailers
}

// newRun returns a run for the request r of the first client. If there is no client, w is nil.
func newRun(o *Options, e entry, t terms, w http.ResponseWriter, r *http.Request) *run {
	x := &run{opened: make(chan opening, 1), over: make(chan outcome, 1)}
	ctx, abort := context.WithCancelCause(context.WithValue(context.WithoutCancel(r.Context()), runKey{}, x))
	x.ctx = ctx
	x.life = &life{
		counts: &o.Runs.counter, maxDetached: o.MaxDetached, abort: abort, plain: e.Plain,
		wants: t.wants, informs: informer{version: r.ProtoMajor}, client: w,
		detach: t.detach, after: max(t.detach, t.detachRest),
	}
	x.life.readers = &readers{of: x.life}
	x.answer = &answer{
		o: o, life: x.life, ctx: ctx, entry: e, events: numbersOf(e), sdk: t.sdk,
		header: make(http.Header), opened: x.opened, at: location(o, r, e.ID),
	}
	if w != nil {
		x.answer.header, x.answer.before = w.Header().Clone(), w.Header().Clone()
	}
	if rewrite.IsResponsesPath(r.URL.Path) {
		x.answer.name, x.background = newResponseName(), t.background && t.detach > 0
	}
	return x
}

// claim claims the log of the run. If another run has the key, claim returns the entry of its log.
func (x *run) claim(ctx context.Context) (have entry, claimed bool, err error) {
	a := x.answer
	have, w, err := a.entry.claim(ctx, a.o.Store, x.life.logRun(x.life.readers))
	a.log = w
	return have, w != nil, err
}

// attend starts a call of next and answers the first client, which reads the log like any other,
// without the events that it has seen.
func (x *run) attend(w http.ResponseWriter, r *http.Request, body []byte, seen seen, next Next) error {
	o, e := x.answer.o, x.answer.entry // a split changes it
	var reader log.Reader
	defer func() {
		if reader == nil { // Read panicked: only the end of a run ends the log, and gives its place back
			returned := x.start(r, nil, func(http.ResponseWriter, *http.Request) error { return errUnavailable })
			<-x.over
			returned()
		}
	}()
	reader = seen.skip(o.Store.Read(r.Context(), e.ID, 0))
	returned := x.start(r, body, next)
	leave := sync.OnceValue(func() bool {
		reader.Close()
		return x.life.leave()
	})
	defer leave() // also if w panics
	first, err := reader.Next()
	streams := err == nil || errors.Is(err, io.EOF)
	if streams {
		opened := <-x.opened
		header := first.Header.Clone()
		maps.Copy(header, opened.own)
		flushes := func(wrote bool) bool { return opened.early || wrote && (first.Status == 0 || opened.flushed()) }
		err = send(o, w, r, reader, first.Status, header, flushes, HowBegun)
	}
	if leave() {
		if !streams {
			w.WriteHeader(statusGone)
		}
		if streams && err == nil && e.Once { // the client has all of the log before a split
			free(o, r, e.ID)
		}
		return cutOff(err)
	}
	stop := context.AfterFunc(r.Context(), func() { x.life.abort(context.Cause(r.Context())) })
	out := <-x.over
	stop()
	returned()
	if streams && err == nil {
		head.CopyTrailers(w.Header(), out.header)
		if e.Once {
			free(o, r, e.ID)
		}
	}
	switch {
	case streams && out.ended.Reason != log.ReasonNone: // what next returned does not matter
	case out.panicked != nil:
		panic(out.panicked)
	case out.ended.Err != nil:
		return out.ended.Err
	}
	return cutOff(err)
}

// start calls next for a clone of r. It returns the function that Options.Detached has returned.
func (x *run) start(r *http.Request, body []byte, next Next) (returned func()) {
	up := r.Clone(x.ctx)
	giveBody(up, body)
	up, returned = x.answer.o.Detached(up, x.answer)
	x.call(up, next)
	return returned
}

// call starts a goroutine that calls next for up, a request of the run alone.
func (x *run) call(up *http.Request, next Next) {
	x.answer.o.Runs.add(x.life, true)
	go func() {
		var out outcome
		defer func() { // also if next ends the goroutine
			x.end(up, &out)
			x.over <- out
		}()
		// A panic that leaves the goroutine would end the process.
		out.panicked = panics.Catch(func() { out.ended.Err = next(x.answer, up) })
	}()
}

// end ends the run after next has returned or panicked, and completes out.
func (x *run) end(r *http.Request, out *outcome) {
	a, runs := x.answer, x.answer.o.Runs
	client, e := x.life.end()
	e.Err = out.ended.Err
	if v := panics.Catch(func() {
		defer func() { a.end(client, e.Reason, e.Err != nil || out.panicked != nil) }()
		if a.unsplit != nil {
			a.unsplit()
		}
		a.name.end()
	}); out.panicked == nil {
		out.panicked = v
	}
	inLog := e.Stream || a.kind == kindBody
	raises := client != nil && !(inLog && e.Reason != log.ReasonNone) // see attend
	if late, ok := out.panicked.(*panics.Late); ok && !raises || errors.As(a.logErr, &late) {
		e.Panicked = late
	}
	e.Events = a.events.all()
	x.life.abort(nil)
	runs.remove(x.life)
	if e.Reason != log.ReasonNone {
		runs.count(func(s *Stats) { s.TotalCancelled[e.Reason]++ })
	}
	a.o.Ended(r, e)
	out.ended, out.header = e, a.header
}

// runKey is the key of the run in the context of its request.
type runKey struct{}

// Readers returns how many clients read the answer to the request with the context ctx. It is for
// handlers that Serve calls. ok is false if the answer may not be resumed.
func Readers(ctx context.Context) (n int, ok bool) {
	x, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return 0, false
	}
	return x.life.readersNow(), true
}

// Background reports whether the request with the context ctx asks for an answer in the background
// (rewrite.AsksForBackground), and goes on without a client.
func Background(ctx context.Context) bool {
	x, ok := ctx.Value(runKey{}).(*run)
	return ok && x.background
}

// location returns the address at which the client of r finds the log with the id.
func location(o *Options, r *http.Request, id string) string {
	_, path := o.Target(r)
	l := (&url.URL{Path: path + "/" + id}).EscapedPath()
	if strings.HasPrefix(l, "//") { // a client would read the first segment as a host
		l = "/." + l
	}
	return l
}
