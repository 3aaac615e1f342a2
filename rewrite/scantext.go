package rewrite

import (
	"encoding/binary"
	"math/bits"
)

// scanText returns where the inside of the JSON string ends that begins at from,
// or the first byte that cannot be in one, and whether there is a newline in it.
// It is false when an escape in it is none that JSON knows.
func scanText(b []byte, from int) (to int, newline, ok bool) {
	for i := from; ; {
		i = plainFrom(b, i)
		if i == len(b) || b[i] != '\\' {
			return i, newline, true
		}
		n, isNewline := escapeAt(b, i)
		if n == 0 {
			return i, newline, false
		}
		newline = newline || isNewline
		i += n
	}
}

// plainFrom returns the index of the first byte from i on that is not simply text
// in a JSON string: a quote, a backslash or a control character. It looks at eight
// bytes at once.
func plainFrom(b []byte, i int) int {
	const each = 0x0101010101010101
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		quote, slash := v^'"'*each, v^'\\'*each
		// The high bit of the lowest byte that is 0, 0, and below a space.
		found := ((quote-each)&^quote | (slash-each)&^slash | (v-' '*each)&^v) & (0x80 * each)
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

// escapeAt returns how long the escape at b[i:] is, 0 when it is none that JSON
// knows, and whether it is a newline.
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
		if r, ok := hex4(b, i+2); ok {
			return 6, r == '\n'
		}
	}
	return 0, false
}
