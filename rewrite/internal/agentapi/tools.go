package agentapi

import (
	"bytes"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// openTools are the tools of a stream that have started and not ended, in order.
type openTools []openTool

// openTool is a tool by what the events of its end have of it, as JSON.
type openTool struct {
	key   []byte // what tells of which tool an event is: its name, or the id of its call
	data  []byte // the id of its message, or the item that is its call; may be nil
	index []byte // the index of that item
	done  bool   // that item is done, but there is no output
}

// size returns the number of bytes that the events of the tool's end repeat.
func (t *openTool) size() int {
	if t.index != nil {
		return 4*len(t.key) + len(t.data)
	}
	return len(t.key) + len(t.data)
}

// toolOf returns the tool that an event of a stream of the kind is about, as far as the
// event says. In a run and in a session tools have no ids. A call of a response has data if
// its arguments are there from its start on, so that no client is asked to run it, and its
// output is done.
func (e event) toolOf(k kind) (t openTool) {
	switch k {
	case kindRuns:
		t.key = e.text("tool")
	case kindSession:
		t.key, t.data = e.text("tool_name"), e.text("message_id")
	case kindResponses:
		t.index = e.number("output_index")
		switch typ := e.at("item", "type"); {
		case typ.Is(e.Data, `"function_call"`) && e.text("item", "arguments") != nil:
			t.key = e.text("item", "call_id")
			if item := e.at("item"); item.Ok() {
				t.data = item.Of(e.Data)
			}
		case typ.Is(e.Data, `"function_call_output"`):
			t.key, t.done = e.text("item", "call_id"), true
		}
	}
	return t
}

// clone returns a copy of t that refers to no frame.
func (t openTool) clone() openTool {
	return openTool{bytes.Clone(t.key), bytes.Clone(t.data), bytes.Clone(t.index), t.done}
}

// start remembers that the tool has started. Beyond contract.MaxOpenTools and MaxOpenBytes
// it forgets the tool that started first.
func (o *openTools) start(t openTool) {
	if len(t.key) == 0 || t.size() > contract.MaxOpenBytes || !valid(t.key) || !valid(t.data) {
		return
	}
	*o = append(*o, t.clone())
	o.bound(0)
}

// valid reports whether value is nil or well-formed JSON.
func valid(value []byte) bool { return value == nil || jsonspan.Valid(value) }

// bound forgets the tools that started first until the ends of the others, each of which takes
// least bytes more than it repeats, take at most contract.MaxOpenBytes (contract section 7).
func (o *openTools) bound(least int) {
	n := 0
	for i := range *o {
		n += (*o)[i].size() + least
	}
	for len(*o) > contract.MaxOpenTools || n > contract.MaxOpenBytes {
		n -= (*o)[0].size() + least
		*o = slices.Delete(*o, 0, 1)
	}
}

// find returns the index of the tool that started first with the key, or -1.
func (o openTools) find(key []byte) int {
	return slices.IndexFunc(o, func(t openTool) bool { return bytes.Equal(t.key, key) })
}

// end remembers that the tool has ended that started first with the key.
func (o *openTools) end(key []byte) {
	if i := o.find(key); i >= 0 {
		*o = slices.Delete(*o, i, i+1)
	}
}
