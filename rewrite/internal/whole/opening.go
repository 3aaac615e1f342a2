package whole

import (
	"slices"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Opening returns the beginning of the conversation in body, the JSON of a request for chat
// completions: the texts of the system's messages, and of the user's first message. It is the same
// for each turn of the conversation, like Hermes' own name of the conversation, which is made of
// the same texts. ok is false if body is not well formed or has no messages.
func Opening(body []byte) (opening []byte, ok bool) {
	messages, ok := messagesOf(body)
	if !ok {
		return nil, false
	}
	var first jsonspan.Span
	for m := range jsonspan.Elements(body, messages) {
		role := jsonspan.MemberOf(body, m, "role")
		switch {
		case Spells(body, role, "system"):
			opening = append(appendContent(opening, body, jsonspan.MemberOf(body, m, "content")), '\n')
		case !first.Ok() && Spells(body, role, "user"):
			first = m
		}
	}
	opening = append(opening, 0)
	return appendContent(opening, body, jsonspan.MemberOf(body, first, "content")), true
}

// appendContent appends the content at v: its text, or its parts. A part is appended as its text
// or, if it has none, as it is.
func appendContent(dst, b []byte, v jsonspan.Span) []byte {
	switch {
	case !v.IsSet(b):
		return dst
	case v.IsString(b):
		return jsonspan.AppendText(dst, v.Inner().Of(b))
	case b[v.From] != '[':
		return append(dst, v.Of(b)...)
	}
	for part := range jsonspan.Elements(b, v) {
		text := part
		if t := jsonspan.MemberOf(b, part, "text"); t.Ok() {
			text = t
		}
		if text.IsString(b) {
			dst = jsonspan.AppendText(dst, text.Inner().Of(b))
		} else {
			dst = append(dst, part.Of(b)...)
		}
	}
	return dst
}

// SetLine puts a line, printable ASCII without quotes and backslashes, at the beginning of the
// system prompt in body, the JSON of a request for chat completions: of the system's first message,
// or in one of its own before all messages. Every other byte stays, and the result is a copy. It
// returns body itself if the prompt begins with that line, or if body is not well formed or has no
// messages. Hermes cuts a long prompt at its end, and does not read messages of a developer.
func SetLine(body []byte, line string) []byte {
	messages, ok := messagesOf(body)
	if !ok {
		return body
	}
	for m := range jsonspan.Elements(body, messages) {
		if Spells(body, jsonspan.MemberOf(body, m, "role"), "system") {
			if set, ok := lead(body, jsonspan.MemberOf(body, m, "content"), line); ok {
				return set
			}
			break
		}
	}
	return insert(body, messages.From+1, `{"role":"system","content":"`+line+`"},`)
}

// lead puts a line in front of the text of a content. ok is false if that is neither a string nor
// an array.
func lead(body []byte, v jsonspan.Span, line string) (_ []byte, ok bool) {
	switch {
	case v.IsString(body):
		return leadText(body, v.Inner(), line), true
	case !v.Ok() || body[v.From] != '[':
		return nil, false
	}
	comma := ""
	for part := range jsonspan.Elements(body, v) {
		text := jsonspan.MemberOf(body, part, "text")
		// Hermes takes the text of no other part.
		if Spells(body, jsonspan.MemberOf(body, part, "type"), "text") && text.IsString(body) && begins(text.Inner().Of(body), line) {
			return body, true
		}
		comma = ","
		break
	}
	return insert(body, v.From+1, `{"type":"text","text":"`+line+`"}`+comma), true
}

// leadText puts a line in front of a text, the inside of a string.
func leadText(body []byte, text jsonspan.Span, line string) []byte {
	switch inner := text.Of(body); {
	case begins(inner, line):
		return body
	case len(inner) > 0:
		line += `\n\n`
	}
	return insert(body, text.From, line)
}

// begins reports whether a text, the inside of a string, begins with a line.
func begins(text []byte, line string) bool {
	return len(text) >= len(line) && string(text[:len(line)]) == line && jsonspan.NextNewline(text[len(line):], 0) == 0
}

// SetInstructions is SetLine for the member instructions in body, the JSON of a request to
// /v1/responses or /v1/runs. A request without instructions that continues a response or a
// conversation is not changed: Hermes then takes the earlier instructions, which have the line.
func SetInstructions(body []byte, line string) []byte {
	if !sound(body) {
		return body
	}
	all := jsonspan.ObjectIn(body)
	v := jsonspan.MemberOf(body, all, "instructions")
	switch {
	case v.IsString(body):
		return leadText(body, v.Inner(), line)
	case v.IsSet(body), jsonspan.MemberOf(body, all, "previous_response_id").IsSet(body), jsonspan.MemberOf(body, all, "conversation").IsSet(body):
		return body
	case v.Ok():
		return slices.Concat(body[:v.From], []byte(`"`+line+`"`), body[v.To:])
	}
	member := `"instructions":"` + line + `"`
	if body[jsonspan.SkipSpace(body, all.From+1)] != '}' {
		member += ","
	}
	return insert(body, all.From+1, member)
}

// messagesOf returns the messages in body, the JSON of a request, if there are any.
func messagesOf(body []byte) (messages jsonspan.Span, ok bool) {
	if !sound(body) {
		return messages, false
	}
	messages = jsonspan.MemberIn(body, "messages")
	ok = messages.Ok() && body[messages.From] == '[' && body[jsonspan.SkipSpace(body, messages.From+1)] != ']'
	return messages, ok
}

// MaxNested is the nesting of a request up to which its user is named: no parser of a Python that
// Hermes runs on reads a deeper one.
const MaxNested = 10_000

// sound reports whether body is a well-formed object.
func sound(body []byte) bool {
	return jsonspan.ObjectIn(body).IsObject(body) && jsonspan.ValidWithin(body, MaxNested) && utf8.Valid(body)
}

func insert(b []byte, at int, text string) []byte {
	return slices.Concat(b[:at], []byte(text), b[at:])
}
