package prose

import "unicode"

// tagNames are the names, in lower case and with the end of the tag, of the tags between
// which models write their reasoning (contract section 4).
var tagNames = [...]string{"think>", "thinking>", "reasoning>", "thought>", "mm:think>", "reasoning_scratchpad>"}

// tags follows a text rune by rune and separates its reasoning from its content.
// The zero value is at the start of a message.
//
// A tag opens reasoning at the start of a message, after a tool or its marker, and
// after a paragraph break, indented by three spaces at most, and never inside fenced
// code. Elsewhere a tag is content, so that people can write about tags. Reasoning ends
// with the first closing tag of the same name that is not code.
type tags struct {
	inside bool  // after an opening tag
	name   uint8 // the index of its name in tagNames

	matched uint8               // how many runes of what may be a tag have come
	names   [len(tagNames)]bool // the names that agree with those of an opening tag
	code    codeAfterTag        // the closing tag is complete and may be code
	cr      bool                // a CR follows it, which may belong to a newline

	afterClosing bool // only white space has come since a closing tag

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

// codeAfterTag says what has to follow a closing tag so that it is code.
type codeAfterTag uint8

const (
	codeNo        codeAfterTag = iota
	codeInline                 // a backtick
	codeFence                  // anything but a paragraph break
	codeFenceLine              // anything but a second newline
)

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

// step follows the next rune. inCode says that the content is inside fenced code. If the
// rune leaves as content the caller must call sent.
func (t *tags) step(r rune, inCode bool) tagStep {
	switch {
	case t.inside && t.code != codeNo:
		return t.stepAfter(r)
	case t.inside && t.matched > 0:
		return t.stepClosing(r)
	case t.inside && r == '<':
		t.matched = 1
		return stepMaybe
	case t.inside:
		t.reasoned(r)
		return stepReasoning
	case t.matched > 0:
		return t.stepOpening(r)
	case t.afterClosing && unicode.IsSpace(r):
		return stepSpace
	}
	t.afterClosing = false
	if r == '<' && t.mayOpen() && !inCode {
		t.matched = 1
		for i := range t.names {
			t.names[i] = true
		}
		return stepMaybe
	}
	return stepText
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

// stepOpening follows a rune that may belong to an opening tag.
func (t *tags) stepOpening(r rune) tagStep {
	at, agree := int(t.matched)-1, false
	for i, name := range tagNames {
		switch {
		case !t.names[i] || lower(r) != rune(name[at]):
			t.names[i] = false
		case r == '>':
			*t = tags{inside: true, name: uint8(i)}
			return stepTag
		default:
			agree = true
		}
	}
	if agree {
		t.matched++
		return stepMaybe
	}
	t.matched = 0
	return stepNot
}

// reasoned follows a rune of the reasoning.
func (t *tags) reasoned(r rune) {
	t.fence.Step(r)
	t.tick = r == '`'
}

// stepClosing follows a rune that may belong to the closing tag.
func (t *tags) stepClosing(r rune) tagStep {
	name, at := tagNames[t.name], int(t.matched)-len("</")
	if at < 0 && r != '/' || at >= 0 && lower(r) != rune(name[at]) {
		t.noTag()
		return stepNot
	}
	t.matched++
	if at+1 < len(name) {
		return stepMaybe
	}
	switch {
	case t.fence.Open():
		t.code = codeFence
	case t.tick:
		t.code = codeInline
	default:
		t.close()
		return stepTag
	}
	return stepMaybe
}

// stepAfter follows a rune after a closing tag that may be code, within backticks or in
// a fence. A paragraph break after the tag means that the fence was never closed, as
// happens in reasoning that broke off. Then some code may end the reasoning too early,
// but no answer is lost.
func (t *tags) stepAfter(r rune) tagStep {
	switch {
	case t.code == codeInline && r != '`':
		t.close()
		return stepClosed
	case t.code != codeInline && r == '\r' && !t.cr:
		t.cr = true // only one, because held text has to leave in the end
		return stepMaybe
	case t.code == codeFence && r == '\n':
		t.code, t.cr = codeFenceLine, false
		return stepMaybe
	case t.code == codeFenceLine && r == '\n':
		t.close()
		return stepTag
	}
	newline := t.code == codeFenceLine
	t.noTag()
	if newline {
		t.reasoned('\n')
	}
	return stepNot
}

// noTag decides that what looked like a closing tag is reasoning.
func (t *tags) noTag() {
	t.matched, t.code, t.cr = 0, codeNo, false
	t.reasoned('<')
}

// close decides that the closing tag is one.
func (t *tags) close() {
	*t = tags{afterClosing: true}
}

// decide decides what may be a tag as if the text ended here. It reports whether that is
// a closing tag.
func (t *tags) decide() (tag bool) {
	switch {
	case t.code != codeNo:
		t.close()
		return true
	case t.inside && t.matched > 0:
		t.noTag()
	}
	t.matched = 0
	return false
}

// pending reports whether the last runes may belong to a closing tag.
func (t *tags) pending() bool { return t.inside && t.matched > 0 }

// idle reports whether text without a < is content and leaves as it is.
func (t *tags) idle() bool { return !t.inside && !t.afterClosing && t.matched == 0 }

// lower returns an ASCII letter in lower case.
func lower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}
