package proxy

// objectEnd follows bytes that are to be one JSON object, in whatever pieces they
// come, and looks at each of them once: a reader of whole documents would begin anew
// with each piece. The zero value is at the beginning.
type objectEnd struct {
	depth    int // of objects and arrays
	inString bool
	escaped  bool // the next byte of the string is
	begun    bool
}

// take follows b. It returns false if what has come is no beginning of one object
// with nothing but white space behind it. It does not ask whether the JSON is well
// formed.
func (o *objectEnd) take(b []byte) bool {
	for _, c := range b {
		switch {
		case o.escaped:
			o.escaped = false
		case o.inString:
			o.escaped = c == '\\'
			o.inString = c != '"'
		case !o.begun && c != '{', o.begun && o.depth == 0 && c != ' ' && c != '\t' && c != '\r' && c != '\n':
			return false
		case c == '"':
			o.inString = true
		case c == '{' || c == '[':
			o.begun = true
			o.depth++
		case c == '}' || c == ']':
			o.depth--
		}
	}
	return true
}
