package rewrite

import (
	"bytes"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/tidwall/gjson"
)

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
	if in := jsonspan.Inside(raw); strings.IndexByte(in, '\\') < 0 {
		return in
	}
	return gjson.Parse(raw).String()
}
