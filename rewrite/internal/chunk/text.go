package chunk

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// EachText calls each for the inside of every text of an answer in the value at v of
// data, in order: contents, in strings and in parts, of choices, of messages and of the
// items of a response, and the text that an event of a response adds or ends. Arguments,
// outputs of tools and reasoning are none.
func EachText(data []byte, v jsonspan.Span, each func(text jsonspan.Span)) {
	eachText(data, v, textDepth, each)
}

// textDepth is how deep a text is in an answer at most: response, output, item, content,
// part, text.
const textDepth = 8

func eachText(data []byte, v jsonspan.Span, depth int, each func(text jsonspan.Span)) {
	if depth == 0 || !v.Ok() {
		return
	}
	if v.IsString(data) {
		each(v.Inner())
		return
	}
	for element := range jsonspan.Elements(data, v) {
		eachText(data, element, depth-1, each)
	}
	var around bool // it has no text but in objects
	switch typ := jsonspan.Inside(jsonspan.Plain(jsonspan.StringAt(data, jsonspan.MemberOf(data, v, "type")))); {
	case len(typ) == 0, string(typ) == "message", string(typ) == "output_text", string(typ) == "text", bytes.HasPrefix(typ, []byte("response.output_text.")):
	case bytes.HasPrefix(typ, []byte("response.")):
		around = true
	default:
		return
	}
	for name, value := range jsonspan.Members(data, v) {
		switch string(nameOf(data, name)) {
		case "choices", "delta", "message", "content", "text", "output":
			if around {
				continue
			}
		case "item", "part", "response":
		default:
			continue
		}
		eachText(data, value, depth-1, each)
	}
}

// EachSaid calls each for every secret in what a provider has said in the texts at v of data
// (contract section 3, "Provider said"), in order. inTag is as in redact.Said.
func EachSaid(data []byte, v jsonspan.Span, inTag bool, each func(secret jsonspan.Span)) {
	EachText(data, v, func(text jsonspan.Span) { redact.EachSaid(text.Of(data), inTag, shifted(text.From, each)) })
}
