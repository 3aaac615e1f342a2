package jsonspan

import "slices"

// Close returns the beginning b of a JSON object or array as one of its own: a string that
// is cut ends there, other members and elements that are cut are left out, and what is open
// is closed. The first n bytes are those of b; a value that ends behind them was cut. Close
// returns nil if b does not begin like well-formed JSON.
func Close(b []byte) (closed []byte, n int) {
	var open []byte // the brackets that are to be closed
	isName := false // the next string is a name
	for i := SkipSpace(b, 0); i < len(b); i = SkipSpace(b, i) {
		switch c := b[i]; c {
		case '{', '[':
			if len(open) == MaxDepth {
				return nil, 0
			}
			open, isName = append(open, c+2), c == '{' // in ASCII } is two behind {, and ] two behind [
			i++
			n = i
		case '}', ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return nil, 0
			}
			open = open[:len(open)-1]
			i++
			if n = i; len(open) == 0 {
				return b[:n], n
			}
		case ',', ':':
			isName = c == ',' && len(open) > 0 && open[len(open)-1] == '}'
			i++
		case '"':
			end := stringEnd(b, i)
			switch {
			case end < 0 && isName:
				return closeWith(b[:n], open), n
			case end < 0:
				n = textEnd(b, i+1)
				return closeWith(b[:n], append(open, '"')), n
			case !isName:
				n = end
			}
			i = end
		default:
			end := skipLiteral(b, i)
			switch {
			case end == i:
				return nil, 0
			case end < len(b): // otherwise it may go on
				n = end
			}
			i = end
		}
	}
	return closeWith(b[:n], open), n
}

// closeWith returns b with the bytes of open behind it, the last one first.
func closeWith(b, open []byte) []byte {
	slices.Reverse(open)
	return slices.Concat(b, open)
}

// textEnd returns where the last complete character or escape ends in a string that is cut
// and whose inside begins at i.
func textEnd(b []byte, i int) int {
	for {
		i = NextSpecial(b, i)
		if i == len(b) || b[i] != '\\' {
			return i
		}
		n, _ := escapeAt(b, i)
		if n == 0 {
			return i
		}
		i += n
	}
}
