package whole

import (
	"slices"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Healed is rewrite.Healed.
type Healed struct {
	Markers    int
	Cards      int
	Asked      Asked
	Ignored    Ignored
	Diagnostic bool
}

// Asked is what a request says about the form of its answer, in its member
// stream.
type Asked uint8

// What a request may say about the form of its answer.
const (
	// AskedUnknown means that the body is not a JSON object, or that stream is neither
	// a boolean nor null, so that servers may differ. The zero value.
	AskedUnknown Asked = iota
	// AskedStream means that stream is true. The messages of such a request need not be
	// JSON.
	AskedStream
	// AskedWhole means that stream is false, null or absent: the answer comes whole.
	AskedWhole
)

// AskedOf returns the form of answer that body, the JSON of a request, asks for. It reads
// the members of the outermost object only, and allocates nothing. If stream is there
// twice, the last one counts.
func AskedOf(body []byte) Asked {
	h := healer{b: body}
	h.request()
	return h.req.Asked
}

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

// member records what the member with the name and the value v says. If a member is there
// twice, the last one counts, as for Hermes. A value that means the same as none, such as
// an empty list of tools, asks for nothing.
func (h *Healed) member(b, name []byte, v jsonspan.Span) {
	is := func(want string) bool { return jsonspan.Spells(name, want) }
	set := func(name string, asked bool) {
		bit := Ignored(1) << slices.Index(ignored[:], name)
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
