// Package strict is the independent oracle: it decodes a chat stream as the contract says that
// the sidecar writes it, and reports whatever is not so. It shares no code with the sidecar.
//
// Decode wants LF, a blank line after each frame, one data line with a chunk or [DONE], and
// nothing after that. The methods of Answer want more: the lifecycle of tools (contract
// section 2), the error finish (section 3), a good end.
package strict

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// An Event is one frame of a decoded answer.
type Event struct {
	Raw  string // with its blank line
	Name string // of the event: line
	Data string
	*Chunk
}

// A Chunk has what the tests look at in the JSON of a frame.
type Chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		TotalTokens int `json:"total_tokens"`
	} `json:"usage"`
	Error  *APIError    `json:"error"`
	Hermes *HermesBlock `json:"hermes"`

	Tool       string `json:"tool"`
	Emoji      string `json:"emoji"`
	Label      string `json:"label"`
	ToolCallID string `json:"toolCallId"`
	Status     string `json:"status"`

	Args   json.RawMessage `json:"args"`
	Result *string         `json:"result"`
	Failed bool            `json:"failed"`
	Type   string          `json:"type"`
	Item   *Item           `json:"item"`

	Event *struct {
		Type string `json:"type"`
		Data struct {
			Description string `json:"description"`
			Done        bool   `json:"done"`
		} `json:"data"`
	} `json:"event"`
}

// An APIError is the error object of the OpenAI API.
type APIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// A HermesBlock is what Hermes adds to the chunk of a failed run.
type HermesBlock struct {
	Completed bool   `json:"completed"`
	Partial   bool   `json:"partial"`
	Failed    bool   `json:"failed"`
	Error     string `json:"error"`
	ErrorCode string `json:"error_code"`
}

// A Start is a tool that has begun.
type Start struct{ Emoji, Label, Tool string }

// An Answer is what a client makes of a chat stream.
type Answer struct {
	Events    []Event
	Content   string
	Reasoning string
	Starts    []Start
	Finish    string    // finish reason, "" when none came
	Last      *Chunk    // the finish chunk
	Err       *APIError // of the frame without choices, or of the finish chunk
	Done      bool      // [DONE] has come
}

// Decode decodes a whole chat stream. It wants LF, a blank line after each frame, a space
// after each colon, one data line in a frame, a chunk in each, and nothing after [DONE].
func Decode(t testing.TB, body string) *Answer {
	t.Helper()
	a := &Answer{}
	for body != "" {
		raw, rest, ok := strings.Cut(body, "\n\n")
		if !ok {
			t.Errorf("the stream ends in an open frame: %q", harness.Clip(body))
			return a
		}
		body = rest
		e, err := Parse(raw + "\n\n")
		if err != nil {
			t.Errorf("%v in frame %q", err, harness.Clip(raw))
			continue
		}
		if a.Done {
			t.Errorf("a frame after [DONE]: %q", harness.Clip(raw))
		}
		a.add(t, e)
	}
	return a
}

// Parse decodes one frame strictly.
func Parse(raw string) (Event, error) {
	e, err := Split(raw)
	if err != nil || e.Data == "" || e.Data == "[DONE]" {
		return e, err
	}
	e.Chunk = &Chunk{}
	return e, json.Unmarshal([]byte(e.Data), e.Chunk)
}

// Split reads the lines of one frame strictly, and decodes no JSON.
func Split(raw string) (Event, error) {
	e := Event{Raw: raw}
	lines := strings.Split(strings.TrimSuffix(raw, "\n\n"), "\n")
	for _, l := range lines {
		switch {
		case strings.ContainsRune(l, '\r'):
			return e, fmt.Errorf("a CR")
		case strings.HasPrefix(l, "event: ") && e.Name == "" && e.Data == "":
			e.Name = l[len("event: "):]
		case strings.HasPrefix(l, "data: ") && e.Data == "":
			e.Data = l[len("data: "):]
		case strings.HasPrefix(l, ": ") && len(lines) == 1:
		default:
			return e, fmt.Errorf("line %q", harness.Clip(l))
		}
	}
	return e, nil
}

func (a *Answer) add(t testing.TB, e Event) {
	t.Helper()
	a.Events = append(a.Events, e)
	switch {
	case e.Data == "[DONE]":
		a.Done = true
		return
	case e.Chunk == nil:
		return
	}
	if e.Status == "running" {
		a.Starts = append(a.Starts, Start{e.Emoji, e.Label, e.Tool})
	}
	if e.Error != nil {
		if a.Err != nil {
			t.Errorf("a second error: %q", harness.Clip(e.Raw))
		}
		a.Err = e.Error
	}
	for _, c := range e.Choices {
		a.Content += c.Delta.Content
		a.Reasoning += c.Delta.ReasoningContent
		if c.FinishReason != "" {
			if a.Finish != "" {
				t.Errorf("a second finish: %q", harness.Clip(e.Raw))
			}
			a.Finish, a.Last = c.FinishReason, e.Chunk
		}
	}
}

// Names are the frames in short, in their order: what came before what.
func (a *Answer) Names() []string {
	var names []string
	for _, e := range a.Events {
		switch {
		case e.Data == "[DONE]":
			names = append(names, "done")
		case e.Chunk == nil:
			names = append(names, "comment")
		case e.Status != "":
			names = append(names, e.Status)
		case e.Finishes():
			names = append(names, "finish "+e.Choices[0].FinishReason)
		case e.Error != nil:
			names = append(names, "error")
		case len(e.Choices) > 0 && e.Choices[0].Delta.Content != "":
			names = append(names, "text")
		case len(e.Choices) > 0 && e.Choices[0].Delta.ReasoningContent != "":
			names = append(names, "reasoning")
		default:
			names = append(names, "chunk")
		}
	}
	return names
}

// saysNothing reports whether a chunk has no text, no tool and no end.
func (e Event) saysNothing() bool {
	if len(e.Choices) != 1 || e.Status != "" || e.Item != nil || e.Finishes() {
		return false
	}
	d := e.Choices[0].Delta
	return d.Content == "" && d.ReasoningContent == ""
}

// Finishes reports whether a chunk has a finish reason.
func (e Event) Finishes() bool {
	return e.Chunk != nil && len(e.Choices) > 0 && e.Choices[0].FinishReason != ""
}

// CheckLifecycle wants of the tool events what contract section 2 says of every
// stream in the form envelope: ids that are unique, one completed (or another end) for every
// running, after it and before the finish, in the envelope of the chunks around. What a client is told while it waits in line has no id.
func (a *Answer) CheckLifecycle(t testing.TB) {
	t.Helper()
	open, seen := map[string]bool{}, map[string]bool{}
	var first *Chunk
	finished := false
	for _, e := range a.Events {
		if e.Chunk == nil || e.Error != nil && len(e.Choices) == 0 {
			continue
		}
		if first == nil && e.ID == "" && e.saysNothing() {
			continue // the request waits in line: upstream's answer has not begun
		}
		if first == nil {
			first = e.Chunk
		}
		finished = finished || e.Finishes()
		if e.ID != first.ID || e.Created != first.Created || e.Model != first.Model || e.Object != "chat.completion.chunk" {
			t.Errorf("a frame outside the stream's envelope: %q", harness.Clip(e.Raw))
		}
		if e.Status == "" {
			continue
		}
		if e.Name != "hermes.tool.progress" || len(e.Choices) != 1 || e.Tool == "" || strings.HasPrefix(e.Tool, "_") {
			t.Errorf("not the form of a tool event: %q", harness.Clip(e.Raw))
		}
		if finished {
			t.Errorf("a tool event after the finish: %q", harness.Clip(e.Raw))
		}
		switch e.Status {
		case "running":
			if e.ToolCallID == "" || seen[e.ToolCallID] {
				t.Errorf("id %q is empty or not unique", e.ToolCallID)
			}
			open[e.ToolCallID], seen[e.ToolCallID] = true, true
		case "completed", "failed", "error", "cancelled", "denied", "interrupted":
			if !open[e.ToolCallID] {
				t.Errorf("completed without a running tool: %q", harness.Clip(e.Raw))
			}
			delete(open, e.ToolCallID)
		default:
			t.Errorf("status %q", e.Status)
		}
	}
	for id := range open {
		t.Errorf("tool %s never completes", id)
	}
}

// CheckError wants the error finish of contract section 3 with a code.
func (a *Answer) CheckError(t testing.TB, code string) {
	t.Helper()
	if n := len(a.Events); n < 3 || !a.Done || !a.Events[n-2].Finishes() || a.Events[n-3].Chunk == nil ||
		a.Events[n-3].Error == nil || len(a.Events[n-3].Choices) != 0 {
		t.Errorf("not an error, a finish chunk and [DONE], but %v", a.Names())
		return
	}
	if a.Finish != "error" || a.Last.Error != nil || a.Last.Hermes == nil {
		t.Errorf("finish chunk %q", harness.Clip(a.Events[len(a.Events)-2].Raw))
		return
	}
	if a.Err.Message == "" || a.Err.Type == "" || a.Err.Code != code {
		t.Errorf("error %+v, want code %s", *a.Err, code)
	}
	partial := strings.TrimSpace(a.Content+a.Reasoning) != ""
	// An upstream that failed without a message keeps its empty one in the block.
	if h := a.Last.Hermes; !h.Failed || h.Error != a.Err.Message && (h.Error != "" || code != "agent_error") {
		t.Errorf("hermes block %+v, want error %q", *h, a.Err.Message)
	} else if code != "agent_error" && (h.Completed || h.Partial != partial) {
		t.Errorf("hermes block %+v, want partial %v", *h, partial)
	}
	a.CheckLifecycle(t)
}

// CheckGood wants the end that a client takes for a success.
func (a *Answer) CheckGood(t testing.TB) {
	t.Helper()
	if a.Err != nil || !a.Done || a.Finish != "stop" {
		t.Errorf("finish %q, error %+v, done %v; want a success", a.Finish, a.Err, a.Done)
	}
	a.CheckLifecycle(t)
}

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
