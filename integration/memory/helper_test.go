// Package memory has tests of what an agent is told of the tools that ran during its earlier answers (wire
// contract, section 8), with clients that keep histories of different kinds.
package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
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

// agent is a Hermes that keeps what it was sent. Its answers depend on the user's last message alone, without
// a record: "run X" runs a tool with the label X, and any other runs none.
type agent struct {
	*upstream.Server
	mu     sync.Mutex
	bodies []string
	text   func(prompt string) string // of the answer
	steps  map[string][]hermes.Step   // of the answer to a prompt, or with "" of every other that runs nothing
}

func newAgent(t testing.TB) *agent {
	t.Helper()
	a := &agent{text: func(prompt string) string { return "I did: " + prompt + "." }}
	a.Server = upstream.New(t, func(x *upstream.Exchange) {
		var q struct{ Messages []struct{ Content any } }
		if json.Unmarshal(x.Body, &q) != nil || len(q.Messages) == 0 {
			upstream.AsJSON("404 Not Found", "{}")(x)
			return
		}
		a.mu.Lock()
		a.bodies = append(a.bodies, string(x.Body))
		n := len(a.bodies)
		a.mu.Unlock()
		last := q.Messages[len(q.Messages)-1].Content
		prompt, _ := last.(string)
		if parts, ok := last.([]any); ok {
			prompt, _ = parts[len(parts)-1].(map[string]any)["text"].(string)
		}
		if strings.HasPrefix(prompt, head) {
			_, prompt, _ = strings.Cut(prompt, "\n"+end+"\n\n")
		}
		if steps := cmp.Or(a.step(prompt), a.step("")); steps != nil && prompt != "go on" {
			upstream.Chat(*steps...)(x)
			return
		}
		steps := []hermes.Step{hermes.Says("Let me look.")}
		if label, runs := strings.CutPrefix(prompt, "run "); runs {
			id := fmt.Sprint("call_", n)
			steps = append(steps, hermes.Uses(hermes.Call{ID: id, Name: "terminal", Label: label}))
		}
		upstream.Chat(append(steps, hermes.Says("\n\n"+a.text(prompt)+"\n"))...)(x)
	})
	return a
}

func (a *agent) step(prompt string) *[]hermes.Step {
	if steps, ok := a.steps[prompt]; ok {
		return &steps
	}
	return nil
}

// last returns the messages of the last request, and its body.
func (a *agent) last() (all []message, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body = a.bodies[len(a.bodies)-1]
	var q struct{ Messages []message }
	_ = json.Unmarshal([]byte(body), &q)
	return q.Messages, body
}

// asker is a client with a chat of its own.
type asker struct {
	t      testing.TB
	c      *client.Client
	agent  *agent
	header []string
	cards  bool // it sends tools back as Open WebUI does
	chat   []message
}

// ask asks a question, and keeps the answer. It returns what the agent was sent as the question.
func (a *asker) ask(question string) (sent string) {
	a.t.Helper()
	answer := a.send(question).Answer()
	answer.CheckGood(a.t)
	a.chat = append(a.chat, user(question))
	if a.cards {
		a.chat = append(a.chat, cardsOf(answer.Events)...)
	} else {
		a.chat = append(a.chat, assistant(strings.TrimSpace(answer.Content)))
	}
	got, _ := a.agent.last()
	sent, _ = got[len(got)-1]["content"].(string)
	return sent
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
	return a.c.Send(http.MethodPost, "/v1/chat/completions", client.Body(body.String(), false), append([]string{"Content-Type", "application/json"}, a.header...)...)
}

// want checks what the agent was sent as the question.
func (a *asker) want(question, want string) {
	a.t.Helper()
	if got := a.ask(question); got != want {
		a.t.Errorf("the agent was sent\n%q\nwant\n%q", got, want)
	}
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
