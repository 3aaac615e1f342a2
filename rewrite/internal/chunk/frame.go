package chunk

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Frame is a frame whose data is a JSON object, with the members of that object by
// position. F and C must have been parsed from the same bytes.
type Frame struct {
	F sse.Frame
	C Chunk
}

// IsDone reports whether data is the [DONE] that ends a chat stream. Only JSON's white
// space may stand in front of it.
func IsDone(data []byte) bool {
	i := jsonspan.SkipSpace(data, 0)
	return i < len(data) && data[i] == '[' && string(bytes.TrimSpace(data)) == "[DONE]"
}

// Named reports whether the frame is a named event.
func (x *Frame) Named() bool { return IsNamed(&x.F) }

// IsNamed reports whether a frame is a named event. All events without a name have the
// name message.
func IsNamed(f *sse.Frame) bool { return len(f.Event) > 0 && string(f.Event) != "message" }

// IsChunk reports whether the frame is a chunk: its object says so, or it is not a named
// event and has an array of choices.
func (x *Frame) IsChunk() bool { return x.C.IsChunk(x.F.Data) || !x.Named() && x.C.ChoicesArray }

// HasError reports whether the object has an error that is not null.
func (x *Frame) HasError() bool { return x.C.Err.IsSet(x.F.Data) }

// Value returns the JSON value at v.
func (x *Frame) Value(v jsonspan.Span) []byte { return v.Of(x.F.Data) }

// String returns the JSON string at v, or nil if the value is not a string or is empty.
func (x *Frame) String(v jsonspan.Span) []byte { return jsonspan.StringAt(x.F.Data, v) }

// Member returns the value of the object's member with the name, or the zero Span.
func (x *Frame) Member(name string) jsonspan.Span {
	return jsonspan.MemberOf(x.F.Data, x.span(), name)
}

// span returns where the object is in the data.
func (x *Frame) span() jsonspan.Span { return jsonspan.Span{From: x.C.Open, To: x.C.Shut + 1} }

// EachStop calls each for every finish reason of the chunk that is stop. The chunk's
// FinishReason must be stop.
func (x *Frame) EachStop(each func(jsonspan.Span)) {
	data := x.F.Data
	if x.C.Count == 1 { // as almost always
		each(x.C.Finish)
		return
	}
	for choice := range jsonspan.Elements(data, x.C.Choices) {
		if reason := jsonspan.MemberOf(data, choice, "finish_reason"); reason.IsString(data) && jsonspan.Spells(reason.Inner().Of(data), "stop") {
			each(reason)
		}
	}
}

// eachRenamed calls each with the position of every name that RenameMembers renames.
func (x *Frame) eachRenamed(card bool, each func(at int)) {
	data := x.F.Data
	for name, value := range jsonspan.Members(data, x.span()) {
		if spellsOne(name.Of(data), envelopeMembers[:]) || card && spellsOne(name.Of(data), cardMembers[:]) ||
			jsonspan.Spells(name.Of(data), "event") && value.IsString(data) {
			each(name.From)
		}
	}
}

// The members of every chunk, and those of a card.
var (
	envelopeMembers = [...]string{"id", "object", "created", "model", "choices"}
	cardMembers     = [...]string{"type", "output_index", "item"}
)

// spellsOne reports whether name, the inside of a JSON string, stands for one of members.
func spellsOne(name []byte, members []string) bool {
	for _, member := range members {
		if jsonspan.Spells(name, member) {
			return true
		}
	}
	return false
}

// Values returns the values of the chunk for an Envelope, nil for each that it lacks or
// that is longer than MaxEnvelope.
func (x *Frame) Values() (id, created, model []byte) {
	c, data := &x.C, x.F.Data
	if v := x.String(c.ID); len(v) <= MaxEnvelope {
		id = v
	}
	if v := x.Value(c.Created); c.Created.Ok() && jsonspan.IsDigit(data[c.Created.From]) && len(v) <= MaxEnvelope {
		created = v
	}
	if v := x.String(c.Model); len(v) <= MaxEnvelope {
		model = v
	}
	return id, created, model
}

// ErrorCode returns the code of the error if another sidecar has written it, and
// otherwise contract.CodeAgentError.
func (x *Frame) ErrorCode() string {
	switch code := string(jsonspan.Inside(x.String(x.C.Fault.Code))); code {
	case contract.CodeAborted, contract.CodeIncomplete, contract.CodeTimeout, contract.CodeCrashed, contract.CodeShutdown:
		return code
	}
	return contract.CodeAgentError
}

// ErrorMessage returns the message of the error without secrets, a JSON string, or nil if
// it has none.
func (x *Frame) ErrorMessage() []byte {
	for _, v := range [...]jsonspan.Span{x.C.Fault.Message, x.C.Err, x.C.Fault.Hermes} {
		if m := x.String(v); m != nil {
			return x.redacted(m)
		}
	}
	return nil
}

// FinishReason returns the finish reason of the chunk, which must have one.
func (x *Frame) FinishReason() string {
	switch b := x.Value(x.C.Finish.Inner()); string(b) { // the usual ones need no allocation
	case "stop":
		return "stop"
	case "error":
		return "error"
	case "length":
		return "length"
	default:
		return string(jsonspan.AppendText(nil, b))
	}
}

// redacted returns b, a part of what the object says of an error, without secrets.
func (x *Frame) redacted(b []byte) []byte {
	if !x.mayTellSecret() {
		return b
	}
	return redact.Value(b)
}

// mayTellSecret reports whether there may be a secret in the error or the hermes block.
// It looks once.
func (x *Frame) mayTellSecret() bool {
	f := &x.C.Fault
	if !f.looked {
		f.looked = true
		f.secret = redact.MayHold(x.Value(x.C.Err)) || redact.MayHold(x.Value(x.C.Hermes))
	}
	return f.secret
}

// tellsState reports whether all that the frame says is that something has failed, or
// what state the agent is in: by its name or by the type of its object.
func (x *Frame) tellsState() bool {
	if TellsState(x.F.Event) {
		return true
	}
	return x.C.Extra && TellsState(jsonspan.Inside(x.Value(jsonspan.MemberOf(x.F.Data, x.span(), "type"))))
}

// Droppable reports whether the chunk says nothing but its content, so that without it
// the chunk can be dropped.
func (x *Frame) Droppable() bool {
	c := &x.C
	return x.F.OnlyData && c.OnlyContent && c.FirstOnly && !c.Extra && !c.MoreErrors && !c.More && !c.Finish.Ok() &&
		!c.Usage.IsSet(x.F.Data) && !x.HasError() && !c.Hermes.Ok()
}

// CanCopy reports whether parts of the content may leave as copies of the chunk: it says
// nothing else, and what is around the content is not large.
func (x *Frame) CanCopy() bool {
	return x.Droppable() && len(x.F.Raw)-(x.C.Content.To-x.C.Content.From-len(`""`)) <= MaxEnvelope
}

// NoContent returns a Kept that keeps nothing of the content.
func (x *Frame) NoContent() (k prose.Kept) {
	k.From = x.C.Content.To - 1
	k.To = k.From
	return k
}
