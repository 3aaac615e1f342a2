package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// A frame that is larger than max_frame leaves as it comes. Its beginning says whether it is
// a tool event, an error or text, and counts as that (contract section 2).

// MaxLook is the number of bytes that are read at either end of a large frame. A tool's id
// and status are behind its label, which may be what is large.
const MaxLook = 1 << 10

// largeFrame is a large frame while it comes. It keeps both ends of it.
type largeFrame struct {
	open       bool
	drop       bool // nothing of it leaves
	kind       largeKind
	head, tail []byte
}

// largeKind is what the beginning of a large frame says.
type largeKind uint8

const (
	largeUnknown largeKind = iota // it may be text, for all that is known
	largeTool
	largeError
	largeChunk // of text or reasoning, or with a finish reason
)

// keep keeps the end of the frame, now that b of it comes.
func (g *largeFrame) keep(b []byte) {
	b = b[max(0, len(b)-MaxLook):]
	g.tail = append(g.tail[max(0, len(g.tail)+len(b)-MaxLook):], b...)
}

// members returns the members at the end of the object, and the bytes that they are in. It
// returns false if they are not known.
func (g *largeFrame) members() (c chunk.Chunk, data []byte, ok bool) {
	data = g.tail[:bytes.LastIndexByte(g.tail, '}')+1]
	for i := bytes.IndexByte(data, ','); i >= 0; i = bytes.IndexByte(data, ',') {
		data = data[i:]
		data[0] = '{' // what is in a string, or deeper, is no object then
		if c.Parse(data) {
			return c, data, true
		}
		data = data[1:]
	}
	return c, nil, false
}

// Raw forwards bytes of a frame that is larger than the limit max. last says that the frame
// ends with them. If max is 0, nothing is learnt from them.
func (s *Stream) Raw(k *Work, b []byte, last bool, max int) {
	if s.end.done {
		s.dropLate()
		return
	}
	g := &k.large
	s.settle(k)
	if !g.open {
		g.open, g.tail = max > 0, g.tail[:0]
		g.head = append(g.head[:0], b[:min(len(b), max, MaxLook)]...)
		g.begins(&s.handler, &k.Object)
	}
	g.keep(b)
	if g.drop {
		s.notes.Add(contract.SectionTools, "a tool event larger than max_frame, of the kind that does not leave: dropped")
		s.Out.Drop()
	} else {
		s.notes.Add(contract.SectionHarm, "larger than max_frame: passes unexamined")
		s.Out.Bytes = append(s.Out.Bytes, b...)
		s.Out.ForwardWhole()
	}
	if last {
		g.open = false
		s.text.unexamined++
		g.ends(&s.handler, &k.Object)
	}
}

// lookAt makes x the beginning of the frame, closed where it was cut, and returns how much of
// the data came: a value that ends behind that was cut.
func (g *largeFrame) lookAt(x *chunk.Object) (came int) {
	x.Begin()
	chunk.ParseBeginning(&x.F, g.head)
	x.F.Data, came = jsonspan.Close(x.F.Data)
	x.C = chunk.Chunk{}
	x.C.Parse(x.F.Data)
	return came
}

// kindOf returns what the beginning x of a large frame says.
func kindOf(x *chunk.Object) largeKind {
	c, data, named := &x.C, x.F.Data, x.Named()
	isChunk := x.IsChunk() && !isWrapped(x)
	switch {
	case string(x.F.Event) == ProgressEvent && c.TellsTool(data), !named && c.IsToolEvent(data) && c.ChoicesArray && saysNothing(x):
		return largeTool
	case x.HasError() && (isChunk || !named || string(x.F.Event) == "error"):
		return largeError
	case isChunk && (c.Text || c.Reasoning || c.Finish.Ok()):
		return largeChunk
	}
	return largeUnknown
}

// toolOf returns the fields and the status of the tool in the beginning x of a large frame,
// of whose data so much came. What was cut is nil. The label is too long to be kept.
func toolOf(x *chunk.Object, came int) (f toolFields, status []byte) {
	whole := func(v jsonspan.Span) []byte {
		if v.To > came {
			return nil
		}
		return x.String(v)
	}
	c := &x.C
	return toolFields{name: whole(c.Tool), emoji: whole(c.Emoji), id: jsonspan.Plain(whole(c.CallID))}, jsonspan.Plain(whole(c.Status))
}

// begins does what comes before the frame. x is room for its beginning.
func (g *largeFrame) begins(h *handler, x *chunk.Object) {
	came := g.lookAt(x)
	g.kind, g.drop = kindOf(x), false
	switch g.kind {
	case largeTool:
		f, status := toolOf(x, came)
		g.drop = h.form == contract.ProgressOff || h.end.finished || isInternal(x.String(x.C.Tool)) ||
			f.id != nil && (isStatus(status, running) && h.tools.started(f.id) || isStatus(status, completed) && h.tools.find(f.id) < 0)
		return
	case largeError:
		h.tools.completeAll(&h.writer, !h.end.finished)
	case largeChunk:
		if x.C.Text || x.C.Reasoning {
			h.tools.inferEnds(&h.writer)
		}
		if x.C.Finish.Ok() {
			h.tools.completeAll(&h.writer, x.FinishReason() == "error")
		}
	}
	h.text.prose.SkipUnexamined()
}

// isStatus reports whether raw, a JSON string without escapes or nil, is the status.
func isStatus(raw []byte, status string) bool { return string(jsonspan.Inside(raw)) == status }

// ends records what the frame was, which has left. x is room for its beginning.
func (g *largeFrame) ends(h *handler, x *chunk.Object) {
	t, e := &h.text, &h.end
	came := g.lookAt(x)
	switch g.kind {
	case largeTool:
		h.tools.upstream = true
		if !g.drop || h.form == contract.ProgressOff {
			g.endsTool(h, x, came)
		}
		return
	case largeError:
		if e.finished {
			return
		}
		e.recordFailure(contract.CodeAgentError)
		message := e.message(&h.tools, t, x, contract.CodeAgentError)
		if at := jsonspan.MemberOf(x.F.Data, x.C.Err, "message"); at.Ok() && at.To <= came {
			message = e.reason(&h.tools, t, x)
		}
		e.errorSent = bytes.Clone(jsonspan.Truncate(message, contract.MaxMessage))
	case largeUnknown:
		t.hasOther, h.tools.textSince = true, true
		return
	}
	c := &x.C
	if c.Text {
		t.hasText, t.noReply, h.tools.textSince = true, false, true
	}
	t.hasReasoning = t.hasReasoning || c.Reasoning
	e.manyChoices = e.manyChoices || c.ManyChoices
	e.begun |= c.Begun
	if c.Finish.Ok() && c.Finish.To <= came && !e.finished {
		e.ended |= c.Ended
		e.finished, e.finishReason = e.allEnded(), x.FinishReason()
		if e.finishReason == "error" {
			e.recordFailure(contract.CodeAgentError)
		}
	}
}

// endsTool is ends for a tool event, of whose data so much came in the beginning x.
func (g *largeFrame) endsTool(h *handler, x *chunk.Object, came int) {
	f, status := toolOf(x, came)
	c, data, known := g.members()
	if known {
		f.name, f.emoji = orString(f.name, data, c.Tool), orString(f.emoji, data, c.Emoji)
		f.id, status = orString(f.id, data, c.CallID), orString(status, data, c.Status)
	}
	switch {
	case isInternal(f.name) || h.end.finished:
	case isStatus(status, completed):
		if i := h.tools.find(f.id); i >= 0 {
			t := h.tools.remove(i)
			h.tools.report(&h.writer, &t, true, contract.SourceUpstream)
			h.cardOutput(&t, false)
		}
	case !isStatus(status, running) && status != nil, f.id != nil && h.tools.started(f.id):
	default:
		if f.name == nil {
			f.name = x.Literal(`"` + marker.UnknownTool + `"`)
		}
		inferred := f.id == nil || status == nil
		if inferred && known {
			h.usage.setReportsFailures(false)
		}
		t := h.tools.begin(&h.writer, x, &f, inferred)
		t.card = false // its event has none
		h.tools.add(&h.writer, &t, contract.SourceUpstream)
		h.text.prose.BeginMessage()
	}
}

// orString returns raw or, if that is nil, the JSON string at v of data without escapes.
func orString(raw, data []byte, v jsonspan.Span) []byte {
	if raw == nil {
		raw = jsonspan.Plain(jsonspan.StringAt(data, v))
	}
	return raw
}
