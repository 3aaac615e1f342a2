package chunk

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// Fault is what an object says of an error, by position.
type Fault struct {
	Message, Type, Param, Code jsonspan.Span // the members of its error
	Hermes                     jsonspan.Span // the error of its hermes block

	looked, secret bool // see Frame.mayTellSecret
}

// read reads the value at r.Pos, which is the error or, if hermes is true, the hermes
// block. It may be any JSON value.
func (f *Fault) read(r *jsonspan.Reader, hermes bool) jsonspan.Span {
	if hermes {
		f.Hermes = jsonspan.Span{}
	} else {
		*f = Fault{Hermes: f.Hermes}
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
			f.Hermes = value
		case hermes:
		case member == "message":
			f.Message = value
		case member == "type":
			f.Type = value
		case member == "param":
			f.Param = value
		case member == "code":
			f.Code = value
		}
	}
}
