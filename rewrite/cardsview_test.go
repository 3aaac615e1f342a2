package rewrite

import (
	"encoding/json"
	"fmt"
	"regexp"
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

// A card is what Open WebUI makes of the items of one call.
type card struct {
	started, ended wireItem
	output         *wireItem
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
			if i.Provider.Arguments != i.Arguments || !functionName.MatchString(i.Provider.Name) {
				t.Errorf("a call that an API does not accept: %s", e.data)
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
			want.Status = i.Status
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
				text = "Error: interrupted"
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

// cardOptions are options with cards.
func cardOptions() (os []Options) {
	for _, p := range cardForms {
		os = append(os, Options{Progress: p, Cards: true}, Options{Progress: p, Cards: true, StatusLine: true, Imitations: ImitationsTrust})
	}
	return os
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
