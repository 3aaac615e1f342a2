package rewrite

import "bytes"

// unit is what the scanner cuts a stream into. Units are contiguous: joined,
// they are the stream.
type unit uint8

const (
	// unitFrame is a complete frame with a field in it, its blank line
	// included.
	unitFrame unit = iota
	// unitNoise is a blank line, or comment lines and the blank line behind
	// them. In a stream that is not known to be ours a comment line is one by
	// itself: who sends it may never send a blank line.
	unitNoise
	// unitRaw is a frame, or a part of one, that is larger than the scanner's
	// limit.
	unitRaw
	// unitMark is the byte order mark that a stream may begin with.
	unitMark
	// unitLF is the LF of a CRLF whose CR has ended the unit before: a frame
	// leaves at the CR, because nothing says that an LF will follow.
	unitLF
)

// scanner cuts an event stream into units. Lines end with LF, CR or CRLF, a
// blank line ends a frame, and one leading byte order mark is ignored (WHATWG
// HTML, 9.2.6). Where the units are cut does not depend on how the bytes came.
type scanner struct {
	max   int  // the largest frame, in bytes, that is not passed on raw
	lines bool // comment lines are units

	src  []byte // what is being scanned: buf, or the bytes fed
	buf  []byte // the unit under way
	from int    // where the unit under way begins in src
	pos  int    // how far src has been scanned
	line int    // where the current line begins; before src when parts have left raw

	ends    lineEnds
	seen    unitLines
	begun   bool // the place for a byte order mark is past
	inFrame bool // a line of the unit was a field
	afterCR bool // the last byte was a CR; an LF belongs to it
	raw     bool // part of the unit has left raw
	comment bool // the unit that leaves raw is a comment line
}

// feed hands the scanner bytes. They are not copied before rest.
func (c *scanner) feed(p []byte) {
	c.src = p
	if len(c.buf) > 0 {
		c.buf = append(c.buf, p...)
		c.src = c.buf
	}
	c.ends = noEnds
}

// next returns the next unit. It stays valid until rest.
func (c *scanner) next() (unit, []byte, bool) {
	if c.pos == c.from {
		c.seen = unitLines{}
	}
	if !c.begun {
		if u, b, ok := c.mark(); ok || !c.begun {
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
					return c.cut(unitLF)
				}
			}
		}
		end := c.ends.from(c.src, c.pos)
		if end == len(c.src) {
			c.pos = end
			break
		}
		empty := end == c.line
		isComment := c.comment || !c.raw && !c.inFrame && !empty && c.src[c.line] == ':'
		c.afterCR = c.src[end] == '\r'
		c.seen.add(end-c.from, empty, c.afterCR)
		c.pos = end + 1
		c.line = c.pos
		switch {
		case isComment && c.lines, empty && !c.inFrame:
			return c.end(unitNoise)
		case empty:
			return c.end(unitFrame)
		}
		c.inFrame = c.inFrame || !isComment
	}
	if n := len(c.src) - c.from; n > c.max || c.raw && n > 0 {
		if !c.raw && !c.inFrame {
			c.comment = c.lines && c.line < len(c.src) && c.src[c.line] == ':'
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

// byteOrderMark is ignored at the beginning of a stream.
const byteOrderMark = "\xef\xbb\xbf"

// mark returns the byte order mark that the stream begins with. begun stays
// false while the bytes may still become one.
func (c *scanner) mark() (unit, []byte, bool) {
	if n := len(c.src); n < len(byteOrderMark) && string(c.src) == byteOrderMark[:n] {
		return 0, nil, false
	}
	c.begun = true
	if !bytes.HasPrefix(c.src, []byte(byteOrderMark)) {
		return 0, nil, false
	}
	c.pos, c.line = len(byteOrderMark), len(byteOrderMark)
	return c.cut(unitMark)
}

// between tells whether the scanner stands between two units, of which the next
// may be taken by skip.
func (c *scanner) between() bool { return c.from == c.pos && !c.afterCR && !c.raw && !c.inFrame }

// ahead returns what has been fed and no unit has taken.
func (c *scanner) ahead() []byte { return c.src[c.from:] }

// skip takes the next n bytes for a unit. They are one.
func (c *scanner) skip(n int) {
	c.from += n
	c.pos, c.line = c.from, c.from
}

// rest keeps what no unit has taken for the next feed.
func (c *scanner) rest() {
	left := c.src[c.from:]
	switch {
	case len(left) == 0:
		c.buf = c.buf[:0]
		if cap(c.buf) > maxIdleBuffer {
			c.buf = nil
		}
	case c.from == 0 && len(c.buf) > 0: // it is there already: TestFrameInSmallReadsCostsLinearTime
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

// unitLines is what the scanner knows of the lines of a unit when it has cut it, so
// that they need not be looked for again.
type unitLines struct {
	first int32 // where the first ends
	n     uint8 // how many there are but for the blank one, at most 3
	cr    bool  // one of them ends with a CR
}

// add adds a line that ends at the byte end of its unit.
func (l *unitLines) add(end int, empty, cr bool) {
	l.cr = l.cr || cr
	if empty {
		return
	}
	if l.n == 0 {
		l.first = int32(end) // of a larger frame nobody asks: see FrameLimit
	}
	l.n = min(l.n+1, 3)
}

// lineEnds finds the ends of lines in some bytes. It looks at each byte once for
// either character, however the two are mixed.
type lineEnds struct {
	lf, cr int // the next of each, the length of the bytes when there is none
}

// noEnds are those of bytes that have not been looked at.
var noEnds = lineEnds{-1, -1}

// from returns the index of the first CR or LF in b from i on, len(b) when there
// is none. i must not become smaller from call to call.
func (l *lineEnds) from(b []byte, i int) int {
	if i < len(b) && b[i] == '\n' { // of each frame the last
		return i
	}
	if l.lf < i {
		l.lf = indexFrom(b, i, '\n')
	}
	if l.cr < i {
		l.cr = indexFrom(b, i, '\r')
	}
	return min(l.lf, l.cr)
}

func indexFrom(b []byte, i int, c byte) int {
	if n := bytes.IndexByte(b[i:], c); n >= 0 {
		return i + n
	}
	return len(b)
}
