package marker

import (
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Marker is a tool marker by position in the inside of a JSON string.
type Marker struct {
	Emoji, Label jsonspan.Span
}

// Whole reads s, the inside of a JSON string, as a marker that is the whole content of
// a chunk. It returns false if s is anything else.
//
// Such a marker is a newline, a backtick, a token with a non-ASCII rune, a space, a label
// of any kind, a backtick and a newline (contract section 1). Hermes' own pattern is
// \A\n`([^\s`]+) (.*)`\n\z, where the dot matches newlines. But a backtick and a newline
// inside the label mean that a hop has merged more than a marker into the chunk. The
// caller then looks at its lines one by one.
func Whole(s []byte) (m Marker, ok bool) {
	i := Begins(s)
	if i < 0 {
		return m, false
	}
	m.Emoji.From = i
	if i = tokenEnd(s, i); i < 0 {
		return m, false
	}
	m.Emoji.To = i
	_, i = jsonspan.NextRune(s, i)
	m.Label.From = i
	for tick := -1; i < len(s); { // where the rune before i begins, if that is a backtick
		r, next := jsonspan.NextRune(s, i)
		if r == '\n' && tick >= 0 {
			m.Label.To = tick
			return m, next == len(s)
		}
		if tick = -1; r == '`' {
			tick = i
		}
		i = next
	}
	return m, false
}

// Begins returns the index after the newline and the backtick that s, the inside of a
// JSON string, begins with, or -1 if it does not.
func Begins(s []byte) int {
	if len(s) < len(`\n`+"`") || s[0] != '\\' {
		return -1
	}
	r, i := jsonspan.NextRune(s, 0)
	if r != '\n' || i >= len(s) {
		return -1
	}
	if r, i = jsonspan.NextRune(s, i); r != '`' {
		return -1
	}
	return i
}

// tokenEnd returns the index of the space after the token at i, or -1 if the token
// cannot be the emoji of a marker.
func tokenEnd(s []byte, i int) int {
	ascii := true
	for i < len(s) {
		r, next := jsonspan.NextRune(s, i)
		if r == ' ' {
			if ascii {
				return -1
			}
			return i
		}
		if r == '`' || unicode.IsSpace(r) {
			return -1
		}
		ascii = ascii && r < utf8.RuneSelf
		i = next
	}
	return -1
}
