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

// MaxEnvelope is the length in bytes up to which a value of upstream's is taken into an
// envelope.
const MaxEnvelope = 1 << 10

// IsDone reports whether data is the [DONE] that ends a chat stream. Only JSON's white
// space may stand in front of it.
func IsDone(data []byte) bool {
	i := jsonspan.SkipSpace(data, 0)
	return i < len(data) && data[i] == '[' && string(bytes.TrimSpace(data)) == "[DONE]"
}

// ParseBeginning makes f what the beginning b of a large frame shows. The name of the event
// counts if its line is complete.
func ParseBeginning(f *sse.Frame, b []byte) {
	f.Parse(b)
	if _, end := f.EventLine(); end == len(b) && !bytes.HasSuffix(b, []byte("\n")) && !bytes.HasSuffix(b, []byte("\r")) {
		f.Event = nil // it may go on
	}
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

// NumberAt returns the JSON number at v, or nil if the value does not begin with a digit.
func NumberAt(data []byte, v jsonspan.Span) []byte {
	if !v.Ok() || !jsonspan.IsDigit(data[v.From]) {
		return nil
	}
	return v.Of(data)
}

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

// Values returns the values of the chunk for an envelope, nil for each that it lacks or
// that is longer than MaxEnvelope.
func (x *Frame) Values() (id, created, model []byte) {
	short := func(v []byte) []byte {
		if len(v) > MaxEnvelope {
			return nil
		}
		return v
	}
	return short(x.String(x.C.ID)), short(NumberAt(x.F.Data, x.C.Created)), short(x.String(x.C.Model))
}

// ErrorCode returns the code of the error if another sidecar has written it, and
// otherwise contract.CodeAgentError.
func (x *Frame) ErrorCode() string {
	switch code := string(jsonspan.Inside(x.String(jsonspan.MemberOf(x.F.Data, x.C.Err, "code")))); code {
	case contract.CodeAborted, contract.CodeIncomplete, contract.CodeTimeout, contract.CodeCrashed, contract.CodeShutdown:
		return code
	}
	return contract.CodeAgentError
}

// ErrorMessage returns the message of the error without secrets, a JSON string, or nil if
// it has none.
func (x *Frame) ErrorMessage() []byte {
	data, m := x.F.Data, x.String(x.C.Err)
	if m == nil {
		m = x.String(jsonspan.MemberOf(data, x.C.Err, "message"))
	}
	if m == nil {
		m = x.String(jsonspan.MemberOf(data, x.C.Hermes, "error"))
	}
	return redact.Value(m)
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

// tellsState reports whether all that the frame says is that something has failed, or
// what state the agent is in: by its name or by the type of its object.
func (x *Frame) tellsState() bool {
	return TellsState(x.F.Event) || x.C.Extra && TellsState(jsonspan.Inside(x.Value(x.Member("type"))))
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
