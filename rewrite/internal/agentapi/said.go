package agentapi

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// said has the values of a stream that the events of its failure repeat: as JSON, empty if
// upstream has sent none.
type said struct {
	ownID    string // the id of the response, of the run or of the session
	run      string // the id of a session's run
	at       string // a number: the time of the last event or, before that, when a session's stream was created
	message  string // of an error event, a string
	hasError bool   // there was an error event in a session

	began, model string // of the response: when it was created, and its model
	response     []byte // all of it, unless it is too large
	nextIndex    int64  // the index after those of its items
	named        bool   // upstream's last event had an event line

	// The next numbers of the stream's events, in their id field and in a member, 0 if upstream has not
	// counted by it.
	id, seq int64
	tools   []openTool // those that have started and not ended, in order
}

// MaxResponse is the length in bytes up to which a response is remembered. It repeats the
// instructions and the tools of the request.
const MaxResponse = 64 << 10

// openTool has the values of a tool that the events of its end repeat, as JSON.
type openTool struct {
	key   string // identifies the tool of an event: its name, or the id of its call
	data  string // the id of its message, or the item that is its call; may be empty
	index string // the index of that item
	done  bool   // that item is done, but there is no output
}

func (t *openTool) size() int { return len(t.key) + len(t.data) }

// record remembers what an event of a stream of the kind says.
func (d *said) record(k kind, name string, e event) {
	d.count(k, e)
	switch k {
	case kindResponses:
		d.named = chunk.IsNamed(e.Frame)
		remember(&d.ownID, e.text("response", "id"))
		remember(&d.began, e.number("response", "created_at"))
		remember(&d.model, e.text("response", "model"))
		response := e.at("response")
		if object := response.Of(e.Data); response.IsObject(e.Data) && len(object) <= MaxResponse && jsonspan.Valid(object) {
			d.response = append(d.response[:0], object...)
		}
		d.nextIndex = max(d.nextIndex, jsonspan.SmallInt(e.number("output_index"))+1)
		if name == itemAdded || name == itemDone {
			d.recordItem(name, e)
		}
	case kindRuns:
		remember(&d.ownID, e.at("run_id").Of(e.Data))
		if e.number("timestamp") == nil {
			d.at = ""
		}
		remember(&d.at, e.number("timestamp"))
		d.recordTool(name, e.text("tool"), nil)
	case kindSession:
		remember(&d.ownID, e.text("session_id"))
		remember(&d.run, e.text("run_id"))
		remember(&d.at, e.number("ts"))
		d.hasError = d.hasError || name == "error"
		d.recordTool(name, e.text("tool_name"), e.text("message_id"))
	}
}

// count remembers the numbers of the event. Those of a large event are not known: count assumes
// the next ones.
func (d *said) count(k kind, e event) {
	member := "seq"
	if k == kindResponses {
		member = "sequence_number"
	}
	advance := func(next *int64, value []byte) {
		switch i := jsonspan.SmallInt(value); {
		case !e.large:
			*next = max(*next, i+1)
		case *next > 0:
			*next++
		}
	}
	advance(&d.id, e.ID)
	advance(&d.seq, e.number(member))
}

// remember sets *dst to the JSON value v if that is well formed and not too long.
func remember(dst *string, v []byte) {
	if len(v) > 0 && len(v) <= chunk.MaxEnvelope && *dst != string(v) && jsonspan.Valid(v) {
		*dst = string(v)
	}
}

// recordError remembers the message of an error event, which writeFailed repeats.
func (d *said) recordError(k kind, e event) {
	typ := e.at("type")
	isError := typ.Is(e.Data, `"error"`) || string(e.Event) == "error"
	if !isError && (chunk.IsNamed(e.Frame) || typ.Ok() || !e.at("error").IsSet(e.Data)) {
		return
	}
	if k == kindResponses {
		d.count(k, e)
	}
	for _, text := range [][]byte{e.text("error", "message"), e.text("error"), e.text("message")} {
		if text != nil && jsonspan.Valid(text) {
			d.message = string(jsonspan.Truncate(redact.Value(text), contract.MaxMessage))
			return
		}
	}
}

// recordTool remembers what an event of a run or of a session says of a tool. Tools have no ids there.
func (d *said) recordTool(name string, key, message []byte) {
	switch name {
	case "tool.started":
		d.start(openTool{key: string(key), data: string(message)})
	case "tool.completed", "tool.failed":
		d.end(string(key))
	}
}

const (
	itemAdded = responsePrefix + "output_item.added"
	itemDone  = responsePrefix + "output_item.done"
)

// recordItem remembers what an event of a response says of a tool. A call counts only if its arguments
// are there from its start on, so that no client is asked to run it. A tool has ended once there
// is an output: clients run a call that has none themselves.
func (d *said) recordItem(name string, e event) {
	typ, call, index := e.at("item", "type"), e.text("item", "call_id"), e.number("output_index")
	i := slices.IndexFunc(d.tools, func(t openTool) bool { // several calls may have the id
		return t.key == string(call) && (index == nil || t.index == string(index))
	})
	switch {
	case typ.Is(e.Data, `"function_call_output"`):
		d.end(string(call))
	case !typ.Is(e.Data, `"function_call"`) || e.text("item", "arguments") == nil:
	case i >= 0:
		d.tools[i].done = name == itemDone
	case name == itemAdded && e.at("item").Ok() && index != nil:
		d.start(openTool{key: string(call), data: string(e.at("item").Of(e.Data)), index: string(index)})
	}
}

// start remembers that the tool has started, if its values are well formed. Beyond
// contract.MaxOpenTools and MaxOpenBytes it forgets the tools that started first.
func (d *said) start(t openTool) {
	if t.key == "" || t.size() > contract.MaxOpenBytes || !jsonspan.Valid([]byte(t.key)) || t.data != "" && !jsonspan.Valid([]byte(t.data)) {
		return
	}
	d.tools = append(d.tools, t)
	n := 0
	for i := range d.tools {
		n += d.tools[i].size()
	}
	for len(d.tools) > contract.MaxOpenTools || n > contract.MaxOpenBytes {
		n -= d.tools[0].size()
		d.tools = slices.Delete(d.tools, 0, 1)
	}
}

// find returns the index of the tool that started first with the key, or -1.
func (d *said) find(key string) int {
	return slices.IndexFunc(d.tools, func(t openTool) bool { return t.key == key })
}

// end forgets the tool that started first with the key.
func (d *said) end(key string) {
	if i := d.find(key); i >= 0 {
		d.tools = slices.Delete(d.tools, i, i+1)
	}
}
