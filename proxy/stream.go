package proxy

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// stream is an event stream, which the engine repairs. The header of a stream of chat completions
// is held until bytes leave after it: until then an error can have a status of its own (contract
// section 3).
type stream struct {
	x        *exchange
	engine   *rewrite.Stream
	upstream string // that answers
	raw      bool   // the AnswerObserver gets all bytes
	early    []byte // bytes for the AnswerObserver, until it observes the stream
	cause    rewrite.Cause
	opening  *opening // nil once the stream is known to be one
}

// maxRoom is the size in bytes of the largest buffer that is kept for the next write of any stream.
// Without these buffers, streams that are as fast as they can be cost twice as much, for the garbage
// collector.
const maxRoom = 64 << 10

// newStream returns a stream for the exchange.
func newStream(x *exchange) *stream {
	s := &stream{x: x, upstream: x.upstream(), raw: x.o.ObserveRaw && x.o.Observer != nil}
	p := x.params()
	p.ID, p.Usage, p.Continues = newID, x.usage(s.upstream), x.begun()
	if x.o.Observer != nil {
		p.OnTool = s.observeTool
	}
	s.setApprovals(&p)
	if x.memory != nil && x.turn.Question != 0 {
		p.Remember, p.Results = s.remember, x.o.Results
	}
	if details := x.o.Tools.Details; details != nil && x.chat {
		p.Details, p.Flush = details(x.r, x.header), s.sendNow
	}
	o := &x.o.Rewrite
	if x.muted {
		quiet := *o
		quiet.EmptyAnswer = rewrite.EmptyAnswerPass
		o = &quiet
	}
	s.engine = rewrite.New(o, p)
	return s
}

// errNotSplit cancels upstream's request if the client has been asked for a reply, but the answer
// cannot go on without the client. It is not upstream's fault (see cancellations).
var errNotSplit = fmt.Errorf("the answer ended with a request for approval, and cannot continue for the reply: %w", context.Canceled)

// setApprovals sets the parameters of p for requests for approval, as the options say.
func (s *stream) setApprovals(p *rewrite.Params) {
	x := s.x
	if x.o.Approvals.Ask == nil {
		return
	}
	var split func() bool
	if p.Approvals, split = x.o.Approvals.Ask(x.r); p.Approvals == nil || split == nil {
		return
	}
	p.Split = func(out []byte) []byte {
		s.beginRest()
		if err := s.send(out); err == nil && !split() {
			x.client.fail(errNotSplit)
		}
		return out[:0]
	}
}

// remember remembers the tools that ran during the answer.
func (s *stream) remember(answer rewrite.Text, tools []rewrite.ToolRun) {
	t := &s.x.turn
	t.Answer = answer
	if t.Question != 0 {
		s.x.memory.Remember(*t, tools)
		return
	}
	for _, reply := range replies {
		s.x.memory.Remember(rewrite.Turn{Past: t.Past, Before: t.Before, Question: rewrite.TextOf(reply), Answer: answer}, tools)
	}
}

// replies are what histories show of the user's replies to requests for approval.
var replies = []string{"approve", "deny"}

// beginRest records that the answer has ended for a reply, which is the question of the rest.
func (s *stream) beginRest() {
	s.x.turn = rewrite.Turn{Past: s.x.turn.Past, Before: s.x.turn.Answer}
}

// usage returns the memory of the usage of the upstream with the name, nil for none. What its streams
// show of tool events is also recorded for the site.
func (q *Request) usage(upstream string) rewrite.UsageMemory {
	usage := q.o.Usage(upstream)
	if usage == nil || q.o.Site == nil {
		return usage
	}
	return sitedUsage{usage, q.o.Site(q.r)}
}

// sitedUsage is a memory of an upstream's usage, and that of its site.
type sitedUsage struct {
	rewrite.UsageMemory
	site rewrite.EventMemory
}

// ShowedEvents implements rewrite.EventMemory.
func (u sitedUsage) ShowedEvents(does bool) {
	u.UsageMemory.ShowedEvents(does)
	u.site.ShowedEvents(does)
}

// newID returns an id for a completion to which upstream has given none, in the form of Hermes'
// own.
func newID() string {
	b := make([]byte, 15)
	_, _ = rand.Read(b) // never fails
	return fmt.Sprintf("chatcmpl-%x", b)[:38]
}

// begin begins the answer.
func (s *stream) begin() {
	x := s.x
	if x.chat {
		s.opening = &opening{header: maps.Clone(x.client.w.Header())}
	}
	if !x.begun() {
		x.o.dressStream(x.client.w.Header())
	}
	s.observe()
	if !x.chat {
		x.client.commit() // most likely not of Hermes: nothing is held back
	}
	s.enter()
	x.times.received = x.age()
	x.sent = x.times.received
	if x.form == rewrite.AnswerWhole { // no stream was expected, so silence counts from here
		x.times.forwarded, x.times.frame = x.times.received, x.times.received
	}
}

// dressStream drops the fields of h that describe another body, and sets those that keep proxies
// from buffering or caching the stream, and that which announces it.
func (o *Options) dressStream(h http.Header) {
	head.DropOfBody(h)
	o.announce(h)
	if h.Get("X-Accel-Buffering") == "" {
		h.Set("X-Accel-Buffering", "no")
	}
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
}

// enter sets the phase that the stream is in, as the engine says.
func (s *stream) enter() {
	p := phaseFree
	switch {
	case s.engine.Active() && s.engine.Finished():
		p = phaseFinished
	case s.engine.Active():
		p = phaseStreaming
	case s.engine.Guarded(), s.x.begun():
		p = phaseOther
	}
	s.x.times.phase = p
}

// write repairs b and sends the bytes that may leave: one write and one flush.
func (s *stream) write(b []byte) (int, error) {
	x := s.x
	if x.client.err != nil {
		return 0, x.client.err
	}
	age, frames := x.age(), s.engine.Frames()
	now := x.since.Add(age)
	x.times.received, x.times.began = age, true
	n := len(b)
	if s.opening != nil {
		var ok bool
		if b, ok = s.open(b); !ok {
			return n, x.client.err
		}
	}
	room := x.rooms.Get().(*[]byte)
	out := s.engine.Feed(slices.Grow((*room)[:0], len(b)), b, now)
	if s.engine.Frames() > frames {
		x.times.frame = age
	}
	s.observeRead(b, now)
	if x.client.err != nil { // at the end of an answer that asks for a reply
		return 0, x.client.err
	}
	err := s.send(out)
	if cap(out) <= maxRoom {
		*room = out
		x.rooms.Put(room)
	}
	sent := x.age()
	// Upstream had to wait while the client took that: it was not silent.
	x.times.received += sent - age
	x.times.frame += sent - age
	if len(out) > 0 {
		x.sent = sent
	}
	s.enter()
	if err != nil {
		return 0, err
	}
	return n, nil
}

// send writes and flushes out. The header leaves with the first complete frame, even when
// its text is held back.
func (s *stream) send(out []byte) error {
	if len(out) == 0 && (s.x.client.committed || s.engine.Frames() == 0) {
		return nil
	}
	s.x.client.flushed = true
	return s.x.client.send(out)
}

// sendNow sends out before the event that follows waits for something. An error shows in x.client.err.
func (s *stream) sendNow(out []byte) []byte {
	if s.send(out) == nil && len(out) > 0 {
		s.x.sent = s.x.age()
	}
	return out[:0]
}

// flush flushes the header of a stream that may not be of Hermes: all other bytes have been
// flushed.
func (s *stream) flush() error {
	if !s.x.client.committed || s.x.client.flushed {
		return nil
	}
	s.x.client.flushed = true
	return s.x.client.send(nil)
}

// keepalive sends a keepalive.
func (s *stream) keepalive() {
	x := s.x
	if s.opening != nil && s.opening.isBody() { // which a keepalive must not become part of
		return
	}
	out := s.engine.Keepalive(nil)
	x.client.moveDeadline(time.Time{})
	_ = s.send(out) // an error shows in x.client.err
	x.client.moveDeadline(x.client.deadline)
}

// cut ends the stream with the frames that the client lacks or, if the client has been sent
// nothing, with an error that has a status of its own.
func (s *stream) cut(cause rewrite.Cause) {
	x := s.x
	s.cause = cause
	x.times.received = x.age()
	if x.observer == nil {
		s.raw = false // a recording from here on would lack its beginning
	}
	x.client.moveDeadline(time.Time{})
	var out []byte
	if s.opening != nil {
		out = s.engine.Feed(out, s.opening.held, x.since.Add(x.times.received))
		s.opening = nil
	}
	out = s.engine.Finish(out, cause)
	if x.begun() && !s.engine.Guarded() && s.engine.Frames() == 0 { // the stream was to be of a response
		x.endBegun(cause.Code(), rewrite.AppendError(nil, cause.Code(), rewrite.Message(cause.Code())))
		return
	}
	if s.engine.Active() && !x.client.committed && s.engine.Frames() == 0 {
		x.sendCause(cause)
	} else {
		_ = s.send(out) // an error shows in x.client.err
	}
}

func (s *stream) end(cause rewrite.Cause) bool {
	if cause == rewrite.CauseEOF && s.opening != nil && s.opening.isBody() && (s.x.begun() || !s.x.client.committed) {
		return s.endBody()
	}
	s.cut(cause)
	return s.engine.Guarded() || s.x.code != ""
}

func (s *stream) report(res *Result) bool {
	if !s.engine.Guarded() {
		return false
	}
	res.Whole, res.Cause, res.Upstream = false, s.cause, s.upstream
	res.Summary, res.Chunks = s.engine.Summary(), s.engine.Chunks()
	if s.engine.Done() && res.Outcome == OutcomeClientGone {
		res.Outcome = "" // the client has got everything
	}
	return true
}

// observe begins to observe the stream, as soon as the engine guards it, and returns its
// AnswerObserver, nil for none.
func (s *stream) observe() AnswerObserver {
	x := s.x
	if x.observer != nil || x.o.Observer == nil || !s.engine.Guarded() {
		return x.observer
	}
	kind := KindOther
	if s.engine.Active() {
		kind = KindChat
	}
	x.observer = x.o.Observer.Begin(x.r, Begun{
		Since: x.since, Kind: kind, Upstream: s.upstream, Status: x.client.status, Header: x.client.w.Header(), Raw: s.raw,
	})
	return x.observer
}

// maxEarly is the number of bytes kept of a stream that is not observed yet.
const maxEarly = 64 << 10

// observeRead passes b, which upstream has sent and the engine has read, to the observer.
func (s *stream) observeRead(b []byte, now time.Time) {
	observer := s.observe()
	if s.raw {
		s.early = append(s.early, b...)
		if observer != nil {
			observer.Raw(s.early)
			s.early = nil
		} else if len(s.early) > maxEarly {
			s.raw, s.early = false, nil
		}
	}
	if observer != nil {
		observer.Read(now, s.engine.Chunks(), s.engine)
	}
}

// observeTool passes e to the observer.
func (s *stream) observeTool(e rewrite.ToolEvent) {
	// A tool may start in the read with which the stream turns out to be of Hermes.
	if observer := s.observe(); observer != nil {
		observer.Tool(s.x.since.Add(s.x.times.received), e)
	}
}
