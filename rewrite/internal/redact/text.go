package redact

import (
	"bytes"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// text is the characters of a text in some bytes, with the places where they stand.
type text struct {
	chars []byte // characters that are not ASCII are 0x80 or more
	r     reader // is before the character n
	n     int
}

// decode returns the characters of b[from:to], the inside of a JSON string or any other text.
func decode(b []byte, from, to int) text {
	t := text{chars: b[from:to], r: reader{b: b[:to], at: from}}
	if bytes.IndexByte(t.chars, '\\') < 0 {
		return t
	}
	t.chars = make([]byte, 0, to-from)
	for r := t.r; r.at < to; {
		t.chars = append(t.chars, r.next())
	}
	return t
}

// index returns where the character i begins in the bytes. Calls come in order.
func (t *text) index(i int) int {
	if len(t.chars) == len(t.r.b)-t.r.at+t.n { // none of the rest is escaped
		return t.r.at + i - t.n
	}
	for ; t.n < i; t.n++ {
		t.r.next()
	}
	return t.r.at
}

// reader reads the inside of a JSON string character by character.
type reader struct {
	b     []byte
	at    int // where the next character begins
	plain int // the backslashes before this index escape nothing
}

// next returns the next character. It reads escapes however often the text was escaped,
// because many errors contain the JSON of another: a quote may have any number of
// backslashes before it.
func (r *reader) next() byte {
	if c := r.b[r.at]; c != '\\' {
		r.at++
		return c
	}
	c, i := jsonspan.NextRune(r.b, r.at)
	first, end := c, i
	for c == '\\' && i < len(r.b) && i > r.plain {
		if hex, ok := jsonspan.Hex4(r.b, i+1); ok && r.b[i] == 'u' {
			r.at = i + 5
			return byte(min(hex, utf8.RuneSelf))
		}
		if c, i = jsonspan.NextRune(r.b, i); c == '"' || c == '\'' || c == '/' {
			r.at = i
			return byte(c)
		}
	}
	r.at, r.plain = end, max(r.plain, i)
	return byte(min(first, utf8.RuneSelf))
}
