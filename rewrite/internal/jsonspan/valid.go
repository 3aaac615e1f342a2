package jsonspan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is the number of objects and arrays that may be open at once. JSON that
// is nested deeper counts as not well formed (contract, "Readings").
const MaxDepth = 128

// Valid reports whether b is well-formed JSON that is nested at most MaxDepth deep.
func Valid(b []byte) bool {
	r := Reader{Data: b, Pos: SkipSpace(b, 0)}
	return r.Value().Ok() && r.AtEnd()
}

// ValidUTF8 reports whether b is UTF-8. It is utf8.Valid for long texts, most of whose
// bytes are ASCII, but not all.
func ValidUTF8(b []byte) bool {
	const high = 0x8080808080808080
	for len(b) >= 8 {
		found := binary.LittleEndian.Uint64(b) & high
		if found == 0 {
			b = b[8:]
			continue
		}
		b = b[bits.TrailingZeros64(found)/8:]
		for len(b) >= utf8.UTFMax && b[0] >= utf8.RuneSelf {
			switch { // most runes have no special ranges
			case b[0] >= 0xc2 && b[0] < 0xe0 && b[1]&0xc0 == 0x80:
				b = b[2:]
			case b[0] > 0xe0 && b[0] < 0xed && b[1]&0xc0 == 0x80 && b[2]&0xc0 == 0x80:
				b = b[3:]
			default:
				r, n := utf8.DecodeRune(b)
				if r == utf8.RuneError && n == 1 {
					return false
				}
				b = b[n:]
			}
		}
		if len(b) < utf8.UTFMax {
			break
		}
	}
	return utf8.Valid(b)
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

// scalarEnd returns the index behind the string, number or literal at i, or -1 if
// there is none.
func scalarEnd(b []byte, i int) int {
	literal := "null"
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case 't':
		literal = "true"
	case 'f':
		literal = "false"
	case 'n':
	default:
		return numberEnd(b, i)
	}
	if end := i + len(literal); end <= len(b) && string(b[i:end]) == literal {
		return end
	}
	return -1
}

// numberEnd returns the index behind the number at i, or -1 if there is none.
func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	from := i
	i = digitsFrom(b, i)
	if i == from || b[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		from = i + 1
		if i = digitsFrom(b, from); i == from {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		from = i + 1
		if from < len(b) && (b[from] == '+' || b[from] == '-') {
			from++
		}
		if i = digitsFrom(b, from); i == from {
			return -1
		}
	}
	return i
}

// digitsFrom returns the index of the first byte from i on that is not a digit.
func digitsFrom(b []byte, i int) int {
	for i < len(b) && IsDigit(b[i]) {
		i++
	}
	return i
}
