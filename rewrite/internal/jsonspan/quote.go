package jsonspan

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Quote returns text as a JSON string, with no more escapes than it needs.
func Quote(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Plain returns the JSON string raw with no more escapes than it needs, so that it equals
// every other spelling of its text. It is never longer than raw, and raw itself if that has
// no escapes. Lone surrogates and invalid bytes stay.
func Plain(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	plain := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		r, next := NextRune(raw, i)
		k := strings.IndexRune(escaped, r)
		switch escape := raw[i:next]; {
		case escape[0] != '\\' || r == utf8.RuneError:
			plain = append(plain, escape...)
		case k >= 0 && r != '/':
			plain = append(plain, '\\', escapes[k])
		case r < ' ':
			plain = append(plain, bytes.ToLower(escape)...)
		default:
			plain = utf8.AppendRune(plain, r)
		}
		i = next
	}
	return plain
}

// OneLine returns the JSON b with spaces for line feeds, so that it fits in one data
// line. Line feeds in JSON are white space between tokens: a string has none.
func OneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\n"), []byte(" "))
}

// Unquote returns the text of the JSON string raw, or "" if raw is not a string.
func Unquote(raw string) string {
	if in := Inside(raw); strings.IndexByte(in, '\\') < 0 {
		return in
	}
	return string(AppendText(nil, []byte(Inside(raw))))
}

// Truncate returns the JSON string raw with at most n bytes between its quotes. It
// cuts only between runes and escapes. A string that is cut is a copy.
func Truncate(raw []byte, n int) []byte {
	text := Inside(raw)
	end := len(Head(text, n))
	if end == len(text) {
		return raw
	}
	return append(raw[:1+end:1+end], '"')
}
