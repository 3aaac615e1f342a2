package splice

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"strings"
)

// position is a place in a stream: since bytes after the event with the number n. A site ends the
// blank line after an event in the same way as the line with the id.
type position struct {
	of    string // what the ids of the stream's events begin with: its id and a slash
	n     uint64 // the number of the last event that is complete, 0 before the first
	since int64
	sum   maphash.Hash // of the bytes after the event
	done  bool         // the last event has the data [DONE]
	stale bool         // the number of the event under way is not larger than n

	line    [lineHead]byte // the beginning of the line under way
	length  int            // of the line under way, in bytes
	afterCR bool           // the last byte was a CR, so that an LF after it belongs to it
	crlf    bool           // the last line that was not blank ended with CR LF
	ending  bool           // the event under way ends with an LF that is not here yet
	inside  bool           // a line of the event under way is no comment
	id      uint64         // the number of the event under way, 0 for none
	isDone  bool           // the event under way has the data [DONE]
}

// lineHead is how much of a line is kept, in bytes. The id of an event takes 56 at most.
const lineHead = 64

// add records that the first n bytes of p were read: a line, or all of p if no line ends in it.
func (c *position) add(p []byte) (n int) {
	if c.afterCR && p[0] == '\n' {
		c.afterCR, c.crlf = false, true
		c.count(p[:1])
		if c.ending {
			c.endEvent()
		}
		return 1
	}
	c.afterCR = false
	end := bytes.IndexAny(p, "\r\n")
	if end < 0 {
		c.grow(p)
		return len(p)
	}
	c.grow(p[:end])
	c.count(p[end : end+1])
	c.afterCR = p[end] == '\r'
	c.endLine()
	return end + 1
}

// count records that p follows the last event.
func (c *position) count(p []byte) {
	c.since += int64(len(p))
	_, _ = c.sum.Write(p) // never fails
}

// grow records that p belongs to the line under way.
func (c *position) grow(p []byte) {
	if c.length < lineHead {
		copy(c.line[c.length:], p)
	}
	c.length += len(p)
	c.count(p)
}

// endLine records the end of the line under way.
func (c *position) endLine() {
	name, value, _ := bytes.Cut(c.line[:min(c.length, lineHead)], []byte(":"))
	switch {
	case c.length == 0 && c.id == 0:
		c.inside = false
	case c.length == 0 && c.afterCR && c.crlf:
		c.ending = true
	case c.length == 0:
		c.endEvent()
	case len(name) == 0: // a comment
	default:
		c.inside = true
		c.field(string(name), string(bytes.TrimPrefix(value, []byte(" "))))
	}
	c.crlf = c.crlf && c.length == 0
	c.length = 0
}

// field records a field of the event under way.
func (c *position) field(name, value string) {
	switch {
	case c.length > lineHead:
	case name == "id":
		c.id = 0
		if number, ok := strings.CutPrefix(value, c.of); ok {
			n, err := strconv.ParseUint(number, 10, 64)
			c.id, c.stale = n, c.stale || err != nil || n <= c.n
		}
	case name == "data":
		c.isDone = value == "[DONE]"
	}
}

// endEvent records the end of an event.
func (c *position) endEvent() {
	c.n, c.since, c.done = c.id, 0, c.isDone
	c.id, c.isDone, c.ending, c.inside = 0, false, false, false
	c.sum.Reset()
}

// between reports whether a new line may begin here. After a CR it may not: an LF may follow.
func (c *position) between() bool { return c.length == 0 && !c.afterCR }

// outside reports whether nothing of an event is under way: there may be comments.
func (c *position) outside() bool { return c.length == 0 && !c.inside && !c.ending }

// mayBeEnd reports whether the stream may have ended here although a site would not say so. A site
// answers 204 if nothing follows the event that the client names, but bytes do follow that event, or
// there is none to name.
func (c *position) mayBeEnd() bool { return c.n == 0 || c.since > 0 }
