package rewrite

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// unit handles a unit of the stream.
func (s *Stream) unit(u sse.Unit, b []byte) {
	s.pattern.calm = s.pattern.calm && u == sse.UnitFrame
	if u == sse.UnitMark {
		s.framing.Mark()
		return
	}
	s.out = s.framing.Next(s.out, u)
	switch u {
	case sse.UnitFrame:
		s.frame(b)
	case sse.UnitNoise:
		if !s.active || !s.commentEvent(b) {
			s.forwardQuiet(b)
		}
	case sse.UnitRaw:
		if s.done {
			s.dropLate()
			return
		}
		s.settle()
		s.owed, s.eat = false, 0 // for all that is known it is text
		if s.otherRaw(b) {
			s.framing.Drop()
			return
		}
		s.out = append(s.out, b...)
		s.framing.ForwardWhole()
		s.note(contract.SectionHarm, "larger than max_frame: passes unexamined")
		s.said.other, s.said.sinceTool = true, true // for all that is known
		if !s.scan.Raw() {
			s.sum.Unexamined++
		}
	case sse.UnitLF:
		switch s.framing.LF() {
		case sse.Forwarded:
			s.out = append(s.out, b...)
		case sse.Held:
			s.hold.addLF(b)
			s.boundHold()
		}
	}
}

// forward writes the frame s.f, byte for byte but for its edits, behind what is held.
func (s *Stream) forward() {
	s.settle()
	s.writeFrame()
}

// writeLF completes a torn CRLF before a frame of our own.
func (s *Stream) writeLF() { s.out = s.framing.AppendLF(s.out) }

// forwardQuiet writes bytes that say nothing. They do not decide a line that is
// held, and keep their place behind it.
func (s *Stream) forwardQuiet(b []byte) {
	if s.hold.empty() {
		s.out = append(s.out, b...)
		s.framing.Forward(b)
		return
	}
	s.framing.Hold()
	s.hold.add(b)
	s.boundHold()
}

// boundHold lets the line under suspicion go when too much waits for its end.
func (s *Stream) boundHold() {
	if n := s.hold.size(); n > s.scan.MaxFrame {
		s.clearLine()
		s.framing.Forward(s.out[len(s.out)-n:])
	}
}

// frame sends a frame to where it belongs.
func (s *Stream) frame(raw []byte) {
	if in, newline, end, ok := s.pattern.match(raw); ok && end == len(raw) {
		s.like(raw, in, newline)
		return
	}
	s.pattern.calm, s.known = false, false
	s.edits.Reset()
	s.cuts, s.room = s.cuts[:0], s.room[:0]
	s.scan.ParseFrame(&s.f, raw)
	data := s.f.Data
	if s.f.HasData {
		s.sum.Frames++
	}
	if !s.active {
		if !s.f.HasData || !s.chunkComes() {
			s.otherFrame()
			return
		}
		s.active, s.scan.CommentUnits, s.other = true, false, nil
	}
	switch {
	case !s.f.HasData:
		s.forwardQuiet(raw)
		return
	case isDone(data):
		s.doneFrame()
		return
	case !s.c.parse(data):
		if s.done {
			s.dropLate()
			return
		}
		s.note(contract.SectionHarm, "no well-formed JSON object: passes")
		if tellsState(s.f.Event) {
			s.redactData()
		}
		s.forward()
		return
	}
	s.object()
}

// object handles a frame whose data is the object s.c.
func (s *Stream) object() {
	s.redactMany()
	data := s.f.Data
	named := isNamed(&s.f)
	switch {
	case s.done:
		s.redactFrame()
		s.late()
	case string(s.f.Event) == progressEvent && s.c.tellsTool(data):
		if s.c.choices.Ok() {
			s.toolFrame(ProgressEnvelope)
		} else {
			s.toolFrame(ProgressBare)
		}
	case !named && s.c.isToolEvent(data) && s.c.callID.IsString(data) && s.c.choices.Ok():
		s.toolFrame(ProgressUnnamed)
	case s.isWrapped():
		s.wrappedFrame()
	case s.c.isChunk(data) || !named && s.c.list:
		s.chunkFrame()
	case s.c.err.IsSet(data) && (!named || string(s.f.Event) == "error"):
		s.errorFrame()
	case named:
		s.namedFrame()
	default:
		s.redactFrame()
		s.forward()
	}
}

// late handles a frame with the object s.c behind [DONE]: only a chunk without
// choices, such as one of usage, passes, and no event of a tool (contract section 2).
func (s *Stream) late() {
	isChunk := s.c.isChunk(s.f.Data) || !isNamed(&s.f) && s.c.list
	if s.failed || !isChunk || s.c.count > 0 || string(s.f.Event) == progressEvent || s.c.isToolEvent(s.f.Data) {
		s.dropLate()
		return
	}
	s.writeEdited()
}

// dropLate drops what comes behind [DONE].
func (s *Stream) dropLate() {
	if s.failed {
		s.note(contract.SectionEnd, "behind the error finish nothing takes it back: dropped")
	} else {
		s.note(contract.SectionEnd, "behind [DONE]: dropped")
	}
	s.framing.Drop()
}

// doneFrame handles [DONE].
func (s *Stream) doneFrame() {
	if s.done {
		s.dropLate()
		return
	}
	s.settle()
	if !s.finished {
		s.completeAll(true)
		s.writeErrorFinish(CodeIncomplete)
	}
	s.done = true
	s.forward()
}

// isDone tells whether data is the one that ends a stream.
func isDone(data []byte) bool {
	return firstByte(data) == '[' && string(bytes.TrimSpace(data)) == "[DONE]"
}
