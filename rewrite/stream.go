package rewrite

import (
	"bytes"
	"regexp"
	"slices"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/agentapi"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chat"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one event stream. No two goroutines may use it at once.
//
// Its invariant: other is nil if and only if the stream is one of chat completions. Any other
// stream passes byte for byte until its first chunk, which makes it one of chat completions.
type Stream struct {
	out    sse.Writer // what leaves
	chat   chat.Stream
	scan   sse.Scanner
	other  *agentapi.Follower
	x      *chunk.Object // the current frame, nil between reads; see object
	closed bool          // nothing more leaves

	explainTo func(Step)      // nil unless the stream is explained, as notes are
	notes     *contract.Notes // adds to list
	list      []Note          // what was done to the current piece
}

// New returns the Stream of a response. The options are shared.
func New(o *Options, p Params) *Stream {
	s := &Stream{explainTo: p.Explain}
	p.Progress = o.ProgressForm(&p)
	if p.Explain != nil {
		s.notes = &contract.Notes{Take: s.take}
	}
	s.chat.Init(&s.out, o.WithDefaults(), &p, s.notes)
	s.scan.MaxFrame = o.FrameLimit()
	if p.Continues {
		s.out.BeginOwn()
	}
	if !p.Active {
		s.scan.CommentUnits = true
		s.other = agentapi.New(&p, s.notes)
	}
	return s
}

// Active reports whether the stream is one of chat completions. Any other stream
// passes byte for byte; see Guarded for its end.
func (s *Stream) Active() bool { return s.other == nil }

// Guarded reports whether the stream gets an end if upstream does not send one: it is one
// of chat completions, or of another known kind. Otherwise it leaves as it came.
func (s *Stream) Guarded() bool { return s.other == nil || s.other.Known() }

// Finished reports whether a finish chunk has left.
func (s *Stream) Finished() bool { return s.chat.Finished }

// Done reports whether the end of the stream has left: [DONE] or, in a stream of
// another kind, its last event.
func (s *Stream) Done() bool { return s.chat.Done || s.other != nil && s.other.Ended() }

// Frames returns how many complete frames with data there were, including those that
// passed unexamined.
func (s *Stream) Frames() int { return s.chat.Sum.Frames + s.chat.Sum.Unexamined }

// Chunks returns how many chunks there were or, in a stream of another kind, how
// many events have.
func (s *Stream) Chunks() int {
	if s.other != nil {
		return s.chat.Sum.Frames
	}
	return s.chat.Sum.Chunks
}

// Summary returns the summary of the stream so far.
func (s *Stream) Summary() Summary {
	sum := s.chat.Summary()
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
	s.out.Bytes, s.chat.Now = dst, now
	s.scan.Feed(in)
	for u, b, ok := s.scan.Next(); ok; u, b, ok = s.scan.Next() {
		from := len(s.out.Bytes)
		s.unit(u, b)
		s.explain(b, from)
	}
	s.x = nil // a stream that waits takes no memory for it
	s.chat.EndRead()
	s.scan.Rest()
	return s.out.Take()
}

// Keepalive appends a keepalive to dst if one may leave now: between frames
// of an active stream that has not finished (contract section 3).
func (s *Stream) Keepalive(dst []byte) []byte {
	if s.other != nil || s.scan.Raw() || s.chat.Finished {
		return dst
	}
	s.out.Bytes = dst
	s.chat.Keepalive()
	return s.out.Take()
}

// Finish says that upstream has ended for the cause. It appends what the client still
// needs to dst and returns that. Nothing leaves after it. The rest of a stream that is not
// guarded, or is of another kind and complete, leaves as it is.
func (s *Stream) Finish(dst []byte, cause Cause) []byte {
	if s.closed {
		return dst
	}
	s.out.Bytes = dst
	s.chat.UpstreamEnded()
	added := s.finishTail(cause)
	s.closed = true
	if s.other == nil {
		s.chat.Finish(cause.Code())
	} else {
		s.other.Finish(&s.out, cause.Code(), added)
	}
	s.explain(nil, len(dst))
	s.End()
	return s.out.Take()
}

// End ends the stream if Finish has not ended it: its client has left.
func (s *Stream) End() {
	if s.other == nil {
		s.chat.End()
	} else {
		s.other.End()
	}
}

// finishTail handles the bytes after the last complete frame. A frame that lacks only its
// blank line counts, one that was cut is dropped (contract section 3). If a frame that
// passes unexamined was cut, a blank line separates it from what follows. finishTail
// returns the number of bytes that it has added to complete a frame that counts.
func (s *Stream) finishTail(cause Cause) (added int) {
	out := &s.out
	if s.scan.Raw() {
		if s.other == nil || s.other.Open() {
			out.Bytes = append(out.Bytes, "\n\n"...)
		}
		return 0
	}
	tail := s.scan.Tail()
	if len(tail) == 0 && s.other == nil { // as almost every stream ends
		return 0
	}
	x := s.object()
	x.F.Parse(tail)
	if s.other != nil {
		s.other.NoteTail(tail)
	}
	switch {
	case s.parseTail() && (s.other == nil || s.parseChunk() || s.other.IsEvent(&x.F)):
		s.notes.Add(contract.SectionEnd, "the last frame is complete but for its blank line: it counts")
		end := "\n\n"
		if tail[len(tail)-1] == '\n' {
			end = "\n"
		}
		s.unit(sse.UnitFrame, append(bytes.Clone(tail), end...))
		return len(end)
	case s.other != nil && s.other.TailPasses(cause.Code()), s.chat.Done && comments.Match(tail):
		if len(tail) > 0 {
			s.notes.Add(contract.SectionHarm, "the rest after the last frame: passes")
		}
		out.Next(sse.UnitFrame)
		out.Bytes = append(out.Bytes, tail...)
	case len(tail) > 0:
		s.notes.Add(contract.SectionEnd, "a frame that was cut in the middle: dropped")
	}
	return 0
}

// object returns the object of the current frame, whose F is yet to be parsed.
func (s *Stream) object() *chunk.Object {
	if s.x == nil {
		s.x = &chunk.Object{Notes: s.notes}
	}
	return s.x
}

// parseTail parses the data of the current frame, which has no end, and reports whether the frame
// lacks only its blank line: its data and its last line are complete.
func (s *Stream) parseTail() bool {
	x := s.object()
	last := x.F.Raw[bytes.LastIndexAny(x.F.Raw, "\r\n")+1:]
	return (len(last) == 0 || bytes.HasPrefix(last, []byte("data:"))) && (chunk.IsDone(x.F.Data) || x.C.Parse(x.F.Data))
}

// comments matches complete comment lines. After [DONE] they may stay without a blank line,
// because nothing of ours follows.
var comments = regexp.MustCompile(`^(?::.*\n)*$`)

// unit handles a unit of the stream.
func (s *Stream) unit(u sse.Unit, b []byte) {
	if u == sse.UnitFrame && s.notes == nil && s.chat.Pass(b) {
		return
	}
	s.chat.Unit(u)
	switch {
	case u == sse.UnitFrame:
		s.frame(b)
	case u == sse.UnitNoise && s.other == nil:
		s.chat.Noise(b)
	case u == sse.UnitNoise:
		s.chat.Quiet(b)
	case u == sse.UnitRaw && s.other != nil && s.other.Raw(b, !s.scan.Raw(), s.scan.MaxFrame):
		s.out.Drop()
	case u == sse.UnitRaw && s.other != nil:
		s.chat.Raw(b, !s.scan.Raw(), 0)
	case u == sse.UnitRaw:
		s.chat.Raw(b, !s.scan.Raw(), s.scan.MaxFrame)
	case u == sse.UnitLF:
		s.chat.LF(b)
	}
}

// frame handles a complete frame.
func (s *Stream) frame(raw []byte) {
	x := s.object()
	x.Edits.Reset()
	x.F.Parse(raw)
	if x.F.HasData {
		s.chat.Sum.Frames++
	}
	s.out.HasIDs = s.out.HasIDs || x.F.ID != nil
	if s.other == nil {
		s.chat.Frame(x)
		return
	}
	if !x.F.HasData || !s.parseChunk() {
		s.other.Frame(&s.out, &x.F, &x.Edits)
		return
	}
	_, _, code := s.other.Summary()
	s.chat.Sum.Code = code
	s.scan.CommentUnits, s.other = false, nil
	s.chat.Frame(x)
}

// parseChunk parses the data of the current frame, and reports whether it is a chunk, which makes the
// stream one of chat completions.
func (s *Stream) parseChunk() bool {
	x := s.object()
	return x.C.Parse(x.F.Data) && x.C.IsChunk(x.F.Data)
}

// take adds the note n about the current piece unless there is an equal one.
func (s *Stream) take(n Note) {
	if !slices.Contains(s.list, n) {
		s.list = append(s.list, n)
	}
}

// explain explains what became of the piece in. The bytes that have left for it begin at
// Bytes[from].
func (s *Stream) explain(in []byte, from int) {
	if s.explainTo != nil {
		from = min(from, len(s.out.Bytes)) // Params.Split returns an empty buffer
		s.explainTo(Step{In: in, Out: s.out.Bytes[from:], Held: in != nil && s.out.IsHeld(), Notes: s.list})
		s.list = s.list[:0]
	}
}
