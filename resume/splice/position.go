package splice

import (
	"bytes"
	"hash/maphash"
)

// position is how far a stream has been passed on: since bytes after the event with the id last. A
// site ends the blank line after an event in the same way as the line with the id.
type position struct {
	last  string // the id of the last event that is complete, "" before the first
	since int64
	sum   maphash.Hash // of the bytes after the event
	done  bool         // the last event has the data [DONE]

	line    []byte // the beginning of the line under way, at most lineHead bytes
	length  int    // of the line under way, in bytes
	afterCR bool   // the last byte was a CR, so that an LF after it belongs to it
	crlf    bool   // the last line that was not blank ended with CR LF
	ending  bool   // the event under way ends with an LF that is to come
	id      string // of the event under way
	isDone  bool   // the event under way has the data [DONE]
}

// lineHead is how much of a line is kept, in bytes. The id of an event takes 56 at most.
const lineHead = 64

// add records that p has been passed on.
func (c *position) add(p []byte) {
	for len(p) > 0 {
		if c.afterCR && p[0] == '\n' {
			c.afterCR, c.crlf = false, true
			c.count(p[:1])
			p = p[1:]
			if c.ending {
				c.endEvent()
			}
			continue
		}
		c.afterCR = false
		n := bytes.IndexAny(p, "\r\n")
		if n < 0 {
			c.grow(p)
			return
		}
		c.grow(p[:n])
		c.count(p[n : n+1])
		c.afterCR = p[n] == '\r'
		c.endLine()
		p = p[n+1:]
	}
}

// count records that p comes after the last event.
func (c *position) count(p []byte) {
	c.since += int64(len(p))
	_, _ = c.sum.Write(p) // never fails
}

// grow records that p belongs to the line under way.
func (c *position) grow(p []byte) {
	c.line = append(c.line, p[:min(len(p), lineHead-len(c.line))]...)
	c.length += len(p)
	c.count(p)
}

// endLine records the end of the line under way.
func (c *position) endLine() {
	switch name, value, _ := bytes.Cut(c.line, []byte(":")); {
	case c.length == 0 && c.id == "":
	case c.length == 0 && c.afterCR && c.crlf:
		c.ending = true
	case c.length == 0:
		c.endEvent()
	case c.length > lineHead:
	case string(name) == "id":
		c.id = string(bytes.TrimPrefix(value, []byte(" ")))
	case string(name) == "data":
		c.isDone = string(bytes.TrimPrefix(value, []byte(" "))) == "[DONE]"
	}
	c.crlf = c.crlf && c.length == 0
	c.line, c.length = c.line[:0], 0
}

// endEvent records the end of an event.
func (c *position) endEvent() {
	c.last, c.since, c.done = c.id, 0, c.isDone
	c.id, c.isDone, c.ending = "", false, false
	c.sum.Reset()
}

// between reports whether a new line may begin here. After a CR it may not: an LF may follow.
func (c *position) between() bool { return c.length == 0 && !c.afterCR }

// mayBeEnd reports whether a site that is asked for what follows the last event would answer with a
// stream if nothing more comes: it answers 204 if nothing follows that event.
func (c *position) mayBeEnd() bool { return c.last == "" || c.since > 0 }
