package whole

import (
	"slices"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Healed is what Heal has removed from a request and read in it.
type Healed struct {
	Markers    int
	Cards      int
	Asked      uint8
	Ignored    uint8
	Diagnostic bool
}

// What a request may say about the form of its answer, in its member stream.
const (
	AskedUnknown = iota // the body is not a JSON object, or stream is neither a boolean nor null
	AskedStream         // stream is true; the messages need not be JSON
	AskedWhole          // stream is false, null or absent
)

// AskedOf returns the form of answer that body, the JSON of a request, asks for. It reads
// the members of the outermost object only, and allocates nothing. If stream is there
// twice, the last one counts.
func AskedOf(body []byte) uint8 {
	h := healer{copier: copier{b: body}}
	h.request()
	return h.req.Asked
}

// ignored has the names of the set of what a request asks for and Hermes ignores, one for
// each bit. text.format is the response_format of /v1/responses.
var ignored = [...]string{"background", "functions", "n", "response_format", "text.format", "tool_choice", "tools"}

// IgnoredNames returns the names of a set, sorted, nil for none.
func IgnoredNames(set uint8) (names []string) {
	for bit, name := range ignored {
		if set&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// member records what the member with the name and the value v says. If a member is there
// twice, the last one counts, as for Hermes. A value that means the same as none, such as
// an empty list of tools, asks for nothing.
func (h *Healed) member(b, name []byte, v jsonspan.Span) {
	is := func(want string) bool { return jsonspan.Spells(name, want) }
	set := func(name string, asked bool) {
		bit := uint8(1) << slices.Index(ignored[:], name)
		if h.Ignored &^= bit; asked {
			h.Ignored |= bit
		}
	}
	switch {
	case is("stream"):
		switch string(v.Of(b)) {
		case "true":
			h.Asked = AskedStream
		case "false", "null":
			h.Asked = AskedWhole
		default:
			h.Asked = AskedUnknown
		}
	case is("tools"):
		set("tools", filled(b, v))
	case is("functions"):
		set("functions", filled(b, v))
	case is("tool_choice"):
		set("tool_choice", filled(b, v) && !spells(b, v, "auto"))
	case is("n"):
		n, err := strconv.ParseFloat(string(b[v.From:min(v.To, v.From+32)]), 64)
		set("n", err == nil && n > 1)
	case is("response_format"):
		set("response_format", formatted(b, v))
	case is("text"):
		set("text.format", formatted(b, jsonspan.MemberOf(b, v, "format")))
	case is("background"):
		set("background", v.Is(b, "true"))
	case is("hermes_notification_category"):
		h.Diagnostic = spells(b, v, "diagnostic")
	}
}

// formatted reports whether the value at v asks for a format other than text.
func formatted(b []byte, v jsonspan.Span) bool {
	return filled(b, v) && !spells(b, jsonspan.MemberOf(b, v, "type"), "text")
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
