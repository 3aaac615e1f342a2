package chunk

import (
	"bytes"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Secrets leave what upstream says of a failure or of the agent's state, in the frames of
// any stream (contract section 3).

// MaxRedactedEdits is the number of secrets of a value that are replaced one by one.
// A single edit replaces the rest of the value.
const MaxRedactedEdits = 128

// noteSecret is the note for a secret.
const noteSecret = "a secret in what upstream says of a failure: redacted"

// TellsState reports whether all that an event with the name says is that something has
// failed, or what state the agent is in.
func TellsState(event []byte) bool {
	switch string(event) {
	case "error", "hermes.status", "approval.request", "hermes.approval.request", "run.interrupted":
		return true
	}
	return bytes.HasSuffix(event, []byte(".failed")) || bytes.HasSuffix(event, []byte(".error"))
}

// SaysError reports whether the name is that of an error or of a hermes block.
func SaysError(name []byte) bool {
	return jsonspan.Spells(name, "error") || jsonspan.Spells(name, "hermes")
}

// EachError calls each for every error and hermes block in the object in data and in
// its choices, in order.
func EachError(data []byte, each func(value jsonspan.Span)) {
	for key, value := range jsonspan.Members(data, jsonspan.Span{From: jsonspan.SkipSpace(data, 0), To: len(data)}) {
		switch {
		case SaysError(key.Of(data)):
			each(value)
		case jsonspan.Spells(key.Of(data), "choices"):
			for choice := range jsonspan.Elements(data, value) {
				for key, value := range jsonspan.Members(data, choice) {
					if SaysError(key.Of(data)) {
						each(value)
					}
				}
			}
		}
	}
}

// EachSecret calls each for every secret in the JSON value at v of data, in order.
func EachSecret(data []byte, v jsonspan.Span, each func(secret jsonspan.Span)) {
	redact.EachInValue(v.Of(data), func(s jsonspan.Span) { each(jsonspan.Span{From: v.From + s.From, To: v.From + s.To}) })
}

// RedactErrors adds the edits that take secrets out of the errors and the hermes blocks
// in the frame's object, except those at but.
func RedactErrors(f *sse.Frame, edits *sse.Splice, n *contract.Notes, but ...jsonspan.Span) {
	EachError(f.Data, func(value jsonspan.Span) {
		if !slices.Contains(but, value) {
			RedactValue(f, edits, n, value)
		}
	})
}

// RedactValue adds the edits that take secrets out of the strings in the JSON value at v
// of the frame's data.
func RedactValue(f *sse.Frame, edits *sse.Splice, n *contract.Notes, v jsonspan.Span) {
	redactBy(f, edits, n, v, redact.EachInValue)
}

// RedactText adds the edits that take secrets out of data that is not well-formed JSON.
func RedactText(f *sse.Frame, edits *sse.Splice, n *contract.Notes) {
	redactBy(f, edits, n, jsonspan.Span{To: len(f.Data)}, redact.EachInText)
}

// redactBy adds the edits that replace the secrets that find finds in the data at v.
func redactBy(f *sse.Frame, edits *sse.Splice, notes *contract.Notes, v jsonspan.Span, find func(b []byte, each func(secret jsonspan.Span))) {
	if !v.Ok() {
		return
	}
	b := v.Of(f.Data)
	var r redact.Replacer
	var rest []byte
	n, from, at := 0, 0, 0
	find(b, func(secret jsonspan.Span) {
		notes.Add(contract.SectionEnd, noteSecret)
		with := r.For(secret)
		if n++; n <= MaxRedactedEdits {
			edits.Replace(f, v.From+secret.From, v.From+secret.To, with)
			return
		}
		if rest == nil {
			from, at = secret.From, secret.From
			rest = make([]byte, 0, min(2*(len(b)-at), len(b)-at+2*redact.MaxGrowth))
		}
		rest = append(append(rest, b[at:secret.From]...), with...)
		at = secret.To
	})
	if rest != nil {
		edits.Replace(f, v.From+from, v.To, jsonspan.OneLine(append(rest, b[at:]...)))
	}
}

// RedactFrame takes secrets out of what the frame says of a failure or of the agent's
// state. If it says nothing else, that is all of it.
func (x *Object) RedactFrame() {
	if x.tellsState() {
		x.RedactAll()
		return
	}
	x.RedactError()
}

// RedactAll takes secrets out of all that the object says.
func (x *Object) RedactAll() { x.RedactMember(x.span()) }

// RedactError takes secrets out of what the object says of an error: the error, the
// hermes block, and what RedactMoreErrors covers.
func (x *Object) RedactError() {
	x.RedactMember(x.C.Err)
	x.RedactMember(x.C.Hermes)
	x.RedactMoreErrors()
}

// RedactMember takes secrets out of the value at v.
func (x *Object) RedactMember(v jsonspan.Span) {
	if v.Ok() {
		RedactValue(&x.F, &x.Edits, x.Notes, v)
	}
}

// RedactMoreErrors takes secrets out of the errors that neither C.Err nor C.Hermes is:
// those in choices, and members that are there twice or whose name has an escape. Clients
// differ in which one of two they use.
func (x *Object) RedactMoreErrors() {
	if x.C.MoreErrors || x.C.ChoiceErrors {
		RedactErrors(&x.F, &x.Edits, x.Notes, x.C.Err, x.C.Hermes)
	}
}

// RedactMany takes the secrets out of a frame that has very many, and parses it again. It
// must come before all other edits. An edit for each would take more memory than the frame.
func (x *Object) RedactMany() {
	c, data := &x.C, x.F.Data
	if len(data) <= 4*MaxRedactedEdits || !(c.Extra || c.Err.Ok() || c.Hermes.Ok() || c.MoreErrors || c.ChoiceErrors || len(x.F.Event) > 0) {
		return
	}
	all := x.tellsState() || !x.IsChunk() && !x.Named() && x.HasError()
	var n, from int // the number of secrets; where the first begins
	clean := redact.Replace(data, func(each func(jsonspan.Span)) {
		count := func(secret jsonspan.Span) {
			if n++; n == 1 {
				from = secret.From
			}
			each(secret)
		}
		if all {
			redact.EachInValue(data, count)
		} else {
			EachError(data, func(value jsonspan.Span) { EachSecret(data, value, count) })
		}
	})
	if n > MaxRedactedEdits {
		x.Notes.Add(contract.SectionEnd, noteSecret)
		// To the end: lines that stay, but empty, must not be within a string.
		x.Replace(from, len(data), jsonspan.OneLine(clean[from:]))
		x.reparse()
	}
}
