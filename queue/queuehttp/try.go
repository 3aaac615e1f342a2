package queuehttp

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// try calls the next handler with w, the writer of the Proxy, and up, upstream's request. It returns
// proxy.ErrAgain if upstream has refused the request, so that it waits again.
func (x *request) try(w http.ResponseWriter, up *http.Request) error {
	ctx, end := x.outlast(up.Context())
	defer end()
	*up = *up.WithContext(ctx)
	x.trying = ctx
	t := &trial{ResponseWriter: w, x: x}
	aborted, err := t.callNext(up)
	if t.rejoin() {
		return proxy.ErrAgain
	}
	t.release()
	x.place.end() // before the client is sent the rest of its answer
	if aborted {
		panic(http.ErrAbortHandler)
	}
	return err
}

// lateBegin is how long the answer to a POST that begins a run may take after its client has left:
// the run goes on, and only the answer has its id. Hermes answers before the agent begins.
const lateBegin = 10 * time.Second

// outlast returns ctx or, if the request begins a run that keeps its place, a context that ends
// lateBegin after its client has left.
func (x *request) outlast(within context.Context) (context.Context, func()) {
	if x.of.RunBegan == nil || !rewrite.IsRunsPath(x.r.URL.Path) {
		return within, func() {}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(within))
	stop := context.AfterFunc(within, func() {
		if x.r.Context().Err() != nil {
			late := time.NewTimer(lateBegin)
			defer late.Stop()
			select {
			case <-late.C:
			case <-ctx.Done():
			}
		}
		cancel(context.Cause(within))
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// trial is the writer of a try. It holds an answer that may be a refusal until it is whole, because
// only its body says so. Any other answer goes on to the Proxy.
type trial struct {
	http.ResponseWriter // of the Proxy
	x                   *request

	mu      sync.Mutex
	decided bool     // the answer has begun
	held    *refusal // nil unless the answer is held
	run     *begins  // nil unless the answer may say that a run has begun
}

// refusal is an answer that may be one with which upstream refuses the request.
type refusal struct {
	header http.Header
	body   []byte // at most maxRefusal bytes
}

// maxRefusal is the number of bytes of the largest answer that may be a refusal.
const maxRefusal = 16 << 10

// callNext calls the next handler. It reports whether that has aborted the answer: a proxy also does if
// the rest of a refusal is not sent.
func (t *trial) callNext(up *http.Request) (aborted bool, err error) {
	returned := false
	defer func() {
		if !returned { // next has panicked
			t.x.place.end()
		}
	}()
	aborted, err = panics.Aborts(func() error { return t.x.next(t, up) })
	returned = true
	return aborted, err
}

// rejoin sends the request back into the line if the answer is a refusal, and reports whether it has.
func (t *trial) rejoin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, x := t.held, t.x
	if f == nil || x.clientLeft() || !rewrite.RefusesRun(f.body) || !x.place.get().Rejoin(retryAfterOf(f.header)) {
		return false
	}
	x.refused = f
	return true
}

// release lets an answer that is held go on.
func (t *trial) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held != nil {
		_ = t.pass() // the Proxy knows the error
	}
}

// Unwrap is for http.ResponseController.
func (t *trial) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (t *trial) WriteHeader(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.decided:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		t.ResponseWriter.WriteHeader(status)
	default:
		t.begin(status)
	}
}

// Write implements http.ResponseWriter.
func (t *trial) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.decided {
		t.begin(http.StatusOK)
	}
	if t.held == nil {
		if t.run != nil {
			t.run.read(t.x, b)
		}
		return t.ResponseWriter.Write(b)
	}
	t.held.body = append(t.held.body, b...)
	if len(t.held.body) > maxRefusal {
		if err := t.pass(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// FlushError is for http.ResponseController.
func (t *trial) FlushError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.decided {
		t.begin(http.StatusOK)
	}
	if t.held != nil {
		return nil
	}
	return http.NewResponseController(t.ResponseWriter).Flush()
}

// begin begins the answer, whose header is complete.
func (t *trial) begin(status int) {
	t.decided = true
	h := t.Header()
	json := head.MediaType(h) == "application/json" && !head.IsEncoded(h)
	switch {
	case json && status == http.StatusTooManyRequests && t.x.place.get() != nil && t.x.in.MayRepeat():
		t.held = &refusal{header: h.Clone()}
		return
	case json && status/100 == 2 && t.x.of.RunBegan != nil && rewrite.IsRunsPath(t.x.r.URL.Path):
		t.run = new(begins)
	}
	t.goOn(status)
}

// goOn sends the header on to the Proxy: upstream has taken the request.
func (t *trial) goOn(status int) {
	t.x.answered.Store(true)
	if turn := t.x.place.get(); turn != nil {
		turn.Answered()
	}
	t.ResponseWriter.WriteHeader(status)
	h, in := t.Header(), t.x.in
	if status == http.StatusOK && head.MediaType(h) == "text/event-stream" && !head.IsEncoded(h) && !in.Sent().IsZero() {
		in.Send(in.Waiting().Over(nil, "It is your turn")) // a program may show the last status as long as it shows the answer
	}
}

// pass lets the answer that is held go on, as far as it was written.
func (t *trial) pass() error {
	f := t.held
	t.held = nil
	t.goOn(http.StatusTooManyRequests)
	_, err := t.ResponseWriter.Write(f.body)
	return err
}

// replay writes the refusal to w, whose client waits no more.
func (f *refusal) replay(w http.ResponseWriter) {
	head.Copy(w.Header(), f.header)
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write(f.body) // the Proxy knows the error
}

// retryAfterOf returns how long the field Retry-After of h asks to wait, 0 or less for no time. At least a
// second passes anyway (queue.Turn.Rejoin).
func retryAfterOf(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(n, 0), math.MaxInt64/int64(time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return time.Until(at)
}

// begins is the beginning of an answer to POST /v1/runs, which is read for the id of a run.
type begins struct {
	body []byte
	told bool
}

// read reads b, the next bytes, before the client gets them. The run that they show has begun keeps
// the place of x.
func (s *begins) read(x *request, b []byte) {
	if s.told || len(s.body)+len(b) > rewrite.MaxRunAnswer {
		s.told, s.body = true, nil
		return
	}
	s.body = append(s.body, b...)
	if !bytes.HasSuffix(bytes.TrimSpace(b), []byte("}")) {
		return
	}
	// Hermes answers a repeated request with the run that the first one began, and the state of
	// that run.
	id := rewrite.BegunRun(s.body)
	if id == "" {
		return
	}
	s.told = true
	if rewrite.StateOfRun(s.body) == rewrite.RunOver {
		return
	}
	if turn := x.place.give(); turn != nil {
		x.of.RunBegan(x.r, id, turn)
	}
}
