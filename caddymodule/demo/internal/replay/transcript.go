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

// The states of a tool.
const (
	statusRunning   = "running"
	statusCompleted = "completed"
)

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
	// nobody knows whether the tool has ended (contract section 2).
	Interrupted bool `json:"interrupted"`
}

// A StreamError is an error that the server reports.
type StreamError struct {
	// Message says what happened.
	Message string `json:"message"`
	// Code is the kind of error, "" for none.
	Code string `json:"code"`
}

// A Tool is a tool card of a chat client.
type Tool struct {
	// ID is the tool call id.
	ID string
	// Name, Emoji and Label are what the card shows.
	Name, Emoji, Label string
	// Starts and Ends count the events that said so: one each in a good
	// stream.
	Starts, Ends int
	// Started and Ended are the times of the first such events.
	Started, Ended time.Time
	// Interrupted says that the end of the stream ended it, too: nobody knows
	// whether it has ended itself.
	Interrupted bool
}

// A Block is a piece of an answer: a tool card, reasoning, or text.
type Block struct {
	// Tool is the card, nil for text and reasoning.
	Tool *Tool
	// Reasoning is what the model thought, "" for a card and for text.
	Reasoning string
	// Text is the text, "" for a card and for reasoning.
	Text string
}

// A Transcript is what a chat client has made of a stream so far.
type Transcript struct {
	// Blocks are the pieces of the answer in their order.
	Blocks []Block
	// Finish is the finish reason, "" while there is none.
	Finish string
	// Err is the error that the server reported, nil for none.
	Err *StreamError
	// Done says that [DONE] has come.
	Done bool
	// Ended says that the stream is over.
	Ended bool
	// Broken is what ended the stream when it did not end cleanly.
	Broken error
	// Faults are the things that no stream may contain, such as data that is
	// no JSON or a tool that ends without having started.
	Faults []string
	// Frames are the frames that arrived.
	Frames []Frame
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
		t.fault("the data of frame %d is no JSON object: %v", len(t.Frames), err)
		return
	}
	if c.Error != nil && t.Err == nil {
		t.Err = c.Error
	}
	if f.Name == toolEvent || c.ToolCallID != "" {
		t.tool(c, now)
		return
	}
	for _, choice := range c.Choices {
		t.say(choice.Delta.ReasoningContent, reasoningOf)
		t.say(choice.Delta.Content, textOf)
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
func (t *Transcript) Content() string {
	return t.join(textOf)
}

// Reasoning is what the model thought in the whole answer.
func (t *Transcript) Reasoning() string {
	return t.join(reasoningOf)
}

// textOf and reasoningOf say which words of a block are meant.
func textOf(b *Block) *string      { return &b.Text }
func reasoningOf(b *Block) *string { return &b.Reasoning }

// join joins the words of all blocks.
func (t *Transcript) join(of func(*Block) *string) string {
	var b strings.Builder
	for i := range t.Blocks {
		b.WriteString(*of(&t.Blocks[i]))
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

// say appends words to the answer: to its last block if that has such words.
func (t *Transcript) say(s string, of func(*Block) *string) {
	if s == "" {
		return
	}
	if n := len(t.Blocks); n == 0 || *of(&t.Blocks[n-1]) == "" {
		t.Blocks = append(t.Blocks, Block{})
	}
	*of(&t.Blocks[len(t.Blocks)-1]) += s
}

// tool opens or updates a tool card.
func (t *Transcript) tool(c chunk, now time.Time) {
	tools := t.Tools()
	i := slices.IndexFunc(tools, func(tool *Tool) bool { return tool.ID == c.ToolCallID })
	switch {
	case c.Status == statusRunning && i < 0:
		t.Blocks = append(t.Blocks, Block{Tool: &Tool{
			ID: c.ToolCallID, Name: c.Tool, Emoji: c.Emoji, Label: c.Label, Starts: 1, Started: now,
		}})
	case c.Status == statusRunning:
		tools[i].Starts++
	case c.Status == statusCompleted && i < 0:
		t.fault("tool %q completed without having started", c.ToolCallID)
	case c.Status == statusCompleted:
		if tools[i].Ends == 0 {
			tools[i].Ended, tools[i].Interrupted = now, c.Interrupted
		}
		tools[i].Ends++
	default:
		t.fault("tool %q has the unknown status %q", c.ToolCallID, c.Status)
	}
}

func (t *Transcript) fault(format string, args ...any) {
	t.Faults = append(t.Faults, fmt.Sprintf(format, args...))
}
