package chunk

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// What a frame says of a failure, or of the agent's state, leaves without secrets
// (contract section 3).

// RedactFrame takes secrets out of what the frame says of a failure or of the agent's
// state: out of all of it if it says nothing else.
func (x *Object) RedactFrame() {
	if x.tellsState() {
		x.RedactAll()
		return
	}
	x.RedactError()
}

// RedactAll takes secrets out of all that the object says.
func (x *Object) RedactAll() { RedactValue(&x.F, &x.Edits, x.Notes, x.span()) }

// RedactError takes secrets out of what the object says of an error: the error, the
// hermes block, and what RedactTwins does.
func (x *Object) RedactError() {
	x.RedactMember(x.C.Err)
	x.RedactMember(x.C.Hermes)
	x.RedactMoreErrors()
}

// RedactOf takes secrets out of the error or the hermes block, which is at v.
func (x *Object) RedactMember(v jsonspan.Span) {
	if x.mayTellSecret() {
		RedactValue(&x.F, &x.Edits, x.Notes, v)
	}
}

// RedactTwins takes secrets out of what else the object says of an error: in members
// that stand twice, of which clients differ in the one they take, or whose name is
// escaped, and in choices.
func (x *Object) RedactMoreErrors() {
	if x.C.MoreErrors || x.C.ChoiceErrors {
		RedactErrors(&x.F, &x.Edits, x.Notes, x.C.Err, x.C.Hermes)
	}
}

// RedactMany writes a frame that may have very many secrets anew without them, before
// it is handled: an edit of each would take more memory than the frame.
func (x *Object) RedactMany() {
	c, data := &x.C, x.F.Data
	if len(data) <= 4*MaxRedactedEdits || x.Matched || !(c.Extra || c.Err.Ok() || c.Hermes.Ok() || c.MoreErrors || c.ChoiceErrors || len(x.F.Event) > 0) {
		return
	}
	isError := !x.IsChunk() && !x.Named() && x.HasError() // it says nothing else
	var n, from, to int                                   // the secrets, and where the first begins and the last ends
	clean := redact.Replace(data, func(each func(jsonspan.Span)) {
		count := func(secret jsonspan.Span) {
			if n++; n == 1 {
				from = secret.From
			}
			to = secret.To
			each(secret)
		}
		if isError || x.tellsState() {
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
