package rewrite

import (
	"bytes"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/tidwall/gjson"
)

// nextMember finds the first member of an object at or after i, where i is
// behind the opening brace or behind another member. It trusts the JSON to be
// well formed and returns false when it is over, or is not. gjson's iterator
// is not used here because it unescapes, and so allocates for, each string.
func nextMember(b []byte, i int) (key, value jsonspan.Span, next int, ok bool) {
	i = skipSpace(b, i, ',')
	if i >= len(b) || b[i] != '"' {
		return
	}
	j := skipString(b, i)
	if j < 0 {
		return
	}
	key = jsonspan.Span{From: i + 1, To: j - 1}
	i = skipSpace(b, j, ':')
	j = skipValue(b, i)
	if j < 0 {
		return
	}
	return key, jsonspan.Span{From: i, To: j}, j, true
}

// nextElement finds the first element of an array at or after i.
func nextElement(b []byte, i int) (value jsonspan.Span, next int, ok bool) {
	i = skipSpace(b, i, ',')
	if i >= len(b) || b[i] == ']' {
		return
	}
	j := skipValue(b, i)
	if j < 0 {
		return
	}
	return jsonspan.Span{From: i, To: j}, j, true
}

// memberOf returns the value of a member of the object at v.
func memberOf(data []byte, v jsonspan.Span, name string) (value jsonspan.Span) {
	if !v.IsObject(data) {
		return value
	}
	for i := v.From + 1; ; {
		key, val, next, ok := nextMember(data, i)
		if !ok {
			return value
		}
		if key.Is(data, name) {
			value = val
		}
		i = next
	}
}

// skipSpace returns the index of the first byte from i on that is neither
// white space nor also.
func skipSpace(b []byte, i int, also byte) int {
	for i < len(b) && (b[i] <= ' ' || b[i] == also) {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i, -1 when it
// does not end. It goes from quote to quote, for texts are long.
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

// skipValue returns the index behind the value that begins at i, -1 when there
// is none or it does not end.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	case ',', ':', '}', ']':
		return -1
	}
	for i < len(b) && b[i] > ' ' && b[i] != ',' && b[i] != '}' && b[i] != ']' {
		i++
	}
	return i
}

// skipNested returns the index behind the object or array that begins at i, -1
// when it does not end.
func skipNested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// firstByte returns the first byte of b that is not white space, 0 when there
// is none.
func firstByte(b []byte) byte {
	if b = bytes.TrimLeft(b, " \t\r\n"); len(b) > 0 {
		return b[0]
	}
	return 0
}

// unquote returns the text of the JSON string raw, "" when it is none.
func unquote(raw []byte) string { return gjson.ParseBytes(raw).String() }

// plain is unquote for a string, which it returns a part of where it can.
func plain(raw string) string {
	if in := jsonspan.Inside(raw); strings.IndexByte(in, '\\') < 0 {
		return in
	}
	return gjson.Parse(raw).String()
}
