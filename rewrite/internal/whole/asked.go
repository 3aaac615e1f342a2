package whole

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// AskedOf returns the form of answer that body, the JSON of a request, asks for. It looks at
// the members of the outermost object by position, skips their values, and allocates
// nothing, whatever they are. If stream is there twice, the last one counts.
func AskedOf(body []byte) Asked {
	h := healer{Reader: jsonspan.Reader{Data: body, Pos: jsonspan.SkipSpace(body, 0)}}
	if !h.At('{') {
		return AskedUnknown
	}
	asked := AskedWhole
	for h.Open(); ; {
		key, ok := h.Member()
		switch {
		case ok && string(h.name(key)) == "stream":
			asked = h.stream()
		case ok:
			h.Skip()
		case h.AtEnd():
			return asked
		default:
			return AskedUnknown
		}
	}
}
