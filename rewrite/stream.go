package rewrite

import (
	"bytes"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/agentapi"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chat"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one event stream. No two goroutines may use it at once. Most streams do
// nothing most of the time, and each pays for every field: see TestIdleStreamsAreSmall.
//
// Its invariants: other is nil if and only if the stream is one of chat completions. A
// stream with another passes byte for byte until its first chunk, at which it becomes one.
// work is nil between two reads unless something waits in it.
type Stream struct {
	chat   chat.Stream // its Out is what leaves, whatever the stream is
	scan   sse.Scanner
	other  *agentapi.Stream
	work   *work
	notes  *contract.Notes // nil unless somebody wants the stream explained
	closed bool            // nothing more leaves
}

// New returns the Stream of a response. The options are shared.
func New(o *Options, p Params) *Stream {
	s := new(Stream)
	s.Init(o, p)
	return s
}

// Init makes s, which is new or has been cleared, what New returns.
func (s *Stream) Init(o *Options, p Params) {
	in := p.internal()
	if p.Explain != nil {
		s.notes = &contract.Notes{Explain: in.Explain}
	}
	s.chat.Init(o.internal(), in, s.notes)
	s.scan.MaxFrame = o.FrameLimit()
	if !p.Active {
		s.scan.CommentUnits = true
		s.other = agentapi.New(in, s.notes)
	}
}

// Clear leaves nothing in s but room, for the Stream of another response.
func (s *Stream) Clear() {
	s.chat.Clear()
	s.scan, s.other, s.work, s.notes, s.closed = sse.Scanner{}, nil, nil, nil, false
}

// Active reports whether the stream is one of chat completions. Any other stream
// passes byte for byte; see Guarded for its end.
func (s *Stream) Active() bool { return s.other == nil }

// Guarded reports whether the stream gets an end if upstream does not send one: it is one
// of chat completions, or of another known kind. Otherwise it leaves as it came.
func (s *Stream) Guarded() bool { return s.other == nil || s.other.Known() }

// Finished reports whether a finish chunk has left.
func (s *Stream) Finished() bool { return s.chat.Finished() }

// Done reports whether the end of the stream has left: [DONE] or, in a stream of
// another kind, its last event.
func (s *Stream) Done() bool { return s.chat.Done() || s.other != nil && s.other.Ended() }

// Frames returns how many complete frames with data have come, including those that
// passed unexamined.
func (s *Stream) Frames() int { return s.chat.Frames + s.chat.Unexamined() }

// Chunks returns how many chunks have come or, in a stream of another kind, how
// many events have.
func (s *Stream) Chunks() int {
	if s.other != nil {
		return s.chat.Frames
	}
	return s.chat.Chunks()
}

// Summary returns what can be said of the stream so far.
func (s *Stream) Summary() Summary {
	sum := Summary(s.chat.Summary())
	if s.other != nil {
		sum.ID, sum.Model, sum.Code = s.other.Summary()
	}
	return sum
}

// Feed handles the bytes in, which came from upstream at the time now. It appends what may
// leave to dst and returns that. It keeps neither in nor dst.
func (s *Stream) Feed(dst, in []byte, now time.Time) []byte {
	if s.closed {
		return dst
	}
	if len(in) > largeRead && len(s.scan.Tail()) > 0 {
		if n := bytes.Index(in, []byte("\n\n")); n >= 0 && n+2 < len(in) {
			dst, in = s.Feed(dst, in[:n+2], now), in[n+2:]
		}
	}
	s.chat.Begin(dst, now)
	s.scan.Feed(in)
	for b := s.scan.Ahead(); len(b) > 0; b = s.scan.Ahead() {
		if s.scan.Between() && s.matched(b) {
			continue
		}
		u, b, ok := s.scan.Next()
		s.borrow()
		if !ok {
			break
		}
		from := len(s.chat.Out.Bytes)
		s.unit(u, b)
		s.explain(b, from)
	}
	fed := s.scan.Fed()
	s.scan.Rest()
	s.giveBack(fed)
	return s.chat.Out.Take()
}

// largeRead is the size in bytes above which a read is not copied behind the frame under
// way: what completes that is fed first.
const largeRead = 1 << 10

// matched handles the next frames if they differ from the one before them in nothing but
// their text, so that they need be neither scanned nor parsed.
func (s *Stream) matched(b []byte) bool {
	m, ok := s.chat.Match(b)
	if !ok || m.End > s.scan.MaxFrame {
		return false
	}
	s.scan.Skip(m.End)
	s.chat.Out.Next(sse.UnitFrame)
	s.match(b[:m.End], &m)
	if !m.On || !s.chat.Passing() {
		return true
	}
	b = b[m.End:]
	n, m, ok := s.chat.PassMore(b, s.scan.MaxFrame)
	s.scan.Skip(n)
	if ok {
		s.scan.Skip(m.End)
		s.chat.Out.Next(sse.UnitFrame)
		s.borrow()
		s.chat.Matched(&s.work.chat, b[n:n+m.End], &m)
	}
	return true
}

// match handles the frame raw, which matches m.
func (s *Stream) match(raw []byte, m *chat.Match) {
	if s.chat.Pass(raw, m) {
		s.chat.Out.Bytes = append(s.chat.Out.Bytes, raw...)
		return
	}
	s.borrow()
	s.chat.Matched(&s.work.chat, raw, m)
}

// Pass handles the bytes in, which came from upstream, if they are one frame that leaves
// as it is, because it differs from the one before in nothing but its text. The caller
// then forwards in, without a copy. Otherwise Pass does nothing and returns false: the
// bytes have to be fed.
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

// Finish says that upstream has ended for the cause. It appends what the client still
// needs to dst and returns that. Nothing leaves after it. The rest of a stream that is not
// guarded, or is of another kind and complete, leaves as it is.
func (s *Stream) Finish(dst []byte, cause Cause) []byte {
	if s.closed {
		return dst
	}
	if s.other == nil && s.chat.Finished() && s.chat.Done() && s.work == nil && s.scan.Between() && s.notes == nil {
		s.closed = true // the stream is complete, and all of it has left
		return dst
	}
	s.chat.Out.Bytes = dst
	s.borrow()
	added := s.finishTail(cause)
	s.closed = true
	if s.other == nil {
		s.chat.Finish(&s.work.chat, cause)
	} else {
		s.other.Finish(&s.chat.Out, cause, added)
	}
	s.explain(nil, len(dst))
	s.giveBack(len(s.scan.Tail()))
	return s.chat.Out.Take()
}

// finishTail handles the bytes behind the last complete frame. A frame that lacks only its
// blank line counts, one that was cut is dropped (contract section 3). If a frame that
// passes unexamined was cut, a blank line separates it from what follows. finishTail
// returns the number of bytes that it has added to complete a frame that counts.
func (s *Stream) finishTail(cause Cause) (added int) {
	out, x := &s.chat.Out, &s.work.chat.Object
	if s.scan.Raw() {
		if s.other == nil || s.other.Open() {
			out.Bytes = append(out.Bytes, "\n\n"...)
		}
		return 0
	}
	tail := s.scan.Tail()
	x.F.Parse(tail)
	if s.other != nil {
		s.other.Begins(tail)
	}
	switch {
	case isWhole(&x.F) && (s.other == nil || s.chunkComes() || s.other.Comes(&x.F)):
		s.notes.Add(contract.SectionEnd, "the last frame is complete but for its blank line: it counts")
		end := "\n\n"
		if tail[len(tail)-1] == '\n' {
			end = "\n"
		}
		s.unit(sse.UnitFrame, append(bytes.Clone(tail), end...))
		return len(end)
	case s.other != nil && !s.other.Cut(cause), s.chat.Done() && isComments(tail):
		if len(tail) > 0 {
			s.notes.Add(contract.SectionHarm, "what is behind the last frame: passes")
		}
		out.WriteMark()
		out.Bytes = append(out.Bytes, tail...)
	case len(tail) > 0:
		s.notes.Add(contract.SectionEnd, "a frame that was cut in the middle: dropped")
	}
	return 0
}

// isWhole reports whether the frame f lacks only its blank line: its data and its last
// line are complete.
func isWhole(f *sse.Frame) bool {
	if !chunk.IsDone(f.Data) && !(bytes.HasPrefix(bytes.TrimLeft(f.Data, " \t\r\n"), []byte("{")) && jsonspan.Valid(f.Data)) {
		return false
	}
	last := f.Raw[bytes.LastIndexAny(f.Raw, "\r\n")+1:]
	return len(last) == 0 || bytes.HasPrefix(last, []byte("data:"))
}

// isComments reports whether tail consists of complete comment lines. Behind [DONE] they
// may stay without a blank line, because nothing of ours follows.
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
	switch {
	case u == sse.UnitFrame:
		s.frame(b)
	case u == sse.UnitNoise && s.other == nil:
		s.chat.Noise(k, b)
	case u == sse.UnitNoise:
		s.chat.Quiet(k, b)
	case u == sse.UnitRaw && s.other != nil && s.other.Raw(b, !s.scan.Raw(), s.scan.MaxFrame):
		s.chat.Out.Drop()
	case u == sse.UnitRaw && s.other != nil:
		s.chat.Raw(k, b, !s.scan.Raw(), 0)
	case u == sse.UnitRaw:
		s.chat.Raw(k, b, !s.scan.Raw(), s.scan.MaxFrame)
	case u == sse.UnitLF:
		s.chat.LF(k, b)
	}
}

// frame handles a complete frame.
func (s *Stream) frame(raw []byte) {
	k := &s.work.chat
	x := &k.Object
	if m, ok := s.chat.Match(raw); ok && m.End == len(raw) {
		s.match(raw, &m)
		return
	}
	s.chat.Unmatched()
	x.Begin()
	x.F.Parse(raw)
	if x.F.HasData {
		s.chat.Frames++
	}
	s.chat.Out.HasIDs = s.chat.Out.HasIDs || x.F.ID != nil
	if s.other == nil {
		s.chat.Frame(k, false)
		return
	}
	if !x.F.HasData || !s.chunkComes() {
		s.other.Frame(&s.chat.Out, &x.F, &x.Edits)
		return
	}
	_, _, code := s.other.Summary()
	s.chat.Continue(code)
	s.scan.CommentUnits, s.other = false, nil
	s.chat.Frame(k, true)
}

// chunkComes reports whether the current frame is a chunk, which makes the stream one of
// chat completions.
func (s *Stream) chunkComes() bool {
	x := &s.work.chat.Object
	return x.C.Parse(x.F.Data) && x.C.IsChunk(x.F.Data)
}

// work is what a Stream needs to handle a frame. Most streams wait for their next frame
// most of the time, and have none.
type work struct {
	chat chat.Work
	buf  []byte // room for the scanner
}

// works has the work that no stream needs now.
var works = sync.Pool{New: func() any { return new(work) }}

// borrow gets the stream its work, if it has none.
func (s *Stream) borrow() {
	if s.work == nil {
		s.work = works.Get().(*work)
		s.work.chat.Begin(s.notes)
		s.scan.TakeBuffer(&s.work.buf)
	}
}

// giveBack gives the work back if nothing waits in it. fed is the number of bytes that it
// was used for.
func (s *Stream) giveBack(fed int) {
	w := s.work
	if w != nil && fed > 4*contract.MaxIdleItems { // an item of a list takes at least four bytes
		w.chat.Trim()
	}
	if w == nil || w.chat.Waits() {
		return
	}
	s.scan.GiveBuffer(&w.buf)
	w.chat.Forget()
	works.Put(w)
	s.work = nil
}

// explain explains what became of the piece in. What has left for it begins at Bytes[from].
func (s *Stream) explain(in []byte, from int) {
	if s.notes != nil {
		out := &s.chat.Out
		s.notes.Explain(contract.Step{In: in, Out: out.Bytes[from:], Held: in != nil && out.IsHeld(), Notes: s.notes.List})
		s.notes.List = s.notes.List[:0]
	}
}
