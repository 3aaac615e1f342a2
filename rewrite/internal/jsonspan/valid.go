package jsonspan

// MaxDepth is the number of objects and arrays that may be open at once. JSON that
// is nested deeper counts as not well formed (contract, "Readings").
const MaxDepth = 128

// Valid reports whether b is well-formed JSON that is nested at most MaxDepth deep.
func Valid(b []byte) bool {
	i := SkipSpace(b, 0)
	if i == len(b) {
		return false
	}
	i = valueEnd(b, i, 0)
	return i >= 0 && SkipSpace(b, i) == len(b)
}

// valueEnd returns the index behind the value at i, which is inside depth open objects
// and arrays. It returns -1 if the value is not well formed or nested too deep. It does
// not recurse.
func valueEnd(b []byte, i, depth int) int {
	if c := b[i]; c != '{' && c != '[' {
		return scalarEnd(b, i)
	}
	var objects [MaxDepth/64 + 1]uint64 // a bit for each depth: an object is open there, not an array
	for outside := depth; ; {
		if c := b[i]; c == '{' || c == '[' {
			if depth++; depth > MaxDepth {
				return -1
			}
			isObject := c == '{'
			at, bit := depth/64, uint64(1)<<(depth%64)
			if objects[at] &^= bit; isObject {
				objects[at] |= bit
			}
			if i = SkipSpace(b, i+1); i == len(b) {
				return -1
			}
			if b[i] != c+2 { // in ASCII } is two behind {, and ] two behind [
				if isObject {
					if _, i = keyAt(b, i); i < 0 {
						return -1
					}
				}
				continue
			}
			depth--
			i++
		} else if i = scalarEnd(b, i); i < 0 {
			return -1
		}
		for { // what is behind a value
			if depth == outside {
				return i
			}
			if i = SkipSpace(b, i); i == len(b) {
				return -1
			}
			isObject := objects[depth/64]>>(depth%64)&1 == 1
			if b[i] == ',' {
				i = SkipSpace(b, i+1)
				if isObject {
					_, i = keyAt(b, i)
				}
				if i < 0 || i == len(b) {
					return -1
				}
				break
			}
			if b[i] != ']' && b[i] != '}' || isObject != (b[i] == '}') {
				return -1
			}
			depth--
			i++
		}
	}
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
	to := nextSpecial(b, i+1)
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
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case 't':
		return literalEnd(b, i, "true")
	case 'f':
		return literalEnd(b, i, "false")
	case 'n':
		return literalEnd(b, i, "null")
	}
	return numberEnd(b, i)
}

func literalEnd(b []byte, i int, literal string) int {
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
