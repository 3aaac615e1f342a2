package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// MaxTemplate is the length in bytes of the longest template.
const MaxTemplate = 1 << 10

// template is the last frame without its text, if the frame left as it came and another
// one of its kind changes nothing but where lines begin. Most frames of an answer differ
// in nothing but their text, and need not be parsed: see Stream.Pass.
type template struct {
	around    []byte // the bytes after the text and, from head on, those before it
	head      int    // 0 if there is no template
	reasoning bool   // the text is reasoning in a member of its own
}

// learn makes the frame x the template if it has exactly one text, at most MaxTemplate
// bytes around it, and nothing that a later frame may repeat with another meaning.
func (p *template) learn(x *chunk.Object) {
	c := &x.C
	if !x.F.OnlyData || x.F.Raw[len(x.F.Raw)-1] != '\n' || !c.FirstOnly || c.Other || c.Repeat.Ok() || c.Finish.Ok() ||
		c.Usage.IsSet(x.F.Data) || x.HasError() || c.Hermes.Ok() || c.MoreErrors || c.ChoiceErrors {
		return
	}
	in, reasoning := c.Content.Inner(), false
	switch {
	case c.Content.Ok() && c.ReasoningCount == 0:
	case !c.Content.Ok() && c.ReasoningCount == 1:
		in, reasoning = c.ReasoningValue.Inner(), true
	default:
		return
	}
	raw, at := x.F.Raw, x.F.At(0)
	from, to := at+in.From, at+in.To
	if from+len(raw)-to > MaxTemplate {
		return
	}
	p.around = append(append(p.around[:0], raw[to:]...), raw[:from]...)
	p.head, p.reasoning = len(raw)-to, reasoning
}

// match compares the frame at the beginning of b with the template. It returns the
// length of the frame and where its text is, or 0 if the frame does not match or is not
// complete.
func (p *template) match(b []byte) (end int, in jsonspan.Span, newline bool) {
	if p.head == 0 || !bytes.HasPrefix(b, p.around[p.head:]) {
		return 0, in, false
	}
	from := len(p.around) - p.head
	to, newline, ok := jsonspan.ScanText(b, from)
	if !ok || !bytes.HasPrefix(b[to:], p.around[:p.head]) {
		return 0, in, false
	}
	return to + p.head, jsonspan.Span{From: from, To: to}, newline
}

// Pass forwards the frame at the beginning of b if it matches the template, has at most
// most bytes and a text that changes nothing but where lines begin. It returns the length
// of the frame, or 0 if the frame has to be handled. Pass does what Frame would do:
// TestAlikeChangesNothing.
func (s *Stream) Pass(b []byte, most int) int {
	end, in, newline := s.template.match(b)
	text := in.Of(b)
	switch prose := &s.text.prose; {
	case end == 0 || end > most || redact.MaySay(text):
		return 0
	case s.template.reasoning, !newline && prose.MidLine(): // no line begins
	case marker.Begins(text) >= 0 || !prose.Skim(text, s.o.Tools):
		return 0
	}
	s.Frames++
	s.chunks++
	s.Out.Next(sse.UnitFrame)
	s.Out.Bytes = append(s.Out.Bytes, b[:end]...)
	s.Out.ForwardWhole()
	return end
}

// learn makes the frame, which is about to leave, the template, if nothing waits, and more
// text or reasoning of the same kind changes no state.
func (s *Stream) learn() {
	x, t := &s.x, &s.text
	recorded := t.hasText && s.tools.textSince && !t.noReply
	reasoning := !x.C.Content.Ok()
	if reasoning {
		recorded = t.hasReasoning
	}
	if recorded && x.Edits.Empty() && s.w.Env.Same(x) && !s.end.finished && !s.end.done &&
		len(s.tools.open) == 0 && s.hold.empty() && t.prose.Idle(reasoning) {
		s.template.learn(x)
	}
}
