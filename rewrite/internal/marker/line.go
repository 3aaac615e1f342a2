package marker

import (
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxHeldLine is the number of bytes of text up to which a line may be a marker, and
// so how much of it is held back (contract section 1).
const MaxHeldLine = 4 << 10

// Line is a line of text under suspicion: it has begun like the marker of a known
// tool, with a backtick, a known emoji and a space. The caller knows whether it stands
// at the start of a line and outside code fences, and holds its text back until the
// line ends. A Line that is used again keeps its room.
type Line struct {
	phase phase
	size  int    // bytes of text so far
	begin []byte // the text behind a backtick, while it is compared with emoji
	after int    // runes behind the space
	tick  bool   // the last rune was a backtick

	emoji, label []byte // as in the JSON
	last         int    // where the last rune of label begins
	again        bool   // begin is what came behind a further backtick
}

// Start begins a line, of which the backtick has come.
func (l *Line) Start() {
	*l = Line{size: 1, begin: l.begin[:0], emoji: l.emoji[:0], label: l.label[:0]}
}

// Size returns how many bytes of text have come.
func (l *Line) Size() int { return l.size }

// Step takes in the next rune, which is not a newline, and raw, its bytes in the JSON.
// It returns false if with that rune the line is no marker.
func (l *Line) Step(r rune, raw []byte, tools *Table) bool {
	size := l.size + utf8.RuneLen(r)
	if size > MaxHeldLine {
		return false
	}
	if l.phase == inLabel {
		l.last = len(l.label)
		l.label = append(l.label, raw...)
	}
	if !l.read(r, tools) {
		return false
	}
	if l.phase == inEmoji {
		l.emoji = append(l.emoji, raw...)
	}
	l.size = size
	return true
}

// read is Step for a line of any length, of which nothing is kept.
func (l *Line) read(r rune, tools *Table) bool {
	if l.phase == inLabel {
		l.after++
		l.tick = r == '`'
		return !l.another(r, tools)
	}
	l.begin = utf8.AppendRune(l.begin, r)
	partly, wholly := tools.begins(l.begin)
	if wholly {
		l.phase = inLabel
	}
	return partly
}

// another reports whether with the rune r a second marker begins in the line, which is
// then prose about tools.
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

// Complete reports whether the line would be a marker if it ended here: it has a label
// and closes with a backtick.
func (l *Line) Complete() bool {
	return l.phase == inLabel && l.tick && l.after > 1
}

// Tool returns the emoji and the label of a complete line, as in the JSON. They are
// valid until Start.
func (l *Line) Tool() (emoji, label []byte) { return l.emoji, l.label[:l.last] }

// phase is how far a Line has been read.
type phase uint8

const (
	inEmoji phase = iota // its emoji is being compared with those that are known
	inLabel              // it has an emoji and a space
)

// ReadWhole reads the line in text whose first rune, a backtick, ends at i. It reports
// whether that line is the marker of a known tool, and returns where the next line
// begins. The line may have any length; nothing of it is kept.
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
	for i < len(text) && l.phase == inEmoji {
		r, next := jsonspan.NextRune(text, i)
		if !l.read(r, tools) {
			return false
		}
		i = next
	}
	return l.phase == inLabel
}
