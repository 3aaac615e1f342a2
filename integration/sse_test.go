package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// An event is one frame of a decoded answer.
type event struct {
	raw  string // with its blank line
	name string // of the event: line
	data string
	*chunk
}

// A chunk has what the tests look at in the JSON of a frame.
type chunk struct {
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
	Error  *apiError    `json:"error"`
	Hermes *hermesBlock `json:"hermes"`

	Tool       string `json:"tool"`
	Emoji      string `json:"emoji"`
	Label      string `json:"label"`
	ToolCallID string `json:"toolCallId"`
	Status     string `json:"status"`
	Event      *struct {
		Type string `json:"type"`
		Data struct {
			Description string `json:"description"`
			Done        bool   `json:"done"`
		} `json:"data"`
	} `json:"event"`
}

// An apiError is the error object of the OpenAI API.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// A hermesBlock is what Hermes adds to the chunk of a failed run.
type hermesBlock struct {
	Completed bool   `json:"completed"`
	Partial   bool   `json:"partial"`
	Failed    bool   `json:"failed"`
	Error     string `json:"error"`
	ErrorCode string `json:"error_code"`
}

// A start is a tool that has begun.
type start struct{ emoji, label, tool string }

// An answer is what a client makes of a chat stream.
type answer struct {
	events    []event
	content   string
	reasoning string
	starts    []start
	finish    string    // finish reason, "" when none came
	last      *chunk    // the finish chunk
	err       *apiError // of the frame without choices, or of the finish chunk
	done      bool      // [DONE] has come
}

// decode reads a whole chat stream that the sidecar has sent, and wants of it
// what every client wants: LF framing, a blank line after every frame, one
// space after the colon, one data line, a chunk with choices or an error in
// each, and [DONE] as the last word.
func decode(t testing.TB, body string) *answer {
	t.Helper()
	a := &answer{}
	rest := body
	for rest != "" {
		raw, more, ok := strings.Cut(rest, "\n\n")
		if !ok {
			t.Errorf("the stream ends in an open frame: %q", clip(rest))
			return a
		}
		rest = more
		e, err := parse(raw + "\n\n")
		if err != nil {
			t.Errorf("%v in frame %q", err, clip(raw))
			continue
		}
		if a.done {
			t.Errorf("a frame after [DONE]: %q", clip(raw))
		}
		a.add(t, e)
	}
	return a
}

// parse decodes one frame strictly.
func parse(raw string) (event, error) {
	e := event{raw: raw}
	lines := strings.Split(strings.TrimSuffix(raw, "\n\n"), "\n")
	for _, l := range lines {
		switch {
		case strings.ContainsRune(l, '\r'):
			return e, fmt.Errorf("a CR")
		case strings.HasPrefix(l, "event: ") && e.name == "" && e.data == "":
			e.name = l[len("event: "):]
		case strings.HasPrefix(l, "data: ") && e.data == "":
			e.data = l[len("data: "):]
		case strings.HasPrefix(l, ": ") && len(lines) == 1:
		default:
			return e, fmt.Errorf("line %q", clip(l))
		}
	}
	if e.data == "" || e.data == "[DONE]" {
		return e, nil
	}
	e.chunk = &chunk{}
	if err := json.Unmarshal([]byte(e.data), e.chunk); err != nil {
		return e, err
	}
	return e, nil
}

func (a *answer) add(t testing.TB, e event) {
	t.Helper()
	a.events = append(a.events, e)
	switch {
	case e.data == "[DONE]":
		a.done = true
		return
	case e.chunk == nil:
		return
	}
	if e.Status == "running" {
		a.starts = append(a.starts, start{e.Emoji, e.Label, e.Tool})
	}
	if e.Error != nil {
		if a.err != nil {
			t.Errorf("a second error: %q", clip(e.raw))
		}
		a.err = e.Error
	}
	for _, c := range e.Choices {
		a.content += c.Delta.Content
		a.reasoning += c.Delta.ReasoningContent
		if c.FinishReason != "" {
			if a.finish != "" {
				t.Errorf("a second finish: %q", clip(e.raw))
			}
			a.finish, a.last = c.FinishReason, e.chunk
		}
	}
}

// names are the frames in short, in their order: what came before what.
func (a *answer) names() []string {
	var names []string
	for _, e := range a.events {
		switch {
		case e.data == "[DONE]":
			names = append(names, "done")
		case e.chunk == nil:
			names = append(names, "comment")
		case e.Status != "":
			names = append(names, e.Status)
		case e.finishes():
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

func (e event) finishes() bool {
	return e.chunk != nil && len(e.Choices) > 0 && e.Choices[0].FinishReason != ""
}

// checkLifecycle wants of the tool events what contract section 2 says of every
// stream in the form envelope: ids that are unique, one completed for every
// running, after it and before the finish, in the envelope of the chunks around.
func (a *answer) checkLifecycle(t testing.TB) {
	t.Helper()
	open, seen := map[string]bool{}, map[string]bool{}
	var first *chunk
	finished := false
	for _, e := range a.events {
		if e.chunk == nil || e.Error != nil && len(e.Choices) == 0 {
			continue
		}
		if first == nil {
			first = e.chunk
		}
		finished = finished || e.finishes()
		if e.ID != first.ID || e.Created != first.Created || e.Model != first.Model || e.Object != "chat.completion.chunk" {
			t.Errorf("a frame outside the stream's envelope: %q", clip(e.raw))
		}
		if e.Status == "" {
			continue
		}
		if e.name != "hermes.tool.progress" || len(e.Choices) != 1 || e.Tool == "" || strings.HasPrefix(e.Tool, "_") {
			t.Errorf("not the form of a tool event: %q", clip(e.raw))
		}
		if finished {
			t.Errorf("a tool event after the finish: %q", clip(e.raw))
		}
		switch e.Status {
		case "running":
			if e.ToolCallID == "" || seen[e.ToolCallID] {
				t.Errorf("id %q is empty or not unique", e.ToolCallID)
			}
			open[e.ToolCallID], seen[e.ToolCallID] = true, true
		case "completed":
			if !open[e.ToolCallID] {
				t.Errorf("completed without a running tool: %q", clip(e.raw))
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

// checkError wants the error finish of contract section 3 with a code.
func (a *answer) checkError(t testing.TB, code string) {
	t.Helper()
	if n := len(a.events); n < 3 || !a.done || !a.events[n-2].finishes() || a.events[n-3].chunk == nil ||
		a.events[n-3].Error == nil || len(a.events[n-3].Choices) != 0 {
		t.Errorf("not an error, a finish chunk and [DONE], but %v", a.names())
		return
	}
	if a.finish != "error" || a.last.Error != nil || a.last.Hermes == nil {
		t.Errorf("finish chunk %q", clip(a.events[len(a.events)-2].raw))
		return
	}
	if a.err.Message == "" || a.err.Type == "" || a.err.Code != code {
		t.Errorf("error %+v, want code %s", *a.err, code)
	}
	partial := strings.TrimSpace(a.content+a.reasoning) != ""
	// An upstream that failed without a message keeps its empty one in the block.
	if h := a.last.Hermes; !h.Failed || h.Error != a.err.Message && (h.Error != "" || code != "agent_error") {
		t.Errorf("hermes block %+v, want error %q", *h, a.err.Message)
	} else if code != "agent_error" && (h.Completed || h.Partial != partial) {
		t.Errorf("hermes block %+v, want partial %v", *h, partial)
	}
	a.checkLifecycle(t)
}

// checkGood wants the end that a client takes for a success.
func (a *answer) checkGood(t testing.TB) {
	t.Helper()
	if a.err != nil || !a.done || a.finish != "stop" {
		t.Errorf("finish %q, error %+v, done %v; want a success", a.finish, a.err, a.done)
	}
	a.checkLifecycle(t)
}

// clip shortens what a failure prints.
func clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}
