package resume

import (
	"context"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
)

// kind is what the answer of a run is.
type kind uint8

const (
	kindUnknown  kind = iota // it has not begun
	kindPasses               // no event stream: only the first client gets it
	kindStream               // an event stream, which is in the log
	kindUnwanted             // no event stream, and its client has left
	kindBody                 // no event stream, which is in the log for an SDK
)

// leave records that the first client no longer reads. It returns false if the client has to
// wait for next, because that writes to it or has returned.
func (x *run) leave() bool {
	x.informing.Lock() // or the client's writer would still be in use
	defer x.informing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client == nil { // a split has left it to what came before
		return true
	}
	if x.over || x.kind == kindPasses || x.kind == kindUnknown && x.reason != ReasonNone {
		return false
	}
	x.client = nil
	x.count()
	return true
}

// inform sends an informational answer to the first client, if that is there. It drops those beyond
// what the buffers of a connection hold, so that a client that does not read holds up no others.
func (x *run) inform(status int, header http.Header) {
	x.informing.Lock()
	defer x.informing.Unlock()
	x.mu.Lock()
	w := x.client
	x.mu.Unlock()
	if x.informed += fieldOverhead + sizeOf(header); w != nil && x.informed <= maxKeptHeader {
		head.Inform(w, x.version, status, header)
	}
}

// count detaches the run if it has no client any more, and attaches it if it has one again.
// x.mu is held.
func (x *run) count() {
	if x.over || x.reason != ReasonNone || x.kind == kindPasses || x.goesOn || x.reserved {
		return
	}
	unread := x.readers == 0 && x.client == nil
	switch {
	case unread == x.detached:
	case !unread:
		x.attach()
	case x.kind == kindUnknown && !x.wants, x.aloneFor() == 0, !x.o.Runs.detach(x.o.MaxDetached):
		x.cancelLocked(ReasonLeft)
	default:
		x.goAlone()
	}
}

// goAlone begins the time without a client, for which there is room. x.mu is held.
func (x *run) goAlone() {
	x.detached, x.since = true, time.Now()
	d := x.aloneFor()
	x.until, x.timer = x.since.Add(d), time.AfterFunc(d, x.expire)
}

// aloneFor returns how long the run may go on without a client from now on. x.mu is held.
func (x *run) aloneFor() time.Duration { return max(time.Until(x.held), 0) + x.detach }

// attach ends the time without a client. x.mu is held.
func (x *run) attach() {
	x.detached = false
	x.timer.Stop()
	x.o.Runs.count(func(s *Stats) { s.Detached-- })
}

// expire cancels the run if it still has no client.
func (x *run) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.detached && !time.Now().Before(x.until) {
		x.cancelLocked(ReasonExpired)
	}
}

// cancel cancels upstream's request, unless that was done before or next has returned.
func (x *run) cancel(why Reason) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancelLocked(why)
}

func (x *run) cancelLocked(why Reason) {
	if !x.over && x.reason == ReasonNone {
		x.reason = why
		x.abort(&cancelled{why})
	}
}

// cancelled is why upstream's request is cancelled. It is no fault of upstream's, and
// context.Canceled keeps it from being counted as one (Caddy: reverseproxy.go:736).
type cancelled struct{ why Reason }

func (c *cancelled) Error() string { return "the stream was cancelled: " + c.why.String() }

func (c *cancelled) Unwrap() error { return context.Canceled }

// runKey is the key of the run in the context of its request.
type runKey struct{}

// Readers returns how many clients read the answer to a request with the context, in the
// handlers that the run calls. It returns false if the answer may not be resumed.
func Readers(ctx context.Context) (n int, ok bool) {
	x, ok := ctx.Value(runKey{}).(*run)
	if ok {
		x.mu.Lock()
		defer x.mu.Unlock()
		n = x.readers
	}
	return n, ok
}
