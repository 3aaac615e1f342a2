// Package sse reads, splices and forwards a stream of server-sent events (WHATWG HTML,
// section 9.2.6) without decoding it: a Scanner cuts bytes into units, a Frame finds the
// fields of a unit by position, a Splice replaces parts of it, and a Writer collects what
// leaves. A unit that is not changed leaves byte for byte. A proxy goes through them in this
// order: see the example. A client needs Scanner and Frame only.
//
// Between reads, only a Scanner and a Writer have state, and the bytes of the unit under way if a
// read ends within one, which MaxFrame bounds. Streams may share a Frame and a Splice, which keep
// only buffers between frames. No two goroutines may use a value of these types at once.
package sse

import "bytes"

// Unit is a kind of piece that a Scanner cuts a stream into. Units are contiguous:
// joined, they are the stream.
type Unit uint8

const (
	UnitFrame Unit = iota // a complete frame with a field in it, its blank line included
	// UnitNoise is a blank line, or comment lines and the blank line after
	// them; with Scanner.CommentUnits, a comment line by itself.
	UnitNoise
	UnitRaw  // a frame, or a part of one, that is larger than Scanner.MaxFrame
	UnitMark // the byte order mark that a stream may begin with
	// UnitLF is the LF of a CRLF whose CR has ended the unit before. A frame
	// is complete at the CR, because nothing says that an LF will follow.
	UnitLF
)

// Scanner cuts an event stream into units. Lines end with LF, CR or CRLF, a blank
// line ends a frame, and one leading byte order mark is ignored (WHATWG HTML,
// section 9.2.6). Where units are cut does not depend on how the bytes came.
//
// For each read, call Feed, Next until it returns false, and Rest. What Next returns
// aliases the bytes fed and is valid until Rest. Rest copies the unit under way, if there
// is one, so that a stream whose reads end with its frames is never copied.
type Scanner struct {
	// MaxFrame is the size in bytes above which a frame leaves as UnitRaw, in as many
	// parts as it is read: at most 1 GiB. It bounds what the scanner holds.
	MaxFrame int
	// CommentUnits makes each comment line between frames a unit of its own, for streams
	// with comments that no blank line follows.
	CommentUnits bool
	// Lines makes each line a unit of its own: a UnitFrame, unless it is blank or longer than
	// MaxFrame.
	Lines bool

	src  []byte // the bytes being scanned: buf, or those fed
	buf  []byte // the unit under way
	from int    // where the unit under way begins in src
	pos  int    // how far src has been scanned
	line int    // where the current line begins; before src if parts have left raw

	begun   bool // the place for a byte order mark is past
	inFrame bool // a line of the unit was a field
	afterCR bool // the last byte was a CR; an LF belongs to it
	raw     bool // part of the unit has left raw
	comment bool // the unit that leaves raw is a comment line
}

// Feed hands p to the scanner, which does not copy it before Rest.
func (c *Scanner) Feed(p []byte) {
	c.src = p
	if len(c.buf) > 0 {
		c.buf = append(c.buf, p...)
		c.src = c.buf
	}
}

// Next returns the next unit. It returns false if that is not complete.
func (c *Scanner) Next() (Unit, []byte, bool) {
	if !c.begun {
		if u, b, ok := c.takeMark(); ok || !c.begun {
			return u, b, ok
		}
	}
	for {
		if c.afterCR {
			if c.pos == len(c.src) {
				break
			}
			c.afterCR = false
			if c.src[c.pos] == '\n' {
				c.pos++
				c.line = c.pos
				if c.from == c.pos-1 && !c.raw {
					return c.cut(UnitLF)
				}
			}
		}
		end := lineEnd(c.src, c.pos)
		if end == len(c.src) {
			c.pos = end
			break
		}
		empty := end == c.line
		isComment := c.comment || !c.raw && !c.inFrame && !empty && c.src[c.line] == ':'
		c.afterCR = c.src[end] == '\r'
		c.pos = end + 1
		c.line = c.pos
		switch {
		case isComment && c.CommentUnits, empty && !c.inFrame:
			return c.end(UnitNoise)
		case empty, c.Lines:
			return c.end(UnitFrame)
		}
		c.inFrame = c.inFrame || !isComment
	}
	if n := len(c.src) - c.from; n > c.MaxFrame || c.raw && n > 0 {
		if !c.raw && !c.inFrame {
			c.comment = c.CommentUnits && c.line < len(c.src) && c.src[c.line] == ':'
			c.inFrame = !c.comment
		}
		c.raw = true
		return c.cut(UnitRaw)
	}
	return 0, nil, false
}

// end returns the unit under way as u, or as UnitRaw if it is too large.
func (c *Scanner) end(u Unit) (Unit, []byte, bool) {
	if c.raw || c.pos-c.from > c.MaxFrame {
		u = UnitRaw
	}
	c.raw, c.comment, c.inFrame = false, false, false
	return c.cut(u)
}

// cut returns the bytes scanned since the last unit as u.
func (c *Scanner) cut(u Unit) (Unit, []byte, bool) {
	b := c.src[c.from:c.pos]
	c.from = c.pos
	return u, b, true
}

// byteOrderMark is U+FEFF. Clients ignore it at the beginning of a stream.
const byteOrderMark = "\xef\xbb\xbf"

// takeMark returns the byte order mark that the stream begins with. begun stays
// false while the bytes may still become one.
func (c *Scanner) takeMark() (Unit, []byte, bool) {
	if n := len(c.src); n < len(byteOrderMark) && string(c.src) == byteOrderMark[:n] {
		return 0, nil, false
	}
	c.begun = true
	if !bytes.HasPrefix(c.src, []byte(byteOrderMark)) {
		return 0, nil, false
	}
	c.pos, c.line = len(byteOrderMark), len(byteOrderMark)
	return c.cut(UnitMark)
}

// Tail returns the bytes that are in no unit yet. If part of the unit under way has left raw,
// there are none after Rest.
func (c *Scanner) Tail() []byte { return c.src[c.from:] }

// Rest keeps the bytes that are in no unit yet for the next Feed.
func (c *Scanner) Rest() {
	if c.from > 0 || len(c.buf) == 0 { // or buf has it already: TestStreamsCostLinearTime
		if cap(c.buf) > max(maxIdleBuffer, min(2*len(c.src), maxBusyBuffer)) {
			c.buf = nil
		}
		c.buf = append(c.buf[:0], c.Tail()...)
	}
	c.pos -= c.from
	c.line -= c.from
	c.from = 0
	c.src = c.buf
}

// Raw reports whether part of the unit under way has left as UnitRaw.
func (c *Scanner) Raw() bool { return c.raw }

// maxIdleBuffer is the size in bytes up to which a buffer is kept for the next unit. A larger
// one, up to maxBusyBuffer, is kept as long as reads need half of it.
const (
	maxIdleBuffer = 16 << 10
	maxBusyBuffer = 64 << 10
)

// lineEnd returns the index of the first CR or LF in b from i on, or len(b). It searches parts of
// lineAhead bytes for both, so that it does not search all of b for a CR at every LF.
func lineEnd(b []byte, i int) int {
	for ; i < len(b); i += lineAhead {
		line := b[i:min(i+lineAhead, len(b))]
		n := bytes.IndexByte(line, '\n')
		if n >= 0 {
			line = line[:n]
		}
		if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
			n = cr
		}
		if n >= 0 {
			return i + n
		}
	}
	return len(b)
}

// lineAhead is the number of bytes in which lineEnd looks for an end at once.
const lineAhead = 512
