// Package queuehttp queues HTTP requests that begin a run of the agent before a proxy.Proxy serves
// them: [Queue.Serve] takes the place of [proxy.Proxy.Serve]. The caller's Turn joins a line of
// package queue for each of these requests:
//
//	q := queuehttp.Queue{Proxy: p, Turn: func(r *http.Request) (*queue.Turn, error) {
//		return lines.Join("agent", options, clientOf(r))
//	}}
//	err := q.Serve(w, r, next)
//
// A client that waits for a stream is told its position, and gets keepalives. One that gets no place
// is answered with 429 and an error. A request that upstream rejects because it is at its own limit
// waits again. Errors of the next handler are returned as proxy.Proxy.Serve returns them. A Queue is
// safe for concurrent use. [The contract] has the rules (section 3, "Waiting in line").
//
// # Files
//
// A request has three lifetimes, one after the other: the Proxy reads it, it waits, and the Proxy
// serves it. No deadline runs while it waits, and this package writes the frames that its client is
// sent. After the first of them, the Proxy continues with a writer whose header has been sent.
//
//	queuehttp.go   the way of a request
//	waiting.go     waiting, and what a client is told
//	try.go         one try with upstream: its refusal, and the run that it begins
//
// [The contract]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#waiting-in-line
package queuehttp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Queue is a Proxy whose requests wait in line. It is safe for concurrent use. Proxy and Turn must be
// set.
type Queue struct {
	// Proxy serves the requests.
	Proxy *proxy.Proxy
	// Turn returns the turn in line of the client's request r, which begins a run of the agent
	// (rewrite.BeginsRun), nil if it need not wait. An error is queue.ErrFull: the client gets 429. It
	// is called once the request has been read.
	Turn func(r *http.Request) (*queue.Turn, error)
	// Queued reports whether Turn may return a turn for r. It is called before the request is read;
	// the body of such a request is kept until upstream has accepted the request. Nil means true
	// for each request that begins a run.
	Queued func(r *http.Request) bool
	// RunBegan is called with the id of a run that POST /v1/runs has begun, and its turn. The run
	// goes on after the answer to r has ended, and keeps its place until t.Done is called. Nil
	// means that the run ends with the answer.
	RunBegan func(r *http.Request, id string, t *queue.Turn)
}

// request is a request that may wait. Its invariants:
//
//   - Its turn is given to a run at most once, before the client can know of the run (Queue.RunBegan),
//     and otherwise ends with the next handler.
//   - Nothing leaves of an answer with which upstream refuses it, and the next try finds everything as
//     the first one did.
type request struct {
	of   *Queue
	r    *http.Request
	next func(http.ResponseWriter, *http.Request) error
	in   *proxy.Request

	place    place
	refused  *refusal        // upstream's last one, nil for none
	answered atomic.Bool     // upstream has begun an answer that goes on to the client
	trying   context.Context // of the try
	panicked any             // of the client's writer while it waited, nil for none
}

// place has the turn of a request: as long as it waits, and then until the next handler has ended, or a
// run keeps the turn.
type place struct {
	mu   sync.Mutex
	turn *queue.Turn // nil for none
	over bool        // the request has no use for a turn any more
}

// take takes the turn. It returns false, and ends the turn, if the request has no use for it.
func (p *place) take(turn *queue.Turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		turn.Done()
		return false
	}
	p.turn = turn
	return true
}

// get returns the turn, nil for none.
func (p *place) get() *queue.Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn
}

// give returns the turn, nil for none, to whoever ends it. The request has none from then on.
func (p *place) give() *queue.Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn := p.turn
	p.turn, p.over = nil, true
	return turn
}

// end ends the turn, if there is one.
func (p *place) end() {
	if turn := p.give(); turn != nil {
		turn.Done()
	}
}

// Serve is Proxy.Serve for a request that waits for its turn, if it has to. next is called each time that
// the request goes to upstream.
func (q *Queue) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error) error {
	if r.Method != http.MethodPost || !rewrite.BeginsRun(r.URL.Path) || q.Queued != nil && !q.Queued(r) {
		return q.Proxy.Serve(w, r, next)
	}
	x := &request{of: q, r: r, next: next}
	in, err := q.Proxy.Read(w, r, x.bodyEnded)
	if in == nil {
		return err
	}
	defer in.Close()
	x.in = in
	defer x.place.end()
	if in.Pending() { // it takes its place when its body was read
		return in.Serve(x.try)
	}
	turn, err := x.join()
	tells := in.MayBegin()
	for err == nil {
		if turn != nil {
			err = x.wait(in.Context(), turn, tells)
		}
		if err == nil {
			if served := in.Serve(x.try); !errors.Is(served, proxy.ErrAgain) {
				return served
			}
		}
	}
	return in.Serve(x.instead(err))
}

// join puts the request in line. The turn is nil if it need not wait. The error is queue.ErrFull if
// there is no room to wait, or errOver.
func (x *request) join() (*queue.Turn, error) {
	turn, err := x.of.Turn(x.r)
	if turn == nil || err != nil {
		return nil, err
	}
	if !x.place.take(turn) {
		return nil, errOver
	}
	return turn, nil
}

// errOver is the error of a request that joins the line after its answer has ended.
var errOver = errors.New("the answer has ended")

// bodyEnded waits for the turn of a request that went on to upstream before its body was read, because
// the sidecar does not read it first: a place is held while the agent works, not while a client
// sends. Hermes reads the whole body before it begins a run. The goroutine that reads the body for
// upstream calls bodyEnded when the client has sent the end, and passes that on if the error is nil.
// The client is told nothing: only the goroutine of the handler may begin its answer.
func (x *request) bodyEnded() error {
	if x.answered.Load() { // upstream has not waited for the end
		return nil
	}
	turn, err := x.join()
	if turn != nil {
		err = x.wait(x.trying, turn, false)
	}
	if err == nil {
		return nil
	}
	return x.refusal(err)
}
