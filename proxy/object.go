package proxy

// objectEnd finds the end of one JSON object that comes in pieces, and looks at each byte once: a
// reader of whole documents would begin anew with each piece. The zero value is at the beginning.
type objectEnd struct {
	depth    int // of objects and arrays
	inString bool
	escaped  bool // the next byte of the string is escaped
	begun    bool
}

// take takes the next piece. It returns false unless the bytes so far are the beginning of one
// object, or an object and white space. It does not check whether the JSON is well formed.
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

// complete reports whether the object has ended.
func (o *objectEnd) complete() bool { return o.begun && o.depth == 0 }
