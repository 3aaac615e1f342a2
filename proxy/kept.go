package proxy

// kept is a body that is kept until it is complete. The header is held with it.
type kept struct {
	x       *exchange
	body    []byte
	object  objectEnd // the end of the object in body
	flushed bool      // the next handler has flushed
}

// add appends b to the body. It returns false unless the body is now the beginning of one object, or an
// object and white space.
func (k *kept) add(b []byte) bool {
	k.body = append(k.body, b...)
	return k.object.take(b)
}

// large reports whether the body is too large to be kept.
func (k *kept) large() bool { return len(k.body) > k.x.o.Rewrite.FrameLimit() }

func (k *kept) flush() error { //nolint:unparam // it is a method of an answer
	k.flushed = true
	return nil
}

// send sends the header and b, and flushes them if the next handler has flushed.
func (k *kept) send(b []byte) error {
	if k.flushed {
		return k.x.client.send(b)
	}
	return k.x.client.write(b)
}

// release sends the body as it is, and lets the rest pass.
func (k *kept) release() error {
	k.x.pass(false)
	return k.send(k.body)
}

// objectEnd finds the end of one JSON object that is read in pieces, and looks at each byte once: a
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
