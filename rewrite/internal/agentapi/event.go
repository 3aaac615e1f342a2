package agentapi

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// event is an event whose data is an object, of which only the beginning may be there.
type event struct {
	*sse.Frame
	large bool // only the beginning is there: a value that ends with it was cut
	more  bool // something follows the object
}

// eventOf returns the event of f. It returns false if the data is not a complete object. It does
// not check values.
func eventOf(f *sse.Frame) (event, bool) {
	r := jsonspan.Reader{Data: f.Data, Pos: jsonspan.SkipSpace(f.Data, 0)}
	if !r.At('{') {
		return event{}, false
	}
	r.Open()
	for _, ok := r.Member(); ok; _, ok = r.Member() {
		r.Skip()
	}
	return event{Frame: f, more: !r.AtEnd()}, r.Closed()
}

// object returns the position of the object.
func (e event) object() jsonspan.Span { return jsonspan.ObjectIn(e.Data) }

// at returns the value of the member with the first name, or that of the next name in it, and so
// on. It returns the zero Span if there is none, or if it was cut.
func (e event) at(names ...string) jsonspan.Span {
	v := e.object()
	for _, name := range names {
		v = jsonspan.MemberOf(e.Data, v, name)
	}
	if e.large && v.IsCut(e.Data) {
		return jsonspan.Span{}
	}
	return v
}

// text returns the value at the names if it is a JSON string that is not empty, and otherwise nil.
func (e event) text(names ...string) []byte { return jsonspan.StringAt(e.Data, e.at(names...)) }

// number returns the value at the names if it is a JSON number, and otherwise nil.
func (e event) number(names ...string) []byte { return chunk.NumberAt(e.Data, e.at(names...)) }

// responsePrefix begins the type of every event of a response.
const responsePrefix = "response."

// responseType returns the type of an event of a response, or nil if e is none. In such an event the
// type agrees with the name, if there is one, and there is a response or a sequence number. Of a
// large one either may be after what was read.
func (e event) responseType() []byte {
	name := jsonspan.Inside(e.text("type"))
	if e.large && len(name) == 0 {
		name = e.Event
	}
	if !bytes.HasPrefix(name, []byte(responsePrefix)) || chunk.IsNamed(e.Frame) && !bytes.Equal(name, e.Event) ||
		!e.large && !e.at("response").IsObject(e.Data) && e.number("sequence_number") == nil {
		return nil
	}
	return name
}

// runEvents are the beginnings of the names of a run's events. Other servers also send
// run_id and event, but with names such as on_chain_start or RunContent.
var runEvents = []string{"run.", "message.", "tool.", "reasoning.", "approval.", "subagent."}

// runName returns the name of an event of a run, or nil if e is none.
func (e event) runName() []byte {
	if chunk.IsNamed(e.Frame) || !e.at("run_id").IsString(e.Data) {
		return nil
	}
	name := jsonspan.Inside(e.text("event"))
	begins := func(with string) bool { return strings.HasPrefix(string(name), with) }
	if slices.ContainsFunc(runEvents, begins) {
		return name
	}
	return nil
}
