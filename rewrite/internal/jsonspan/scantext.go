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
		i = nextSpecial(b, i)
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

// nextSpecial returns the index of the first quote, backslash or control character
// from i on, or len(b). It looks at eight bytes at a time.
func nextSpecial(b []byte, i int) int {
	const each = 0x0101010101010101
	s := b[i:]
	for ; len(s) >= 8; s = s[8:] {
		v := binary.LittleEndian.Uint64(s)
		// Sets the high bit of the lowest byte that is a quote, a backslash or below a
		// space. Higher bytes may be set by mistake.
		quote, slash := v^'"'*each, v^'\\'*each
		found := ((quote - each) | (slash - each) | (v - ' '*each)) &^ v & (0x80 * each)
		if found != 0 {
			return len(b) - len(s) + bits.TrailingZeros64(found)/8
		}
	}
	for i = len(b) - len(s); i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' '; {
		i++
	}
	return i
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
