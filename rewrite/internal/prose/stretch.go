package prose

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxStretches is how many stretches of reasoning at most are taken out of one text
// (contract section 4).
const MaxStretches = 64

// readTag follows the rune c at text[i:next] as far as tags go. It returns false
// if the rune is content, or has to be looked at again.
func (t *State) readTag(r *Reading, o *Rules, i, next int, c rune) (at int, taken bool) {
	inside := t.tags.inside
	code := t.fence.Open()
	if c == '<' && !inside && !code { // one more stretch, and the text behind it, get chunks of their own
		code = r.Stretches == MaxStretches || r.growth(o.Sizes) < 2*o.Sizes.PartSize(r.in)
	}
	switch t.tags.step(c, code) {
	case stepReasoning:
		if !jsonspan.IsSpace(c) {
			r.reasoned(o)
		}
	case stepSpace:
		r.Notes.Add(contract.SectionReasoning, "white space behind a closing tag: goes")
		r.cut(i, next)
	case stepMaybe:
		switch {
		case inside:
			r.suspectClosing(i)
		case r.Suspects():
			r.suspicion.tagSize++
		default:
			r.suspicion.begin(aTag, i)
			t.dropNewlines = 0
		}
	case stepTag:
		if inside {
			t.closeStretch(r, next)
		} else {
			t.openStretch(r, o, next)
		}
	case stepClosed:
		t.closeStretch(r, i)
		return i, true
	case stepNot:
		if inside {
			t.clearClosing(r, o)
		} else {
			t.clearLine(r)
		}
		return i, true
	default:
		return i, false
	}
	return next, true
}

// openStretch cuts the opening tag that ends at next and begins reasoning.
func (t *State) openStretch(r *Reading, o *Rules, next int) {
	r.cut(r.lineFrom(), next)
	r.strip()
	r.Stretches++
	r.grown += 2 * o.Sizes.PartSize(r.in)
	r.Notes.Add(contract.SectionReasoning, "an opening tag: reasoning begins, the tag goes")
	r.add(next, true).breaks = r.Reasoned || o.Reasoned
}

// closeStretch cuts the closing tag, which ends at to, and goes on with text.
func (t *State) closeStretch(r *Reading, to int) {
	r.cut(r.closingFrom(), to)
	r.Notes.Add(contract.SectionReasoning, "a closing tag: reasoning ends, the tag goes")
	r.pending, r.closing = r.pending[:0], jsonspan.Span{}
	r.add(to, false)
}

// clearClosing records that what may have been a closing tag is reasoning.
func (t *State) clearClosing(r *Reading, o *Rules) {
	r.lead, r.pending = append(r.lead, r.pending...), r.pending[:0]
	r.closing = jsonspan.Span{}
	r.reasoned(o)
}
