package rewrite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A wireItem is an item of a card as Open WebUI reads it.
type wireItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status"`
	Output    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"output"`
}

// A card is what Open WebUI makes of the items of one call.
type card struct {
	started, ended wireItem
	output         *wireItem
	at             int // the item in view.order
}

// cardsOf reads the cards of a stream strictly, in the order in which they begin: each
// call comes once with each of its statuses, then its output, all before the finish
// chunk.
func cardsOf(t testing.TB, stream string) (all []*card) {
	t.Helper()
	byID := map[string]*card{}
	finished := false
	for _, e := range decode(stream) {
		var c struct {
			wireChunk
			Type  string    `json:"type"`
			Index int       `json:"output_index"`
			Item  *wireItem `json:"item"`
		}
		if e.data == "[DONE]" || json.Unmarshal([]byte(e.data), &c) != nil {
			continue
		}
		for _, choice := range c.Choices {
			finished = finished || choice.FinishReason != nil && *choice.FinishReason != ""
		}
		if len(c.Error) > 0 {
			finished = true
		}
		if c.Item == nil {
			if c.Status != nil && c.ToolCallID != nil && len(*c.ToolCallID) <= maxCardID-2 {
				t.Errorf("a tool event without a card: %s", e.data)
			}
			continue
		}
		switch i := c.Item; {
		case finished:
			t.Errorf("an item behind the finish: %s", e.data)
		case c.Type != "response.output_item.added" || c.Index != 1000000 || *c.Object != "chat.completion.chunk" || len(c.Choices) != 1:
			t.Errorf("an item in %s", e.data)
		case i.Type == "function_call" && i.Status == "in_progress":
			if byID[i.CallID] != nil || *c.Status != "running" {
				t.Errorf("a call begins in %s", e.data)
			}
			one := &card{started: *i}
			byID[i.CallID] = one
			all = append(all, one)
		case i.Type == "function_call":
			one := byID[i.CallID]
			if one == nil || one.ended.ID != "" || *c.Status != "completed" || c.Interrupted != (i.Status == "incomplete") || i.Status != "completed" && i.Status != "incomplete" {
				t.Fatalf("a call ends in %s", e.data)
			}
			one.ended = *i
			want := one.started
			if want.Status = i.Status; c.Interrupted {
				want.Name = "⚠️ " + want.Name
			}
			if fmt.Sprint(*i) != fmt.Sprint(want) {
				t.Errorf("a call ends as %+v, not %+v", *i, want)
			}
		case i.Type == "function_call_output":
			one := byID[i.CallID]
			if one == nil || one.ended.ID == "" || one.output != nil || e.name != "message" || c.Tool != nil || c.Status != nil {
				t.Fatalf("an output in %s", e.data)
			}
			one.output = i
			text := "completed"
			if i.Status == "incomplete" {
				text = "interrupted"
			}
			if i.Status != one.ended.Status || len(i.Output) != 1 || i.Output[0].Type != "input_text" || i.Output[0].Text != text || i.ID == i.CallID {
				t.Errorf("an output in %s", e.data)
			}
		default:
			t.Errorf("an item in %s", e.data)
		}
	}
	for _, one := range all {
		if one.output == nil {
			t.Errorf("a call without an output: %+v\n%s", *one, stream)
		}
	}
	return all
}

// label returns the label in the arguments of a call.
func (i *wireItem) label(t testing.TB) string {
	t.Helper()
	var args map[string]string
	if err := json.Unmarshal([]byte(i.Arguments), &args); err != nil || len(args) != 1 || !strings.HasPrefix(i.Arguments, `{"label": "`) {
		t.Errorf("arguments %q: %v", i.Arguments, err)
	}
	return args["label"]
}

var cardForms = []Progress{ProgressEnvelope, ProgressUnnamed}

// The frames of a card, byte for byte.
func TestCards(t *testing.T) {
	const (
		call   = `,"type":"response.output_item.added","output_index":1000000,"item":{"type":"function_call","id":"call_1","call_id":"call_1","name":"💻 ls -la","arguments":"{\"label\": \"ls -la\"}","status":`
		output = `"type":"response.output_item.added","output_index":1000000,"item":{"type":"function_call_output","id":"fco_call_1","call_id":"call_1","output":[{"type":"input_text","text":"completed"}],"status":"completed"}}`
	)
	in := role() + g2Start("terminal", "💻", "ls -la", "call_1") + g2End("terminal", "call_1") + text("x") + stop()
	for _, form := range cardForms {
		event := "event: hermes.tool.progress\n"
		if form == ProgressUnnamed {
			event = ""
		}
		want := role() +
			event + `data: {` + envelopeWritten + `,"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls -la", "toolCallId": "call_1", "status": "running"` + call + `"in_progress"}}` + "\n\n" +
			event + `data: {` + envelopeWritten + `,"tool": "terminal", "toolCallId": "call_1", "status": "completed"` + call + `"completed"}}` + "\n\n" +
			`data: {` + envelopeWritten + `,` + output + "\n\n" +
			text("x") + stop()
		same(t, repairWith(in, Options{Cards: true, Progress: form}), want, string(form)+": bytes")
	}
	broken := repairWith(role()+g2Start("terminal", "💻", "ls -la", "call_1"), Options{Cards: true})
	for _, want := range []string{
		`"status":"completed","interrupted":true` + strings.Replace(call, `"name":"`, `"name":"⚠️ `, 1) + `"incomplete"}}` + "\n\ndata: {" + envelopeWritten + "," +
			strings.NewReplacer(`"text":"completed"`, `"text":"interrupted"`, `"status":"completed"`, `"status":"incomplete"`).Replace(output) + "\n\ndata: {\"error\"",
	} {
		if !strings.Contains(broken, want) {
			t.Errorf("no %s in\n%s", want, broken)
		}
	}
}

// In the other forms, and without the option, there are none.
func TestNoCards(t *testing.T) {
	for _, r := range chats(t, "g0-v0.8.0", "g1-v0.9.0", "g2-v0.13.0", "g3-v0.20.3", "g4-transcribed") {
		for _, form := range ProgressForms() {
			if form == ProgressEnvelope || form == ProgressUnnamed {
				continue
			}
			same(t, repairWith(r.body, Options{Progress: form, Cards: true}), repairWith(r.body, Options{Progress: form}), r.name()+", "+string(form))
		}
		if out := repair(r.body); strings.Contains(out, "output_item") {
			t.Errorf("%s: cards although they are off", r.name())
		}
	}
}
