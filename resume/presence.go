package resume

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
)

// presence counts the clients that read the answer of a run, and cancels the run when there
// was none for too long. The first client counts by itself until leave, and has the answer to
// itself if that is no event stream.
//
// The lock mu may be taken while that of a store is held, never the other way round.
type presence struct {
	o       *Options
	detach  time.Duration // how long the run goes on without a client
	version int           // of HTTP, of the first client
	wants   bool          // the request says that it wants an event stream
	abort   context.CancelCauseFunc

	informing sync.Mutex // held while an informational answer is sent; taken before mu
	informed  int        // bytes of these

	mu       sync.Mutex
	client   http.ResponseWriter // the first client's, nil when that has left
	kind     kind
	over     bool // next has returned
	reason   Reason
	readers  int
	detached bool        // it goes on without a client
	since    time.Time   // when the last client left
	timer    *time.Timer // of detach; nil if it has never been set
}

// kind is what the answer of a run is.
type kind uint8

const (
	kindUnknown  kind = iota // it has not begun
	kindPasses               // no event stream: only the first client gets it
	kindStream               // an event stream, which is in the log
	kindUnwanted             // no event stream, and its client has left
)

// leave records that the first client no longer reads. It returns false if the client has to
// wait for next, because that writes to it or has returned.
func (c *presence) leave() bool {
	c.informing.Lock() // or the client's writer would still be in use
	defer c.informing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.kind == kindPasses || c.kind == kindUnknown && c.reason != ReasonNone {
		return false
	}
	c.client = nil
	c.count()
	return true
}

// setKind records what the answer is. Only if it passes, it goes to the first client, which waits.
func (c *presence) setKind(stream bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case stream:
		c.kind = kindStream
	case c.client != nil:
		c.kind = kindPasses
	default:
		c.kind = kindUnwanted
	}
}

// inform sends an informational answer to the first client, if that is there. It drops those beyond
// what the buffers of a connection hold, so that a client that does not read holds up no others.
func (c *presence) inform(status int, header http.Header) {
	c.informing.Lock()
	defer c.informing.Unlock()
	c.mu.Lock()
	w := c.client
	c.mu.Unlock()
	if c.informed += fieldOverhead + sizeOf(header); w != nil && c.informed <= maxKeptHeader {
		head.Inform(w, c.version, status, header)
	}
}

// finish records that next has returned. The first client is nil if it has left.
func (c *presence) finish() (client http.ResponseWriter, e Ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	e = Ended{Stream: c.kind == kindStream, Reason: c.reason}
	if c.detached {
		e.Detached = time.Since(c.since)
		c.attach()
	}
	return c.client, e
}

// readersChanged records how many readers the log has.
func (c *presence) readersChanged(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers = n
	c.count()
}

// count detaches the run if it has no client any more, and attaches it if it has one again.
// c.mu is held.
func (c *presence) count() {
	if c.over || c.reason != ReasonNone || c.kind == kindPasses {
		return
	}
	unread := c.readers == 0 && c.client == nil
	switch {
	case unread == c.detached:
	case !unread:
		c.attach()
	case c.kind == kindUnknown && !c.wants, c.detach == 0, !c.o.Runs.detach(c.o.MaxDetached):
		c.cancelLocked(ReasonLeft)
	default:
		c.detached, c.since = true, time.Now()
		c.timer = time.AfterFunc(c.detach, c.expire)
	}
}

// attach ends the time without a client. c.mu is held.
func (c *presence) attach() {
	c.detached = false
	c.timer.Stop()
	c.o.Runs.count(func(s *Stats) { s.Detached-- })
}

// expire cancels the run if it still has no client.
func (c *presence) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.detached && time.Since(c.since) >= c.detach {
		c.cancelLocked(ReasonExpired)
	}
}

// cancel cancels upstream's request, unless that was done before or next has returned.
func (c *presence) cancel(why Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelLocked(why)
}

func (c *presence) cancelLocked(why Reason) {
	if !c.over && c.reason == ReasonNone {
		c.reason = why
		c.abort(&cancelled{why})
	}
}

// cancelled is why upstream's request is cancelled. It is no fault of upstream's, and
// context.Canceled keeps it from being counted as one (Caddy: reverseproxy.go:736).
type cancelled struct{ why Reason }

func (c *cancelled) Error() string { return "the stream was cancelled: " + c.why.String() }

func (c *cancelled) Unwrap() error { return context.Canceled }

// presenceKey is the key of the presence of a run in the context of its request.
type presenceKey struct{}

// Readers returns how many clients read the answer to a request with the context, in the
// handlers that the run calls. It returns false if the answer may not be resumed.
func Readers(ctx context.Context) (n int, ok bool) {
	c, ok := ctx.Value(presenceKey{}).(*presence)
	if ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		n = c.readers
	}
	return n, ok
}
