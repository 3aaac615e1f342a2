package jsonspan

import "github.com/tidwall/gjson"

// MaxDepth is the number of objects and arrays that may be open at once. JSON that
// is nested deeper counts as not well formed (contract, "Readings").
const MaxDepth = 128

// Valid reports whether b is well-formed JSON that is nested at most MaxDepth deep.
func Valid(b []byte) bool {
	r := Reader{Data: b, Pos: SkipSpace(b, 0)}
	return r.Value().Ok() && r.AtEnd()
}

// valueEnd returns the index behind the value at i, which is inside depth open objects
// and arrays. It returns -1 if the value is not well formed or nested too deep, which
// bounds the recursion, too.
func valueEnd(b []byte, i, depth int) int {
	if b[i] != '{' && b[i] != '[' {
		return scalarEnd(b, i)
	}
	if depth == MaxDepth {
		return -1
	}
	shut := b[i] + 2 // in ASCII } is two behind {, and ] two behind [
	if i = SkipSpace(b, i+1); i < len(b) && b[i] == shut {
		return i + 1
	}
	for i < len(b) {
		if shut == '}' {
			if _, i = keyAt(b, i); i < 0 {
				return -1
			}
		}
		if i = valueEnd(b, i, depth+1); i < 0 {
			return -1
		}
		if i = SkipSpace(b, i); i == len(b) || b[i] != ',' {
			break
		}
		i = SkipSpace(b, i+1)
	}
	if i == len(b) || b[i] != shut {
		return -1
	}
	return i + 1
}

// SkipSpace returns the index of the first byte from i on that is not white space
// in JSON, or len(b).
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// keyAt returns the name of the member at i, without its quotes, and the index at
// which its value begins, or -1 if there is none.
func keyAt(b []byte, i int) (name Span, value int) {
	if i == len(b) || b[i] != '"' {
		return name, -1
	}
	end := stringEnd(b, i)
	if end < 0 {
		return name, -1
	}
	if value = SkipSpace(b, end); value == len(b) || b[value] != ':' {
		return name, -1
	}
	if value = SkipSpace(b, value+1); value == len(b) {
		return name, -1
	}
	return Span{i + 1, end - 1}, value
}

// stringEnd returns the index behind the string that begins at i, or -1 if it is
// not well formed.
func stringEnd(b []byte, i int) int {
	to := NextSpecial(b, i+1)
	if to < len(b) && b[to] == '"' { // as most do
		return to + 1
	}
	to, _, ok := ScanText(b, to)
	if !ok || to == len(b) || b[to] != '"' {
		return -1
	}
	return to + 1
}

// scalarEnd returns the index after the string, number or literal at i, or -1 if
// there is none.
func scalarEnd(b []byte, i int) int {
	if b[i] == '"' {
		return stringEnd(b, i)
	}
	end := skipLiteral(b, i)
	if !gjson.ValidBytes(b[i:end]) {
		return -1
	}
	return end
}
