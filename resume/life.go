package resume

import (
	"context"
	"net/http"
	"sync"
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

// A life says how long a run goes on. It counts the clients that read the answer, and cancels the
// run if there is none for too long. The first client counts separately until leave, and alone gets
// an answer that is no event stream. Any goroutine may call its methods.
type life struct {
	counts      *counter
	maxDetached int // of all runs
	abort       context.CancelCauseFunc
	plain       bool // the run reads the events of a run of Hermes
	wants       bool // an answer is useful without the first client
	informs     informer

	mu      sync.Mutex          // may be taken while a store's lock is held, never the other way round
	client  http.ResponseWriter // the first client's, nil if it has left or there is none
	readers *readers            // of the log that the run writes
	kind    kind
	over    bool // next has returned
	reason  log.Reason
	goesOn  bool          // goes on without a client for any time: see events.go
	detach  time.Duration // how long it goes on without a client
	after   time.Duration // detach after a split
	alone   absence
	// reserved says that there is room for the run among those that await a client, until a split
	// uses it or it is given back. Meanwhile count ignores clients that join and leave.
	reserved bool
	awaits   bool // it counts as one that awaits a client
}

// absence is the time without a client. The lock of the life guards it.
type absence struct {
	active bool        // there is no client
	since  time.Time   // when the last client left
	until  time.Time   // when the run is cancelled if no client has returned
	timer  *time.Timer // calls expire at until; nil if never set
	held   time.Time   // the run may go on without a client until then, and for detach after that
}

// readers are those of one log that a run writes.
type readers struct {
	of *life
	n  int // guarded by the life's lock
}

// changed is the ReadersChanged of the log. It does not matter for a log that a split has ended.
func (r *readers) changed(n int) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.n = n
	if r.of.readers == r {
		r.of.count()
	}
}

// logRun returns the log.Run of a log with the readers r, which the run with the life l writes.
func (l *life) logRun(r *readers) log.Run {
	return log.Run{ReadersChanged: r.changed, Cancel: l.cancel}
}

// leave records that the first client no longer reads. It returns false if the client has to wait
// for next: next writes to the client, has returned, or was cancelled before it answered.
func (l *life) leave() bool {
	l.informs.mu.Lock() // or the client's writer would still be in use
	defer l.informs.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil { // a split has left the client to the log so far
		return true
	}
	if l.over || l.kind == kindPasses || l.kind == kindUnknown && l.reason != log.ReasonNone {
		return false
	}
	l.client = nil
	l.count()
	return true
}

// An informer sends informational answers.
type informer struct {
	version int        // major version of the first client's HTTP
	mu      sync.Mutex // held while an answer is sent; taken before that of the life
	sent    int        // bytes so far
}

// answerOverhead is what an informational answer counts beside its header, in bytes.
const answerOverhead = 160

// inform sends an informational answer to the first client, if that is there. It drops answers that
// exceed the buffers of a connection, so that a client that does not read holds up no others.
func (l *life) inform(status int, header http.Header) {
	i := &l.informs
	i.mu.Lock()
	defer i.mu.Unlock()
	l.mu.Lock()
	w := l.client
	l.mu.Unlock()
	if i.sent += answerOverhead + log.HeaderSize(header); w != nil && i.sent <= maxKeptHeader {
		head.Inform(w, i.version, status, header)
	}
}

// decide records what the answer is. One that passes goes to the first client, which decide returns,
// and which waits. If the client has left, nobody wants it.
func (l *life) decide(is kind) (kind, http.ResponseWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if is == kindPasses && l.client == nil {
		is = kindUnwanted
	}
	l.kind = is
	return is, l.client
}

// end records that next has returned. It returns the first client, nil if that has left, and how the
// run has ended.
func (l *life) end() (http.ResponseWriter, Ended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	e := Ended{Stream: l.kind == kindStream, Reason: l.reason, Detach: l.detach}
	l.unreserve() // for a split that has not been done
	if l.alone.active {
		e.Detached = time.Since(l.alone.since)
		l.attach()
	}
	return l.client, e
}

// goOn makes the run go on without clients, because its log has events.
func (l *life) goOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.goesOn = true
}

// expire cancels the run if it still has no client.
func (l *life) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alone.active && !time.Now().Before(l.alone.until) {
		l.stop(log.ReasonExpired)
	}
}

// cancel cancels upstream's request, unless it was cancelled before or next has returned.
func (l *life) cancel(why log.Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop(why)
}

// cancelUnread cancels upstream's request at the end of the process if it is for the events of a run
// and no client reads them.
func (l *life) cancelUnread() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.plain && l.readers.n == 0 && l.client == nil {
		l.stop(log.ReasonShutdown)
	}
}

// reserve reserves room for the run among those that await a client, and reports whether there is
// any.
func (l *life) reserve() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != log.ReasonNone || !l.awaits && !l.counts.await(l.maxDetached, l.alone.active) {
		return false
	}
	l.reserved = true
	return true
}

// release gives the reserved room back.
func (l *life) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unreserve()
	l.count()
}

// split leaves all clients to the log so far, and uses the reserved room. The run goes on for those
// that read the rest. split returns false if the run is cancelled.
func (l *life) split(rest *readers, hold time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != log.ReasonNone {
		return false
	}
	l.reserved, l.awaits, l.client, l.readers = false, true, nil, rest
	l.detach = l.after
	l.alone.held = time.Now().Add(hold)
	if l.alone.active {
		l.alone.timer.Stop()
	}
	l.goAlone()
	l.count() // a client may already read the rest
	return true
}

// readersNow returns how many clients read the log that the run writes.
func (l *life) readersNow() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readers.n
}

// Callers of the methods below hold the lock.

// count detaches the run if it has no client any more, and attaches it if it has one again.
func (l *life) count() {
	if l.over || l.reason != log.ReasonNone || l.kind == kindPasses || l.goesOn || l.reserved {
		return
	}
	unread := l.readers.n == 0 && l.client == nil
	switch {
	case unread == l.alone.active:
	case !unread:
		l.attach()
	case l.kind == kindUnknown && !l.wants, l.aloneFor() == 0, !l.counts.detach(l.maxDetached):
		l.stop(log.ReasonLeft)
	default:
		l.goAlone()
	}
}

// goAlone begins the time without a client, which Runs has counted already.
func (l *life) goAlone() {
	d := l.aloneFor()
	a := &l.alone
	a.active, a.since = true, time.Now()
	a.until, a.timer = a.since.Add(d), time.AfterFunc(d, l.expire)
}

// aloneFor returns how long the run may go on without a client from now on.
func (l *life) aloneFor() time.Duration { return max(time.Until(l.alone.held), 0) + l.detach }

// attach ends the time without a client.
func (l *life) attach() {
	l.alone.active = false
	l.alone.timer.Stop()
	l.counts.count(func(s *Stats) {
		if s.Detached--; l.awaits {
			s.Awaiting--
		}
	})
	l.awaits = false
}

// unreserve gives the room back if it is reserved.
func (l *life) unreserve() {
	if !l.reserved {
		return
	}
	if l.reserved = false; l.awaits {
		return
	}
	l.counts.count(func(s *Stats) {
		if s.Awaiting--; !l.alone.active {
			s.Detached--
			s.TotalDetached--
		}
	})
}

// stop is cancel.
func (l *life) stop(why log.Reason) {
	if !l.over && l.reason == log.ReasonNone {
		l.reason = why
		l.abort(&cancelled{why})
	}
}

// cancelled is the cause with which a run cancels its context. It is no failure of upstream:
// because of context.Canceled Caddy does not count it as one (Caddy: reverseproxy.go:736).
type cancelled struct{ why log.Reason }

func (c *cancelled) Error() string { return "the stream was cancelled: " + c.why.String() }

func (c *cancelled) Unwrap() error { return context.Canceled }

// maxKeptHeader is the size in bytes above which a header, and so its answer, is not kept. It is
// the size of the header in memory, which is many times its length if it has many fields.
const maxKeptHeader = 16 << 10
