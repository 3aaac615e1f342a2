package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// learn makes the frame, which is about to leave, the template: if it has exactly one text, at
// most MaxTemplate bytes around it, and nothing that a later frame may repeat with another
// meaning; and if nothing waits, and more text or reasoning of the same kind changes no state.
func (s *Stream) learn() {
	x, t, p := &s.x, &s.text, &s.template
	c, raw, texts := &x.C, x.F.Raw, x.C.ReasoningCount
	v, recorded := c.ReasoningValue, t.hasReasoning
	reasoning := !c.Content.Ok()
	if !reasoning {
		texts++
		v, recorded = c.Content, t.hasText && s.tools.textSince && !t.noReply
	}
	switch {
	case texts != 1, !c.FirstOnly, c.Other, c.Repeat.Ok(), c.Finish.Ok(), c.Usage.IsSet(x.F.Data), c.Hermes.Ok(),
		x.HasError(), c.MoreErrors, c.ChoiceErrors, !x.F.OnlyData, raw[len(raw)-1] != '\n', !x.Edits.Empty():
		return
	case !recorded, !s.w.Env.Same(x), s.end.finished, s.end.done, len(s.tools.open) > 0, !s.hold.empty(),
		!t.prose.Idle(reasoning):
		return
	}
	from, to := x.F.At(v.Inner().From), x.F.At(v.Inner().To)
	if from+len(raw)-to <= MaxTemplate {
		p.around = append(append(p.around[:0], raw[to:]...), raw[:from]...)
		p.head, p.reasoning = len(raw)-to, reasoning
	}
}

// Pass forwards the frame at the beginning of b if it matches the template, has at most
// most bytes and a text that changes nothing but where lines begin. It returns the length
// of the frame, or 0 if the frame has to be handled. Pass does what Frame would do:
// TestAlikeChangesNothing.
func (s *Stream) Pass(b []byte, most int) int {
	p, prose := &s.template, &s.text.prose
	if p.head == 0 || !bytes.HasPrefix(b, p.around[p.head:]) {
		return 0
	}
	from := len(p.around) - p.head
	to, newline, ok := jsonspan.ScanText(b, from)
	text, end := b[from:to], to+p.head
	switch {
	case !ok || end > most || !bytes.HasPrefix(b[to:], p.around[:p.head]) || redact.MaySay(text):
		return 0
	case p.reasoning, !newline && prose.MidLine(): // no line begins
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
