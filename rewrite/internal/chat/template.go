package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxTemplate is the length in bytes of the longest template.
const MaxTemplate = 1 << 10

// template is the last frame without its text, if the frame left as it came and another
// one of its kind changes nothing but where lines begin. Most frames of an answer differ
// in nothing but their text, and need not be parsed: see Stream.Pass.
type template struct {
	around []byte // the bytes after the text and, from head on, those before it
	head   int    // 0 if there is no template
}

// learn makes the frame x, which is about to leave, the template: if it says nothing but its
// content, and if at most MaxTemplate bytes are around that.
func (p *template) learn(x *chunk.Object) {
	c, raw := &x.C, x.F.Raw
	if !x.Droppable() || !c.Content.Ok() || c.Repeat.Ok() || c.ChoiceErrors || raw[len(raw)-1] != '\n' || !x.Edits.Empty() {
		return
	}
	from, to := x.F.At(c.Content.Inner().From), x.F.At(c.Content.Inner().To)
	if from+len(raw)-to <= MaxTemplate {
		p.around, p.head = append(append(p.around[:0], raw[to:]...), raw[:from]...), len(raw)-to
	}
}

// text returns the text of the frame b with its quotes, or nil if b does not match the template.
func (p *template) text(b []byte) []byte {
	if p.head == 0 || !bytes.HasPrefix(b, p.around[p.head:]) {
		return nil
	}
	from := len(p.around) - p.head
	to := jsonspan.SkipString(b, from-1) - 1
	if to < from || !bytes.Equal(b[to:], p.around[:p.head]) {
		return nil
	}
	return b[from-1 : to+1]
}
