package rewrite

import "bytes"

// fate is what becomes of an LF whose CR has ended a unit: the same as of the
// unit.
type fate uint8

const (
	fateForward fate = iota
	fateHold
	fateDrop
)

// unit handles a unit of the stream.
func (s *Stream) unit(u unit, b []byte) {
	s.pattern.calm = s.pattern.calm && u == unitFrame
	if u == unitMark {
		s.mark = !s.left // behind a keepalive it would be part of a field's name
		return
	}
	s.writeMark()
	s.lf = s.lf && u == unitLF // what is not owed at once is not owed
	switch u {
	case unitFrame:
		s.frame(b)
	case unitNoise:
		if !s.active || !s.commentEvent(b) {
			s.forwardQuiet(b)
		}
	case unitRaw:
		if s.done {
			s.dropLate()
			return
		}
		s.settle()
		s.owed, s.eat = false, 0 // for all that is known it is text
		if s.otherRaw(b) {
			s.fate = fateDrop
			return
		}
		s.out = append(s.out, b...)
		s.fate = fateForward
		s.note(sectionHarm, "larger than max_frame: passes unexamined")
		s.said.other, s.said.sinceTool = true, true // for all that is known
		if !s.scan.raw {
			s.sum.Unexamined++
		}
	case unitLF:
		s.lf = false
		switch s.fate {
		case fateForward:
			s.out = append(s.out, b...)
		case fateHold:
			s.hold.addLF(b)
			s.boundHold()
		}
	}
}

// writeMark writes the byte order mark. It leaves with what comes next.
func (s *Stream) writeMark() {
	if s.mark {
		s.out = append(s.out, byteOrderMark...)
	}
	s.mark, s.left = false, true
}

// forward writes the frame s.f, byte for byte but for its edits, behind what is held.
func (s *Stream) forward() {
	s.settle()
	s.fate = fateForward
	s.out = s.render(s.out)
	s.edits = s.edits[:0]
	s.owesLF()
}

// owesLF notes that the frame s.f, which has been written, ends with a CR whose
// LF is yet to come.
func (s *Stream) owesLF() {
	s.lf = tearsCRLF(s.f.raw)
}

// tearsCRLF tells whether b ends with a CR whose LF is yet to come.
func tearsCRLF(b []byte) bool {
	return bytes.HasSuffix(b, []byte("\r")) && bytes.Contains(b, []byte("\r\n"))
}

// writeLF writes the LF that is owed before a frame of our own: the two must not
// be torn apart, and upstream's is dropped when it comes.
func (s *Stream) writeLF() {
	if s.lf {
		s.out = append(s.out, '\n')
		s.lf, s.fate = false, fateDrop
	}
}

// forwardQuiet writes bytes that say nothing. They do not decide a line that is
// held, and keep their place behind it.
func (s *Stream) forwardQuiet(b []byte) {
	if s.hold.empty() {
		s.fate = fateForward
		s.out = append(s.out, b...)
		s.lf = tearsCRLF(b)
		return
	}
	s.fate = fateHold
	s.hold.add(b)
	s.boundHold()
}

// boundHold lets the line under suspicion go when too much waits for its end.
func (s *Stream) boundHold() {
	if s.hold.size() > s.scan.max {
		torn := tearsCRLF(s.hold.buf)
		s.clearLine()
		s.lf, s.fate = torn, fateForward
	}
}

// frame sends a frame to where it belongs.
func (s *Stream) frame(raw []byte) {
	if in, newline, end, ok := s.pattern.match(raw); ok && end == len(raw) {
		s.like(raw, in, newline)
		return
	}
	s.pattern.calm, s.known = false, false
	s.edits, s.cuts, s.room = s.edits[:0], s.cuts[:0], s.room[:0]
	s.f.parseCut(raw, s.scan.seen)
	data := s.f.data
	if s.f.has {
		s.sum.Frames++
	}
	if !s.active {
		if !s.f.has || !s.chunkComes() {
			s.otherFrame()
			return
		}
		s.active, s.scan.lines, s.other = true, false, nil
	}
	switch {
	case !s.f.has:
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
		s.note(sectionHarm, "no well-formed JSON object: passes")
		if s.f.tellsState() {
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
	data := s.f.data
	named := isNamed(&s.f)
	switch {
	case s.done:
		s.redactFrame()
		s.late()
	case string(s.f.event) == progressEvent && s.c.tellsTool(data):
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
	case s.c.err.IsSet(data) && (!named || string(s.f.event) == "error"):
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
	isChunk := s.c.isChunk(s.f.data) || !isNamed(&s.f) && s.c.list
	if s.failed || !isChunk || s.c.count > 0 || string(s.f.event) == progressEvent || s.c.isToolEvent(s.f.data) {
		s.dropLate()
		return
	}
	s.writeEdited()
}

// dropLate drops what comes behind [DONE].
func (s *Stream) dropLate() {
	if s.failed {
		s.note(sectionEnd, "behind the error finish nothing takes it back: dropped")
	} else {
		s.note(sectionEnd, "behind [DONE]: dropped")
	}
	s.fate = fateDrop
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
