package chat

import (
	"bytes"

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
		data[0] = '{' // in a string, or deeper, this begins no object
		if c.Parse(data) {
			return c, data, true
		}
		data = data[1:]
	}
	return c, nil, false
}

// Raw forwards bytes of a frame that is larger than the limit max. last says that the frame
// ends with them. If max is 0, nothing is learnt from them.
func (s *Stream) Raw(b []byte, last bool, max int) {
	if s.end.done {
		s.dropLate()
		return
	}
	g := &s.large
	s.decideHeld()
	if !g.open {
		g.open, g.tail = max > 0, g.tail[:0]
		g.head = append(g.head[:0], b[:min(len(b), max, MaxLook)]...)
		s.largeBegins()
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
		s.text.unexamined++
		s.largeEnds()
		*g = largeFrame{}
	}
}

// look makes s.x the beginning of the large frame, closed where it was cut, and returns how
// much of the data came: a value that ends after that was cut.
func (s *Stream) look() (came int) {
	x := &s.x
	x.Begin()
	chunk.ParseBeginning(&x.F, s.large.head)
	x.F.Data, came = jsonspan.Close(x.F.Data)
	x.C = chunk.Chunk{}
	x.C.Parse(x.F.Data)
	return came
}

// largeToolOf returns the tool and the status in the beginning x of a large frame, of whose
// data so much came. What was cut is empty. The label is too long to be kept.
func largeToolOf(x *chunk.Object, came int) (t encode.Tool, status string) {
	whole := func(v jsonspan.Span) []byte {
		if v.To > came {
			return nil
		}
		return x.String(v)
	}
	c := &x.C
	t = encode.Tool{Name: string(whole(c.Tool)), Emoji: string(whole(c.Emoji)), ID: string(jsonspan.Plain(whole(c.CallID)))}
	return t, string(jsonspan.Inside(jsonspan.Plain(whole(c.Status))))
}

// largeBegins does what comes before the large frame.
func (s *Stream) largeBegins() {
	x, g := &s.x, &s.large
	came := s.look()
	k, _ := kindOf(x, true)
	g.kind, g.drop = largeUnknown, false
	switch c := &x.C; {
	case k == kindTool:
		g.kind = largeTool
	case x.HasError() && (k == kindChunk || k == kindError):
		g.kind = largeError
	case k == kindChunk && (c.Text || c.Reasoning || c.Finish.Ok()):
		g.kind = largeChunk
	}
	switch g.kind {
	case largeTool:
		t, status := largeToolOf(x, came)
		g.drop = s.w.Form == contract.ProgressOff || s.end.finished || isInternal(string(x.String(x.C.Tool))) ||
			t.ID != "" && (status == encode.Running && s.tools.started(t.ID) || status == encode.Completed && s.tools.find(t.ID) < 0)
		return
	case largeError:
		s.apply(s.tools.endAll(!s.end.finished))
	case largeChunk:
		if x.C.Text || x.C.Reasoning {
			s.apply(s.tools.inferEnds())
		}
		if x.C.Finish.Ok() {
			s.apply(s.tools.endAll(x.FinishReason() == "error"))
		}
	}
	s.text.prose.SkipUnexamined()
}

// largeEnds records what the large frame was, which has left.
func (s *Stream) largeEnds() {
	x, t, e := &s.x, &s.text, &s.end
	came := s.look()
	switch s.large.kind {
	case largeTool:
		s.tools.upstream = true
		if !s.large.drop || s.w.Form == contract.ProgressOff {
			s.largeToolEnds(came)
		}
		return
	case largeError:
		if e.finished {
			return
		}
		e.fail(contract.CodeAgentError)
		message := s.message(contract.CodeAgentError)
		if at := jsonspan.MemberOf(x.F.Data, x.C.Err, "message"); at.Ok() && at.To <= came {
			message = s.reason()
		}
		e.keepError(message)
	case largeUnknown:
		t.hasOther, s.tools.textSince = true, true
		return
	}
	c := &x.C
	if c.Text {
		t.hasText, t.noReply, s.tools.textSince = true, false, true
	}
	t.hasReasoning = t.hasReasoning || c.Reasoning
	e.manyChoices = e.manyChoices || c.ManyChoices
	e.begun |= c.Begun
	if c.Finish.Ok() && c.Finish.To <= came && !e.finished {
		e.ended |= c.Ended
		e.finish(x.FinishReason())
		if e.finishReason == "error" {
			e.fail(contract.CodeAgentError)
		}
	}
}

// largeToolEnds is largeEnds for a tool event, of whose data so much came in the beginning.
func (s *Stream) largeToolEnds(came int) {
	t, status := largeToolOf(&s.x, came)
	c, data, known := s.large.members()
	if known {
		orString := func(value string, v jsonspan.Span) string {
			if value != "" {
				return value
			}
			return string(jsonspan.Plain(jsonspan.StringAt(data, v)))
		}
		t.Name, t.Emoji, t.ID = orString(t.Name, c.Tool), orString(t.Emoji, c.Emoji), orString(t.ID, c.CallID)
		if status == "" {
			status = jsonspan.Inside(orString("", c.Status))
		}
	}
	switch {
	case isInternal(t.Name) || s.end.finished:
	case status == encode.Completed:
		if i := s.tools.find(t.ID); i >= 0 {
			end := s.tools.end(i, contract.SourceUpstream)
			end.Left = true
			s.apply([]encode.Transition{end})
		}
	case status != encode.Running && status != "", t.ID != "" && s.tools.started(t.ID):
	default:
		if t.Name == "" {
			t.Name = unknownTool
		}
		inferred := t.ID == "" || status == ""
		if inferred && known {
			s.usage.setReportsFailures(false)
		}
		s.startTool(encode.Transition{Tool: t, Source: contract.SourceUpstream, Left: true}, inferred)
		s.text.prose.BeginMessage()
	}
}
