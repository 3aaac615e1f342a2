package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A check compares a stream with its scenario. Text may come in other pieces than it was sent
// in. Markers may stay in the text or leave it, but all of them alike, and those that leave must
// be tools with a beginning and an end.
type check struct {
	scenario
	text    strings.Builder // that has come
	read    int             // bytes of text in which stamps have been looked for
	latency []time.Duration // of each chunk of text
	open    bool            // all of a stream that does not end has come

	kept    int             // markers that stayed in the text
	running map[string]bool // the ids of tools that have begun and not ended
	ended   int             // tools

	finish string
	failed bool // an error has come
	done   bool // [DONE]
}

// event takes the data of an event that came at the time now.
func (c *check) event(data string, now time.Time) error {
	if c.done {
		return fmt.Errorf("an event after [DONE]: %.80q", data)
	}
	if data == "[DONE]" {
		c.done = true
		return nil
	}
	chunk, err := parseChunk(data)
	if err != nil {
		return err
	}
	if len(chunk.Error) > 0 && string(chunk.Error) != "null" {
		c.failed = true
	}
	if chunk.ToolCallID != "" {
		return c.tool(chunk.ToolCallID, chunk.Status)
	}
	for _, choice := range chunk.Choices {
		c.content(choice.Delta.Content, now)
		if choice.FinishReason != "" {
			c.finish = choice.FinishReason
		}
	}
	return nil
}

// A chunk has the members of an event that count.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string
			Reasoning string `json:"reasoning_content"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Error      json.RawMessage
	ToolCallID string `json:"toolCallId"`
	Status     string
}

// parseChunk parses the data of an event, which is nothing for [DONE].
func parseChunk(data string) (c chunk, err error) {
	if data == "[DONE]" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return c, fmt.Errorf("an event is no JSON: %.80q: %w", data, err)
	}
	return c, nil
}

// stamp matches the beginning of a chunk's text, with its number and the time it was sent at.
var stamp = regexp.MustCompile(`w(\d{6}) (\d{19}) `)

// content takes a piece of text, and measures how long the chunks that begin in it took.
func (c *check) content(text string, now time.Time) {
	c.text.WriteString(text)
	fresh := c.text.String()[c.read:]
	last := 0
	for _, m := range stamp.FindAllStringSubmatchIndex(fresh, -1) {
		sent, _ := strconv.ParseInt(fresh[m[4]:m[5]], 10, 64) // 19 digits that overflow are another text
		c.latency = append(c.latency, now.Sub(time.Unix(0, sent)))
		last = m[1]
	}
	c.read += last
}

// came reports whether all chunks of text have begun to come.
func (c *check) came() bool { return len(c.latency) >= c.Chunks-c.markers() }

// tool takes a tool event of the sidecar.
func (c *check) tool(id, status string) error {
	if c.running == nil {
		c.running = make(map[string]bool)
	}
	switch open := c.running[id]; {
	case status == "running" && !open:
		c.running[id] = true
	case status == "completed" && open:
		delete(c.running, id)
		c.ended++
	default:
		return fmt.Errorf("the tool %s is %s out of turn", id, status)
	}
	return nil
}

// A verdict is how a stream ended for its client.
type verdict string

const (
	saysStop  verdict = "stop"  // a finish reason that is no error
	saysError verdict = "error" // an error, or its finish reason
	isCut     verdict = "cut"   // the connection broke off
	isShort   verdict = "short" // the answer ended well, without finish chunk or [DONE]
	hangs     verdict = "hangs" // nothing came any more, until the client's patience ended
	wasLeft   verdict = "left"  // the client left, as it had to
)

// verdict returns how the stream ended; err is the one of its connection.
func (c *check) verdict(err error) verdict {
	switch {
	case c.failed || c.finish == "error":
		return saysError
	case c.finish != "":
		return saysStop
	case errors.Is(err, os.ErrDeadlineExceeded):
		return hangs
	case err != nil:
		return isCut
	}
	return isShort
}

// complete returns an error unless all that had to come has come.
func (c *check) complete() error {
	text := stamp.ReplaceAllString(c.text.String(), "w$1 "+strings.Repeat("0", timeWidth)+" ")
	switch text {
	case c.whole(true):
		c.kept = c.markers()
	case c.whole(false):
	default:
		return fmt.Errorf("%d of %d chunks came, and not their text: %.80q … %.80q", len(c.latency), c.Chunks, text, text[max(0, len(text)-80):])
	}
	if len(c.running) > 0 && c.End != endsNever {
		return fmt.Errorf("%d tools have no end", len(c.running))
	}
	return nil
}
