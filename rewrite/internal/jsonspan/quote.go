package jsonspan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Quote returns text as a JSON string, with no more escapes than it needs.
func Quote(text string) []byte { return AppendQuoted(nil, text) }

// AppendQuoted appends text to dst as a JSON string.
func AppendQuoted(dst []byte, text string) []byte {
	if isPlainASCII(text) {
		dst = append(append(slices.Grow(dst, len(text)+2), '"'), text...)
		return append(dst, '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string cannot fail
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// isPlainASCII reports whether text needs no escape and is ASCII.
func isPlainASCII(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// OneLine returns the JSON b with spaces for line feeds, so that it fits in one data
// line. Line feeds in JSON are white space between tokens: a string has none.
func OneLine(b []byte) []byte {
	if bytes.IndexByte(b, '\n') < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\n"), []byte(" "))
}

// Unquote returns the text of the JSON string raw, or "" if raw is not a string. Text
// without escapes is returned as a part of raw.
func Unquote(raw string) string {
	in := Inside(raw)
	if strings.IndexByte(in, '\\') < 0 {
		return in
	}
	return gjson.Parse(raw).String()
}
