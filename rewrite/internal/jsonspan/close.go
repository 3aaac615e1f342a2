package jsonspan

import "slices"

// Close returns the beginning b of a JSON object or array as one of its own: a string that
// is cut ends there, other members and elements that are cut are left out, and what is open
// is closed. The first n bytes are those of b; a value that ends after them was cut. Close
// returns nil if b does not begin like well-formed JSON.
func Close(b []byte) (closed []byte, n int) {
	var open []byte // the brackets that are to be closed
	isName := false // the next string is a name
	for i := SkipSpace(b, 0); i < len(b); i = SkipSpace(b, i) {
		from, c := i, b[i]
		i++
		switch c {
		case '{', '[':
			if len(open) == MaxDepth {
				return nil, 0
			}
			open, isName, n = append(open, c+2), c == '{', i // in ASCII } is two after {, and ] two after [
		case '}', ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return nil, 0
			}
			if open, n = open[:len(open)-1], i; len(open) == 0 {
				return b[:n], n
			}
		case ',', ':':
			isName = c == ',' && len(open) > 0 && open[len(open)-1] == '}'
		case '"':
			to, ok := ScanText(b, i)
			if i = to + 1; !ok || i > len(b) || b[to] != '"' {
				if !isName {
					n, open = to, append(open, '"')
				}
				return closeWith(b[:n], open), n
			}
			if !isName {
				n = i
			}
		default:
			if i = skipLiteral(b, from); i == from {
				return nil, 0
			}
			if i < len(b) { // otherwise it may go on
				n = i
			}
		}
	}
	return closeWith(b[:n], open), n
}

// closeWith returns b with the bytes of open after it, the last one first.
func closeWith(b, open []byte) []byte {
	slices.Reverse(open)
	return slices.Concat(b, open)
}
