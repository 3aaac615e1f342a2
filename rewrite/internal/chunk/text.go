package chunk

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
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
	if !v.IsObject(data) {
		return
	}
	var around bool // it has no text but in objects
	switch typ := jsonspan.Inside(jsonspan.Plain(jsonspan.StringAt(data, jsonspan.MemberOf(data, v, "type")))); {
	case len(typ) == 0, string(typ) == "message", string(typ) == "output_text", string(typ) == "text", bytes.HasPrefix(typ, []byte("response.output_text.")):
	case bytes.HasPrefix(typ, []byte("response.")):
		around = true
	default:
		return
	}
	for key, value := range jsonspan.Members(data, v) {
		name := key.Of(data)
		switch {
		case jsonspan.Spells(name, "item"), jsonspan.Spells(name, "part"), jsonspan.Spells(name, "response"):
			eachText(data, value, depth-1, each)
		case around:
		case jsonspan.Spells(name, "choices"), jsonspan.Spells(name, "delta"), jsonspan.Spells(name, "message"),
			jsonspan.Spells(name, "content"), jsonspan.Spells(name, "text"), jsonspan.Spells(name, "output"):
			eachText(data, value, depth-1, each)
		}
	}
}

// RedactSaid adds the edits that take secrets out of what a provider has said in the texts
// at each of vs (contract section 3, "Provider said"). inTag is as in redact.Said.
func RedactSaid(f *sse.Frame, edits *sse.Splice, n *contract.Notes, inTag bool, vs ...jsonspan.Span) {
	if !redact.MaySay(f.Data) {
		return
	}
	redactBy(f, edits, n, jsonspan.Span{To: len(f.Data)}, func(data []byte, each func(jsonspan.Span)) {
		for _, v := range vs {
			EachSaid(data, v, inTag, each)
		}
	})
}

// EachSaid calls each for every secret in what a provider has said in the texts at v of
// data, in order.
func EachSaid(data []byte, v jsonspan.Span, inTag bool, each func(secret jsonspan.Span)) {
	EachText(data, v, func(text jsonspan.Span) {
		redact.EachSaid(text.Of(data), inTag, func(s jsonspan.Span) {
			each(jsonspan.Span{From: text.From + s.From, To: text.From + s.To})
		})
	})
}

// RedactSaidOf takes secrets out of what a provider has said in the content of the chunk x,
// and parses the frame again. It must come before all other edits. inTag is as in
// redact.Said.
func RedactSaidOf(x *Object, inTag bool) {
	if !redact.MaySay(x.F.Data) {
		return
	}
	var choices []jsonspan.Span
	for key, value := range jsonspan.Members(x.F.Data, x.span()) {
		if jsonspan.Spells(key.Of(x.F.Data), "choices") {
			choices = append(choices, value)
		}
	}
	RedactSaid(&x.F, &x.Edits, x.Notes, inTag, choices...)
	if !x.Edits.Empty() {
		x.reparse()
	}
}
