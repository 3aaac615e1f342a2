package chat

import (
	"bytes"
	"cmp"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// A frame that is larger than max_frame leaves as it comes. Its beginning says whether it is
// a tool event, an error or text, and counts as that (contract section 2).

// MaxLook is the number of bytes that are read at either end of a large frame. A tool's id
// and status are after its label, which may be the large value.
const MaxLook = 1 << 10

// largeFrame is a large frame while it comes.
type largeFrame struct {
	x    chunk.Object // its beginning, closed where it was cut, with the values that came whole
	tail []byte       // its last bytes

	kind     kind
	isError  bool // it has an error
	finishes bool // it has a finish reason, which may have been cut
	internal bool // it is an event of an internal tool
	drop     bool // nothing of it leaves
}

// newLarge returns the large frame that begins with head.
func newLarge(head []byte) *largeFrame {
	g := new(largeFrame)
	x, c := &g.x, &g.x.C
	chunk.ParseBeginning(&x.F, bytes.Clone(head))
	var came int // how much of the data came: a value that ends after that was cut
	x.F.Data, came = jsonspan.Close(x.F.Data)
	c.Parse(x.F.Data)
	g.kind, _ = kindOf(x, true)
	g.isError = x.HasError() && (g.kind == kindChunk || g.kind == kindError)
	g.finishes = c.Finish.Ok()
	g.internal = isInternal(string(x.String(c.Tool)))
	for _, v := range []*jsonspan.Span{&c.Tool, &c.Emoji, &c.CallID, &c.Status, &c.Finish} {
		if v.To > came {
			*v = jsonspan.Span{}
		}
	}
	if !c.Finish.Ok() {
		c.Ended = 0
	}
	if m := jsonspan.MemberOf(x.F.Data, c.Err, "message"); !m.Ok() || m.To > came {
		c.Err = jsonspan.Span{}
	}
	c.Label, c.Usage = jsonspan.Span{}, jsonspan.Span{} // too long to be kept
	return g
}

// members returns the members at the end of the object. It returns false if they are not
// known.
func (g *largeFrame) members() (x chunk.Object, ok bool) {
	x.F.Data = g.tail[:bytes.LastIndexByte(g.tail, '}')+1]
	for i := bytes.IndexByte(x.F.Data, ','); i >= 0; i = bytes.IndexByte(x.F.Data, ',') {
		x.F.Data = x.F.Data[i:]
		x.F.Data[0] = '{' // in a string, or deeper, this begins no object
		if x.C.Parse(x.F.Data) {
			return x, true
		}
		x.F.Data = x.F.Data[1:]
	}
	return x, false
}

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
