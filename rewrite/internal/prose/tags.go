package prose

import (
	"strings"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

// MaxStretches is the number of stretches of reasoning that are taken out of one text at
// most (contract section 4).
const MaxStretches = 64

// tagNames are the names, in lower case, of the tags between which models write their
// reasoning (contract section 4).
var tagNames = [...]string{"think", "thinking", "reasoning", "thought", "mm:think", "reasoning_scratchpad"}

// tags separates the reasoning of a text from its content. The zero value is at the start
// of a message.
//
// A tag opens reasoning at the start of a message, after a tool or its marker, and
// after a paragraph break, indented by three spaces at most, and never inside fenced
// code. Elsewhere a tag is content, so that people can write about tags. Reasoning ends
// with the first closing tag, of any of the names, that is not code, or with a tool.
type tags struct {
	reasoning    bool   // the text is between tags
	opening      string // the tag that has opened the last reasoning, in lower case
	words        bool   // there was a non-space character in reasoning that no tag has closed
	stray        bool   // a tool has ended the reasoning, whose closing tag may follow
	seen         []byte // what may be a tag, in lower case, with what shows whether it is code
	opens        bool   // seen may be an opening tag
	afterClosing bool   // only white space since a closing tag

	// Whether a tag may open at a place in the content.
	blocked  bool  // there is text between here and the last place where a tag may open
	newlines uint8 // how many, up to 2, since the last non-space character
	indent   uint8 // the white space at the beginning of the line, up to 4

	fence Fence // of the reasoning
	tick  bool  // the last rune, of either kind, was a backtick
}

// tagStep says what the runes in tags.seen are.
type tagStep uint8

const (
	stepNot    tagStep = iota // no tag; the last rune is read again
	stepMaybe                 // they may become a tag
	stepTag                   // a tag
	stepClosed                // a closing tag that ends before the last rune
)

// inside reports whether the text is reasoning.
func (t *tags) inside() bool { return t.reasoning }

// pending reports whether the last runes may belong to a closing tag.
func (t *tags) pending() bool { return t.inside() && len(t.seen) > 0 }

// boundary records that a new message of the model may begin here.
func (t *tags) boundary() { t.afterClosing, t.blocked, t.indent = false, false, 0 }

// reasoned follows a rune of the reasoning.
func (t *tags) reasoned(r rune) {
	t.fence.Step(r)
	t.tick = r == '`'
}

// sent follows a rune that leaves as content.
func (t *tags) sent(r rune) {
	t.tick = r == '`'
	switch {
	case r == '\n':
		t.indent = 0
		if t.newlines++; t.newlines >= 2 {
			t.newlines, t.blocked = 2, false
		}
	case r == '\t':
		t.indent = 4
	case unicode.IsSpace(r):
		t.indent = min(t.indent+1, 4)
	default:
		t.blocked, t.newlines = true, 0
	}
}

// is returns what seen is. After a backtick, or in a fence, a closing tag may be code, and
// what follows decides: within backticks, anything but a backtick is content. A paragraph
// break means that the fence was never closed, as happens in reasoning that broke off. Then
// some code may end the reasoning too early, but no answer is lost.
func (t *tags) is(seen string) tagStep {
	if !t.inside() {
		var step tagStep
		if t.opens {
			step, _ = matchTag("<", seen)
		}
		if t.stray && step == stepNot {
			step, _ = matchTag("</", seen)
		}
		return step
	}
	step, after := matchTag("</", seen)
	newlines := strings.ReplaceAll(after, "\r\n", "\n")
	fenced := t.fence.Open()
	switch {
	case step != stepTag:
		return step
	case after == "" && (fenced || t.tick):
		return stepMaybe
	case after == "" || fenced && newlines == "\n\n":
		return stepTag
	case !fenced && after != "`":
		return stepClosed
	case fenced && strings.HasPrefix("\n", strings.TrimSuffix(newlines, "\r")):
		return stepMaybe
	}
	return stepNot
}

// closes reports whether seen begins with a closing tag.
func (t *tags) closes() bool {
	step, _ := matchTag("</", string(t.seen))
	return step == stepTag
}

// matchTag returns stepTag and what follows if seen begins with a tag that begins with bracket, and
// stepMaybe if seen may become one.
func matchTag(bracket, seen string) (step tagStep, after string) {
	rest, ok := strings.CutPrefix(seen, bracket)
	if !ok {
		if strings.HasPrefix(bracket, seen) {
			return stepMaybe, ""
		}
		return stepNot, ""
	}
	for _, name := range tagNames {
		switch after, ok := strings.CutPrefix(rest, name); {
		case ok && after == "", strings.HasPrefix(name, rest):
			step = stepMaybe
		case ok && after[0] == '>':
			return stepTag, after[1:]
		}
	}
	return step, ""
}

// readTag looks for tags at the rune c, data[i:next]. If it takes the rune, it returns
// the index to go on at, which is i if the rune has to be read again. It returns false if
// the rune is content.
func (t *State) readTag(o *Rules, i, next int, c rune) (at int, taken bool) {
	g := &t.tags
	if len(g.seen) == 0 {
		switch {
		case c == '<' && g.inside():
			t.closing = len(t.text)
		case c == '<' && (t.mayOpen(o) || g.stray && !t.fence.Open() && !g.tick):
			g.opens, t.opened = t.mayOpen(o), i
			t.suspicion = suspicion{here: true, from: len(t.text), line: t.suspicion.line, tag: true}
			t.dropNewlines = 0
		case g.inside():
			g.reasoned(c)
			if !unicode.IsSpace(c) {
				t.recordReasoning()
			}
			t.keep(i, next)
			return next, true
		case g.afterClosing && unicode.IsSpace(c):
			t.Notes.Add(contract.SectionReasoning, "white space after a closing tag: removed")
			return next, true
		default:
			g.afterClosing = false
			return i, false
		}
	}
	n := len(g.seen)
	g.afterClosing = false
	g.seen = append(g.seen, byte(unicode.ToLower(min(c, 0x80)))) // 0x80 is in no tag
	switch step := g.is(string(g.seen)); {
	case step == stepMaybe:
		t.keep(i, next)
	case step == stepNot:
		g.seen = g.seen[:n]
		t.noTag()
		return i, true
	case g.inside():
		t.closeStretch()
		if step == stepClosed {
			return i, true
		}
	case g.seen[1] == '/':
		t.Notes.Add(contract.SectionReasoning, "the closing tag of reasoning that a tool has ended: removed")
		t.strip()
		g.seen, g.stray, g.afterClosing = g.seen[:0], false, !g.blocked
	default:
		*g = tags{reasoning: true, opening: string(g.seen), seen: g.seen[:0]}
		t.strip()
		if t.Stretches++; !o.Complete {
			t.grown += 2 * o.Part
		}
		t.Notes.Add(contract.SectionReasoning, "an opening tag: reasoning begins, the tag is removed")
		t.add(true).breaks = t.Reasoned || o.Reasoned
	}
	return next, true
}

// mayOpen reports whether a tag may open here: a stretch and the content after it are two
// more parts.
func (t *State) mayOpen(o *Rules) bool {
	affordable := o.Complete || t.Stretches < MaxStretches && o.Growth-t.grown >= 2*o.Part
	return affordable && !t.apart && !t.tags.blocked && t.tags.indent < 4 && !t.fence.Open()
}

// endStretch ends the reasoning, if there is any, without a closing tag.
func (t *State) endStretch() {
	if t.dropped = nil; t.tags.inside() {
		t.tags = tags{stray: true, words: t.tags.words, seen: t.tags.seen[:0]}
		t.needsBreak = false
	}
}

// closeStretch takes out the closing tag and begins content.
func (t *State) closeStretch() {
	t.tags = tags{afterClosing: true, seen: t.tags.seen[:0]}
	t.text = t.text[:t.closing]
	if len(t.data) > 0 { // otherwise it was in earlier texts
		t.Notes.Add(contract.SectionReasoning, "a closing tag: reasoning ends, the tag is removed")
	}
	t.pending = t.pending[:0]
	t.add(false)
}

// noTag decides that the suspected tag is text.
func (t *State) noTag() {
	g := &t.tags
	if !g.inside() {
		t.clearLine()
		return
	}
	g.reasoned('<') // in place of the other runes, which make no fence
	if strings.Contains(string(g.seen), "\n") {
		g.reasoned('\n')
	}
	g.seen = g.seen[:0]
	t.lead, t.pending = append(t.lead, t.pending...), t.pending[:0]
	t.recordReasoning()
}
