package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A check compares a stream with its scenario. Text may come in other pieces than it was sent
// in. Markers may stay in the text or leave it, but all of them alike, and those that leave must
// be tools with a beginning and an end.
type check struct {
	scenario
	latency []time.Duration
	open    bool // all of a stream that does not end has come

	pending  string // text that has come and is not compared yet
	next     int    // the chunk that has to come
	kept     int    // markers that stayed in the text
	stripped int
	running  map[string]bool // the ids of tools that have begun and not ended
	ended    int             // tools

	finish string
	failed bool // an error has come
	done   bool // [DONE]
}

// event takes the data of an event that came at the time now.
func (c *check) event(data string, now time.Time) error {
	if data == "" { // a comment
		return nil
	}
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
		if err := c.content(choice.Delta.Content, now); err != nil {
			return err
		}
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

// parseChunk parses the data of an event, if any.
func parseChunk(data string) (c chunk, err error) {
	if data == "" || data == "[DONE]" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return c, fmt.Errorf("an event is no JSON: %.80q: %w", data, err)
	}
	return c, nil
}

func (c *check) content(text string, now time.Time) error {
	c.pending += text
	for c.pending != "" && c.next < c.Chunks {
		if c.marks(c.next) {
			if !c.compareMarker() {
				return nil
			}
			continue
		}
		lead := c.lead(c.next)
		want := lead + c.text(c.next)
		if len(c.pending) < len(want) {
			return nil
		}
		got, number, sentAt := c.pending[:len(want)], len(lead)+timeAt, len(lead)+wordsAt
		sent, err := strconv.ParseInt(got[number:sentAt], 10, 64)
		if err != nil || got[:number] != want[:number] || got[sentAt:] != want[sentAt:] {
			return fmt.Errorf("chunk %d is %q instead of %q", c.next, got, want)
		}
		c.latency = append(c.latency, now.Sub(time.Unix(0, sent)))
		c.pending = c.pending[len(want):]
		c.next++
	}
	if c.pending != "" && c.next == c.Chunks {
		return fmt.Errorf("text after the last chunk: %.80q", c.pending)
	}
	return nil
}

// compareMarker looks for a marker at its place. It returns false if more has to come.
func (c *check) compareMarker() bool {
	want := c.marker(c.next)
	switch {
	case strings.HasPrefix(c.pending, want):
		c.pending = c.pending[len(want):]
		c.kept++
	case strings.HasPrefix(want, c.pending):
		return false
	default:
		c.stripped++
	}
	c.next++
	return true
}

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
	if c.next < c.Chunks && c.marks(c.next) && c.pending == "" { // a marker at the very end
		c.stripped++
		c.next++
	}
	switch {
	case c.next != c.Chunks:
		return fmt.Errorf("%d of %d chunks came, and %q", c.next, c.Chunks, c.pending)
	case len(c.running) > 0 && c.End != endsNever:
		return fmt.Errorf("%d tools have no end", len(c.running))
	case c.kept > 0 && c.stripped > 0:
		return fmt.Errorf("%d markers left the text and %d did not", c.stripped, c.kept)
	}
	return nil
}
