package proxy

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// stream is an event stream, which the engine repairs. The header of one of chat
// completions is held until there is something to send behind it: until then an
// error can have a status of its own (contract section 3).
type stream struct {
	x        *exchange
	engine   *rewrite.Stream
	upstream string // that answers
	raw      *raw   // nil unless the AnswerObserver gets the bytes, from the first one on
	cause    rewrite.Cause
}

// newStream returns a stream for the exchange.
func newStream(x *exchange) *stream {
	s := &stream{x: x, upstream: x.upstream()}
	if x.p.o.ObserveRaw && x.p.o.Observer != nil {
		s.raw = new(raw)
	}
	r := x.client.r
	p := rewrite.Params{
		Active:   x.chat,
		Progress: rewrite.ProgressOf(head.First(r.Header, ProgressHeader)),
		ID:       newID,
		Created:  x.since.Unix(),
		Usage:    x.usage(s.upstream),
		OnTool:   s.onTool(),
	}
	if !x.chat {
		p.Responses, p.RunID, p.SessionID = rewrite.IsResponsesPath(r.URL.Path), rewrite.RunOfPath(r.URL.Path), rewrite.SessionOfPath(r.URL.Path)
	}
	o := &x.p.o.Rewrite
	if x.client.muted {
		quiet := *o
		quiet.EmptyAnswer = rewrite.EmptyAnswerPass
		o = &quiet
	}
	s.engine = x.p.engines.get()
	s.engine.Init(o, p)
	return s
}

// newID returns an id for a completion that upstream has given none, in the
// form of Hermes' own.
func newID() string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // never fails
	return "chatcmpl-" + hex.EncodeToString(b[:])[:29]
}

func (s *stream) begin() {
	x := s.x
	prepareHeader(x.client.w.Header())
	s.beginToObserve()
	if !x.chat {
		x.client.commit() // most likely not ours: nothing is held back
	}
	s.enter()
	x.times.HeaderReceived(x.age(), !x.noStream)
}

// enter enters the phase that the engine says the stream is in.
func (s *stream) enter() {
	p := deadline.Free
	switch {
	case s.engine.Active() && s.engine.Finished():
		p = deadline.Finished
	case s.engine.Active():
		p = deadline.Streaming
	case s.engine.Guarded():
		p = deadline.Other
	}
	s.x.times.Phase = p
}

// write repairs b and sends what may leave: one write and one flush.
func (s *stream) write(b []byte) (int, error) {
	x := s.x
	if x.client.err != nil {
		return 0, x.client.err
	}
	if s.engine.Pass(b) {
		return s.pass(b)
	}
	age := x.age()
	now := x.since.Add(age)
	x.times.Received(age)
	frames := s.engine.Frames()
	buf := x.p.buffers.get()
	out := s.engine.Feed(buf.b, b, now)
	if s.engine.Frames() > frames {
		x.times.FrameReceived(age)
	}
	s.observe(now, b)
	err := s.send(out)
	sent := x.age()
	x.times.ClientWaited(sent - age)
	if len(out) > 0 {
		x.times.Sent(sent)
	}
	x.giveBack(buf, out)
	if frames == 0 {
		x.dropHeader()
	}
	s.enter()
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// pass sends b, a frame like the one before it, which the engine has let pass. It
// does what write does for others, as far as such a frame can change anything:
// almost all of a stream comes through here, mostly when nothing of it is in the
// cache.
func (s *stream) pass(b []byte) (int, error) {
	x := s.x
	if s.raw != nil {
		s.observeRaw(b)
	}
	err := s.send(b)
	age := x.age() // behind the write, for the client may have been slow
	x.times.Passed(age)
	if x.observer != nil {
		x.observer.Read(x.since.Add(age), s.engine.Chunks(), s.engine)
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// send writes and flushes out, which is not kept. The header leaves with the first
// complete frame, even when its text is held back.
func (s *stream) send(out []byte) error {
	c := &s.x.client
	if len(out) == 0 && (c.committed || s.engine.Frames() == 0) {
		return nil
	}
	if s.x.flushed.Load() {
		return c.send(out)
	}
	s.x.flushed.Store(true)
	return s.x.p.sender.send(c, out)
}

// flush flushes the header of a stream that may not be ours: all else has been
// flushed.
func (s *stream) flush() error {
	if !s.x.client.committed {
		return nil
	}
	s.x.flushed.Store(true)
	return s.x.client.flush()
}

// keepalive sends a keepalive.
func (s *stream) keepalive() {
	x := s.x
	buf := x.p.buffers.get()
	out := s.engine.Keepalive(buf.b)
	x.client.liftDeadline()
	_ = s.send(out) // an error shows in x.client.err
	x.client.restoreDeadline()
	x.times.Sent(x.age()) // also if none may leave now
	x.giveBack(buf, out)
}

// cut ends the stream: with what the client is still owed or, when it has been sent
// nothing, with an error that has a status of its own.
func (s *stream) cut(cause rewrite.Cause) {
	x := s.x
	s.cause = cause
	x.times.Ended(x.age())
	if x.observer == nil {
		s.raw = nil // what is told of from here on has lost its beginning
	}
	x.client.liftDeadline()
	buf := x.p.buffers.get()
	out := s.engine.Finish(buf.b, cause)
	if s.engine.Active() && !x.client.committed && s.engine.Frames() == 0 {
		x.sendCause(cause)
	} else {
		_ = s.send(out) // an error shows in x.client.err; there is nobody left to tell
	}
	x.giveBack(buf, out)
}

func (s *stream) end(cause rewrite.Cause) bool {
	s.cut(cause)
	return s.engine.Guarded()
}

func (s *stream) report(res Result) (Result, bool) {
	if !s.engine.Guarded() {
		return res, false
	}
	res.Whole, res.Cause, res.Upstream = false, s.cause, s.upstream
	res.Summary, res.Chunks = s.engine.Summary(), s.engine.Chunks()
	if s.engine.Done() && res.Outcome == OutcomeClientGone {
		res.Outcome = "" // it has got everything
	}
	return res, true
}
