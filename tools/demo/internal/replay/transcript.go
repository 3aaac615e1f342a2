package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// toolEvent is the name of the events that say what a tool does.
const toolEvent = "hermes.tool.progress"

// chunk is what a chat client reads of a frame's data: a chunk of the answer,
// an error or a tool event.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Error *StreamError `json:"error"`

	Tool       string `json:"tool"`
	Emoji      string `json:"emoji"`
	Label      string `json:"label"`
	ToolCallID string `json:"toolCallId"`
	Status     string `json:"status"`
	// Interrupted says of a completed tool that the stream has ended in an error:
	// it is not known whether the tool has ended (contract section 2).
	Interrupted bool `json:"interrupted"`

	Item  json.RawMessage `json:"item"` // what Open WebUI makes a card of, nil for none
	Event struct {        // what Open WebUI shows above the message
		Data struct {
			Description string `json:"description"`
		} `json:"data"`
	} `json:"event"`
}

// A StreamError is an error that the server reports.
type StreamError struct {
	Message string `json:"message"`
	Code    string `json:"code"` // "" for none
}

// A Tool is a tool card of a chat client.
type Tool struct {
	ID                 string // the tool call id
	Name, Emoji, Label string // what the card shows
	Starts, Ends       int    // how many events said so: one each in a good stream
	Started, Ended     time.Time
	Interrupted        bool // the end of the stream ended it
}

// A Block is a piece of an answer: a tool card, a status, reasoning, or text.
type Block struct {
	Tool    *Tool  // the card, nil for others
	Status  string // what Open WebUI shows above the message, "" for others
	Thought bool   // Text is what the model thought
	Text    string // "" for a card and a status
}

// A Transcript is what a chat client has made of a stream so far.
type Transcript struct {
	Blocks []Block      // the pieces of the answer in their order
	Finish string       // the finish reason, "" while there is none
	Err    *StreamError // that the server reported, nil for none
	Done   bool         // [DONE] has come
	Ended  bool         // the stream is over
	Broken error        // what ended the stream when it did not end cleanly
	Frames []Frame      // that arrived
	// OpenWebUI says that the client knows cards and status lines instead of
	// Hermes' events, which it ignores.
	OpenWebUI bool
	// Faults are the things that no stream may contain, such as data that is
	// no JSON or a tool that ends without having started.
	Faults faults
}

// Add takes in a frame that arrived at now.
func (t *Transcript) Add(f Frame, now time.Time) {
	t.Frames = append(t.Frames, f)
	if f.Torn || !f.HasData {
		return
	}
	if f.Data == "[DONE]" {
		t.Done = true
		return
	}
	var c chunk
	if err := json.Unmarshal([]byte(f.Data), &c); err != nil {
		if t.OpenWebUI && f.Name != "" {
			return
		}
		t.Faults.add("the data of frame %d is no JSON object: %v", len(t.Frames), err)
		return
	}
	if c.Error != nil && t.Err == nil {
		t.Err = c.Error
	}
	if f.Name == toolEvent || c.ToolCallID != "" {
		if !t.OpenWebUI || c.Item != nil {
			t.tool(c, now)
		}
		return
	}
	if status := c.Event.Data.Description; t.OpenWebUI && status != "" {
		t.Blocks = append(t.Blocks, Block{Status: status})
	}
	for _, choice := range c.Choices {
		t.say(choice.Delta.ReasoningContent, true)
		t.say(choice.Delta.Content, false)
		if choice.FinishReason != "" {
			t.Finish = choice.FinishReason
		}
	}
}

// End takes in the end of the stream: nil for a clean one.
func (t *Transcript) End(err error) {
	t.Ended, t.Broken = true, err
}

// Content is the text of the whole answer.
func (t *Transcript) Content() string { return t.join(false) }

// Reasoning is what the model thought in the whole answer.
func (t *Transcript) Reasoning() string { return t.join(true) }

// join joins the texts of all blocks that are thought, or are not.
func (t *Transcript) join(thought bool) string {
	var b strings.Builder
	for _, block := range t.Blocks {
		if block.Thought == thought {
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// Tools are the tool cards.
func (t *Transcript) Tools() []*Tool {
	var tools []*Tool
	for _, block := range t.Blocks {
		if block.Tool != nil {
			tools = append(tools, block.Tool)
		}
	}
	return tools
}

// say appends a text to the answer: to its last block if that has such text.
func (t *Transcript) say(s string, thought bool) {
	if s == "" {
		return
	}
	if n := len(t.Blocks); n == 0 || t.Blocks[n-1].Tool != nil || t.Blocks[n-1].Status != "" || t.Blocks[n-1].Thought != thought {
		t.Blocks = append(t.Blocks, Block{Thought: thought})
	}
	t.Blocks[len(t.Blocks)-1].Text += s
}

// tool opens or updates a tool card.
func (t *Transcript) tool(c chunk, now time.Time) {
	tools := t.Tools()
	if c.ToolCallID == "" && c.Status == "" { // before Hermes 0.12 an event is a start, and no more
		c.ToolCallID, c.Status = fmt.Sprint(len(tools)), "running"
	}
	i := slices.IndexFunc(tools, func(tool *Tool) bool { return tool.ID == c.ToolCallID })
	switch {
	case c.Status == "running" && i < 0:
		t.Blocks = append(t.Blocks, Block{Tool: &Tool{
			ID: c.ToolCallID, Name: c.Tool, Emoji: c.Emoji, Label: c.Label, Starts: 1, Started: now,
		}})
	case c.Status == "running":
		tools[i].Starts++
	case c.Status == "completed" && i < 0:
		t.Faults.add("tool %q completed without having started", c.ToolCallID)
	case c.Status == "completed":
		if tools[i].Ends == 0 {
			tools[i].Ended, tools[i].Interrupted = now, c.Interrupted
		}
		tools[i].Ends++
	default:
		t.Faults.add("tool %q has the unknown status %q", c.ToolCallID, c.Status)
	}
}
