package prose

import (
	"strings"
	"unicode"
)

// tagNames are the names, in lower case, of the tags between which models write their
// reasoning (contract section 4).
var tagNames = [...]string{"think", "thinking", "reasoning", "thought", "mm:think", "reasoning_scratchpad"}

// tags follows a text rune by rune and separates its reasoning from its content.
// The zero value is at the start of a message.
//
// A tag opens reasoning at the start of a message, after a tool or its marker, and
// after a paragraph break, indented by three spaces at most, and never inside fenced
// code. Elsewhere a tag is content, so that people can write about tags. Reasoning ends
// with the first closing tag of the same name that is not code.
type tags struct {
	closing      string // the tag that ends the reasoning, empty outside of it
	seen         []byte // what may be a tag, in lower case, with what shows whether it is code
	afterClosing bool   // only white space has come since a closing tag
	opening

	// Code within the reasoning.
	fence Fence
	tick  bool // the last rune was a backtick
}

// opening is whether a tag may open at a place in the content.
type opening struct {
	blocked  bool  // there is text between here and the last place where a tag may open
	newlines uint8 // how many, up to 2, since the last non-space character
	indent   uint8 // the white space at the beginning of the line, up to 4
}

// tagStep says what a rune is.
type tagStep uint8

const (
	stepText      tagStep = iota // it is content
	stepReasoning                // it is reasoning
	stepSpace                    // it is white space after a closing tag
	stepMaybe                    // it belongs to what may be a tag
	stepTag                      // it completes a tag
	stepClosed                   // a closing tag ended before it; step it again
	stepNot                      // what came before it is no tag; step it again
)

// inside reports whether the text is reasoning.
func (t *tags) inside() bool { return t.closing != "" }

// step follows the next rune. inCode says that the content is inside fenced code. If the
// rune leaves as content the caller must call sent.
func (t *tags) step(r rune, inCode bool) tagStep {
	if len(t.seen) == 0 && (r != '<' || !t.inside() && (inCode || !t.mayOpen())) {
		switch {
		case t.inside():
			t.reasoned(r)
			return stepReasoning
		case t.afterClosing && unicode.IsSpace(r):
			return stepSpace
		}
		t.afterClosing = false
		return stepText
	}
	n := len(t.seen)
	t.afterClosing = false
	if r < 0x80 {
		t.seen = append(t.seen, byte(unicode.ToLower(r)))
	} else {
		t.seen = append(t.seen, 0x80) // in no tag
	}
	step := t.isOpening()
	if t.inside() {
		step = t.isClosing()
	}
	switch {
	case step == stepNot:
		t.seen = t.seen[:n]
		t.noTag()
	case step != stepMaybe && t.inside():
		t.close()
	case step == stepTag:
		*t = tags{closing: "</" + string(t.seen[1:]), seen: t.seen[:0]}
	}
	return step
}

// isOpening returns what seen is outside of reasoning.
func (t *tags) isOpening() tagStep {
	step, seen := stepNot, string(t.seen)
	for _, name := range tagNames {
		switch tag := "<" + name + ">"; {
		case seen == tag:
			return stepTag
		case strings.HasPrefix(tag, seen):
			step = stepMaybe
		}
	}
	return step
}

// isClosing returns what seen is within reasoning. After a backtick, or in a fence, a closing
// tag may be code, and what follows decides: within backticks, anything but a backtick is
// content. A paragraph break means that the fence was never closed, as happens in reasoning
// that broke off. Then some code may end the reasoning too early, but no answer is lost.
func (t *tags) isClosing() tagStep {
	after, complete := strings.CutPrefix(string(t.seen), t.closing)
	newlines := strings.ReplaceAll(after, "\r\n", "\n")
	fenced := t.fence.Open()
	switch {
	case !complete && strings.HasPrefix(t.closing, string(t.seen)), complete && after == "" && (fenced || t.tick):
		return stepMaybe
	case !complete:
		return stepNot
	case after == "" || fenced && newlines == "\n\n":
		return stepTag
	case !fenced && after != "`":
		return stepClosed
	case fenced && strings.HasPrefix("\n", strings.TrimSuffix(newlines, "\r")):
		return stepMaybe
	}
	return stepNot
}

// mayOpen reports whether a tag may open here.
func (t *opening) mayOpen() bool { return !t.blocked && t.indent < 4 }

// sent follows a rune that leaves as content.
func (t *opening) sent(r rune) {
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

// boundary records that a new message of the model may begin here.
func (t *tags) boundary() {
	t.afterClosing, t.blocked, t.indent = false, false, 0
}

// reasoned follows a rune of the reasoning.
func (t *tags) reasoned(r rune) {
	t.fence.Step(r)
	t.tick = r == '`'
}

// noTag decides that what may be a tag is text.
func (t *tags) noTag() {
	if t.inside() && len(t.seen) > 0 {
		t.reasoned('<') // in place of the other runes, which make no fence
		if strings.Contains(string(t.seen), "\n") {
			t.reasoned('\n')
		}
	}
	t.seen = t.seen[:0]
}

// close ends the reasoning.
func (t *tags) close() { *t = tags{afterClosing: true, seen: t.seen[:0]} }

// decide decides what may be a tag as if the text ended here. It reports whether that is
// a closing tag.
func (t *tags) decide() (tag bool) {
	if t.inside() && strings.HasPrefix(string(t.seen), t.closing) {
		t.close()
		return true
	}
	t.noTag()
	return false
}

// pending reports whether the last runes may belong to a closing tag.
func (t *tags) pending() bool { return t.inside() && len(t.seen) > 0 }

// idle reports whether text without a < is content and leaves as it is.
func (t *tags) idle() bool { return !t.inside() && !t.afterClosing && len(t.seen) == 0 }
