package rewrite

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
)

// span is a range of bytes, to exclusive. The zero span means "absent".
type span struct{ from, to int }

func (s span) ok() bool                   { return s.to > s.from }
func (s span) of(b []byte) []byte         { return b[s.from:s.to] }
func (s span) inner() span                { return span{s.from + 1, s.to - 1} }
func (s span) is(b []byte, v string) bool { return string(b[s.from:s.to]) == v }

// isString tells whether the value at s is a JSON string.
func (s span) isString(b []byte) bool { return s.ok() && b[s.from] == '"' && s.to-s.from >= 2 }

// isObject tells whether the value at s is a JSON object.
func (s span) isObject(b []byte) bool { return s.ok() && b[s.from] == '{' }

// set tells whether the value at s is there and is not null.
func (s span) set(b []byte) bool { return s.ok() && b[s.from] != 'n' }

// skipString returns the index behind the string that begins at i, -1 when it
// does not end. It checks nothing, and goes from quote to quote, for texts are long.
func skipString(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		quote := i + n
		at := quote
		for at > i && b[at-1] == '\\' {
			at--
		}
		i = quote + 1
		if (quote-at)%2 == 0 {
			return i
		}
	}
}

// blanks are the characters that JSON takes for white space.
const blanks = " \t\r\n"

// firstByte returns the first byte of b that is not white space, 0 when there
// is none.
func firstByte(b []byte) byte {
	if b = bytes.TrimLeft(b, blanks); len(b) > 0 {
		return b[0]
	}
	return 0
}

// unquote returns the text of the JSON string raw, "" when it is none.
func unquote(raw []byte) string { return gjson.ParseBytes(raw).String() }

// plain is unquote for a string, which it returns a part of where it can.
func plain(raw string) string {
	if in := inside(raw); strings.IndexByte(in, '\\') < 0 {
		return in
	}
	return gjson.Parse(raw).String()
}
