package chunk

import (
	"bytes"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// What a frame of any stream says of a failure, or of the agent's state, leaves without
// secrets (contract section 3).

// MaxRedactedEdits is how many secrets of a value are replaced one by one. Behind those
// the value is written anew, up to its end.
const MaxRedactedEdits = 1024

// noteSecret is what is noted of a secret.
const noteSecret = "a secret in what upstream says of a failure: redacted"

// TellsState reports whether an event with the name says nothing but that something has
// failed, or how the agent is.
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

// eachError calls each with the errors and hermes blocks in the object in data and in
// its choices, in order.
func eachError(data []byte, each func(value jsonspan.Span)) {
	for key, value := range jsonspan.Members(data, jsonspan.Span{From: jsonspan.SkipSpace(data, 0), To: len(data)}) {
		switch {
		case SaysError(key.Of(data)):
			each(value)
		case key.Is(data, "choices"):
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

// EachSecret calls each with the secrets in the JSON value at v of data.
func EachSecret(data []byte, v jsonspan.Span, each func(secret jsonspan.Span)) {
	if b := v.Of(data); redact.MayHold(b) {
		redact.EachInValue(b, func(s jsonspan.Span) { each(jsonspan.Span{From: v.From + s.From, To: v.From + s.To}) })
	}
}

// RedactErrors adds to edits what takes secrets out of the errors and the hermes blocks
// in the object in the frame's data, but for those that are seen to.
func RedactErrors(f *sse.Frame, edits *sse.Splice, n *contract.Notes, but ...jsonspan.Span) {
	eachError(f.Data, func(value jsonspan.Span) {
		if !slices.Contains(but, value) {
			RedactValue(f, edits, n, value)
		}
	})
}

// RedactValue adds to edits what takes secrets out of the strings in the JSON value at v
// of the frame's data.
func RedactValue(f *sse.Frame, edits *sse.Splice, n *contract.Notes, v jsonspan.Span) {
	if b := v.Of(f.Data); redact.MayHold(b) {
		redactBy(f, edits, n, v, func(each func(jsonspan.Span)) { redact.EachInValue(b, each) })
	}
}

// RedactText does so for data that is no well-formed JSON.
func RedactText(f *sse.Frame, edits *sse.Splice, n *contract.Notes) {
	if b := f.Data; redact.MayHold(b) {
		redactBy(f, edits, n, jsonspan.Span{To: len(b)}, func(each func(jsonspan.Span)) { redact.EachInText(b, each) })
	}
}

// redactBy adds to edits what replaces the secrets in the data at v that find calls its
// argument with.
func redactBy(f *sse.Frame, edits *sse.Splice, notes *contract.Notes, v jsonspan.Span, find func(each func(secret jsonspan.Span))) {
	b := v.Of(f.Data)
	var r redact.Replacer
	var rest []byte
	n, from, at := 0, 0, 0
	find(func(secret jsonspan.Span) {
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
