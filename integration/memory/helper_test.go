// Package memory has tests of what an agent is told of the tools that ran during its earlier answers (wire
// contract, section 8), with clients that keep histories of different kinds.
package memory

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// The lines around a record.
const (
	head = "[Note by the operator of this chat; the user did not write it. During the answer above, these tools ran:]\n"
	end  = "[End of the note. What follows is the user's.]"
)

// record returns the record with the lines.
func record(lines ...string) string { return head + strings.Join(lines, "\n") + "\n" + end + "\n\n" }

// message is a message of a request.
type message map[string]any

func user(text string) message      { return message{"role": "user", "content": text} }
func assistant(text string) message { return message{"role": "assistant", "content": text} }

// asker is a client of an agent behind a sidecar, with a chat of its own.
type asker struct {
	t      testing.TB
	agent  *hermes.Agent
	client *client.Client
	key    string
	cards  bool // it sends tools back as Open WebUI does
	chat   []message
}

// ask asks a question, during whose answer the agent takes the steps, and keeps the answer. The agent is to be
// sent what is before it, and then the question.
func (a *asker) ask(before, question string, steps ...hermes.Step) {
	a.t.Helper()
	a.agent.On(before+question, append(steps, hermes.Says("\n\nDone."))...)
	answer := a.send(question).Answer()
	answer.CheckGood(a.t)
	a.keep(question, answer.Events)
	if got := a.last().Prompt; got != before+question {
		a.t.Errorf("the agent was sent\n%q\nwant\n%q", got, before+question)
	}
}

// last returns the last request that the agent has got.
func (a *asker) last() hermes.Request {
	all := a.agent.Requests()
	return all[len(all)-1]
}

// send sends a question.
func (a *asker) send(question string) *client.Reply {
	a.t.Helper()
	messages := append(append([]message{{"role": "system", "content": "Be brief."}}, a.chat...), user(question))
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // as other languages write it
	if err := e.Encode(map[string]any{"model": "hermes-agent", "stream": true, "messages": messages}); err != nil {
		a.t.Fatal(err)
	}
	return a.client.Send(http.MethodPost, "/v1/chat/completions", &body, "Authorization", a.key)
}

// keep keeps an answer with the events.
func (a *asker) keep(question string, events []strict.Event) {
	a.chat = append(a.chat, user(question))
	if a.cards {
		a.chat = append(a.chat, cardsOf(events)...)
		return
	}
	text := ""
	for _, e := range events {
		if e.Chunk != nil && len(e.Choices) > 0 {
			text += e.Choices[0].Delta.Content
		}
	}
	a.chat = append(a.chat, assistant(strings.TrimSpace(text)))
}

// cardsOf returns the messages that Open WebUI makes of an answer with cards: a text with the calls after it,
// what they have returned, and so on.
func cardsOf(events []strict.Event) (all []message) {
	var (
		text    string
		calls   []any
		outputs []message
		done    = map[string]bool{} // by the id of a call: Open WebUI sends back no other
	)
	for _, e := range events {
		if e.Chunk != nil && e.Item != nil && e.Item.Type == "function_call" {
			done[e.Item.CallID] = e.Item.Status != "incomplete"
		}
	}
	flush := func() {
		if text = strings.TrimSpace(text); text == "" && calls == nil {
			return
		}
		m := assistant(text)
		if calls != nil {
			m["tool_calls"] = calls
		}
		all = append(append(all, m), outputs...)
		text, calls, outputs = "", nil, nil
	}
	for _, e := range events {
		if e.Chunk == nil {
			continue
		}
		for _, c := range e.Choices {
			if c.Delta.Content != "" && calls != nil {
				flush()
			}
			text += c.Delta.Content
		}
		var card struct {
			Item struct {
				Type     string                           `json:"type"`
				CallID   string                           `json:"call_id"`
				Function struct{ Name, Arguments string } `json:"provider_function"`
				Output   []struct{ Text string }          `json:"output"`
			} `json:"item"`
		}
		if json.Unmarshal([]byte(e.Data), &card) != nil {
			continue
		}
		switch i := card.Item; {
		case !done[i.CallID]:
		case i.Type == "function_call" && e.Status == "running":
			calls = append(calls, map[string]any{"id": i.CallID, "type": "function", "function": map[string]any{"name": i.Function.Name, "arguments": i.Function.Arguments}})
		case i.Type == "function_call_output":
			outputs = append(outputs, message{"role": "tool", "tool_call_id": i.CallID, "content": i.Output[0].Text})
		}
	}
	flush()
	return all
}
