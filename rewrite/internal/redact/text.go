package redact

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// decode returns a finder in b[from:to], the inside of a JSON string or any other text.
func decode(b []byte, from, to int) finder {
	f := finder{chars: b[from:to], b: b[:to], at: from}
	if !bytes.ContainsFunc(f.chars, func(r rune) bool { return r == '\\' || r < ' ' || r >= 0x7f }) {
		return f
	}
	f.chars = make([]byte, 0, to-from)
	for i := from; i < to; {
		var c byte
		c, i = nextChar(f.b, i)
		if c <= ' ' || c == 0x7f {
			c = ' '
		}
		f.chars = append(f.chars, min(c, utf8.RuneSelf))
	}
	return f
}

// span returns where the characters s stand. Calls come in order.
func (f *finder) span(s jsonspan.Span) (at jsonspan.Span) {
	for ; f.n < s.To; f.n++ {
		if f.n == s.From {
			at.From = f.at
		}
		_, f.at = nextChar(f.b, f.at)
	}
	at.To = f.at
	return at
}

// nextChar returns the character at b[i:] and the index after it. It reads escapes however
// often the text was escaped, because many errors contain the JSON of another: a quote may
// have any number of backslashes before it. Backslashes that escape nothing are one character.
func nextChar(b []byte, i int) (c byte, next int) {
	if b[i] != '\\' {
		return b[i], i + 1
	}
	for next = i + 1; next < len(b); next++ {
		if begins(b[next:], "u005c") {
			next += len("005c")
		} else if b[next] != '\\' {
			break
		}
	}
	if next == len(b) {
		return '\\', next
	}
	hex, ok := jsonspan.Hex4(b, next+1)
	switch c = b[next]; {
	case c == 'u' && ok:
		return byte(min(hex, utf8.RuneSelf)), next + len("u0000")
	case next == i+1 && is(c, "nrtbf"):
		return ' ', next + 1
	case next == i+1 && c == 'u': // it is no escape
		return utf8.RuneSelf, next + 1
	case next == i+1, is(c, `"'/`):
		return c, next + 1
	}
	return '\\', next
}

// is reports whether c is one of the characters of the set.
func is(c byte, set string) bool { return strings.IndexByte(set, c) >= 0 }

// skip returns the index after the characters of the set at b[i:].
func skip(b []byte, i int, set string) int {
	for i < len(b) && is(b[i], set) {
		i++
	}
	return i
}

// begins reports whether b begins with the word, in letters of any case.
func begins(b []byte, word string) bool {
	return len(b) >= len(word) && strings.EqualFold(string(b[:len(word)]), word)
}

// endsWith reports whether b ends with the word, in letters of any case.
func endsWith(b []byte, word string) bool {
	return len(b) >= len(word) && begins(b[len(b)-len(word):], word)
}
