package rewrite

import (
	"cmp"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

// Healed says what Heal has removed from the body of a request, and what it has read in it.
type Healed struct {
	Changes
	// Form is the form of answer that the request asks for.
	Form AnswerForm
	// Ignored is what the request asks for and Hermes ignores.
	Ignored Ignored
	// Diagnostic says that the request calls itself a diagnostic one, whose answer Hermes
	// mutes if its operator has said so.
	Diagnostic bool
}

// Changes are what was removed from the history that a request carries, and added to it.
type Changes = whole.Changes

// Reply is what the last message of a chat says about an approval.
type Reply = whole.Reply

// Secrets are what a client was given to answer requests for approval: codes, as they were shown,
// and the tickets with which links end. The value says that a reply with the code is waited for.
type Secrets map[string]bool

// AnswerForm is the form of answer that a request asks for in its member stream.
type AnswerForm uint8

const (
	AnswerUnknown AnswerForm = iota // the body is not a JSON object, or stream is neither a boolean nor null
	AnswerStream                    // stream is true; the messages need not be JSON
	AnswerWhole                     // stream is false, null or absent: the answer is sent whole
)

// Ignored is a set of members of a request that Hermes ignores without saying so, up to 0.22 and
// in each of its APIs. The zero value is the empty set.
type Ignored uint8

// Background is the member background of a request to /v1/responses. Package resume does what it
// asks for if the answer is a stream.
const Background Ignored = 1 << 0

// ignored has an entry for each bit of Ignored: the name, the member of the request, and a
// function that reports whether the value v of that member asks for anything. A value that means
// the same as none, such as an empty list of tools, does not.
var ignored = [...]struct {
	name, member string
	asks         func(b []byte, v jsonspan.Span) bool
}{
	{"background", "background", func(b []byte, v jsonspan.Span) bool { return v.Is(b, "true") }},
	{"functions", "functions", filled},
	{"n", "n", func(b []byte, v jsonspan.Span) bool {
		n, err := strconv.ParseFloat(string(b[v.From:min(v.To, v.From+32)]), 64)
		return err == nil && n > 1
	}},
	{"response_format", "response_format", formatted},
	{"text.format", "text", func(b []byte, v jsonspan.Span) bool { return formatted(b, jsonspan.MemberOf(b, v, "format")) }},
	{"tool_choice", "tool_choice", func(b []byte, v jsonspan.Span) bool { return filled(b, v) && !whole.Spells(b, v, "auto") }},
	{"tools", "tools", filled},
}

// Names returns the names of the members, sorted, nil for none. The name of the response_format of
// /v1/responses is text.format.
func (i Ignored) Names() (names []string) {
	for bit, m := range ignored {
		if i&(1<<bit) != 0 {
			names = append(names, m.name)
		}
	}
	return names
}

// Heal heals the history in body, the JSON of a request (contract section 5): the messages of chat
// completions, the input and the conversation_history of /v1/responses and /v1/runs, and the
// message to a session. It removes the marker lines of known tools from the content of the
// assistant's messages, and from all messages the paragraphs of approvals, and the secrets of these
// and the given ones. It joins the messages of each answer that Open WebUI has taken apart for its
// cards. Every other byte stays. The healed body is a copy. If there is nothing to heal it is body
// itself. A body that is not well-formed JSON passes untouched. Nil tools mean Hermes' own. Only a
// client that was given secrets replies.
func Heal(body []byte, tools *Tools, given Secrets) ([]byte, Healed) {
	return Healing{Tools: tools, Given: given}.Heal(body)
}

// Healing configures how histories are healed. The zero value heals as Heal does with nil tools and
// no secrets.
type Healing struct {
	Tools *Tools
	// KeepMarkers leaves markers in the texts: upstream is known to write none.
	KeepMarkers bool
	Given       Secrets
	// Memory remembers the tools of the client's answers. The history of a request for chat completions
	// then gets records of them, from the tool calls that it has or else from the Memory: each is the
	// first text of the user's message after the answer (contract section 8). Nil means none.
	Memory Memory
	// Results says that records show what tools returned.
	Results bool
}

// Heal is like the function Heal, configured by o.
func (o Healing) Heal(body []byte) ([]byte, Healed) {
	var messages, left *whole.Messages
	if o.Memory != nil {
		messages, left = new(whole.Messages), new(whole.Messages)
	}
	h, depth := read(body, messages)
	if depth == 0 {
		return body, h
	}
	tools := cmp.Or(o.Tools, marker.Hermes)
	if o.KeepMarkers {
		tools = tools.WithoutImitations()
	}
	healed, changes, sound := whole.Heal(body, tools, depth, h.Form == AnswerWhole, o.Given, left)
	if h.Form == AnswerWhole && !sound { // as AnswerWhole, it would have no deadlines
		return body, Healed{}
	}
	if o.Memory != nil {
		healed = changes.Recall(body, healed, messages, left, depth, sound, o.Given, o.Memory, o.Results)
	}
	h.Changes = changes
	return healed, h
}

// AnswerFormOf returns the form of answer that body, the JSON of a request, asks for in its member
// stream. It reads no other value, and allocates nothing.
func AnswerFormOf(body []byte) AnswerForm {
	h, _ := read(body, nil)
	return h.Form
}

// AsksForBackground reports whether body, the JSON of a request to /v1/responses, asks for a stream
// that goes on without its client: its members stream and background are true. It allocates nothing.
func AsksForBackground(body []byte) bool {
	h, _ := read(body, nil)
	return h.Form == AnswerStream && h.Ignored&Background != 0
}

// read returns what the members of the request in body say. If a member is there twice, the last
// one counts, as for Hermes. depth is how deep body is nested. It returns zero values if body is
// not an object, or does not end with it. It reads the messages of a chat unless they are nil.
func read(body []byte, messages *whole.Messages) (h Healed, depth int) {
	h.Form = AnswerWhole
	r := jsonspan.Reader{Data: body, Pos: jsonspan.SkipSpace(body, 0)}
	if !r.At('{') {
		return Healed{}, 0
	}
	r.Open()
	for name, ok := r.Member(); ok; name, ok = r.Member() {
		if messages != nil && jsonspan.Spells(name.Of(body), "messages") && messages.Read(&r) {
			continue
		}
		h.member(body, name.Of(body), r.Skip())
	}
	if !r.AtEnd() {
		return Healed{}, 0
	}
	return h, r.Deepest
}

// member records what the member with the name and the value v says.
func (h *Healed) member(b, name []byte, v jsonspan.Span) {
	switch {
	case jsonspan.Spells(name, "stream"):
		switch string(v.Of(b)) {
		case "true":
			h.Form = AnswerStream
		case "false", "null":
			h.Form = AnswerWhole
		default:
			h.Form = AnswerUnknown
		}
	case jsonspan.Spells(name, "hermes_notification_category"):
		h.Diagnostic = whole.Spells(b, v, "diagnostic")
	}
	for i := range ignored {
		if bit := Ignored(1) << i; jsonspan.Spells(name, ignored[i].member) {
			if h.Ignored &^= bit; ignored[i].asks(b, v) {
				h.Ignored |= bit
			}
		}
	}
}

// formatted reports whether the value at v asks for a format other than text.
func formatted(b []byte, v jsonspan.Span) bool {
	return filled(b, v) && !whole.Spells(b, jsonspan.MemberOf(b, v, "type"), "text")
}

// filled reports whether the value at v is a string, an array or an object that is not empty.
func filled(b []byte, v jsonspan.Span) bool {
	if v.Ok() && (b[v.From] == '[' || b[v.From] == '{') {
		return jsonspan.SkipSpace(b, v.From+1) < v.To-1
	}
	return chunk.Filled(v.Of(b))
}
