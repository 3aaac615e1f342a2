package chat

import (
	"bytes"
	"cmp"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// A frame that is larger than max_frame leaves as it is read. Its beginning shows whether it is a
// tool event, an error or text, and the frame counts as such (contract section 2).

// MaxLook is the number of bytes that are read at either end of a large frame. A tool's id
// and status are after its label, which may be the large value.
const MaxLook = 1 << 10

// Raw forwards bytes of a frame that is larger than the limit. last says that the frame
// ends with them. If limit is 0, nothing is learnt from them.
func (s *Stream) Raw(b []byte, last bool, limit int) {
	if s.Done {
		s.end.dropLate(s.Out)
		return
	}
	s.decideHeld()
	if s.large == nil {
		s.large = readLarge(b[:min(len(b), limit, MaxLook)])
		s.largeBegins()
	}
	g := s.large
	g.look(b)
	g.tail = append(g.tail, b[max(0, len(b)-MaxLook):]...)
	g.tail = g.tail[max(0, len(g.tail)-MaxLook):]
	if g.drop {
		s.notes.Add(contract.SectionTools, "a tool event larger than max_frame, in a form that is not sent: dropped")
		s.Out.Drop()
	} else {
		s.notes.Add(contract.SectionHarm, "larger than max_frame: passes unexamined")
		s.Out.Bytes = append(s.Out.Bytes, b...)
		s.Out.Forward(nil)
	}
	if last {
		s.Sum.Unexamined++
		s.largeEnds()
		s.large = nil
	}
}

// look looks for a finish reason in b, the next bytes of the frame.
func (g *largeFrame) look(b []byte) {
	if g.finish != "" {
		return
	}
	n := len(g.tail)
	g.tail = append(g.tail, b[:min(len(b), chunk.MaxShownFinish)]...)
	g.finish = cmp.Or(chunk.ShownFinish(g.tail[max(0, n-chunk.MaxShownFinish):]), chunk.ShownFinish(b))
	g.tail = g.tail[:n]
}

// largeFrame is a large frame while it is read.
type largeFrame struct {
	x      chunk.Object // its beginning, with the values that came whole
	tail   []byte       // its last bytes
	finish string       // the finish reason that stands in it, or ""
	kind   kind         // kindError also for a chunk with an error
	drop   bool         // nothing of it leaves
}

// readLarge returns the large frame that begins with head.
func readLarge(head []byte) *largeFrame {
	g := new(largeFrame)
	x, c := &g.x, &g.x.C
	chunk.ParseBeginning(&x.F, bytes.Clone(head))
	c.Parse(x.F.Data)
	if g.kind, _ = kindOf(x, true); g.kind == kindChunk && x.HasError() {
		g.kind = kindError
	}
	data := x.F.Data[:c.All.To]
	if m := jsonspan.MemberOf(data, c.Err, "message"); !m.Ok() || m.IsCut(data) {
		c.Err, c.Hermes = jsonspan.Span{}, jsonspan.Span{}
	}
	for _, v := range []*jsonspan.Span{&c.Tool, &c.Emoji, &c.Label, &c.CallID, &c.Status, &c.Usage, &c.Finish, &c.Hermes} {
		if v.IsCut(data) {
			*v = jsonspan.Span{}
		}
	}
	return g
}

// largeBegins decides whether the large frame is dropped, and writes what must leave before it,
// such as the ends of tools.
func (s *Stream) largeBegins() {
	g := s.large
	c := &g.x.C
	switch g.kind {
	case kindTool:
		t, status := transitionOf(&g.x)
		g.drop = s.w.Form == contract.ProgressOff || s.Finished || isInternal(t.Name) || s.tools.hasOtherID(&t, status)
		return
	case kindError:
		s.tools.finish(!s.Finished)
	case kindChunk:
		if c.Text || c.Reasoning {
			s.tools.infer()
		}
		if c.Finish.Ok() {
			s.tools.finish(g.x.FinishReason() == "error")
		}
	}
	s.memory.pass()
	s.prose.SkipUnexamined()
}

// largeEnds records what the large frame, which has left, says.
func (s *Stream) largeEnds() {
	g, a, x, c := s.large, &s.answer, &s.large.x, &s.large.x.C
	switch {
	case g.kind == kindTool:
		tool, status := transitionOf(x)
		m, late := transitionOf(g.members()) // what the beginning does not say is in the last bytes
		tool.Name, tool.Emoji, tool.ID = cmp.Or(tool.Name, m.Name), cmp.Or(tool.Emoji, m.Emoji), cmp.Or(tool.ID, m.ID)
		tool.Left, tool.Event = !g.drop, nil
		s.transition(tool, cmp.Or(status, late))
		return
	case g.kind == kindError:
		if !s.Finished {
			s.end.sendError(x)
		}
	case g.kind != kindChunk || !c.Text && !c.Reasoning && !c.Finish.Ok(): // it may have been text
		a.saysOther()
		s.finishUnread(g.finish)
		return
	}
	if c.Text {
		a.saysText()
		a.noReply = false
	}
	if c.Reasoning {
		a.hasReasoning = true
		s.leaveTags()
	}
	if s.end.update(x); !c.Finish.Ok() {
		s.finishUnread(g.finish)
	} else if !s.Finished {
		s.Finished, s.Sum.FinishReason = s.end.allEnded(), x.FinishReason()
		if s.Sum.FinishReason == "error" {
			s.end.fail(contract.CodeAgentError)
		}
	}
}

// members returns an object with the members at the end of the frame, or none if they are not
// known.
func (g *largeFrame) members() *chunk.Object {
	data := g.tail[:bytes.LastIndexByte(g.tail, '}')+1]
	for i := range data {
		if data[i] == ',' {
			var x chunk.Object
			x.F.Data = data[i:]
			data[i] = '{' // in a string, or deeper, this begins no object
			if x.C.Parse(x.F.Data) {
				return &x
			}
		}
	}
	return &chunk.Object{}
}
