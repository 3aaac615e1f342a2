package jsonspan

import (
	"encoding/binary"
	"math/bits"
)

// ScanText scans the inside of a JSON string from the index from on. It returns the
// index of the closing quote or of a control character, or len(b) if there is neither.
// newline reports whether an escape before that stands for a newline. ok is false if
// there is an escape that JSON does not have; then that is at to.
func ScanText(b []byte, from int) (to int, newline, ok bool) {
	for i := from; ; {
		i = NextSpecial(b, i)
		for i < len(b) && b[i] == '\\' { // where one is, there often are two
			n, isNewline := escapeAt(b, i)
			if n == 0 {
				return i, newline, false
			}
			newline = newline || isNewline
			i += n
		}
		if i == len(b) || b[i] == '"' || b[i] < ' ' {
			return i, newline, true
		}
	}
}

// NextSpecial returns the index of the first quote, backslash or control character
// from i on, or len(b). It looks at eight bytes at a time, because texts are long.
func NextSpecial(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if found := specialIn(binary.LittleEndian.Uint64(b[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

// specialIn returns a number whose lowest bit that is set is the high bit of the first byte
// of v that is a quote, a backslash or below a space. It is 0 if there is none.
func specialIn(v uint64) uint64 {
	const each = 0x0101010101010101
	// A byte is a quote or below a space if, with the bit in which those two differ flipped, it
	// is at most a space.
	quote, slash := v^('"'^' ')*each, v^'\\'*each
	return ((quote - (' '+1)*each) | (slash - each)) &^ v & (0x80 * each)
}

// escapeAt returns the length of the escape at b[i:], or 0 if JSON does not have it,
// and reports whether it stands for a newline.
func escapeAt(b []byte, i int) (n int, newline bool) {
	if i+1 >= len(b) {
		return 0, false
	}
	switch b[i+1] {
	case 'n':
		return 2, true
	case '"', '\\', '/', 'b', 'f', 'r', 't':
		return 2, false
	case 'u':
		if r, ok := Hex4(b, i+2); ok {
			return 6, r == '\n'
		}
	}
	return 0, false
}
