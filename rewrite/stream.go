package rewrite

import (
	"bytes"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/agentapi"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chat"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one event stream. It must not be used by two goroutines at
// once. Most streams do nothing most of the time: what a field takes here, each
// of them keeps, see TestIdleStreamsAreSmall.
//
// It is a stream of chat completions, or other says what else it is, or may become:
// then it passes byte for byte until its first chunk. work is nil between two reads
// unless something waits in it.
type Stream struct {
	chat   chat.Stream // what leaves is in its Out, whatever the stream is
	scan   sse.Scanner
	other  *agentapi.Stream // nil for a stream of chat completions
	work   *work
	steps  *steps // nil where nobody asks for an explanation
	closed bool   // nothing more leaves
}

// New returns the Stream of a response. The options are shared.
func New(o *Options, p Params) *Stream {
	s := new(Stream)
	var notes *contract.Notes
	if p.Explain != nil {
		s.steps = &steps{explain: p.Explain}
		notes = &s.steps.notes
	}
	s.chat.Init(o, &p, notes)
	s.scan.MaxFrame = o.FrameLimit()
	if !p.Active {
		s.scan.CommentUnits = true
		s.other = agentapi.New(&p, notes)
	}
	return s
}

// Active reports whether the stream is one of chat completions. What is not
// passes byte for byte; see Guarded for its end.
func (s *Stream) Active() bool { return s.other == nil }

// Guarded reports whether the end of the stream is seen to: it is one of chat
// completions, or of another kind that is known. A stream that is not guarded
// leaves as it came.
func (s *Stream) Guarded() bool { return s.other == nil || s.other.Known() }

// Finished reports whether a finish chunk has left.
func (s *Stream) Finished() bool { return s.chat.Finished() }

// Done reports whether what ends the stream has left: [DONE] or, in a stream of
// another kind, its last event.
func (s *Stream) Done() bool { return s.chat.Done() || s.other != nil && s.other.Ended() }

// Frames returns how many complete frames with data have come, those that
// passed unexamined among them.
func (s *Stream) Frames() int { return s.chat.Frames + s.chat.Unexamined() }

// Chunks returns how many chunks have come or, in a stream of another kind, how
// many events.
func (s *Stream) Chunks() int {
	if s.other != nil {
		return s.chat.Frames
	}
	return s.chat.Chunks()
}

// Summary returns what can be said of the stream so far.
func (s *Stream) Summary() Summary {
	sum := s.chat.Summary()
	if s.other != nil {
		sum.ID, sum.Model, sum.Code = s.other.Summary()
	}
	return sum
}

// Feed takes bytes of upstream's in, which came at the time now, appends what
// may leave to dst, and returns it. It keeps neither in nor dst.
func (s *Stream) Feed(dst, in []byte, now time.Time) []byte {
	if s.closed {
		return dst
	}
	s.chat.Begin(dst, now)
	s.scan.Feed(in)
	for {
		b := s.scan.Ahead()
		if len(b) == 0 {
			break
		}
		if s.scan.Between() && s.matched(b) {
			continue
		}
		u, b, ok := s.scan.Next()
		if !ok {
			s.borrow()
			break
		}
		s.borrow()
		if s.steps == nil {
			s.unit(u, b)
		} else {
			s.step(b, func() { s.unit(u, b) })
		}
	}
	fed := s.scan.Fed()
	s.scan.Rest()
	s.giveBack(fed)
	return s.chat.Out.Take()
}

// like handles the next frame if that is like the one before it but for its text. Then it
// need be neither cut nor parsed.
func (s *Stream) matched(b []byte) bool {
	m, ok := s.chat.Match(b)
	if !ok || m.End > s.scan.MaxFrame {
		return false
	}
	raw := b[:m.End]
	s.scan.Skip(m.End)
	s.chat.Out.Next(sse.UnitFrame)
	if s.chat.Pass(raw, &m) {
		s.chat.Out.Bytes = append(s.chat.Out.Bytes, raw...)
		return true
	}
	s.borrow()
	s.chat.Matched(&s.work.chat, raw, &m)
	return true
}

// Pass takes bytes of upstream's that leave as they are, all of them: the next
// frame of a stream whose frames are alike. It returns false if they have to be fed,
// and has then done nothing. What it spares is to copy them.
func (s *Stream) Pass(in []byte) bool {
	if !s.chat.Passing() || s.closed || s.work != nil || !s.scan.Between() || len(s.scan.Tail()) > 0 || len(in) > s.scan.MaxFrame {
		return false
	}
	m, ok := s.chat.Match(in)
	return ok && m.End == len(in) && s.chat.Pass(in, &m)
}

// Keepalive appends a keepalive to dst if one may leave now: between frames
// of an active stream that has not finished (contract section 3).
func (s *Stream) Keepalive(dst []byte) []byte {
	if s.other != nil || s.scan.Raw() || s.chat.Finished() || s.closed {
		return dst
	}
	s.chat.Out.Bytes = dst
	s.chat.Keepalive()
	return s.chat.Out.Take()
}

// Finish says that upstream has ended, appends what the client is still owed
// to dst, and returns it. After it nothing leaves. Of a stream that is not
// guarded, and of one of another kind that is complete, the rest leaves as it
// is.
func (s *Stream) Finish(dst []byte, cause Cause) []byte {
	if s.closed {
		return dst
	}
	if s.other == nil && s.chat.Finished() && s.chat.Done() && s.work == nil && s.scan.Between() && s.steps == nil {
		s.closed = true // upstream has said all, and the client has got it
		return dst
	}
	s.chat.Out.Bytes = dst
	s.borrow()
	s.step(nil, func() {
		added := s.finishTail(cause)
		s.closed = true
		if s.other == nil {
			s.chat.Finish(&s.work.chat, cause)
		} else {
			s.other.Finish(&s.chat.Out, cause, added)
		}
	})
	s.giveBack(len(s.scan.Tail()))
	return s.chat.Out.Take()
}

// finishTail deals with the bytes behind the last complete frame. A frame that
// lacks only its blank line counts; one that was cut is dropped (contract
// section 3). After a cut inside a frame that passed unexamined a blank line
// keeps what follows apart from it. It returns how many bytes of ours the frame
// that counts has got at its end.
func (s *Stream) finishTail(cause Cause) (added int) {
	out, x := &s.chat.Out, &s.work.chat.Object
	if s.scan.Raw() {
		if s.other == nil || s.other.Open() {
			out.Bytes = append(out.Bytes, "\n\n"...)
		}
		return 0
	}
	tail := s.scan.End()
	x.F.Parse(tail)
	if s.other != nil {
		s.other.Begins(tail)
	}
	switch {
	case isWhole(&x.F) && (s.other == nil || s.chunkComes() || s.other.Comes(&x.F)):
		s.note(contract.SectionEnd, "the last frame is complete but for its blank line: it counts")
		end := "\n\n"
		if tail[len(tail)-1] == '\n' {
			end = "\n"
		}
		s.unit(sse.UnitFrame, append(bytes.Clone(tail), end...))
		return len(end)
	case s.other != nil && !s.other.Cut(cause), s.chat.Done() && isComments(tail):
		if len(tail) > 0 {
			s.note(contract.SectionHarm, "what is behind the last frame: passes")
		}
		out.Bytes = append(out.AppendMark(out.Bytes), tail...)
	case len(tail) > 0:
		s.note(contract.SectionEnd, "a frame that was cut in the middle: dropped")
	}
	return 0
}

// isWhole reports whether the frame f lacks only its end: its data is complete, and so is
// its last line.
func isWhole(f *sse.Frame) bool {
	if !chat.IsDone(f.Data) && !(bytes.HasPrefix(bytes.TrimLeft(f.Data, " \t\r\n"), []byte("{")) && jsonspan.Valid(f.Data)) {
		return false
	}
	last := f.Raw[bytes.LastIndexAny(f.Raw, "\r\n")+1:]
	return len(last) == 0 || bytes.HasPrefix(last, []byte("data:"))
}

// isComments reports whether tail is comment lines that have not been cut. Behind
// [DONE] nothing of ours follows that would need a blank line before it.
func isComments(tail []byte) bool {
	for line := range bytes.Lines(tail) {
		if line[0] != ':' || line[len(line)-1] != '\n' {
			return false
		}
	}
	return true
}

// unit handles a unit of the stream.
func (s *Stream) unit(u sse.Unit, b []byte) {
	s.chat.Unit(u)
	k := &s.work.chat
	switch u {
	case sse.UnitFrame:
		s.frame(b)
	case sse.UnitNoise:
		if s.other == nil {
			s.chat.Noise(k, b)
		} else {
			s.chat.Quiet(k, b)
		}
	case sse.UnitRaw:
		if s.other != nil && s.other.Raw(b, !s.scan.Raw(), s.scan.MaxFrame) {
			s.chat.Out.Drop()
			return
		}
		s.chat.Raw(k, b, !s.scan.Raw())
	case sse.UnitLF:
		s.chat.LF(k, b)
	}
}

// frame sends a frame to where it belongs.
func (s *Stream) frame(raw []byte) {
	k := &s.work.chat
	x := &k.Object
	if m, ok := s.chat.Match(raw); ok && m.End == len(raw) {
		if s.chat.Pass(raw, &m) {
			s.chat.Out.Bytes = append(s.chat.Out.Bytes, raw...)
		} else {
			s.chat.Matched(k, raw, &m)
		}
		return
	}
	s.chat.Unmatched()
	x.Begin()
	s.scan.ParseFrame(&x.F, raw)
	if x.F.HasData {
		s.chat.Frames++
	}
	parsed := false
	if s.other != nil {
		if parsed = x.F.HasData && s.chunkComes(); !parsed {
			s.other.Frame(&s.chat.Out, &x.F, &x.Edits)
			return
		}
		_, _, code := s.other.Summary()
		s.chat.Continue(code)
		s.scan.CommentUnits, s.other = false, nil
	}
	s.chat.Frame(k, parsed)
}

// chunkComes reports whether the frame under way is a chunk, at which a stream becomes
// active.
func (s *Stream) chunkComes() bool {
	x := &s.work.chat.Object
	return x.C.Parse(x.F.Data) && x.C.IsChunk(x.F.Data)
}

// work is what a Stream needs to handle a frame. Between two reads it is given
// back, unless something waits in it: most of the time most streams wait for
// their next frame, and keep nothing but what they know.
type work struct {
	chat chat.Work
	buf  []byte // room for the scanner's
}

// works are those that no stream needs.
var works = sync.Pool{New: func() any { return new(work) }}

// borrow gets the stream what it needs to handle a frame.
func (s *Stream) borrow() {
	if s.work != nil {
		return
	}
	s.work = works.Get().(*work)
	var notes *contract.Notes
	if s.steps != nil {
		notes = &s.steps.notes
	}
	s.work.chat.Begin(notes)
	s.scan.TakeBuffer(&s.work.buf)
}

// giveBack gives that back if nothing waits in it for the bytes to come. So many
// bytes have been fed; no item of a list stands for less than four of them.
func (s *Stream) giveBack(fed int) {
	w := s.work
	if w == nil {
		return
	}
	if fed > 4*256 {
		w.chat.Trim()
	}
	if w.chat.Waits() {
		return
	}
	s.scan.GiveBuffer(&w.buf)
	s.work = nil
	w.chat.Forget()
	works.Put(w)
}

// steps explains what becomes of each piece of a stream.
type steps struct {
	explain func(Step)
	notes   contract.Notes
}

// step does to the piece in what do does, and explains it.
func (s *Stream) step(in []byte, do func()) {
	if s.steps == nil {
		do()
		return
	}
	out := &s.chat.Out
	s.steps.notes.Reset()
	from := len(out.Bytes)
	do()
	s.steps.explain(Step{In: in, Out: out.Bytes[from:], Held: in != nil && out.IsHeld(), Notes: s.steps.notes.List()})
}

// note notes what is done to the piece under way.
func (s *Stream) note(section, text string) {
	if s.steps != nil {
		s.steps.notes.Add(section, text)
	}
}
