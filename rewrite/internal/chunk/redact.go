package chunk

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Secrets are taken out of what upstream says of a failure or of the agent's state, in the frames
// of any stream (contract section 3).

// TellsState reports whether an event with the name says only that something has failed, or
// which state the agent is in.
func TellsState(event []byte) bool {
	switch string(event) {
	case "error", "hermes.status", "approval.request", "hermes.approval.request", "run.interrupted":
		return true
	}
	return bytes.HasSuffix(event, []byte(".failed")) || bytes.HasSuffix(event, []byte(".error"))
}

// TellsState reports whether the frame says only that something has failed, or which state
// the agent is in: by its name or by the type of its object.
func (x *Object) TellsState() bool {
	return TellsState(x.F.Event) || x.C.Extra && TellsState(jsonspan.Inside(x.Value(x.Member("type"))))
}

// SaysError reports whether the name is that of an error or of a hermes block.
func SaysError(name []byte) bool {
	return jsonspan.Spells(name, "error") || jsonspan.Spells(name, "hermes")
}

// EachError calls each for every error and hermes block in the object in data and in
// its choices, and for what says why a response has failed or is incomplete, in order.
func EachError(data []byte, each func(value jsonspan.Span)) {
	eachError(data, objectIn(data), "", each)
}

// eachError is EachError for the object at v, which is in the member in, "" for none.
func eachError(data []byte, v jsonspan.Span, in string, each func(value jsonspan.Span)) {
	for key, value := range jsonspan.Members(data, v) {
		switch name := string(nameOf(data, key)); {
		case name == "error", name == "incomplete_details", name == "hermes" && in != "response":
			each(value)
		case name == "response" && in == "":
			eachError(data, value, name, each)
		case name == "choices" && in == "":
			for choice := range jsonspan.Elements(data, value) {
				eachError(data, choice, name, each)
			}
		}
	}
}

// EachSecret calls each for every secret in the JSON value at v of data, in order.
func EachSecret(data []byte, v jsonspan.Span, each func(secret jsonspan.Span)) {
	redact.EachInValue(v.Of(data), shifted(v.From, each))
}

// shifted returns a function that calls each with spans that begin from bytes later.
func shifted(from int, each func(jsonspan.Span)) func(jsonspan.Span) {
	return func(s jsonspan.Span) { each(jsonspan.Span{From: from + s.From, To: from + s.To}) }
}

// Redact adds the edits that replace the secrets for which find calls each, in order.
func Redact(f *sse.Frame, edits *sse.Splice, notes *contract.Notes, find func(each func(secret jsonspan.Span))) {
	var r redact.Replacer
	find(func(secret jsonspan.Span) {
		notes.Add(contract.SectionEnd, "a secret in upstream's description of a failure: redacted")
		edits.Replace(f, secret.From, secret.To, r.For(secret))
	})
}

// RedactText adds the edits that take secrets out of data that is not well-formed JSON.
func RedactText(f *sse.Frame, edits *sse.Splice, notes *contract.Notes) {
	Redact(f, edits, notes, func(each func(jsonspan.Span)) { redact.EachInText(f.Data, each) })
}

// Redact takes secrets out of what the object says of a failure, and of what a provider has
// said in its choices. If all is true, it takes them out of all that the object says. It parses
// the object again, and must precede other edits. inTag is as in redact.Said.
func (x *Object) Redact(all, inTag bool) {
	c := &x.C
	if all || c.Err.Ok() || c.Hermes.Ok() || c.MoreErrors || c.ChoiceErrors {
		Redact(&x.F, &x.Edits, x.Notes, func(each func(jsonspan.Span)) {
			if all {
				EachSecret(x.F.Data, c.All, each)
				return
			}
			EachError(x.F.Data, func(v jsonspan.Span) { EachSecret(x.F.Data, v, each) })
		})
		x.apply()
	}
	if redact.MaySay(x.F.Data) {
		Redact(&x.F, &x.Edits, x.Notes, func(each func(jsonspan.Span)) {
			for name, value := range jsonspan.Members(x.F.Data, c.All) {
				if jsonspan.Spells(name.Of(x.F.Data), "choices") {
					EachSaid(x.F.Data, value, inTag, each)
				}
			}
		})
		x.apply()
	}
}

// Apply makes the edits of f, resets them, and parses the result.
func Apply(f *sse.Frame, edits *sse.Splice) {
	raw := edits.Append(make([]byte, 0, edits.Size(f)), f)
	if f.OnlyData { // or a comment
		from := f.At(0)
		f.SetData(raw, from, from+len(f.Data)+len(raw)-len(f.Raw))
	} else {
		f.Parse(raw)
	}
	edits.Reset()
}

// textDepth is how deep a text is in an answer at most: response, output, item, content,
// part, text.
const textDepth = 8

// eachText calls each for the inside of every text of an answer in the value at v of
// data, in order, if it is at most depth deep: contents, in strings and in parts, of choices, of
// messages and of the items of a response, and the text that an event of a response adds or ends.
// Arguments, outputs of tools and reasoning do not count.
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
	eachText(data, v, textDepth, func(text jsonspan.Span) { redact.EachSaid(text.Of(data), inTag, shifted(text.From, each)) })
}
