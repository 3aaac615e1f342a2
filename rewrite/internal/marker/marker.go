// Package marker recognizes the tool markers that Hermes writes into the text of an
// answer (contract sections 1 and 2). A marker is a line with an emoji and a label
// between backticks:
//
//	\n`💻 ls -la`\n
//
// Whole reads the whole content of one chunk. Such a marker starts a tool, whatever its
// emoji. Table.Line reads a line of text, which may end with white space. Such a line is an
// imitation, and counts only if the Table knows its emoji, for which Table.Opening looks.
//
// All read the inside of a JSON string as it stands, escapes included, in linear time. The
// caller knows where lines begin and which of them are code.
package marker

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxHeldLine is the length in bytes up to which a line may be an imitated marker. It
// bounds the text that is held back (contract section 1).
const MaxHeldLine = 4 << 10

// Marker is a tool marker. Its fields are insides of JSON strings.
type Marker struct{ Emoji, Label []byte }

// Whole reads s, the inside of a JSON string, as a marker that is the whole content of
// a chunk. It returns false if s is anything else.
//
// Such a marker is what Hermes' own pattern \A\n`([^\s`]+) (.*)`\n matches, where the dot
// matches newlines: a newline, a backtick, a token with a non-ASCII rune, a space, a label
// of any kind, a backtick and a newline (contract section 1). A carriage return may be in
// front of either newline. A backtick and a newline inside the label mean that a hop has
// merged more than a marker into the chunk. The caller then looks at its lines one by one.
func Whole(s []byte) (m Marker, ok bool) {
	emoji, label := token(s, opening(s))
	if label == 0 {
		return m, false
	}
	for i := label; i < len(s); {
		r, next := jsonspan.NextRune(s, i)
		if r == '`' {
			switch end := skipNewline(s, next); {
			case end == next: // the backtick is part of the label
			case end == len(s):
				return Marker{Emoji: emoji, Label: s[label:i]}, true
			default:
				return m, false
			}
		}
		i = next
	}
	return m, false
}

// token returns the token at s[from:], and the index after the space that ends it. That is 0 if there is
// no token with a non-ASCII rune, or if from is 0.
func token(s []byte, from int) (token []byte, after int) {
	symbol := false
	for i := from; i > 0 && i < len(s); {
		r, next := jsonspan.NextRune(s, i)
		switch {
		case r == ' ' && symbol:
			return s[from:i], next
		case r == '`', unicode.IsSpace(r):
			return nil, 0
		}
		symbol = symbol || r >= utf8.RuneSelf
		i = next
	}
	return nil, 0
}

// Begins reports whether s, the inside of a JSON string, begins with a newline, LF or CR LF, and a
// backtick.
func Begins(s []byte) bool { return opening(s) > 0 }

// opening returns the index after the newline and the backtick that s begins with, or 0.
func opening(s []byte) int {
	i := skipNewline(s, 0)
	if i == 0 || i == len(s) {
		return 0
	}
	r, next := jsonspan.NextRune(s, i)
	if r != '`' {
		return 0
	}
	return next
}

// skipNewline returns the index after the newline at s[i:], LF or CR LF, or i if there is none.
func skipNewline(s []byte, i int) int {
	at := func(i int, want rune) int {
		if i == len(s) || s[i] != '\\' { // as in most texts
			return i
		}
		r, next := jsonspan.NextRune(s, i)
		if r != want {
			return i
		}
		return next
	}
	lf := at(i, '\r')
	if next := at(lf, '\n'); next > lf {
		return next
	}
	return i
}

// Line reads the line in text, the inside of a JSON string, whose first rune, a backtick,
// ends at i. It reports whether that line is the marker of a known tool: a label follows, and
// a backtick ends it, with nothing but white space after it. next is where the next line begins.
func (t *Table) Line(text []byte, i int) (m Marker, next int, ok bool) {
	label, _ := t.Opening(text, i)
	if label == 0 {
		return m, 0, false
	}
	tick := 0 // where the last rune that is no white space begins, if that is a backtick
	for next = label; next < len(text); {
		r, end := jsonspan.NextRune(text, next)
		if r == '\n' {
			next = end
			break
		}
		if r == '`' {
			if another, _ := t.Opening(text, end); another > 0 { // it is prose about tools
				return m, 0, false
			}
			tick = next
		} else if !unicode.IsSpace(r) {
			tick = 0
		}
		next = end
	}
	if tick <= label {
		return m, 0, false
	}
	emoji := bytes.TrimSuffix(bytes.TrimSuffix(text[i:label], []byte(" ")), []byte(`\u0020`))
	m = Marker{Emoji: emoji, Label: text[label:tick]}
	if t.knowsApprovals() && isLock(emoji) && !isApproval(m) {
		return Marker{}, 0, false // the emoji is that of no tool
	}
	return m, next, true
}
