package chat

import (
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one chat stream, frame by frame. What leaves is appended to Out.Bytes,
// which the caller sets with Begin. If something waits in a Work, that Work must be given
// to all methods until nothing does.
type Stream struct {
	handler
	// Frames counts complete frames with data.
	Frames     int
	keepalives int32
}

// Init makes s the Stream of a response.
func (s *Stream) Init(o *contract.Options, p *contract.Params, k *Work, notes *contract.Notes) {
	k.Object.Notes, k.reading.Notes = notes, notes
	s.o, s.newID, s.created, s.onTool, s.notes = o, p.ID, p.Created, p.OnTool, notes
	s.usage.memory = p.Usage
	s.form = o.ProgressForm(p)
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
func (s *Stream) Unexamined() int { return int(s.text.unexamined) }

// Summary returns what can be said of the stream so far.
func (s *Stream) Summary() contract.Summary {
	e, t := &s.end, &s.text
	sum := contract.Summary{
		FinishReason: e.finishReason, Code: e.code,
		Frames: s.Frames, Chunks: s.chunks, Tools: int(s.tools.count), Markers: int(t.markers), Imitations: int(t.imitations), Reasoning: int(t.stretches),
		Unexamined: int(t.unexamined), Keepalives: int(s.keepalives), InputTokens: e.input, OutputTokens: e.output,
		UsageReported: e.usageReported, ZeroUsagePassed: e.zeroUsagePassed,
	}
	if s.env.FromChunk() {
		id, model := s.env.Names()
		sum.ID, sum.Model = jsonspan.Unquote(id), jsonspan.Unquote(model)
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
func (s *Stream) Noise(k *Work, b []byte) {
	if !s.comment(k, b) {
		s.Quiet(k, b)
	}
}

// Quiet forwards bytes that say nothing to clients.
func (s *Stream) Quiet(k *Work, b []byte) { s.text.forwardQuiet(&s.writer, &s.tools, k, b) }

// LF handles the LF b of a CRLF whose CR ended the unit before.
func (s *Stream) LF(k *Work, b []byte) {
	switch s.Out.LF() {
	case sse.Forwarded:
		s.Out.Bytes = append(s.Out.Bytes, b...)
	case sse.Held:
		k.hold.addLF(b)
		s.text.boundHold(&s.writer, &s.tools, k)
	}
}

// Frame handles the frame in k. parsed says that the object in its data has been parsed,
// too.
func (s *Stream) Frame(k *Work, parsed bool) {
	x := &k.Object
	switch {
	case !x.F.HasData:
		s.Quiet(k, x.F.Raw)
	case chunk.IsDone(x.F.Data):
		s.doneFrame(k)
	case parsed || x.C.Parse(x.F.Data):
		s.handle(k)
	case s.end.done:
		s.dropLate()
	default:
		s.notes.Add(contract.SectionHarm, "no well-formed JSON object: passes")
		if chunk.TellsState(x.F.Event) {
			chunk.RedactText(&x.F, &x.Edits, x.Notes)
		}
		s.forward(k)
	}
}

// Keepalive writes a chunk that says nothing, or a comment while no chunk has come
// (contract section 3). The stream must not have finished.
func (s *Stream) Keepalive() {
	s.keepalives++
	s.Out.WriteMark()
	s.Out.BeginOwn()
	if s.o.KeepaliveForm == contract.KeepaliveComment || !s.env.FromChunk() {
		s.Out.Bytes = append(s.Out.Bytes, ": keepalive"...)
		s.Out.EndComment()
		return
	}
	s.Out.Bytes = append(s.env.AppendEmpty(append(s.Out.Bytes, "data: {"...)), "}\n\n"...)
}

// Finish ends the stream after upstream has ended for the cause. It writes what the client
// still needs: what is held, the ends of open tools, an error finish and [DONE].
func (s *Stream) Finish(k *Work, cause contract.Cause) {
	k.large.open = false
	held := k.hold.buf
	s.settle(k)
	s.Out.Release(held)
	if !s.end.finished {
		s.end.finishError(&s.writer, &s.tools, &s.text, &k.Object, cause.Code())
	}
	if !s.end.done {
		s.notes.Add(contract.SectionEnd, "[DONE] is added")
		s.writeDone()
		s.end.done = true
	}
}
