package whole

import (
	"slices"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Ignored is the set of what a request asks for and Hermes ignores without saying so, up
// to 0.22 and in each of its APIs. The zero value is the empty set.
type Ignored uint8

// ignored has the names of the set, one for each bit. text.format is the response_format
// of /v1/responses.
var ignored = [...]string{"background", "functions", "n", "response_format", "text.format", "tool_choice", "tools"}

// Names returns the names of the members, sorted, nil for none.
func (i Ignored) Names() (names []string) {
	for bit, name := range ignored {
		if i&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// set records whether the request asks for what has the name. If a member is there twice,
// the last one counts, as for Hermes.
func (i *Ignored) set(name string, asked bool) {
	bit := Ignored(1) << slices.Index(ignored[:], name)
	if *i &^= bit; asked {
		*i |= bit
	}
}

// other moves behind the value of a member of the request that is neither messages nor
// stream, and records what that asks for. A value that means the same as none, such as an
// empty list of tools, asks for nothing.
func (h *healer) other(name []byte) {
	b, v := h.Data, h.value()
	set := &h.healed.Ignored
	switch string(name) {
	case "tools", "functions":
		set.set(string(name), filled(b, v))
	case "tool_choice":
		set.set("tool_choice", filled(b, v) && !spells(b, v, "auto"))
	case "n":
		n, err := strconv.ParseFloat(string(b[v.From:min(v.To, v.From+32)]), 64)
		set.set("n", err == nil && n > 1)
	case "response_format":
		set.set("response_format", formatted(b, v))
	case "text":
		set.set("text.format", formatted(b, lastMember(b, v, "format")))
	case "background":
		set.set("background", v.Is(b, "true"))
	case "hermes_notification_category":
		h.healed.Diagnostic = spells(b, v, "diagnostic")
	}
}

// formatted reports whether the value at v asks for a format other than text.
func formatted(b []byte, v jsonspan.Span) bool {
	return filled(b, v) && !spells(b, lastMember(b, v, "type"), "text")
}

// filled reports whether the value at v is a string, an array or an object that is not empty.
func filled(b []byte, v jsonspan.Span) bool {
	if v.Ok() && (b[v.From] == '[' || b[v.From] == '{') {
		return jsonspan.SkipSpace(b, v.From+1) < v.To-1
	}
	return chunk.Filled(v.Of(b))
}

// spells reports whether the value at v is the string want.
func spells(b []byte, v jsonspan.Span, want string) bool {
	return v.IsString(b) && jsonspan.Spells(v.Inner().Of(b), want)
}

// lastMember returns the value of the last member of the object at v with the name, which
// may be written with escapes, or the zero Span.
func lastMember(b []byte, v jsonspan.Span, name string) (found jsonspan.Span) {
	for key, value := range jsonspan.Members(b, v) {
		if jsonspan.Spells(key.Of(b), name) {
			found = value
		}
	}
	return found
}
