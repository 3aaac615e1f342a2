package encode

import (
	"fmt"
	"regexp"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Cards. Open WebUI draws a tool as a card if a chunk has the members of an event of the
// Responses API beside its own, with a call as the item. It takes a call without an output
// for one that it must run itself, and asks upstream again. So each card gets its output
// right after the tool's completed event (contract section 2).

const (
	// MaxCardID is the length in bytes of the longest tool call id that gets a card. A
	// card repeats it.
	MaxCardID = 1 << 10
	// MaxCardName is the number of characters of a card's name.
	MaxCardName = 80
)

// itemHead begins the members of a card. The large index puts the card after
// all that has been said so far.
const itemHead = `,"type":"response.output_item.added","output_index":1000000,"item":{"type":"`

// HasCards reports whether tools get cards.
func (w *Writer) HasCards() bool { return w.o.Cards && w.Envelops() }

// card returns the members that make a card of the event of t, none if it has no card. Open WebUI
// shows the name of the item. In later requests it sends provider_function instead, if there is
// one: an API takes no emoji in the name of a function, and the chat may go on with another model.
func (t *Transition) card() []byte {
	if !t.Card {
		return nil
	}
	_, status, _ := t.outcome()
	function := `"tool"`
	if functions.MatchString(t.Name) {
		function = t.Name
	}
	name := t.name
	if t.Waits {
		name = quoted(MaxCardName, `"`+waitsName+`"`, t.says())
	}
	return fmt.Appendf(nil, itemHead+`function_call","id":%s,"call_id":%[1]s,"name":%s,"arguments":%s,`+
		`"provider_function":{"name":%s,"arguments":%[3]s},"status":"%[5]s"}`,
		t.ID, name, t.arguments, function, status)
}

// CardEvent is the name of the output of a card, which readers of named events pass over.
const CardEvent = "hermes.card"

// cardOutput writes the output of the card of t, which has ended. It is a chunk that no
// client takes for another tool event, and has a name in the form that names events.
func (w *Writer) cardOutput(t *Transition) {
	_, status, text := t.outcome()
	if w.Form == contract.ProgressEnvelope {
		w.own("event: " + CardEvent + "\n")
	}
	w.chunk(nothing, itemHead+`function_call_output","id":"fco_`, t.ID[1:], `,"call_id":`, t.ID,
		`,"output":[{"type":"input_text","text":"`, text, `"}],"status":"`, status, `"}`)
}

// functions matches the JSON strings that an API allows as the name of a function.
var functions = regexp.MustCompile(`^"[-_0-9A-Za-z]{1,64}"$`)

// HasCard reports whether another sidecar has made a card of the tool event x.
func HasCard(x *chunk.Object) bool {
	id := ItemID(x, "function_call")
	return id != nil && string(id) == string(jsonspan.Plain(x.String(x.C.CallID)))
}

// ItemID returns the id of the call, a JSON string without escapes, that the item of the type
// in x names, or nil.
func ItemID(x *chunk.Object, kind string) []byte {
	if !x.C.Extra {
		return nil
	}
	item := x.Member("item")
	if jsonspan.Unquote(string(x.Value(jsonspan.MemberOf(x.F.Data, item, "type")))) != kind {
		return nil
	}
	return jsonspan.Plain(x.String(jsonspan.MemberOf(x.F.Data, item, "call_id")))
}

// IsInterrupted reports whether the tool event x says that its tool was interrupted.
func IsInterrupted(x *chunk.Object) bool {
	return x.C.Extra && x.Member("interrupted").Is(x.F.Data, "true")
}
