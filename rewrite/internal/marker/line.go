package marker

import (
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxHeldLine is the length in bytes up to which a line may be an imitated marker. It
// bounds the text that is held back (contract section 1).
const MaxHeldLine = 4 << 10

// Line is a line of text that so far agrees with the marker of a known tool: a backtick,
// a known emoji and a space. The caller makes sure that the backtick stands at the start
// of a line and outside code fences, and holds the text back until the line ends.
//
// The zero value is ready for Start, which may be called again and keeps the buffers.
type Line struct {
	size    int    // bytes of text so far, as UTF-8
	begin   []byte // the text after a backtick, while it is compared with emoji
	after   int    // the number of runes after the space
	inLabel bool   // a known emoji and a space have come
	tick    bool   // the last rune was a backtick

	emoji, label []byte // as in the JSON; Step alone fills them
	last         int    // where the last rune of label begins
	again        bool   // begin is the text after a further backtick
}

// Start begins a line whose backtick has come.
func (l *Line) Start() {
	*l = Line{size: 1, begin: l.begin[:0], emoji: l.emoji[:0], label: l.label[:0]}
}

// Size returns how many bytes of text have come.
func (l *Line) Size() int { return l.size }

// Step adds the rune r, whose bytes in the JSON are raw and which is not a newline. It
// returns false if the line can no longer be a marker.
func (l *Line) Step(r rune, raw []byte, tools *Table) bool {
	size := l.size + utf8.RuneLen(r)
	if size > MaxHeldLine {
		return false
	}
	if l.inLabel {
		l.last = len(l.label)
		l.label = append(l.label, raw...)
	}
	if !l.read(r, tools) {
		return false
	}
	if !l.inLabel {
		l.emoji = append(l.emoji, raw...)
	}
	l.size = size
	return true
}

// read is Step for a line of any length. It keeps neither the emoji nor the label.
func (l *Line) read(r rune, tools *Table) bool {
	if l.inLabel {
		l.after++
		l.tick = r == '`'
		return !l.another(r, tools)
	}
	l.begin = utf8.AppendRune(l.begin, r)
	partly, wholly := tools.begins(l.begin)
	l.inLabel = wholly
	return partly
}

// another reports whether the rune r completes the beginning of a second marker in the
// line. Such a line is prose about tools.
func (l *Line) another(r rune, tools *Table) bool {
	if r == '`' {
		l.begin, l.again = l.begin[:0], true
		return false
	}
	if !l.again {
		return false
	}
	l.begin = utf8.AppendRune(l.begin, r)
	partly, wholly := tools.begins(l.begin)
	l.again = partly
	return wholly
}

// Complete reports whether the line is a marker if it ends here: it has a label and ends
// with a backtick.
func (l *Line) Complete() bool { return l.inLabel && l.tick && l.after > 1 }

// Tool returns the emoji and the label of a complete line that Step has read, as in the
// JSON. They are valid until Start.
func (l *Line) Tool() (emoji, label []byte) { return l.emoji, l.label[:l.last] }

// ReadWhole reads the line in text whose first rune, a backtick, ends at i. It reports
// whether that line is the marker of a known tool, and returns where the next line
// begins. The line may have any length; l keeps nothing of it.
func (l *Line) ReadWhole(text []byte, i int, tools *Table) (next int, ok bool) {
	l.Start()
	for i < len(text) {
		r, next := jsonspan.NextRune(text, i)
		if r == '\n' {
			return next, l.Complete()
		}
		if !l.read(r, tools) {
			return 0, false
		}
		i = next
	}
	return i, l.Complete()
}

// OpensAt reports whether the emoji of a known tool and a space are at text[i:].
func (l *Line) OpensAt(text []byte, i int, tools *Table) bool {
	if !tools.MayBegin(text[i:]) {
		return false
	}
	l.Start()
	for i < len(text) && !l.inLabel {
		r, next := jsonspan.NextRune(text, i)
		if !l.read(r, tools) {
			return false
		}
		i = next
	}
	return l.inLabel
}
