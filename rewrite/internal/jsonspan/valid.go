package jsonspan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
)

// MaxDepth is the number of objects and arrays that may be open at once. JSON that
// is nested deeper counts as not well formed (contract, "Readings").
const MaxDepth = 128

// The values that Python's json.dumps writes and JSON does not have. They count as values like any
// other (contract section 0).
const (
	nan      = "NaN"
	infinity = "Infinity"
)

// Valid reports whether b is well-formed JSON that is nested at most MaxDepth deep. NaN, Infinity and
// -Infinity are values.
func Valid(b []byte) bool { return ValidWithin(b, MaxDepth) }

// ValidWithin is Valid for JSON that is nested at most depth deep.
func ValidWithin(b []byte, depth int) bool {
	end := value(b, SkipSpace(b, 0), depth)
	return end >= 0 && SkipSpace(b, end) == len(b)
}

// value returns the index after the value that begins at i, or -1 if it is not well formed or nested
// more than depth deep.
func value(b []byte, i, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return text(b, i)
	case '{':
		return list(b, i, depth, '}', member)
	case '[':
		return list(b, i, depth, ']', value)
	case 't':
		return word(b, i, "true")
	case 'f':
		return word(b, i, "false")
	case 'n':
		return word(b, i, "null")
	case 'N':
		return word(b, i, nan)
	case 'I':
		return word(b, i, infinity)
	}
	return number(b, i)
}

// list returns the index after the object or array that begins at i and whose elements are as element
// says, or -1.
func list(b []byte, i, depth int, shut byte, element func(b []byte, i, depth int) int) int {
	if depth == 0 {
		return -1
	}
	if i = SkipSpace(b, i+1); i < len(b) && b[i] == shut {
		return i + 1
	}
	for {
		if i = element(b, i, depth-1); i < 0 {
			return -1
		}
		switch i = SkipSpace(b, i); {
		case i == len(b):
			return -1
		case b[i] == shut:
			return i + 1
		case b[i] != ',':
			return -1
		}
		i = SkipSpace(b, i+1)
	}
}

// member returns the index after the name and the value that begin at i, or -1.
func member(b []byte, i, depth int) int {
	if i == len(b) || b[i] != '"' {
		return -1
	}
	if i = text(b, i); i < 0 {
		return -1
	}
	if i = SkipSpace(b, i); i == len(b) || b[i] != ':' {
		return -1
	}
	return value(b, SkipSpace(b, i+1), depth)
}

// plain has the bytes that stand for themselves in a string, and simple those that make an escape with
// the backslash before them. Most bytes of a history are plain, and most escapes simple.
var plain, simple = func() (plain, simple [256]bool) {
	for c := range plain {
		plain[c] = c >= ' ' && c != '"' && c != '\\'
		simple[c] = strings.IndexByte(escapes, byte(c)) >= 0
	}
	return plain, simple
}()

// text returns the index after the string that begins at i, or -1.
func text(b []byte, i int) int {
	for i++; i < len(b); i++ {
		i = skipPlain(b, i)
		c := b[i]
		if plain[c] {
			continue
		}
		if c == '"' {
			return i + 1
		}
		if i++; c != '\\' || i == len(b) {
			return -1
		}
		if !simple[b[i]] {
			if _, ok := Hex4(b, i+1); !ok || b[i] != 'u' {
				return -1
			}
			i += 4
		}
	}
	return -1
}

// skipPlain returns the index of the first byte from i on that is not plain, or one of the last eight. It
// reads eight bytes at a time ("Determine if a word has a byte less than n", Bit Twiddling Hacks): histories
// are long.
func skipPlain(b []byte, i int) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 < len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^each*'"', w^each*'\\'
		if found := ((w-each*' ')&^w | (quote-each)&^quote | (slash-each)&^slash) & high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	return i
}

// word returns the index after want if that stands at i, and otherwise -1.
func word(b []byte, i int, want string) int {
	if !bytes.HasPrefix(b[i:], []byte(want)) {
		return -1
	}
	return i + len(want)
}

// number returns the index after the number that begins at i, or -1.
func number(b []byte, i int) int {
	if b[i] == '-' {
		if i++; i < len(b) && b[i] == 'I' {
			return word(b, i, infinity)
		}
	}
	switch end := digits(b, i); {
	case end < 0, b[i] == '0' && end > i+1:
		return -1
	default:
		i = end
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i
}

// digits returns the index after the digits that begin at i, or -1 if there is none.
func digits(b []byte, i int) int {
	from := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

// Finite returns the JSON b with null in the place of NaN and of the infinities, which no other parser
// than Python's reads. It is for what the sidecar writes itself. If there are none, it returns b.
func Finite(b []byte) []byte {
	if !bytes.Contains(b, []byte(nan)) && !bytes.Contains(b, []byte(infinity)) {
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/len(nan))
	for i := 0; i < len(b); {
		end := i + 1
		switch rest := b[i:]; {
		case b[i] == '"':
			if end = SkipString(b, i); end < 0 {
				end = len(b)
			}
		case bytes.HasPrefix(rest, []byte("-"+infinity)), bytes.HasPrefix(rest, []byte(infinity)), bytes.HasPrefix(rest, []byte(nan)):
			out = append(out, "null"...)
			i = skipLiteral(b, i)
			continue
		}
		out = append(out, b[i:end]...)
		i = end
	}
	return out
}
