package chat

import (
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one chat stream, frame by frame. What leaves is appended to Out.Bytes,
// which the caller sets with Begin.
type Stream struct {
	// Out is what leaves.
	Out *sse.Writer
	// Frames counts complete frames with data.
	Frames int

	// What the stream was given; it does not change.
	o      *contract.Options
	onTool func(contract.ToolEvent) // may be nil
	notes  *contract.Notes          // nil unless the stream is explained

	now        time.Time // the time of the last Begin
	w          encode.Writer
	usage      usage
	tools      tools
	text       text
	end        ending
	template   template
	chunks     int // the number of chunks that have come
	keepalives int

	x     chunk.Object // the current frame
	rest  prose.Kept   // of its content, once that has been read
	hold  hold
	large *largeFrame // the one that comes, or nil
}

// Init makes s the Stream of a response, which writes to out.
func (s *Stream) Init(out *sse.Writer, o *contract.Options, p *contract.Params, notes *contract.Notes) {
	s.Out, s.o, s.onTool, s.notes = out, o, p.OnTool, notes
	s.w = encode.NewWriter(out, o, p, notes)
	s.usage.memory = p.Usage
	s.x.Notes, s.text.prose.Notes = notes, notes
}

// Trim gives back large room, so that one large frame does not cost memory for as long as
// its stream lasts.
func (s *Stream) Trim() {
	s.x = chunk.Object{Notes: s.notes}
	s.rest = prose.Kept{}
	s.text.prose.Trim()
}

// Continue begins with a stream that so far was not one of chat completions. code is the
// code of the error that it has ended with, or empty.
func (s *Stream) Continue(code string) { s.end.code = code }

// Begin sets what leaves to be appended to dst, and the time.
func (s *Stream) Begin(dst []byte, now time.Time) { s.Out.Bytes, s.now = dst, now }

// Finished reports whether a finish chunk has left.
func (s *Stream) Finished() bool { return s.end.finished }

// Done reports whether [DONE] has left.
func (s *Stream) Done() bool { return s.end.done }

// Chunks returns how many chunks have come.
func (s *Stream) Chunks() int { return s.chunks }

// Unexamined returns how many frames passed unexamined.
func (s *Stream) Unexamined() int { return s.text.unexamined }

// Summary returns what can be said of the stream so far.
func (s *Stream) Summary() contract.Summary {
	e, t := &s.end, &s.text
	sum := contract.Summary{
		FinishReason: e.finishReason, Code: e.code,
		Frames: s.Frames, Chunks: s.chunks, Tools: s.tools.count, Markers: t.markers, Imitations: t.imitations, Reasoning: t.stretches,
		Unexamined: t.unexamined, Keepalives: s.keepalives, InputTokens: e.input, OutputTokens: e.output,
		UsageReported: e.usageReported, ZeroUsagePassed: e.zeroUsagePassed,
	}
	if e := &s.w.Env; e.FromChunk {
		sum.ID, sum.Model = jsonspan.Unquote(e.ID), jsonspan.Unquote(e.Model)
	}
	return sum
}

// Unit records that the next unit is u. The caller then hands the unit to the method for
// its kind, unless it is a byte order mark.
func (s *Stream) Unit(u sse.Unit) {
	s.template.head = 0
	if u == sse.UnitMark {
		s.Out.Mark()
	} else {
		s.Out.Next(u)
	}
}

// Noise handles a blank line or comments.
func (s *Stream) Noise(b []byte) {
	if !s.comment(b) {
		s.Quiet(b)
	}
}

// LF handles the LF b of a CRLF whose CR ended the unit before.
func (s *Stream) LF(b []byte) {
	switch s.Out.LF() {
	case sse.Forwarded:
		s.Out.Bytes = append(s.Out.Bytes, b...)
	case sse.Held:
		s.hold.addLF(b)
		s.boundHold()
	}
}

// Keepalive writes a keepalive (contract section 3). The stream must not have finished.
func (s *Stream) Keepalive() {
	s.keepalives++
	s.w.Keepalive()
}

// Finish ends the stream after upstream has ended for the cause. It writes what the client
// still needs: the held frames, the ends of open tools, an error finish and [DONE].
func (s *Stream) Finish(cause contract.Cause) {
	held := s.hold.buf
	s.decideHeld()
	s.Out.Release(held)
	if !s.end.finished {
		s.finishError(cause.Code())
	}
	if !s.end.done {
		s.notes.Add(contract.SectionEnd, "[DONE] is added")
		s.w.Done()
		s.end.done = true
	}
}
