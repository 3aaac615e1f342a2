package chunk

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// HasContent reports whether the chunk has content of the first choice, and no other
// choice.
func (c *Chunk) HasContent() bool { return c.Content.Ok() && c.FirstOnly }

// KeepContent adds the edits that leave nothing of the content but k, as reasoning if
// reasoning is true. If the chunk repeats its content, it repeats what is left, but no
// reasoning.
func (x *Object) KeepContent(k *prose.Kept, reasoning bool) {
	c := &x.C
	if reasoning {
		x.Replace(c.ContentKey.From, c.ContentKey.To, []byte("reasoning_content"))
	}
	x.keepAt(k, 0)
	if !c.Repeat.Ok() {
		return
	}
	if none := x.NoContent(); reasoning {
		k = &none
	}
	x.keepAt(k, c.Repeat.From-c.Content.From)
}

// DropContent adds the edits that leave nothing of the content.
func (x *Object) DropContent() {
	none := x.NoContent()
	x.KeepContent(&none, false)
}

// manyCuts is the number of cuts above which one edit replaces all of them: an edit for
// each would take more memory than the text.
const manyCuts = 64

// keepAt adds the edits that leave nothing but k of the content, or of its copy shift
// bytes behind it.
func (x *Object) keepAt(k *prose.Kept, shift int) {
	in := x.C.Content.Inner()
	cut := func(from, to int, with []byte) {
		if from < to || len(with) > 0 {
			x.Replace(from+shift, to+shift, with)
		}
	}
	if n := len(k.Cuts); n > manyCuts {
		head := *k
		head.To = k.Cuts[n-1].To
		x.Replace(in.From+shift, head.To+shift, x.Commit(head.AppendTo(slices.Grow(x.room, head.Len()), x.F.Data)))
		cut(k.To, in.To, nil)
		return
	}
	cut(in.From, k.From, k.Front)
	for _, c := range k.Cuts {
		cut(c.From, c.To, nil)
	}
	cut(k.To, in.To, nil)
}
