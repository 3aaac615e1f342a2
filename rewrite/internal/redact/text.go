package redact

import (
	"bytes"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// text is the characters that the inside of a JSON string stands for.
type text struct {
	raw   []byte // the inside of the string
	chars []byte // raw itself if that has no escapes; characters that are not ASCII are 0x80 or more
	char  int    // how many characters are in raw[:at]
	at    int
}

// decode returns the characters of raw, the inside of a JSON string or any other text.
func decode(raw []byte) text {
	t := text{raw: raw, chars: raw}
	if bytes.IndexByte(raw, '\\') < 0 {
		return t
	}
	t.chars = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		var c byte
		c, i = charAt(raw, i)
		t.chars = append(t.chars, c)
	}
	return t
}

// index returns where the character i begins in raw. Calls come in order.
func (t *text) index(i int) int {
	if len(t.chars) == len(t.raw) {
		return i
	}
	for ; t.char < i; t.char++ {
		_, t.at = charAt(t.raw, t.at)
	}
	return t.at
}

// maxEscaped is the number of escaped backslashes before a quote through which charAt sees.
const maxEscaped = 16

// charAt returns the character at i of the inside of a JSON string, and the index after it.
// It reads escapes however often the text was escaped, because many errors contain the JSON
// of another: a quote may have any number of backslashes before it, up to maxEscaped.
func charAt(b []byte, i int) (c byte, next int) {
	if b[i] != '\\' {
		return b[i], i + 1
	}
	r, next := jsonspan.NextRune(b, i)
	c = byte(min(r, utf8.RuneSelf))
	for n, i := 0, next; r == '\\' && i < len(b) && n < maxEscaped; n++ {
		if b[i] == 'u' {
			if r, ok := jsonspan.Hex4(b, i+1); ok {
				return byte(min(r, utf8.RuneSelf)), i + 5
			}
		}
		if r, i = jsonspan.NextRune(b, i); r == '"' || r == '\'' || r == '/' {
			return byte(r), i
		}
	}
	return c, next
}
