package rewrite

import (
	"bytes"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one event stream. It must not be used by two goroutines at
// once. Most streams do nothing most of the time: what a field takes here, each
// of them keeps, see TestIdleStreamsAreSmall.
type Stream struct {
	o    *Options
	p    params
	form Progress

	*work // nil between reads, when nothing waits in it

	out []byte    // what may leave, the caller's buffer
	now time.Time // the caller's clock

	scan    sse.Scanner
	pattern pattern
	env     envelope

	tools lifecycle
	fence fence // of the text of the message
	tags  tags
	said  said

	active  bool
	framing sse.Output // what became of the last unit
	owed    bool       // a marker was dropped behind text: a newline goes before the next
	breaks  bool       // the reasoning to come begins a stretch behind another
	eat     int8       // newlines that go with the imitation before

	manyChoices  bool
	reported     bool   // the model's usage is in the memory
	finished     bool   // a finish chunk has left
	failed       bool   // an error has left
	done         bool   // [DONE] has left
	closed       bool   // nothing more leaves
	begun, ended uint64 // the choices that have begun and that have finished, as bits
	usage        []byte // upstream's, for an error finish
	errorSent    []byte // the message, a JSON string, of an error frame that has left

	sum   tally
	other *other // what the stream is when it is not active, nil when it is
}

// params are those of Params that are needed all the time.
type params struct {
	newID   func() string // nil for ""
	created int64
	usage   UsageMemory
	onTool  func(ToolEvent)
	explain func(Step)
}

// tally is what a Summary says that is counted.
type tally struct {
	FinishReason, Code        string
	Frames, Chunks            int
	Tools, Markers            int
	Imitations, Reasoning     int
	Unexamined, Keepalives    int32
	InputTokens, OutputTokens int64
	UsageReported             bool
	ZeroUsagePassed           bool
}

// said is what upstream has said so far.
type said struct {
	begun           bool // a character of text, and it was sent
	text, reasoning bool // with a non-space character, and it was sent
	dropped         bool // reasoning, which was not sent
	other           bool // tool calls, a refusal and the like
	sinceTool       bool // text since the last tool started
	housekeeping    bool // all tools since the last text are; see isHousekeeping
	shown           bool // a tool event
	upstream        upstreamAge
}

// New returns the Stream of a response. The options are shared.
func New(o *Options, p Params) *Stream {
	s := &Stream{o: o, p: params{p.ID, p.Created, p.Usage, p.OnTool, p.Explain}, form: o.ProgressForm(&p), active: p.Active}
	s.scan.MaxFrame, s.scan.CommentUnits = o.FrameLimit(), !p.Active
	if !p.Active {
		s.other = &other{looksAt: p.Responses}
	}
	if p.RunID != "" && !p.Active {
		s.other.run, s.other.kind = true, kindRuns
		remember(&s.other.runs.id, jsonspan.Quote(p.RunID))
	}
	if p.SessionID != "" && !p.Active {
		s.other.kind = kindSession
		remember(&s.other.session.id, jsonspan.Quote(p.SessionID))
	}
	return s
}

// Active tells whether the stream is one of chat completions. What is not
// passes byte for byte; see Guarded for its end.
func (s *Stream) Active() bool { return s.active }

// Finished tells whether a finish chunk has left.
func (s *Stream) Finished() bool { return s.finished }

// Done tells whether what ends the stream has left: [DONE] or, in a stream of
// another kind, its last event.
func (s *Stream) Done() bool { return s.done || !s.active && s.other.ended }

// Frames returns how many complete frames with data have come, those that
// passed unexamined among them.
func (s *Stream) Frames() int { return s.sum.Frames + int(s.sum.Unexamined) }

// Summary returns what can be said of the stream so far.
func (s *Stream) Summary() Summary {
	c := &s.sum
	sum := Summary{
		FinishReason: c.FinishReason, Code: c.Code,
		Frames: c.Frames, Chunks: c.Chunks, Tools: c.Tools, Markers: c.Markers, Imitations: c.Imitations, Reasoning: c.Reasoning,
		Unexamined: int(c.Unexamined), Keepalives: int(c.Keepalives), InputTokens: c.InputTokens, OutputTokens: c.OutputTokens,
		UsageReported: c.UsageReported, ZeroUsagePassed: c.ZeroUsagePassed,
	}
	if s.env.known {
		sum.ID, sum.Model = unquote(s.env.id()), unquote(s.envelope().modelsName())
	} else if !s.active {
		sum.ID, sum.Model = s.otherID()
	}
	return sum
}

// Feed takes bytes of upstream's in, which came at the time now, appends what
// may leave to dst, and returns it. It keeps neither in nor dst.
func (s *Stream) Feed(dst, in []byte, now time.Time) []byte {
	if s.closed {
		return dst
	}
	s.out, s.now = dst, now
	s.scan.Feed(in)
	for len(s.scan.Ahead()) > 0 {
		if s.takeLike() {
			continue
		}
		u, b, ok := s.scan.Next()
		if !ok {
			break
		}
		s.borrow()
		if s.explains() {
			s.explain(b, func() { s.unit(u, b) })
		} else {
			s.unit(u, b)
		}
	}
	if len(s.scan.Ahead()) > 0 {
		s.borrow()
	}
	fed := s.scan.Fed()
	s.scan.Rest()
	s.giveBack(fed)
	return s.taken()
}

func (s *Stream) taken() []byte {
	dst := s.out
	s.out = nil
	return dst
}

// Finish says that upstream has ended, appends what the client is still owed
// to dst, and returns it. After it nothing leaves. Of a stream that is not
// guarded, and of one of another kind that is complete, the rest leaves as it
// is.
func (s *Stream) Finish(dst []byte, cause Cause) []byte {
	if s.closed {
		return dst
	}
	if s.isOver() {
		s.closed = true
		return dst
	}
	s.out = dst
	s.borrow()
	s.explain(nil, func() { s.finish(cause) })
	s.giveBack(len(s.scan.Tail()))
	return s.taken()
}

// isOver tells whether upstream has said all, and the client has got it.
func (s *Stream) isOver() bool {
	return s.active && s.finished && s.done && s.work == nil && s.scan.Between() && !s.explains()
}

// finish does what Finish does.
func (s *Stream) finish(cause Cause) {
	added := s.finishTail(cause)
	s.closed = true
	if !s.active {
		s.finishOther(cause, added)
		return
	}
	held := s.hold.buf
	s.settle()
	s.framing.Release(held, s.out)
	if !s.finished {
		s.completeAll(true)
		s.writeErrorFinish(cause.Code())
	}
	if !s.done {
		s.note(contract.SectionEnd, "[DONE] is added")
		s.writeLF()
		s.out = append(s.out, "data: [DONE]\n\n"...)
		s.done = true
	}
}

// finishTail deals with the bytes behind the last complete frame. A frame that
// lacks only its blank line counts; one that was cut is dropped (contract
// section 3). After a cut inside a frame that passed unexamined a blank line
// keeps what follows apart from it. It returns how many bytes of ours the frame
// that counts has got at its end.
func (s *Stream) finishTail(cause Cause) (added int) {
	if s.scan.Raw() {
		if s.active || s.otherOpen() {
			s.out = append(s.out, "\n\n"...)
		}
		return 0
	}
	tail := s.scan.End()
	s.f.Parse(tail)
	s.otherGoesOn(tail)
	switch {
	case s.isWhole(tail) && (s.active || s.chunkComes() || s.otherComes()):
		s.note(contract.SectionEnd, "the last frame is complete but for its blank line: it counts")
		end := missingEnd(tail)
		s.unit(sse.UnitFrame, append(bytes.Clone(tail), end...))
		return len(end)
	case !s.active && !s.otherCut(cause), s.done && isComments(tail):
		if len(tail) > 0 {
			s.note(contract.SectionHarm, "what is behind the last frame: passes")
		}
		s.out = s.framing.AppendMark(s.out)
		s.out = append(s.out, tail...)
	case len(tail) > 0:
		s.note(contract.SectionEnd, "a frame that was cut in the middle: dropped")
	}
	return 0
}

// isComments tells whether tail is comment lines that have not been cut. Behind
// [DONE] nothing of ours follows that would need a blank line before it.
func isComments(tail []byte) bool {
	for line := range bytes.Lines(tail) {
		if line[0] != ':' || line[len(line)-1] != '\n' {
			return false
		}
	}
	return true
}

// isWhole tells whether the frame s.f, which is tail, lacks only its end: its
// data is complete, and so is its last line.
func (s *Stream) isWhole(tail []byte) bool {
	if !isDone(s.f.Data) && (firstByte(s.f.Data) != '{' || !jsonspan.Valid(s.f.Data)) {
		return false
	}
	last := tail[bytes.LastIndexAny(tail, "\r\n")+1:]
	return len(last) == 0 || bytes.HasPrefix(last, []byte("data:"))
}

// missingEnd returns what the frame in tail lacks.
func missingEnd(tail []byte) string {
	if tail[len(tail)-1] == '\n' {
		return "\n"
	}
	return "\n\n"
}

// chunkComes tells whether the frame s.f is a chunk, at which a stream becomes
// active.
func (s *Stream) chunkComes() bool {
	return s.c.parse(s.f.Data) && s.c.isChunk(s.f.Data)
}

// Keepalive appends a keepalive to dst when one may leave now: between frames
// of an active stream that has not finished (contract section 3).
func (s *Stream) Keepalive(dst []byte) []byte {
	if !s.active || s.scan.Raw() || s.finished || s.closed {
		return dst
	}
	s.sum.Keepalives++
	s.out = s.framing.AppendMark(dst)
	s.writeLF()
	if s.o.KeepaliveForm == KeepaliveComment || !s.env.known {
		s.out = append(s.out, ": keepalive\n\n"...)
		return s.taken()
	}
	s.out = append(s.out, "data: {"...)
	s.out = append(s.envelope().appendEmpty(s.out), "}\n\n"...)
	return s.taken()
}
