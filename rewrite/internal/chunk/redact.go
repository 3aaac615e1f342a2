package chunk

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// Secrets leave what a chat stream says of a failure, or of the agent's state (contract
// section 3).

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
func (x *Object) RedactMember(v jsonspan.Span) { RedactValue(&x.F, &x.Edits, x.Notes, v) }

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
	if len(data) <= 4*MaxRedactedEdits || x.Matched || !(c.Extra || c.Err.Ok() || c.Hermes.Ok() || c.MoreErrors || c.ChoiceErrors || len(x.F.Event) > 0) {
		return
	}
	all := x.tellsState() || !x.IsChunk() && !x.Named() && x.HasError()
	var n, from, to int // the number of secrets; where the first begins, and where the last ends
	clean := redact.Replace(data, func(each func(jsonspan.Span)) {
		count := func(secret jsonspan.Span) {
			if n++; n == 1 {
				from = secret.From
			}
			to = secret.To
			each(secret)
		}
		if all {
			redact.EachInValue(data, count)
		} else {
			eachError(data, func(value jsonspan.Span) { EachSecret(data, value, count) })
		}
	})
	if n > MaxRedactedEdits {
		x.Notes.Add(contract.SectionEnd, noteSecret)
		x.Replace(from, to, jsonspan.OneLine(clean[from:len(clean)-len(data)+to]))
		x.reparse()
	}
}
