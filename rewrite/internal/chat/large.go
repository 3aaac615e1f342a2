package chat

import (
	"cmp"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
)

// A frame that is larger than max_frame leaves as it comes. Its beginning says whether it is
// a tool event, an error or text, and counts as that (contract section 2).

// Raw forwards bytes of a frame that is larger than the limit. last says that the frame
// ends with them. If that is 0, nothing is learnt from them.
func (s *Stream) Raw(b []byte, last bool, limit int) {
	if s.end.done {
		s.dropLate()
		return
	}
	s.decideHeld()
	if s.large == nil {
		s.large = newLarge(b[:min(len(b), limit, MaxLook)])
		s.largeBegins()
	}
	g := s.large
	end := b[max(0, len(b)-MaxLook):]
	g.tail = append(g.tail[max(0, len(g.tail)+len(end)-MaxLook):], end...)
	if g.drop {
		s.notes.Add(contract.SectionTools, "a tool event larger than max_frame, of the kind that does not leave: dropped")
		s.Out.Drop()
	} else {
		s.notes.Add(contract.SectionHarm, "larger than max_frame: passes unexamined")
		s.Out.Bytes = append(s.Out.Bytes, b...)
		s.Out.ForwardWhole()
	}
	if last {
		s.text.unexamined++
		s.largeEnds()
		s.large = nil
	}
}

// largeBegins does what comes before the large frame.
func (s *Stream) largeBegins() {
	g := s.large
	c := &g.x.C
	switch {
	case g.kind == kindTool:
		t, status := toolOf(&g.x), statusOf(&g.x)
		g.drop = s.w.Form == contract.ProgressOff || s.end.finished || g.internal ||
			t.ID != "" && (status == encode.Running && s.tools.started(t.ID) || status == encode.Completed && s.tools.find(&t) < 0)
		return
	case g.isError:
		s.apply(s.tools.endAll(!s.end.finished))
	case g.kind == kindChunk:
		if c.Text || c.Reasoning {
			s.apply(s.tools.inferEnds())
		}
		if g.finishes {
			s.apply(s.tools.endAll(c.Finish.Ok() && g.x.FinishReason() == "error"))
		}
	}
	s.text.prose.SkipUnexamined()
}

// largeEnds records what the large frame was, which has left.
func (s *Stream) largeEnds() {
	g, t, e := s.large, &s.text, &s.end
	c := &g.x.C
	switch {
	case g.kind == kindTool:
		s.tools.upstream = true
		if !g.drop || s.w.Form == contract.ProgressOff {
			s.largeToolEnds()
		}
		return
	case g.isError && e.finished:
		return
	case g.isError:
		e.fail(contract.CodeAgentError)
		message := s.message(contract.CodeAgentError)
		if c.Err.Ok() {
			message = s.reason(&g.x)
		}
		e.keepError(message)
	case g.kind != kindChunk || !c.Text && !c.Reasoning && !g.finishes: // it may be text, for all that is known
		t.hasOther, s.tools.textSince = true, true
		return
	}
	if c.Text {
		t.hasText, t.noReply, s.tools.textSince = true, false, true
	}
	t.hasReasoning = t.hasReasoning || c.Reasoning
	if e.update(&g.x); c.Finish.Ok() && !e.finished {
		if e.finish(g.x.FinishReason()); e.finishReason == "error" {
			e.fail(contract.CodeAgentError)
		}
	}
}

// largeToolEnds is largeEnds for a tool event. What the beginning does not say is in its last
// bytes.
func (s *Stream) largeToolEnds() {
	t, status := toolOf(&s.large.x), statusOf(&s.large.x)
	x, known := s.large.members()
	if known {
		more := toolOf(&x)
		t.Name, t.Emoji, t.ID = cmp.Or(t.Name, more.Name), cmp.Or(t.Emoji, more.Emoji), cmp.Or(t.ID, more.ID)
		status = cmp.Or(status, statusOf(&x))
	}
	switch {
	case isInternal(t.Name) || s.end.finished:
	case status == encode.Completed:
		if i := s.tools.find(&t); i >= 0 && t.ID != "" {
			end := s.tools.end(i, contract.SourceUpstream)
			end.Left = true
			s.apply([]encode.Transition{end})
		}
	case status != encode.Running && status != "", t.ID != "" && s.tools.started(t.ID):
	default:
		t.Name = cmp.Or(t.Name, unknownTool)
		inferred := t.ID == "" || status == ""
		if inferred && known {
			s.usage.setReportsFailures(false)
		}
		s.startTool(encode.Transition{Tool: t, Source: contract.SourceUpstream, Left: true}, inferred)
		s.text.prose.BeginMessage()
	}
}
