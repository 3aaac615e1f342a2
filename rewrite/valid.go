package rewrite

// maxDepth is how deep the JSON of a frame may be nested before it passes
// unexamined.
const maxDepth = 128

// validJSON tells whether b is well-formed JSON of a reasonable depth. It is
// asked before anything is done to a frame. It does not recurse, and reads texts
// as fast as scanText does: gjson's takes twice the time.
func validJSON(b []byte) bool {
	var objects [maxDepth + 1]bool // what is open, by depth: an object or an array
	depth := 0
	for i := 0; ; {
		i = blankFrom(b, i)
		if i == len(b) {
			return false
		}
		switch c := b[i]; c {
		case '{', '[':
			if depth++; depth > maxDepth {
				return false
			}
			objects[depth] = c == '{'
			next := blankFrom(b, i+1)
			if next == len(b) {
				return false
			}
			if b[next] == c+2 { // the ASCII code of } is that of { and 2, as is that of ]
				depth--
				i = next + 1
				break
			}
			if i = next; c == '{' {
				if i = keyEnd(b, i); i < 0 {
					return false
				}
			}
			continue
		default:
			if i = scalarEnd(b, i); i < 0 {
				return false
			}
		}
		for { // what is behind a value
			i = blankFrom(b, i)
			if depth == 0 || i == len(b) {
				return depth == 0 && i == len(b)
			}
			if b[i] == ',' {
				break
			}
			if b[i] != ']' && b[i] != '}' || objects[depth] != (b[i] == '}') {
				return false
			}
			depth--
			i++
		}
		i++
		if objects[depth] {
			if i = keyEnd(b, blankFrom(b, i)); i < 0 {
				return false
			}
		}
	}
}

// blankFrom returns the index of the first byte from i on that is no white space
// of JSON's.
func blankFrom(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// keyEnd returns the index behind the name at i and its colon, -1 when there is
// none.
func keyEnd(b []byte, i int) int {
	if i == len(b) || b[i] != '"' {
		return -1
	}
	if i = stringEnd(b, i); i < 0 {
		return -1
	}
	if i = blankFrom(b, i); i == len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

// stringEnd returns the index behind the string that begins at i, -1 when it is
// not well formed.
func stringEnd(b []byte, i int) int {
	to, _, ok := scanText(b, i+1)
	if !ok || to == len(b) || b[to] != '"' {
		return -1
	}
	return to + 1
}

// scalarEnd returns the index behind the string, number or literal at i, -1 when
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

// numberEnd returns the index behind the number at i, -1 when there is none.
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

// digitsFrom returns the index of the first byte from i on that is no digit.
func digitsFrom(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}
