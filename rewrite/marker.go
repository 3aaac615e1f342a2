package rewrite

import (
	"bytes"
	"unicode/utf8"
)

// marker is a tool marker by position in the inside of a JSON string.
type marker struct {
	emoji, label span
}

// wholeMarker reads s, the inside of a JSON string, as a marker that is the
// whole content of a chunk: a newline, a backtick, a token with a non-ASCII
// rune, a space, a label of any kind, a backtick, a newline (contract section
// 1; Hermes' own pattern: \A\n`([^\s`]+) (.*)`\n\z, the dot matching newlines).
// A backtick and a newline inside say that a hop has merged more than a marker
// into the chunk: its lines are then looked at one by one.
func wholeMarker(s []byte) (m marker, ok bool) {
	i := markerBegins(s)
	if i < 0 {
		return m, false
	}
	m.emoji.from = i
	if i = tokenEnd(s, i); i < 0 {
		return m, false
	}
	m.emoji.to = i
	_, m.label.from = nextRune(s, i)
	return m, m.endAt(s)
}

// markerBegins returns the index behind the newline and the backtick that s begins
// with, -1 when it does not.
func markerBegins(s []byte) int {
	if len(s) < len(`\n`+"`") || s[0] != '\\' {
		return -1
	}
	r, i := nextRune(s, 0)
	if r != '\n' || i >= len(s) {
		return -1
	}
	if r, i = nextRune(s, i); r != '`' {
		return -1
	}
	return i
}

// tokenEnd returns the index of the space behind the emoji that begins at i, -1
// when no marker begins so.
func tokenEnd(s []byte, i int) int {
	ascii := true
	for i < len(s) {
		r, next := nextRune(s, i)
		if r == ' ' {
			if ascii {
				return -1
			}
			return i
		}
		if r == '`' || isSpace(r) {
			return -1
		}
		ascii = ascii && r < utf8.RuneSelf
		i = next
	}
	return -1
}

// endAt sets the label's end, and is false when s does not end with the first
// backtick and newline behind the label's beginning. It goes from escape to
// escape, for a newline is one.
func (m *marker) endAt(s []byte) bool {
	escaped := span{} // the last backtick that was one
	for i := m.label.from; ; {
		n := bytes.IndexByte(s[i:], '\\')
		if n < 0 {
			return false
		}
		i += n
		r, next := nextRune(s, i)
		switch {
		case r == '`':
			escaped = span{i, next}
		case r != '\n':
		case escaped.ok() && escaped.to == i:
			m.label.to = escaped.from
			return next == len(s)
		case i > m.label.from && s[i-1] == '`':
			m.label.to = i - 1
			return next == len(s)
		}
		i = next
	}
}

// appendEmoji appends the text of the emoji raw, the inside of a JSON string,
// without U+FE0F. It stops where the emoji is longer than any that can be
// known.
func appendEmoji(dst, raw []byte) []byte {
	for i := 0; i < len(raw) && len(dst) <= maxEmoji; {
		r, next := nextRune(raw, i)
		if r != '\ufe0f' {
			dst = utf8.AppendRune(dst, r)
		}
		i = next
	}
	return dst
}
