package chunk

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// MaxEnvelope is the length in bytes up to which a value of upstream's is taken into an
// envelope.
const MaxEnvelope = 1 << 10

// Object is a frame whose data is a JSON object, with the members of that object by
// position and the edits that it leaves with. All bytes that are not edited keep their
// place, so that key order, escapes and framing stay as upstream sent them (contract
// section 0).
//
// F and C must have been parsed from the same bytes, and Edits be those of F.
type Object struct {
	F     sse.Frame
	C     Chunk
	Edits sse.Splice
	// Notes collects the changes.
	Notes *contract.Notes
}

// IsChunk reports whether the frame is a chunk: its object says so, or it is not a named
// event and has an array of choices.
func (x *Object) IsChunk() bool {
	return x.C.IsChunk(x.F.Data) || !IsNamed(&x.F) && x.C.ChoicesArray
}

// HasError reports whether the object has an error that is not null.
func (x *Object) HasError() bool { return x.C.Err.IsSet(x.F.Data) }

// Value returns the JSON value at v.
func (x *Object) Value(v jsonspan.Span) []byte { return v.Of(x.F.Data) }

// String returns the JSON string at v, or nil if the value is not a string or is empty.
func (x *Object) String(v jsonspan.Span) []byte { return jsonspan.StringAt(x.F.Data, v) }

// Member returns the value of the object's member with the name, or the zero Span.
func (x *Object) Member(name string) jsonspan.Span {
	return jsonspan.MemberOf(x.F.Data, x.C.All, name)
}

// ErrorCode returns the code of the error if another sidecar has written it, and
// otherwise contract.CodeAgentError.
func (x *Object) ErrorCode() string {
	switch code := string(jsonspan.Inside(x.String(jsonspan.MemberOf(x.F.Data, x.C.Err, "code")))); code {
	case contract.CodeAborted, contract.CodeIncomplete, contract.CodeTimeout, contract.CodeCrashed, contract.CodeShutdown:
		return code
	}
	return contract.CodeAgentError
}

// ErrorMessage returns the message of the error without secrets, a JSON string, or nil if
// it has none.
func (x *Object) ErrorMessage() []byte {
	message, hermes := jsonspan.MemberOf(x.F.Data, x.C.Err, "message"), jsonspan.MemberOf(x.F.Data, x.C.Hermes, "error")
	for _, v := range []jsonspan.Span{x.C.Err, message, hermes} {
		if m := x.String(v); m != nil {
			return redact.Value(m)
		}
	}
	return nil
}

// FinishReason returns the finish reason of the chunk, which must have one.
func (x *Object) FinishReason() string {
	return string(jsonspan.AppendText(nil, x.Value(x.C.Finish.Inner())))
}

// Droppable reports whether the chunk says nothing but its content, so that without it
// the chunk can be dropped.
func (x *Object) Droppable() bool {
	c := &x.C
	return x.F.OnlyData && c.OnlyText && !c.HasRole && c.FirstOnly && !c.Extra && !c.MoreErrors && !c.More && !c.Finish.Ok() &&
		!c.Usage.IsSet(x.F.Data) && !x.HasError() && !c.Hermes.Ok()
}

// CanCopy reports whether parts of the content may leave as copies of the chunk: it says
// nothing else, and the bytes around the content are few.
func (x *Object) CanCopy() bool {
	return x.Droppable() && len(x.F.Raw)-(x.C.Content.To-x.C.Content.From-len(`""`)) <= MaxEnvelope
}

// Replace replaces data[from:to] of the frame.
func (x *Object) Replace(from, to int, with []byte) { x.Edits.Replace(&x.F, from, to, with) }

// ReplaceValue replaces the value at v.
func (x *Object) ReplaceValue(v jsonspan.Span, with string) { x.Replace(v.From, v.To, []byte(with)) }

// Set replaces the value at v, or adds a member with the name if v is absent.
func (x *Object) Set(v jsonspan.Span, name string, value []byte) {
	if v.Ok() {
		x.Replace(v.From, v.To, value)
	} else {
		x.Append(`,"` + name + `":` + string(value))
	}
}

// Append adds members, which may be none, after the last one. They begin with a comma.
func (x *Object) Append(members string) {
	if members != "" {
		x.Replace(x.C.All.To-1, x.C.All.To-1, []byte(members))
	}
}

// DropName removes the event: line.
func (x *Object) DropName() {
	from, to := x.F.EventLine()
	x.Edits.ReplaceRaw(from, to, nil)
}

// Remove removes the member with the value at v, if there is one. It is for errors: some clients
// end a stream at any error, even null, before they read the finish reason beside it.
func (x *Object) Remove(v jsonspan.Span) {
	x.remove(func(_, value jsonspan.Span) bool { return value == v })
}

// KeepOneError removes every error of the object but C.Err, and parses it again: clients
// differ in which of several they use (contract section 3). It must precede other edits.
func (x *Object) KeepOneError() {
	if x.C.MoreErrors {
		x.remove(func(name, value jsonspan.Span) bool {
			return value != x.C.Err && jsonspan.Spells(name.Of(x.F.Data), "error")
		})
		x.apply()
	}
}

// remove removes each member for which goes returns true, with the comma before it or, if no
// member before it stays, the comma after it.
func (x *Object) remove(goes func(name, value jsonspan.Span) bool) {
	end, stays := 0, false // where the member before ends; whether a member stays
	for name, value := range jsonspan.Members(x.F.Data, x.C.All) {
		from := name.From - 1
		if end == 0 {
			end = from
		}
		switch {
		case goes(name, value):
			x.Replace(end, value.To, nil)
		case !stays && end < from:
			x.Replace(end, from, nil)
			fallthrough
		default:
			stays = true
		}
		end = value.To
	}
}

// DropFinish replaces each finish reason of the object's choices by null. It is the last edit.
func (x *Object) DropFinish() { x.replaceFinish("", "null") }

// Fail replaces each finish reason of the object's choices that is stop by error, and parses it
// again.
func (x *Object) Fail() {
	x.replaceFinish("stop", `"error"`)
	x.apply()
}

// replaceFinish replaces each finish reason of the object's choices that is reason, or is not
// null if that is empty.
func (x *Object) replaceFinish(reason, with string) {
	for choice := range jsonspan.Elements(x.F.Data, x.C.Choices) {
		v := jsonspan.MemberOf(x.F.Data, choice, "finish_reason")
		if v.IsSet(x.F.Data) && (reason == "" || jsonspan.Spells(jsonspan.Inside(x.Value(v)), reason)) {
			x.ReplaceValue(v, with)
		}
	}
}

// RenameMembers renames the members of a named event that have the names of a chunk's
// members or of Open WebUI's status, which are added to it, and parses it again. Clients that
// loop over choices break on those of approval.request, and Open WebUI breaks on an event that
// is a string (contract section 2). If card is true, it also renames those of a card. It must be made
// before other edits.
func (x *Object) RenameMembers(card bool) {
	names := []string{"id", "object", "created", "model", "choices", "event"}
	if card {
		names = append(names, "type", "output_index", "item")
	}
	for name, value := range jsonspan.Members(x.F.Data, x.C.All) {
		key := string(nameOf(x.F.Data, name))
		if slices.Contains(names, key) && (key != "event" || value.IsString(x.F.Data)) {
			x.Replace(name.From, name.From, []byte("hermes_"))
		}
	}
	x.apply()
}

// KeepContent adds the edits that leave nothing of the content but k, as reasoning if
// reasoning is true. If the chunk repeats its content, it repeats the rest, but no
// reasoning.
func (x *Object) KeepContent(k *prose.Kept, reasoning bool) {
	c := &x.C
	if reasoning {
		x.ReplaceValue(c.ContentKey, "reasoning_content")
	}
	x.replaceInner(c.Content, k)
	if reasoning {
		k = &prose.Kept{}
	}
	if c.Repeat.Ok() {
		x.replaceInner(c.Repeat, k)
	}
}

// DropContent adds the edits that leave nothing of the content.
func (x *Object) DropContent() { x.KeepContent(&prose.Kept{}, false) }

// replaceInner replaces the inside of the string at v by k, a rest of it, unless they are equal.
func (x *Object) replaceInner(v jsonspan.Span, k *prose.Kept) {
	if in := v.Inner(); k.Len() != in.To-in.From || len(k.Front) > 0 {
		x.Replace(in.From, in.To, k.Bytes())
	}
}

// apply makes the edits, and parses the result.
func (x *Object) apply() {
	if !x.Edits.Empty() {
		Apply(&x.F, &x.Edits)
		x.C.Parse(x.F.Data)
	}
}
