package agentapi

import (
	"bytes"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// openTools are the tools of a stream that have started and not ended, in order.
type openTools struct {
	open  []openTool
	bytes int // what their ends repeat
}

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
func (m *members) toolOf(k kind, data []byte) (t openTool) {
	switch k {
	case kindRuns:
		t.key = jsonspan.StringAt(data, m.tool)
	case kindSession:
		t.key, t.data = jsonspan.StringAt(data, m.toolName), jsonspan.StringAt(data, m.messageID)
	case kindResponses:
		member := func(name string) jsonspan.Span { return jsonspan.MemberOf(data, m.item, name) }
		t.index = chunk.NumberAt(data, m.outputIndex)
		switch typ := member("type"); {
		case typ.Is(data, `"function_call"`) && jsonspan.StringAt(data, member("arguments")) != nil:
			t.key, t.data = jsonspan.StringAt(data, member("call_id")), m.item.Of(data)
		case typ.Is(data, `"function_call_output"`):
			t.key, t.done = jsonspan.StringAt(data, member("call_id")), true
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
	size := t.size()
	if len(t.key) == 0 || size > contract.MaxOpenBytes || !valid(t.key) || !valid(t.data) {
		return
	}
	for len(o.open) >= contract.MaxOpenTools || o.bytes+size > contract.MaxOpenBytes {
		o.forget(0)
	}
	o.open = append(o.open, t.clone())
	o.bytes += size
}

// valid reports whether value is nil or well-formed JSON.
func valid(value []byte) bool { return value == nil || jsonspan.Valid(value) }

// find returns the index of the tool that started first with the key, or -1.
func (o *openTools) find(key []byte) int {
	return slices.IndexFunc(o.open, func(t openTool) bool { return bytes.Equal(t.key, key) })
}

// end remembers that the tool has ended that started first with the key.
func (o *openTools) end(key []byte) {
	if i := o.find(key); i >= 0 {
		o.forget(i)
	}
}

// forget removes the open tool i.
func (o *openTools) forget(i int) {
	o.bytes -= o.open[i].size()
	o.open = slices.Delete(o.open, i, i+1)
}

// take returns the tools, and forgets them. Those that started first get no end if the
// ends, each of which takes least bytes more than it repeats, would take more than
// contract.MaxOpenBytes (contract section 7).
func (o *openTools) take(least int) []openTool {
	for len(o.open) > 0 && o.bytes+len(o.open)*least > contract.MaxOpenBytes {
		o.forget(0)
	}
	tools := o.open
	*o = openTools{}
	return tools
}
