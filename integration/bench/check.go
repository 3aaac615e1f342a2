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

// check knows what a stream must be, and is told what it is. Text may come in
// other pieces than it was sent in. Markers may stay in the text or leave it, but
// all of them alike, and those that leave must be tools with a beginning and an
// end.
type check struct {
	s       scenario
	latency *sample

	text     string // that has come and is not looked at
	next     int    // the chunk that has to come
	kept     int    // markers that stayed in the text
	stripped int
	running  map[string]bool // the ids of tools that have begun and not ended
	ended    int             // tools

	finish string
	failed bool // an error has come
	done   bool // [DONE]
}

// event looks at an event, which came at the time now.
func (c *check) event(e event, now time.Time) error {
	if c.done {
		return fmt.Errorf("an event behind [DONE]: %.80q", e.data)
	}
	if string(e.data) == "[DONE]" {
		c.done = true
		return nil
	}
	var ch chunk
	if err := json.Unmarshal(e.data, &ch); err != nil {
		return fmt.Errorf("an event is no JSON: %.80q: %w", e.data, err)
	}
	if len(ch.Error) > 0 && string(ch.Error) != "null" {
		c.failed = true
	}
	if ch.ToolCallID != "" {
		return c.tool(ch)
	}
	for _, choice := range ch.Choices {
		if err := c.content(choice.Delta.Content, now); err != nil {
			return err
		}
		if choice.FinishReason != "" {
			c.finish = choice.FinishReason
		}
	}
	return nil
}

// content looks at text.
func (c *check) content(text string, now time.Time) error {
	c.text += text
	for c.text != "" && c.next < c.s.chunks {
		if c.s.marks(c.next) {
			if !c.marker() {
				return nil
			}
			continue
		}
		want := c.s.lead(c.next) + c.s.text(c.next)
		if len(c.text) < len(want) {
			return nil
		}
		lead := len(c.s.lead(c.next))
		if c.text[:lead] != want[:lead] {
			return fmt.Errorf("chunk %d begins with %.10q", c.next, c.text)
		}
		got, want := c.text[lead:len(want)], want[lead:]
		sent, err := strconv.ParseInt(got[timeAt:wordsAt], 10, 64)
		if err != nil || got[:timeAt] != want[:timeAt] || got[wordsAt:] != want[wordsAt:] {
			return fmt.Errorf("chunk %d is %q instead of %q", c.next, got, want)
		}
		c.latency.add(now.Sub(time.Unix(0, sent)))
		c.text = c.text[lead+len(want):]
		c.next++
	}
	if c.text != "" && c.next == c.s.chunks {
		return fmt.Errorf("text behind the last chunk: %.80q", c.text)
	}
	return nil
}

// marker looks at the place of a marker. It is false when more has to come.
func (c *check) marker() bool {
	want := c.s.marker(c.next)
	switch {
	case strings.HasPrefix(c.text, want):
		c.text = c.text[len(want):]
		c.kept++
	case strings.HasPrefix(want, c.text):
		return false
	default:
		c.stripped++
	}
	c.next++
	return true
}

// tool looks at a tool event of ours.
func (c *check) tool(ch chunk) error {
	if c.running == nil {
		c.running = make(map[string]bool)
	}
	open := c.running[ch.ToolCallID]
	switch {
	case ch.Status == "running" && !open:
		c.running[ch.ToolCallID] = true
	case ch.Status == "completed" && open:
		delete(c.running, ch.ToolCallID)
		c.ended++
	default:
		return fmt.Errorf("the tool %s is %s out of turn", ch.ToolCallID, ch.Status)
	}
	return nil
}

// verdict is how a stream ended for its client.
type verdict string

// The verdicts.
const (
	saysStop  verdict = "stop"  // a finish reason that is no error
	saysError verdict = "error" // an error, or its finish reason
	isCut     verdict = "cut"   // the connection broke off
	isShort   verdict = "short" // the answer ended well, without finish chunk or [DONE]
	hangs     verdict = "hangs" // nothing came any more, until the client's patience ended
	wasLeft   verdict = "left"  // the client left, as it was to
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

// complete reports whether all that had to come has come.
func (c *check) complete() error {
	if c.next < c.s.chunks && c.s.marks(c.next) && c.text == "" { // a marker at the very end
		c.stripped++
		c.next++
	}
	switch {
	case c.next != c.s.chunks:
		return fmt.Errorf("%d of %d chunks came, and %q", c.next, c.s.chunks, c.text)
	case len(c.running) > 0 && c.s.end != endsNever:
		return fmt.Errorf("%d tools have no end", len(c.running))
	case c.kept > 0 && c.stripped > 0:
		return fmt.Errorf("%d markers left the text and %d did not", c.stripped, c.kept)
	}
	return nil
}
