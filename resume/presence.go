package resume

import (
	"context"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
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

// leave records that the first client no longer reads. It returns false if the client has to wait
// for next: next writes to the client, has returned, or was cancelled before it answered.
func (x *run) leave() bool {
	x.informing.Lock() // or the client's writer would still be in use
	defer x.informing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client == nil { // a split has left the client to the log so far
		return true
	}
	if x.over || x.kind == kindPasses || x.kind == kindUnknown && x.reason != log.ReasonNone {
		return false
	}
	x.client = nil
	x.count()
	return true
}

// answerOverhead is what an informational answer counts beside its header, in bytes.
const answerOverhead = 160

// inform sends an informational answer to the first client, if that is there. It drops answers that
// exceed the buffers of a connection, so that a client that does not read holds up no others.
func (x *run) inform(status int, header http.Header) {
	x.informing.Lock()
	defer x.informing.Unlock()
	x.mu.Lock()
	w := x.client
	x.mu.Unlock()
	if x.informed += answerOverhead + log.HeaderSize(header); w != nil && x.informed <= maxKeptHeader {
		head.Inform(w, x.version, status, header)
	}
}

// count detaches the run if it has no client any more, and attaches it if it has one again.
// x.mu is held.
func (x *run) count() {
	if x.over || x.reason != log.ReasonNone || x.kind == kindPasses || x.goesOn || x.reserved {
		return
	}
	unread := x.readers == 0 && x.client == nil
	switch {
	case unread == x.detached:
	case !unread:
		x.attach()
	case x.kind == kindUnknown && !x.wants, x.aloneFor() == 0, !x.o.Runs.detach(x.o.MaxDetached):
		x.cancelLocked(log.ReasonLeft)
	default:
		x.goAlone()
	}
}

// goAlone begins the time without a client, which Runs has counted already. x.mu is held.
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
	x.o.Runs.count(func(s *Stats) {
		if s.Detached--; x.awaits {
			s.Awaiting--
		}
	})
	x.awaits = false
}

// expire cancels the run if it still has no client.
func (x *run) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.detached && !time.Now().Before(x.until) {
		x.cancelLocked(log.ReasonExpired)
	}
}

// cancel cancels upstream's request, unless it was cancelled before or next has returned.
func (x *run) cancel(why log.Reason) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancelLocked(why)
}

// cancelUnread cancels upstream's request at the end of the process if it is for the events of a run
// and no client reads them.
func (x *run) cancelUnread() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entry.Plain && x.readers == 0 && x.client == nil {
		x.cancelLocked(log.ReasonShutdown)
	}
}

func (x *run) cancelLocked(why log.Reason) {
	if !x.over && x.reason == log.ReasonNone {
		x.reason = why
		x.abort(&cancelled{why})
	}
}

// cancelled is the cause with which a run cancels its context. It is no failure of upstream:
// because of context.Canceled Caddy does not count it as one (Caddy: reverseproxy.go:736).
type cancelled struct{ why log.Reason }

func (c *cancelled) Error() string { return "the stream was cancelled: " + c.why.String() }

func (c *cancelled) Unwrap() error { return context.Canceled }

// runKey is the key of the run in the context of its request.
type runKey struct{}

// Readers returns how many clients read the answer to the request with the context ctx. It is for
// handlers that Serve calls. ok is false if the answer may not be resumed.
func Readers(ctx context.Context) (n int, ok bool) {
	x, ok := ctx.Value(runKey{}).(*run)
	if ok {
		x.mu.Lock()
		defer x.mu.Unlock()
		n = x.readers
	}
	return n, ok
}
