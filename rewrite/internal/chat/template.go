package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// learn makes the frame, which is about to leave, the template: if it says nothing but its
// content, if at most MaxTemplate bytes are around that, if nothing waits, and if more text
// changes no state.
func (s *Stream) learn() {
	x, t, p := &s.x, &s.text, &s.template
	c, raw := &x.C, x.F.Raw
	switch {
	case !x.Droppable(), !c.Content.Ok(), c.Repeat.Ok(), c.ChoiceErrors, raw[len(raw)-1] != '\n', !x.Edits.Empty(),
		!t.hasText, s.tools.onTool, t.noReply, s.Finished, s.Done, len(s.tools.open) > 0,
		len(s.hold.whole) > 0, !t.prose.Idle(false):
		return
	}
	from, to := x.F.At(c.Content.Inner().From), x.F.At(c.Content.Inner().To)
	if from+len(raw)-to <= MaxTemplate {
		p.around, p.head = append(append(p.around[:0], raw[to:]...), raw[:from]...), len(raw)-to
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
	case !newline && prose.MidLine(): // no line begins
	case marker.Begins(text) >= 0 || !prose.Skim(text, s.o.Tools):
		return 0
	}
	s.Sum.Frames++
	s.Sum.Chunks++
	s.Out.Next(sse.UnitFrame)
	s.Out.Bytes = append(s.Out.Bytes, b[:end]...)
	s.Out.ForwardWhole()
	return end
}
