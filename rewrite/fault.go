package rewrite

// fault is what a chunk, or a frame that is none, says of an error: the members of
// its error, and the one that names it in the hermes block.
type fault struct {
	message, typ, param, code span
	hermes                    span

	looked, secret bool // see mayTellSecret
}

// read reads the error here or, when hermes is true, the hermes block. It may be no
// object.
func (f *fault) read(r *reader, hermes bool) span {
	if hermes {
		f.hermes = span{}
	} else {
		*f = fault{hermes: f.hermes}
	}
	if !r.opens('{') {
		return r.value()
	}
	from := r.i
	for r.open(); ; {
		name, ok := r.member()
		if !ok {
			return span{from, r.i}
		}
		value := r.value()
		switch member := string(name.of(r.b)); {
		case hermes && member == "error":
			f.hermes = value
		case hermes:
		case member == "message":
			f.message = value
		case member == "type":
			f.typ = value
		case member == "param":
			f.param = value
		case member == "code":
			f.code = value
		}
	}
}
