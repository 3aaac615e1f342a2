package redact

import (
	"bytes"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// said is what Hermes 0.22 writes before the message of a provider, in the text of an
// answer.
const said = "Provider said: "

// MaySay reports whether the JSON b may have a text with the words "Provider said: ",
// escaped or not. It is cheap and errs only by returning true.
func MaySay(b []byte) bool {
	for rest, escaped := b, len(b) > len(said); escaped; { // printable ASCII is from \u0020 to \u007e
		if _, rest, escaped = bytes.Cut(rest, []byte(`\u00`)); len(rest) > 0 && rest[0] >= '2' && rest[0] <= '7' {
			return true
		}
	}
	return bytes.Contains(b, []byte(said))
}

// Said returns the index after the first "Provider said: " at the start of a line of text, the
// inside of a JSON string, or -1 if there is none. A tag that ends reasoning and the white space
// after it do not leave, so a line also starts after them. inTag says that the text may begin in
// such a tag, or after one.
func Said(text []byte, inTag bool) int {
	if !MaySay(text) {
		return -1
	}
	n, space := 0, inTag // how many bytes of said have matched; whether only space that does not leave precedes
	for i := 0; i < len(text); {
		r, next := jsonspan.NextRune(text, i)
		switch {
		case n < 0 || r != rune(said[n]):
			n = -1
		case n+1 == len(said):
			return next
		default:
			n++
		}
		inTag = inTag || r == '<'
		space = inTag && r == '>' || space && unicode.IsSpace(r)
		if i = next; r == '\n' || space { // a line starts
			n = 0
		}
	}
	return -1
}

// EachSaid calls each for every secret in text, the inside of a JSON string, that is after
// "Provider said: ", in order. inTag is as in Said.
func EachSaid(text []byte, inTag bool, each func(secret jsonspan.Span)) {
	if from := Said(text, inTag); from >= 0 {
		f := decode(text, from, len(text))
		f.each(each)
	}
}
