package redact

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// finder goes over the characters of a text from secret to secret.
type finder struct {
	chars     []byte // with a space for white space, and 0x80 for a character that is not ASCII
	r         reader // at the character n
	n         int
	done      int // where the last secret ends
	noAtUntil int // the index up to which there is no @ after a password
}

// decode returns a finder in b[from:to], the inside of a JSON string or any other text.
func decode(b []byte, from, to int) finder {
	f := finder{chars: b[from:to], r: reader{b: b[:to], at: from}}
	if !bytes.ContainsFunc(f.chars, func(r rune) bool { return r == '\\' || r < ' ' || r >= 0x7f }) {
		return f // there is no copy
	}
	f.chars = make([]byte, 0, to-from)
	for r := f.r; r.at < to; {
		c := r.next()
		if c <= ' ' || c == 0x7f {
			c = ' '
		}
		f.chars = append(f.chars, min(c, utf8.RuneSelf))
	}
	return f
}

// before returns the character before i: after a secret, the last one of the mark that replaces
// it, and 0 at the beginning.
func (f *finder) before(i int) byte {
	switch {
	case i > f.done:
		return f.chars[i-1]
	case i > 0:
		return mark[len(mark)-1]
	}
	return 0
}

// char returns the character at i, 0 at the end.
func (f *finder) char(i int) byte {
	if i >= len(f.chars) {
		return 0
	}
	return f.chars[i]
}

// span returns where the characters s are in the original text. It must be called in order.
func (f *finder) span(s jsonspan.Span) (at jsonspan.Span) {
	for ; f.n < s.To; f.n++ {
		if f.n == s.From {
			at.From = f.r.at
		}
		f.r.next()
	}
	at.To = f.r.at
	return at
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
	first, end := jsonspan.NextRune(r.b, r.at)
	c, i := first, end
	for c == '\\' && i < len(r.b) && i > r.plain {
		hex, ok := jsonspan.Hex4(r.b, i+1)
		if ok = ok && r.b[i] == 'u'; ok {
			c, i = hex, i+len("u0000")
		} else {
			c, i = jsonspan.NextRune(r.b, i)
		}
		if ok || c == '"' || c == '\'' || c == '/' {
			r.at = i
			return byte(min(c, utf8.RuneSelf))
		}
	}
	r.at, r.plain = end, max(r.plain, i)
	return byte(min(first, utf8.RuneSelf))
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

// until returns the index of the next character of the set at b[i:], or len(b).
func until(b []byte, i int, set string) int {
	if n := bytes.IndexAny(b[i:], set); n >= 0 {
		return i + n
	}
	return len(b)
}

// begins reports whether b begins with the word, in letters of any case.
func begins(b []byte, word string) bool {
	return len(b) >= len(word) && strings.EqualFold(string(b[:len(word)]), word)
}

// endsWith reports whether b ends with the word, in letters of any case.
func endsWith(b []byte, word string) bool {
	return len(b) >= len(word) && begins(b[len(b)-len(word):], word)
}
