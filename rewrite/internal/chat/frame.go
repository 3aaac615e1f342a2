package chat

import (
	"bytes"
	"regexp"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

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

// Frame handles the frame x, which the caller has parsed.
func (s *Stream) Frame(x *chunk.Object) {
	switch {
	case !x.F.HasData:
		s.Quiet(x.F.Raw)
	case chunk.IsDone(x.F.Data):
		s.doneFrame(x)
	case x.C.Parse(x.F.Data):
		s.object(x)
	case s.Done:
		s.end.dropLate(s.Out)
	default:
		s.unread(x)
	}
}

// unread handles x, whose data is no well-formed JSON object. It has said something, which may
// be an answer or the finish (contract section 0).
func (s *Stream) unread(x *chunk.Object) {
	s.notes.Add(contract.SectionHarm, "not a well-formed JSON object: passes")
	s.decideHeld()
	switch {
	case chunk.TellsState(x.F.Event):
		chunk.RedactText(&x.F, &x.Edits, x.Notes)
	case !jsonspan.Valid(x.F.Data) && len(bytes.TrimSpace(x.F.Data)) > 0:
		s.answer.saysOther()
		s.finishUnread(chunk.ShownFinish(x.F.Data))
	}
	s.w.Object(x)
}

// object handles x, whose data is an object.
func (s *Stream) object(x *chunk.Object) {
	k, form := kindOf(x, false)
	q := s.readApproval(x, k)
	all := k == kindError || (k != kindChunk || s.Done) && x.TellsState()
	x.Redact(all, s.prose.InTag())
	switch {
	case !s.Done:
	case s.end.failed || !x.IsChunk() || x.C.Count > 0 || string(x.F.Event) == encode.ProgressEvent || x.C.IsToolEvent(x.F.Data):
		s.end.dropLate(s.Out)
		return
	default: // a chunk without choices passes, such as one with the usage (contract section 2)
		s.w.Object(x)
		return
	}
	if x.C.MoreErrors && (k == kindChunk || k == kindError) {
		x.KeepOneError()
	}
	dropped := s.Finished && s.end.failed && x.C.Count > 0
	if x.IsChunk() && !dropped { // an event that another sidecar has wrapped may precede any chunk
		s.tools.setEnvelope(x)
	}
	switch {
	case k == kindTool:
		s.toolEvent(x, form)
	case k == kindChunk:
		s.chunk(x)
	case k == kindError:
		s.decideHeld()
		s.tools.finish(!s.Finished)
		if !s.Finished {
			s.end.sendError(x)
		}
		s.w.Object(x)
	case k == kindOther:
		s.decideHeld()
		s.w.Object(x)
	case s.tools.hasOutput(x):
		s.tools.dropOutput()
	default:
		s.namedEvent(x, k == kindWrapped, q)
	}
}

// Noise handles a blank line or comments. A comment may be a tool event, which another sidecar
// has written.
func (s *Stream) Noise(b []byte) {
	if bytes.HasPrefix(b, []byte(encode.ProgressComment)) {
		x := &chunk.Object{Notes: s.notes}
		end := len(bytes.TrimRight(b, "\r\n")) // without the blank line
		x.F.SetData(b, len(encode.ProgressComment), max(end, len(encode.ProgressComment)))
		if x.C.Parse(x.F.Data) && x.C.IsToolEvent(x.F.Data) {
			x.Redact(false, false)
			s.toolEvent(x, contract.ProgressComment)
			return
		}
	}
	if !s.w.HasChunk || s.o.KeepaliveForm == contract.KeepaliveComment || s.Finished || !keepalives.Match(b) {
		s.Quiet(b)
		return
	}
	// Clients that die of a comment die of this one as well (contract section 3).
	s.notes.Add(contract.SectionEnd, "a comment that keeps the connection alive: replaced by a chunk")
	s.Out.Drop()
	if !s.Now.Before(s.nextKeepalive) {
		s.nextKeepalive = s.Now.Add(minKeepaliveGap)
		s.w.KeepaliveChunk()
	}
}

// keepalives matches a comment that says nothing, such as Hermes' own ": keepalive".
var keepalives = regexp.MustCompile(`^:[ \t]*(?i:keep-?alive|ping|heartbeat)[ \t]*(?:\r\n?|\n)+$`)

// minKeepaliveGap is the time within which comments of upstream's become one chunk: three bytes
// would become some 200 as often as upstream likes (TestKeepalivesOfUpstreamAreBounded).
const minKeepaliveGap = 100 * time.Millisecond

// LF handles the LF b of a CRLF whose CR ended the unit before.
func (s *Stream) LF(b []byte) {
	if s.Out.LF() {
		s.holdBytes(b)
	}
}

// Keepalive writes a keepalive (contract section 3). The stream must not have finished.
func (s *Stream) Keepalive() {
	s.Sum.Keepalives++
	s.w.Keepalive()
}

// StatusEvent is the name of the event that tells Hermes' state.
const StatusEvent = encode.StatusEvent

// UpstreamEnded says that upstream has ended: nothing that is still written waits for Params.Details.
func (s *Stream) UpstreamEnded() { s.p.Details = nil }

// Finish ends the stream after upstream has ended, which is an error with the code if the stream
// is not complete. It writes what the client still needs: the held frames, the ends of open tools,
// an error finish and [DONE].
func (s *Stream) Finish(code string) {
	held := s.hold.whole
	s.decideHeld()
	s.Out.Release(held)
	if !s.Finished {
		s.finishError(code)
	}
	if !s.Done {
		s.notes.Add(contract.SectionEnd, "[DONE] is added")
		s.w.Done()
		s.Done = true
	}
}
