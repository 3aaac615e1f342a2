package whole

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/record"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/tooltext"
)

// Hermes drops the tool calls of a history, so that the agent does not know what it has done. The
// user's message after an answer during which tools ran begins with a record of them (contract
// section 8). Calls that the request itself has count, or else what the sidecar has seen of that
// answer. Texts prove nothing.

// Recall puts records in front of the user's messages of a request for chat completions. It returns a copy, or
// healed itself if there are no records. The body healed is that of original, whose messages and depth a Reader has read; left are its messages if
// it is not original itself. sound says that original is known to be well formed; given is as for Heal.
//
// A request that has a record is left alone. The result is the same for each later request of the
// conversation, as far as that shows the same messages and m knows the same.
func (c *Changes) Recall(original, healed []byte, messages, left *Messages, depth int, sound bool, given map[string]bool, m contract.Memory, results bool) []byte {
	same := len(healed) == 0 || &original[0] == &healed[0]
	calls := depth >= len("{[{[{{") && (bytes.Contains(original, []byte("tool_calls")) || bytes.Contains(original, []byte(`\u00`)))
	if !calls && m.Empty() {
		past := messages.past(original)
		if !same {
			messages = left
		}
		if c.Turn = messages.turn(healed); c.Turn.Question != 0 {
			c.Turn.Past = past
		}
		return healed
	}
	r := recaller{memory: m, turns: newTurns(original, messages.at), records: record.Records{Results: results}}
	if may := marker.MayAsk(original); may || len(given) > 0 {
		r.secrets = &secrets{given: given}
		r.secrets.Known = r.secrets.known
		marker.Secrets(original, r.secrets.add)
	}
	shown := &r.turns
	if !same {
		w := newTurns(healed, jsonspan.MemberIn(healed, "messages"))
		shown = &w
	}
	r.recall(shown, calls)
	if c.Turn = shown.asked(); c.Turn.Question != 0 {
		c.Turn.Past = r.asks.Past
	}
	if len(r.records.All()) == 0 || r.hasOne || !sound && !(jsonspan.Valid(original) && utf8.Valid(original)) {
		return healed
	}
	for _, record := range r.records.All() {
		if record.FromMemory {
			c.FromMemory++
		} else {
			c.FromRequest++
		}
	}
	return insertRecords(healed, r.records.All(), !same)
}

// recaller goes once over the messages of a request, and makes its records.
type recaller struct {
	memory  contract.Memory
	secrets *secrets // nil if there are none
	turns            // of the original body, which has the cards
	tools   record.Tools
	cards   map[string]cardKind // by their ids: the calls among them that are cards
	records record.Records
	hasOne  bool                                     // the request has a record already
	cleaned map[*contract.ToolRun][]contract.ToolRun // what clean has returned, by the first tool of what it was given
}

// recall makes the records for the user's messages that shown goes over. calls says that there may be tool
// calls.
func (r *recaller) recall(shown *turns, calls bool) {
	if calls {
		r.each = r.read
	}
	var held []contract.ToolRun // that ran before messages that say nothing
	for {
		r.tools, r.cards = record.Tools{}, nil
		more := r.next()
		if shown != &r.turns {
			shown.next()
		}
		if !more {
			return
		}
		at, hasOne := placeOf(shown.b, shown.content)
		r.hasOne = r.hasOne || hasOne
		ran, fromMemory := r.tools.Runs(), false
		if len(ran) == 0 {
			ran = r.clean(r.known(shown))
			fromMemory = len(ran) > 0
		}
		if at == 0 {
			held = append(held, ran...)
			continue
		}
		if len(held) > 0 {
			ran, held, fromMemory = append(held, ran...), nil, false
		}
		if len(ran) > 0 {
			r.records.Add(at, fromMemory, ran)
		}
	}
}

// known returns what the memory knows of the answer that shown and the original body show. A marker may have
// stayed in the answer, which leaves histories.
func (r *recaller) known(shown *turns) []contract.ToolRun {
	t := shown.last
	if !shown.answered || t.Question == 0 {
		return nil
	}
	t.Past = r.last.Past // of what the client has sent, with its cards
	ran := r.memory.Recall(t)
	if t.Answer != r.last.Answer && len(ran) == 0 {
		t.Answer = r.last.Answer
		ran = r.memory.Recall(t)
	}
	return ran
}

// placeOf returns where a record goes in the content at v of a user's message, which says something: into
// the string, or in front of the first part. It returns 0 if none goes there. hasOne reports whether
// there is one.
func placeOf(b []byte, v jsonspan.Span) (at int, hasOne bool) {
	switch {
	case v.IsString(b):
		if text := v.Inner().Of(b); jsonspan.HasText(text) {
			return v.From + 1, begins(text, record.Head)
		}
	case v.Ok() && b[v.From] == '[':
		for part := range jsonspan.Elements(b, v) {
			text := textOf(b, part)
			return v.From + 1, text.IsString(b) && begins(text.Inner().Of(b), record.Head)
		}
	}
	return 0, false
}

// insertRecords returns body with the records. own says that body is no other's, so that it may be
// written to.
func insertRecords(body []byte, records []record.Record, own bool) []byte {
	const part, rest, gap = `{"type":"text","text":"`, `"},`, `\n\n`
	n := len(body)
	for i := range records {
		r := &records[i]
		if body[r.At-1] == '"' {
			r.Text = append(r.Text, gap...)
		} else {
			r.Text = append(append([]byte(part), r.Text...), rest...)
		}
		n += len(r.Text)
	}
	out := body
	if !own || cap(body) < n {
		out = make([]byte, n)
	}
	out = out[:n]
	for end, i := len(body), len(records)-1; i >= 0; i-- { // from the end, because it may be the same array
		r := &records[i]
		n -= end - r.At
		copy(out[n:], body[r.At:end])
		n -= len(r.Text)
		copy(out[n:], r.Text)
		end = r.At
	}
	copy(out, body[:records[0].At])
	return out
}

// clean returns tools that the memory knows without what answers requests for approval.
func (r *recaller) clean(ran []contract.ToolRun) []contract.ToolRun {
	if r.secrets == nil || len(ran) == 0 {
		return ran
	}
	if out, ok := r.cleaned[&ran[0]]; ok {
		return out
	}
	out := make([]contract.ToolRun, len(ran))
	for i, t := range ran {
		t.Name = r.without(t.Name)
		for _, v := range []*string{&t.Args, &t.Result} {
			if text := r.without(*v); text != *v {
				*v = record.Quote(text)
			}
		}
		out[i] = t
	}
	if r.cleaned == nil {
		r.cleaned = map[*contract.ToolRun][]contract.ToolRun{}
	}
	r.cleaned[&ran[0]] = out
	return out
}

// without returns a text without what answers requests for approval.
func (r *recaller) without(text string) string {
	if r.secrets == nil {
		return text
	}
	inner := jsonspan.Inside(jsonspan.Quote(text))
	if rest, n := r.secrets.withoutApprovals(inner, false); n > 0 {
		return string(jsonspan.AppendText(nil, rest))
	}
	return text
}

// read reads the tool calls of an assistant's message, and what tools have returned.
func (r *recaller) read(m *spoken) {
	if Spells(r.b, m.role, "assistant") {
		r.readCalls(m.calls)
	}
	if !m.id.IsString(r.b) || !Spells(r.b, m.role, "tool") {
		return
	}
	var said []byte
	for text := range texts(r.b, m.content) {
		said = jsonspan.AppendText(said, jsonspan.Head(text, max(0, maxCallText-len(said))))
	}
	id := r.text(m.id)
	r.tools.End(id, endOf(r.without(string(said)), r.cards[id]))
}

// readCalls reads the tool calls at v.
func (r *recaller) readCalls(v jsonspan.Span) {
	for call := range jsonspan.Elements(r.b, v) {
		function := jsonspan.MemberOf(r.b, call, "function")
		c := record.Call{ID: r.text(jsonspan.MemberOf(r.b, call, "id")), Name: r.without(r.text(jsonspan.MemberOf(r.b, function, "name")))}
		if c.Name == "" {
			continue
		}
		arguments := []byte(r.text(jsonspan.MemberOf(r.b, function, "arguments")))
		c.Args = r.without(string(arguments))
		label, args, kind := cardArguments(arguments)
		switch {
		case kind != noCard:
			c.Label, c.Args = r.without(jsonspan.Unquote(label.Of(arguments))), ""
			if args.IsSet(arguments) {
				c.Args = r.without(string(args.Of(arguments)))
			}
		case isShown(c.Name, arguments):
			kind = cardWithResult
		}
		if kind != noCard {
			if r.cards == nil {
				r.cards = map[string]cardKind{}
			}
			r.cards[c.ID] = kind
		}
		r.tools.Start(c)
	}
}

// maxCallText is the length in bytes, as JSON, of what is read of a call's arguments, and of what it returned.
const maxCallText = 256 << 10

// text returns the text of the string at v, "" if it is none.
func (r *recaller) text(v jsonspan.Span) string {
	if !v.IsString(r.b) {
		return ""
	}
	return string(jsonspan.AppendText(nil, jsonspan.Head(v.Inner().Of(r.b), maxCallText)))
}

// cardKind says what the output of a card says.
type cardKind uint8

const (
	noCard         cardKind = iota
	cardWithStatus          // how the tool has ended
	cardWithResult          // what the tool has returned, behind the status if it begins like one or that is not completed
)

// cardArguments returns where the label is and what the tool was given, in arguments that are those of a card:
// an object with nothing but a label and, if details are known, args.
func cardArguments(arguments []byte) (label, args jsonspan.Span, kind cardKind) {
	v := jsonspan.ObjectIn(arguments)
	if !v.IsObject(arguments) || !jsonspan.Valid(arguments) {
		return label, args, noCard
	}
	for name, value := range jsonspan.Members(arguments, v) {
		switch {
		case name.Is(arguments, "label") && kind == noCard && value.IsString(arguments):
			label, kind = value, cardWithStatus
		case name.Is(arguments, "args") && kind == cardWithStatus:
			args, kind = value, cardWithResult
		default:
			return label, args, noCard
		}
	}
	return label, args, kind
}

// endOf returns how a tool has ended that has returned the text, which may say no more than that. Only cards
// have a status that the sidecar has written: any other text is the tool's.
func endOf(text string, kind cardKind) record.Ended {
	first, result, more := strings.Cut(text, "\n")
	isError := strings.HasPrefix(text, "Error:")
	isStatus := contract.IsCardOutput(first) && (kind == cardWithStatus || kind == cardWithResult && (isError || first == contract.Completed))
	switch {
	case isStatus && !more:
		return record.Ended{Status: contract.CardStatus(first)}
	case isStatus && (isError || kind == cardWithResult):
		return record.Ended{Status: contract.CardStatus(first), Result: &result}
	case isError, tooltext.Failed(text):
		return record.Ended{Status: "failed", Result: &text}
	}
	return record.Ended{Status: contract.Completed, Result: &text}
}
