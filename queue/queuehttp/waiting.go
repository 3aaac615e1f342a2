package queuehttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// retryAfter is how long a client that got no place in line is asked to stay away.
const retryAfter = 10 * time.Second

// drainWait is how long a request that arrives in a drain may wait for its turn: if it has its turn
// at once, it goes on.
const drainWait = 100 * time.Millisecond

// errDrain is the cause with which a drain ends the wait.
var errDrain = errors.New("the service is shutting down")

// wait waits for the turn, or until ctx is done. tells says that the client is told its place.
func (x *request) wait(ctx context.Context, turn *queue.Turn, tells bool) error {
	waits, end := context.WithCancelCause(ctx)
	defer end(nil)
	drained := func() { end(errDrain) }
	if stop, ok := x.in.Options().Streams.AtShutdown(drained); ok {
		defer stop()
	} else {
		defer time.AfterFunc(drainWait, drained).Stop()
	}
	var tell func(int)
	if tells {
		t := &teller{in: x.in, waiting: x.in.Waiting(), fail: func(panicked any) {
			x.panicked = panicked
			end(errPanicked)
		}}
		t.watch()
		defer t.stop()
		tell = t.tell
	}
	return cmp.Or(turn.Wait(waits, tell), context.Cause(waits)) // the client may have left just now
}

// errPanicked is the cause with which a panic of the client's writer ends the wait.
var errPanicked = errors.New("the writer of the answer panicked")

// teller tells a client that waits how many requests have their turn before its own, and sends
// keepalives in between.
type teller struct {
	in      *proxy.Request
	waiting rewrite.WaitingFrames
	fail    func(panicked any) // is called if the client's writer panics, once

	mu    sync.Mutex
	over  bool
	timer *time.Timer // of keepalives, nil before the client has been told something
}

// tell tells the client the number.
func (t *teller) tell(before int) {
	text := "Waiting in line: you are next"
	if before > 0 {
		text = fmt.Sprintf("Waiting in line: %d before you", before)
	}
	// net/http needs more stack for a header than a request that waits needs, and a stack stays as
	// large as it once was: with a goroutine of its own each of thousands of requests that wait takes
	// 8 KiB less.
	sent := make(chan struct{})
	go func() {
		defer close(sent) // also if the writer ends the goroutine
		t.send(t.waiting.Status(nil, text))
	}()
	<-sent
	t.watch()
}

// send sends frames to the client.
func (t *teller) send(frames []byte) {
	if panicked := panics.Catch(func() { t.in.Send(frames) }); panicked != nil {
		t.fail(panicked)
	}
}

// watch begins to send keepalives, if the answer has begun.
func (t *teller) watch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	every, sent := t.in.Options().Keepalive, t.in.Sent()
	if every > 0 && !sent.IsZero() && t.timer == nil {
		t.timer = time.AfterFunc(time.Until(sent.Add(every)), t.beat)
	}
}

// beat sends a keepalive, if one is due.
func (t *teller) beat() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	every := t.in.Options().Keepalive
	rest := time.Until(t.in.Sent().Add(every))
	if rest <= 0 {
		t.send(t.waiting.Keepalive(nil))
		rest = every
	}
	t.timer.Reset(rest)
}

// stop ends the keepalives.
func (t *teller) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// statusGone is the status for a client that has left (Caddy: reverseproxy.go:1774).
const statusGone = 499

// instead returns the next handler of a request that does not go on because of err.
func (x *request) instead(err error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error {
		switch {
		case x.panicked != nil:
			panic(x.panicked)
		case x.clientLeft(): // maybe only from its side, after half a body
			w.WriteHeader(statusGone)
			return nil
		case errors.Is(err, queue.ErrTimeout) && x.refused != nil:
			x.refused.replay(w)
			return nil
		}
		return x.refusal(err)
	}
}

// clientLeft reports whether the client has left.
func (x *request) clientLeft() bool { return x.in.Context().Err() != nil }

// refusal returns the error for a request that does not go on because of err.
func (x *request) refusal(err error) error {
	code := ""
	switch {
	case errors.Is(err, queue.ErrTimeout):
		code = rewrite.CodeQueueTimeout
	case errors.Is(err, queue.ErrFull): // also if another client's request has its place in line
		code = rewrite.CodeQueueFull
	case errors.Is(err, errDrain):
		return &proxy.Refusal{Status: http.StatusBadGateway, Code: rewrite.CodeShutdown, Message: rewrite.ShutdownBeforeRun}
	default:
		return err
	}
	return &proxy.Refusal{Status: http.StatusTooManyRequests, Code: code, Message: rewrite.Message(code), RetryAfter: retryAfter}
}
