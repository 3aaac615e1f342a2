package prose

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxStretches is the number of stretches of reasoning that are taken out of one text at
// most (contract section 4).
const MaxStretches = 64

// readTag looks for tags at the rune c, data[i:next]. If it takes the rune, it returns
// the index to go on at, which is i if the rune has to be read again. It returns false if
// the rune is content.
func (t *State) readTag(r *Reading, o *Rules, i, next int, c rune) (at int, taken bool) {
	inside := t.tags.inside
	code := t.fence.Open()
	if c == '<' && !inside && !code && o.Sizes != nil { // a stretch and the content behind it are two more parts
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
			if c == '<' { // one from an earlier text goes on at the start of this
				r.closing = i
			}
		case !r.Suspects():
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
	r.cut(r.suspicion.from, next)
	r.strip()
	r.Stretches++
	if o.Sizes != nil {
		r.grown += 2 * o.Sizes.PartSize(r.in)
	}
	r.Notes.Add(contract.SectionReasoning, "an opening tag: reasoning begins, the tag goes")
	r.add(next, true).breaks = r.Reasoned || o.Reasoned
}

// closeStretch cuts the closing tag, which ends at to, and begins content.
func (t *State) closeStretch(r *Reading, to int) {
	r.cut(r.closing, to)
	r.Notes.Add(contract.SectionReasoning, "a closing tag: reasoning ends, the tag goes")
	r.pending = r.pending[:0]
	r.add(to, false)
}

// clearClosing decides that what may have been a closing tag is reasoning.
func (t *State) clearClosing(r *Reading, o *Rules) {
	r.lead, r.pending = append(r.lead, r.pending...), r.pending[:0]
	r.reasoned(o)
}
