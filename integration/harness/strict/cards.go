package strict

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// An Item is what Open WebUI makes a card of: a call, or its output.
type Item struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Provider  struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"provider_function"`
	Status string `json:"status"`
	Output []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"output"`
}

// functionName is what the API allows as the name of a function.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// A Card is a call with what became of it.
type Card struct {
	Name   string // while it runs
	Label  string // of its arguments
	Output string
}

// Cards reads the cards of an answer as Open WebUI does, which takes a call without an
// output for one that it must run. It wants of them what contract section 2 says: each
// tool event has the call once, with the event's status and otherwise the same, and
// each call one output, behind its end and before the finish.
func (a *Answer) Cards(t testing.TB) (cards []Card) {
	t.Helper()
	type state struct {
		running, ended, output Item
	}
	calls := map[string]*state{}
	var order []*state
	finished := false
	for _, e := range a.Events {
		if e.Chunk == nil {
			continue
		}
		finished = finished || e.Finishes() || e.Error != nil
		if e.Item == nil {
			if e.Status != "" {
				t.Errorf("a tool event without a card: %q", harness.Clip(e.Raw))
			}
			continue
		}
		i := *e.Item
		call := calls[i.CallID]
		if e.Type != "response.output_item.added" || e.OutputIndex < 1000 || finished || len(e.Choices) != 1 {
			t.Errorf("not the form of a card: %q", harness.Clip(e.Raw))
		}
		status := map[bool]string{false: "completed", true: "incomplete"}[e.Interrupted]
		switch {
		case e.Status == "running" && i.Type == "function_call" && i.Status == "in_progress" && i.CallID == e.ToolCallID && call == nil:
			calls[i.CallID] = &state{running: i}
			order = append(order, calls[i.CallID])
		case e.Status == "completed" && i.Type == "function_call" && i.Status == status && i.CallID == e.ToolCallID && call != nil && call.ended.ID == "":
			call.ended = i
		case e.Status == "" && e.Name == "" && i.Type == "function_call_output" && call != nil && i.Status == call.ended.Status && call.output.ID == "" && len(i.Output) == 1:
			call.output = i
		default:
			t.Errorf("a card at the wrong place: %q", harness.Clip(e.Raw))
		}
	}
	ids := map[string]bool{}
	for _, c := range order {
		if c.output.ID == "" {
			t.Errorf("call %s has no output", c.running.CallID)
			continue
		}
		ended := c.ended
		ended.Status = c.running.Status
		var arguments map[string]string
		if err := json.Unmarshal([]byte(c.running.Arguments), &arguments); err != nil || len(arguments) != 1 || !reflect.DeepEqual(ended, c.running) ||
			ids[c.running.ID] || ids[c.output.ID] || c.running.ID == c.output.ID ||
			c.running.Provider.Arguments != c.running.Arguments || !functionName.MatchString(c.running.Provider.Name) {
			t.Errorf("a card of %+v, %+v, %+v", c.running, c.ended, c.output)
		}
		ids[c.running.ID], ids[c.output.ID] = true, true
		cards = append(cards, Card{c.running.Name, arguments["label"], c.output.Output[0].Text})
	}
	return cards
}
