package rewrite

// fault is what a chunk, or a frame that is none, says of an error: the members of
// its error, and the one that names it in the hermes block.
type fault struct {
	message, typ, param, code span
	hermes                    span

	looked, secret bool // see mayTellSecret
}

// read reads the error here, which may be no object.
func (f *fault) read(r *reader) span {
	f.message, f.typ, f.param, f.code = span{}, span{}, span{}, span{}
	if !r.opens('{') {
		return r.value()
	}
	from := r.i
	for r.open(); ; {
		name, ok := r.member()
		if !ok {
			return span{from, r.i}
		}
		switch value := r.value(); string(name.of(r.b)) {
		case "message":
			f.message = value
		case "type":
			f.typ = value
		case "param":
			f.param = value
		case "code":
			f.code = value
		}
	}
}

// readHermes reads the hermes block here.
func (f *fault) readHermes(r *reader) span {
	f.hermes = span{}
	if !r.opens('{') {
		return r.value()
	}
	from := r.i
	for r.open(); ; {
		name, ok := r.member()
		if !ok {
			return span{from, r.i}
		}
		if value := r.value(); name.is(r.b, "error") {
			f.hermes = value
		}
	}
}
