package encode

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/tooltext"
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
func (w *Writer) HasCards() bool { return !w.o.NoCards && w.Envelops() }

// card returns the members that make a card of the event of t, none if it has no card. Open WebUI
// shows the name of the item. In later requests it sends provider_function instead, if there is
// one: an API takes no emoji in the name of a function, and the chat may go on with another model.
func (t *Transition) card() string {
	if !t.hasItem() {
		return ""
	}
	_, status, _ := t.outcome()
	name := t.name
	if t.Waits {
		name = quoted(MaxCardName, `"`+waitsName+`"`, t.says())
	}
	shown, back := t.cardArguments(name)
	return itemHead + `function_call","id":` + t.ID + `,"call_id":` + t.ID + `,"name":` + name + `,"arguments":` + shown +
		`,"provider_function":{"name":` + t.function + `,"arguments":` + back + `},"status":"` + status + `"}`
}

// hasItem reports whether the event of t makes a card, or changes one. A card that shows arguments
// keeps them if the end of the tool does not have them, because an item replaces the one before it.
func (t *Transition) hasItem() bool {
	return t.Card && (!t.Completed || !t.HasArgs || t.Waits || t.Details.Args != nil)
}

// cardArguments returns the arguments that Open WebUI shows, and those that it sends back in later
// requests, JSON strings. By the second, a sidecar knows the card again: they are an object with a label
// and, if details are known, args. Versions of Open WebUI that send back what they show send the name of
// the card as well: by that and by ShownEnd it is known, unless the name begins with no emoji.
func (t *Transition) cardArguments(name string) (shown, back string) {
	if t.Details.Args == nil && t.Details.Result == nil {
		return t.arguments, t.arguments
	}
	label := strings.TrimSuffix(jsonspan.Unquote(t.arguments), "}")
	args := tooltext.Args(tooltext.Of(t.Details.Args)) // upstream's own may be longer, or an array
	back = string(jsonspan.Quote(label + `, "args": ` + cmp.Or(string(args), "null") + "}"))
	if args == nil || !marker.BeginsWithEmoji(jsonspan.Unquote(name)) {
		return back, back
	}
	shown = string(tooltext.ShownArgs(args))
	return shown[:len(shown)-1] + contract.ShownEnd + `"`, back
}

// CardEvent is the name of the output of a card, which readers of named events pass over.
const CardEvent = "hermes.card"

// cardOutput writes the output of the card of t, which has ended. It is a chunk that no
// client mistakes for another tool event, and has a name in the form that names events.
func (w *Writer) cardOutput(t *Transition) {
	_, status, text := t.outcome()
	quoted := jsonspan.Quote(text)
	if d := &t.Details; d.Result != nil {
		quoted = t.shownResult(text)
	}
	if w.Form == contract.ProgressEnvelope {
		w.own("event: " + CardEvent + "\n")
	}
	w.chunk(nothing, itemHead+`function_call_output","id":"fco_`, t.ID[1:], `,"call_id":`, t.ID,
		`,"output":[{"type":"input_text","text":`, string(quoted), `}],"status":"`, status, `"}`)
}

// shownResult returns the output of a card with a result, a JSON string. outcome is the output that it has
// without one, which is the first line if the tool has not ended well, or if the result would be read as such
// a line.
func (t *Transition) shownResult(outcome string) []byte {
	result := tooltext.Of(t.Details.Result)
	first, _, _ := strings.Cut(strings.TrimSpace(result), "\n")
	switch {
	case outcome != contract.Completed:
		return tooltext.Shown(outcome+"\n", tooltext.Indent(result))
	case first == "":
		return jsonspan.Quote(outcome)
	case contract.IsCardOutput(strings.TrimSpace(first)):
		return tooltext.Shown(outcome+"\n", result)
	}
	return tooltext.Shown("", result)
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
	if jsonspan.Unquote(x.Value(jsonspan.MemberOf(x.F.Data, item, "type"))) != kind {
		return nil
	}
	return jsonspan.Plain(x.String(jsonspan.MemberOf(x.F.Data, item, "call_id")))
}

// IsInterrupted reports whether the tool event x says that its tool was interrupted.
func IsInterrupted(x *chunk.Object) bool {
	return x.C.Extra && x.Member("interrupted").Is(x.F.Data, "true")
}
