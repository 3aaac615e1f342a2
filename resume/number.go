package resume

import (
	"bytes"
	"strconv"
)

// A numberer gives the events of a stream their ids. It holds nothing back: the line
// `id: <id>/<n>` comes before the blank line that ends an event. A client takes the last
// id of an event, so that this is the one even if upstream sends its own; and a client
// that is cut off before it does not take the event for complete.
//
// No other blank line leaves: many clients take one for an event without data as soon as
// they know an id (openai-python #2722, httpx-sse #35). A block without data becomes part
// of the next event, and what it says of that event's type and id is taken back. All else
// passes byte for byte, and what comes of a stream does not depend on how it was cut.
type numberer struct {
	apart  bool // blank lines follow the lines between events, for a reader that needs them
	state  numberState
	id     string                // of the stream
	last   uint64                // the number of the last event
	head   [len("event: x")]byte // how the line under way begins
	headed uint8                 // how much of that is known
}

// numberState is what a numberer knows of the bytes before.
type numberState struct {
	mark   uint8 // how much of a byte order mark has come; 3 after the place for one
	inLine bool  // a line has begun
	data   bool  // it has data
	typed  bool  // it has a type
	id     bool  // it has an id of upstream's
	cr     bool  // the last byte was a CR: an LF belongs to it
	crlf   bool  // the last line of the block ended with CRLF
	lone   bool  // it ended with a CR
}

// byteOrderMark is U+FEFF, which a stream may begin with.
const byteOrderMark = "\xef\xbb\xbf"

// appendID appends the id of the last event, without a line end.
func (c *numberer) appendID(out []byte) []byte {
	out = append(append(append(out, "id: "...), c.id...), '/')
	return strconv.AppendUint(out, c.last, 10)
}

// between reports whether an event may begin.
func (c *numberer) between() bool { return !c.state.data && !c.state.typed && !c.state.inLine }

// add appends p with ids to out, and the indexes in out after the events to ends.
func (c *numberer) add(out []byte, ends []int, p []byte) ([]byte, []int) {
	s := &c.state
	copied, i := 0, 0
	for i < len(p) {
		if s.mark < uint8(len(byteOrderMark)) {
			if p[i] == byteOrderMark[s.mark] {
				i++
				if s.mark++; s.mark == uint8(len(byteOrderMark)) {
					// Clients that do not know the mark must not miss the first field.
					out, copied = append(append(out, p[copied:i]...), ":\n"...), i
				}
				continue
			}
			c.keepHead([]byte(byteOrderMark[:s.mark])) // the name of a field begins with it
			s.inLine = c.headed > 0
			s.mark = uint8(len(byteOrderMark))
		}
		if s.cr {
			s.cr = false
			if p[i] == '\n' {
				s.crlf, s.lone = true, false
				i++
				continue
			}
		}
		if !s.inLine && isEnd(p[i]) {
			out, ends = c.endBlock(append(out, p[copied:i]...), ends, p[i])
			i++ // the LF of a CRLF is another blank line
			copied = i
			continue
		}
		if c.between() && p[i] == byteOrderMark[0] {
			// It is none here, but would be one where a client begins to read.
			out, copied = append(append(out, p[copied:i]...), ":\n"...), i
		}
		s.inLine = true
		n := bytes.IndexAny(p[i:], "\r\n")
		if n < 0 {
			c.keepHead(p[i:])
			break
		}
		c.keepHead(p[i : i+n])
		i += n
		s.cr = p[i] == '\r'
		s.crlf, s.lone = false, s.cr
		i++
		if c.endLine(); c.apart && c.between() {
			out, copied = append(append(out, p[copied:i]...), "\n\n"...), i
		}
	}
	return append(out, p[copied:]...), ends
}

// keepHead keeps what the line under way begins with, as far as its kind depends on it.
func (c *numberer) keepHead(b []byte) { c.headed += uint8(copy(c.head[c.headed:], b)) }

// endLine records the line that ends.
func (c *numberer) endLine() {
	s := &c.state
	name, value, _ := bytes.Cut(c.head[:c.headed], []byte(":"))
	switch string(name) {
	case "data":
		s.data = true
	case "event":
		s.typed = len(value) > 0 && string(value) != " "
	case "id":
		s.id = true
	}
	s.inLine, c.headed = false, 0
}

// endBlock ends the block, at a blank line that begins with the byte blank.
func (c *numberer) endBlock(out []byte, ends []int, blank byte) ([]byte, []int) {
	s := &c.state
	switch {
	case s.data:
		c.last++
		out = c.appendEnd(c.appendID(out))
		if blank == '\n' {
			out = append(out, '\n')
		} else { // CR or CRLF, which cannot be told yet
			out = c.appendEnd(out)
		}
		ends = append(ends, len(out))
	case s.typed:
		out = c.appendEnd(append(out, "event:"...))
	}
	if s.id && !s.data { // or a client that keeps ids as they come would come back with it
		out = c.appendEnd(c.appendID(out))
	}
	s.data, s.typed, s.id = false, false, false
	return out, ends
}

// appendEnd ends a line as the one before it ended.
func (c *numberer) appendEnd(out []byte) []byte {
	switch {
	case c.state.crlf:
		return append(out, '\r', '\n')
	case c.state.lone:
		return append(out, '\r')
	}
	return append(out, '\n')
}

// isEnd reports whether b ends a line.
func isEnd(b byte) bool { return b == '\n' || b == '\r' }
