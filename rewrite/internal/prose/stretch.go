package prose

import (
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

// MaxStretches is the number of stretches of reasoning that are taken out of one text at
// most (contract section 4).
const MaxStretches = 64

// readTag looks for tags at the rune c, data[i:next]. If it takes the rune, it returns
// the index to go on at, which is i if the rune has to be read again. It returns false if
// the rune is content.
func (t *State) readTag(o *Rules, i, next int, c rune) (at int, taken bool) {
	inside := t.tags.inside()
	code := t.fence.Open()
	if c == '<' && !inside && !code && !o.Complete { // a stretch and the content after it are two more parts
		code = t.Stretches == MaxStretches || o.Limits.Growth-t.grown < 2*o.Limits.Part
	}
	switch t.tags.step(c, code) {
	case stepReasoning:
		if !unicode.IsSpace(c) {
			t.recordReasoning(o)
		}
	case stepSpace:
		t.Notes.Add(contract.SectionReasoning, "white space after a closing tag: goes")
		t.cut(i, next)
	case stepMaybe:
		switch {
		case inside:
			if c == '<' { // one from an earlier text goes on at the start of this
				t.closing = i
			}
		case !t.Suspects():
			t.suspicion.begin(aTag, i)
			t.dropNewlines = 0
		}
	case stepTag:
		if inside {
			t.closeStretch(next)
		} else {
			t.openStretch(o, next)
		}
	case stepClosed:
		t.closeStretch(i)
		return i, true
	case stepNot:
		if inside {
			t.clearClosing(o)
		} else {
			t.clearLine()
		}
		return i, true
	default:
		return i, false
	}
	return next, true
}

// openStretch cuts the opening tag that ends at next and begins reasoning.
func (t *State) openStretch(o *Rules, next int) {
	t.cut(t.suspicion.from, next)
	t.strip()
	t.Stretches++
	if !o.Complete {
		t.grown += 2 * o.Limits.Part
	}
	t.Notes.Add(contract.SectionReasoning, "an opening tag: reasoning begins, the tag goes")
	t.add(next, true).breaks = t.Reasoned || o.Reasoned
}

// closeStretch cuts the closing tag, which ends at to, and begins content.
func (t *State) closeStretch(to int) {
	t.cut(t.closing, to)
	if t.data != nil { // otherwise it was in earlier texts
		t.Notes.Add(contract.SectionReasoning, "a closing tag: reasoning ends, the tag goes")
	}
	t.pending = t.pending[:0]
	t.add(to, false)
}

// clearClosing decides that what may have been a closing tag is reasoning.
func (t *State) clearClosing(o *Rules) {
	t.lead, t.pending = append(t.lead, t.pending...), t.pending[:0]
	t.recordReasoning(o)
}
