package resume

import (
	"slices"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// A numberer gives the events of a stream their ids. It holds nothing back: the line `id: <id>/<n>`
// precedes the blank line that ends an event. A client uses the last id of an event, which is
// this one even if upstream sends another. A client that is cut off before this line does not take
// the event for complete.
//
// No other blank line leaves: many clients that know an id read it as an event without data
// (openai-python #2722, httpx-sse #35). So a block without data becomes part of the next event, and
// added lines take back its type and its id, which are not those of that event. All other bytes
// pass unchanged. The output does not depend on how the stream was cut.
//
// A plain numberer writes only a number as the id, from 0 on, as Hermes numbers the events of a
// run. An event whose own id is a number above all before it keeps that id.
type numberer struct {
	plain bool
	apart bool   // blank lines follow the lines between events, for a reader that needs them
	id    string // of the stream
	last  uint64 // the number of the last event

	lines sse.Scanner
	sent  int    // how many bytes of the line under way have left
	long  bool   // units of the line under way have left
	end   string // how the last line ended that was not blank
	blank bool   // the last line was blank
	begun bool   // the place for a byte order mark is past

	// Whether the block under way has data, a type and an id.
	data, typed, hasID bool

	// The state of a plain numberer.
	next uint64 // the least number that the next event may have
	own  uint64 // the event's own number from upstream, plus one; 0 for none
	kept bool   // an event has kept its own number
}

// lineHead is how many bytes of a line are parsed: enough for a plain id.
const lineHead = len("id: ") + numberDigits + 1

// numberDigits is the most digits of a number from upstream. Longer ones are ignored.
const numberDigits = 18

// newNumberer returns a numberer for the stream with the id, whose last event has the number
// last.
func newNumberer(id string, last uint64) *numberer {
	return &numberer{id: id, last: last, end: "\n", lines: sse.Scanner{Lines: true, MaxFrame: lineHead - 1}}
}

// numbererOf returns a numberer for the log with the entry.
func numbererOf(e entry) *numberer {
	c := newNumberer(e.ID, 0)
	c.plain = e.Plain
	return c
}

// between reports whether an event may begin.
func (c *numberer) between() bool { return !c.data && !c.typed && c.sent == 0 && !c.long }

// atOnce is how many bytes are scanned at once: it bounds the buffer that the scanner keeps.
const atOnce = 4 << 10

// add appends p with ids to out, and the indexes in out after the events to ends.
func (c *numberer) add(out []byte, ends []int, p []byte) ([]byte, []int) {
	for b := range slices.Chunk(p, atOnce) {
		out, ends = c.addFed(out, ends, b)
	}
	return out, ends
}

func (c *numberer) addFed(out []byte, ends []int, p []byte) ([]byte, []int) {
	c.lines.Feed(p)
	for u, b, ok := c.lines.Next(); ok; u, b, ok = c.lines.Next() {
		switch {
		case u == sse.UnitMark: // clients that do not know a byte order mark must not miss the first field
			out = append(c.pass(out, b), ":\n"...)
		case u == sse.UnitLF && !c.blank:
			out = append(out, '\n')
			c.end = "\r\n"
		case u == sse.UnitNoise:
			out, ends = c.endBlock(out, ends, b)
		case u != sse.UnitLF:
			out = c.endLine(c.pass(out, b), b)
		}
		c.sent, c.begun = 0, true
	}
	if b := c.lines.Tail(); len(b) > 0 {
		out = c.pass(out, b)
		c.sent, c.begun = len(b), true
	}
	c.lines.Rest()
	return out, ends
}

// pass appends the bytes of b that have not left yet. b is the line under way or a part of it.
func (c *numberer) pass(out, b []byte) []byte {
	if c.between() && c.begun && b[0] == "\uFEFF"[0] {
		// These bytes are no byte order mark here, but would be one where a client begins to read.
		out = append(out, ":\n"...)
	}
	return append(out, b[c.sent:]...)
}

// endLine records b, a line or a part of one, which has left.
func (c *numberer) endLine(out, b []byte) []byte {
	if !c.long {
		var line sse.Frame
		line.Parse(b[:min(len(b), lineHead)])
		c.data = c.data || line.HasData
		if line.ID != nil {
			c.hasID, c.own = true, plainID(line.ID)
		}
		if line.Event != nil {
			c.typed = len(line.Event) > 0
		}
	}
	if c.long = c.lines.Raw(); c.long {
		return out
	}
	c.end, c.blank, c.sent = string(b[len(b)-1:]), false, 0
	if c.apart && c.between() {
		out = append(out, "\n\n"...)
	}
	return out
}

// endBlock ends the block under way at the blank line b, without the LF of a CRLF. Lines that it
// adds end like the line before.
func (c *numberer) endBlock(out []byte, ends []int, b []byte) ([]byte, []int) {
	switch {
	case c.data:
		c.last++
		if !c.keepsOwn() {
			c.next++
			out = c.appendID(out)
		}
		if b[0] == '\r' { // CR or CRLF, which cannot be told yet
			out = append(out, c.end...)
		} else {
			out = append(out, '\n')
		}
		ends = append(ends, len(out))
	case c.typed:
		out = append(append(out, "event:"...), c.end...)
	}
	if c.hasID && !c.data && (!c.plain || c.next > 0) { // or a client that keeps ids at once would return with that one
		out = c.appendID(out)
	}
	c.data, c.typed, c.hasID, c.blank, c.own = false, false, false, true, 0
	return out, ends
}

// keepsOwn reports whether the event that ends keeps its own id, and records it.
func (c *numberer) keepsOwn() bool {
	if !c.plain || c.own <= c.next {
		return false
	}
	c.next, c.kept = c.own, true
	return true
}

// plainID returns the number in id plus one, so that 0 can say that id is no number.
func plainID(id []byte) uint64 {
	if len(id) > numberDigits {
		return 0
	}
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return 0
	}
	return n + 1
}

// appendID appends the line with the id of the last event.
func (c *numberer) appendID(out []byte) []byte {
	if c.plain {
		out = strconv.AppendUint(append(out, "id: "...), c.next-1, 10)
		return append(out, c.end...)
	}
	out = append(append(append(out, "id: "...), c.id...), '/')
	return append(strconv.AppendUint(out, c.last, 10), c.end...)
}
