package rewrite

import "bytes"

// unit is what the scanner cuts a stream into. Units are contiguous: joined,
// they are the stream.
type unit uint8

const (
	// unitFrame is a complete frame with a field in it, its blank line
	// included.
	unitFrame unit = iota
	// unitNoise is a comment line or a blank line outside a frame.
	unitNoise
	// unitRaw is a frame, or a part of one, that is larger than the scanner's
	// limit.
	unitRaw
	// unitLF is the LF of a CRLF whose CR has ended the unit before: a frame
	// leaves at the CR, because nothing says that an LF will follow.
	unitLF
)

// scanner cuts an event stream into units. Lines end with LF, CR or CRLF, a
// blank line ends a frame, and one leading byte order mark is ignored (WHATWG
// HTML, 9.2.6). Where the units are cut does not depend on how the bytes came.
type scanner struct {
	max int // the largest frame, in bytes, that is not passed on raw

	src  []byte // what is being scanned: buf, or the bytes fed
	buf  []byte // the unit under way
	from int    // where the unit under way begins in src
	pos  int    // how far src has been scanned
	line int    // where the current line begins; before src when parts have left raw

	begun   bool // the place for a byte order mark is past
	inFrame bool // a line of the unit was a field
	afterCR bool // the last byte was a CR; an LF belongs to it
	raw     bool // part of the unit has left raw
	comment bool // the unit that leaves raw is a comment line
}

// feed hands the scanner bytes. They are not copied before rest.
func (c *scanner) feed(p []byte) {
	if len(c.buf) == 0 {
		c.src = p
		return
	}
	c.buf = append(c.buf, p...)
	c.src = c.buf
}

// next returns the next unit. It stays valid until rest.
func (c *scanner) next() (unit, []byte, bool) {
	if !c.begun && !c.skipMark() {
		return 0, nil, false
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
					return c.cut(unitLF)
				}
			}
		}
		end := lineEnd(c.src[c.pos:])
		if end < 0 {
			c.pos = len(c.src)
			break
		}
		end += c.pos
		empty := end == c.line
		isComment := c.comment || !c.raw && !c.inFrame && !empty && c.src[c.line] == ':'
		c.afterCR = c.src[end] == '\r'
		c.pos = end + 1
		c.line = c.pos
		if isComment || empty && !c.inFrame {
			return c.end(unitNoise)
		}
		if empty {
			return c.end(unitFrame)
		}
		c.inFrame = true
	}
	if len(c.src)-c.from > c.max {
		if !c.raw && !c.inFrame {
			c.comment = c.line < len(c.src) && c.src[c.line] == ':'
			c.inFrame = !c.comment
		}
		c.raw = true
		return c.cut(unitRaw)
	}
	return 0, nil, false
}

// end returns the unit under way as u, or raw where it is too large.
func (c *scanner) end(u unit) (unit, []byte, bool) {
	if c.raw || c.pos-c.from > c.max {
		u = unitRaw
	}
	c.raw, c.comment, c.inFrame = false, false, false
	return c.cut(u)
}

func (c *scanner) cut(u unit) (unit, []byte, bool) {
	b := c.src[c.from:c.pos]
	c.from = c.pos
	return u, b, true
}

// skipMark passes over a byte order mark. It is false while the bytes may
// still become one.
func (c *scanner) skipMark() bool {
	const mark = "\xef\xbb\xbf"
	if n := len(c.src); n < len(mark) && string(c.src) == mark[:n] {
		return false
	}
	if bytes.HasPrefix(c.src, []byte(mark)) {
		c.pos, c.line = len(mark), len(mark)
	}
	c.begun = true
	return true
}

// rest keeps what no unit has taken for the next feed.
func (c *scanner) rest() {
	left := c.src[c.from:]
	switch {
	case len(left) == 0 && cap(c.buf) > maxIdleBuffer:
		c.buf = nil
	default:
		c.buf = append(c.buf[:0], left...)
	}
	c.pos -= c.from
	c.line -= c.from
	c.from = 0
	c.src = nil
}

// tail returns the bytes of the unit under way. After a unit that has left
// raw, there are none.
func (c *scanner) tail() []byte { return c.buf }

// maxIdleBuffer is the size in bytes up to which a buffer is kept for the next
// frame.
const maxIdleBuffer = 16 << 10

// lineEnd returns the index of the first CR or LF in b, -1 when there is none.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
