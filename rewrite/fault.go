package rewrite

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// fault is what a chunk, or a frame that is none, says of an error: the members of
// its error, and the one that names it in the hermes block.
type fault struct {
	message, typ, param, code jsonspan.Span
	hermes                    jsonspan.Span

	looked, secret bool // see mayTellSecret
}

// read reads the error here or, when hermes is true, the hermes block. It may be no
// object.
func (f *fault) read(r *jsonspan.Reader, hermes bool) jsonspan.Span {
	if hermes {
		f.hermes = jsonspan.Span{}
	} else {
		*f = fault{hermes: f.hermes}
	}
	if !r.At('{') {
		return r.Value()
	}
	from := r.Pos
	for r.Open(); ; {
		name, ok := r.Member()
		if !ok {
			return jsonspan.Span{From: from, To: r.Pos}
		}
		value := r.Value()
		switch member := string(name.Of(r.Data)); {
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
