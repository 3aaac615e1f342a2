package resume

import (
	"bytes"
	"strconv"
)

// A numberer gives the events of a stream their ids, and passes all else byte for byte. It
// holds nothing back: the line `id: <id>/<n>` comes in front of the blank line that ends
// an event. A client takes the last id of an event, so that this is the one even if
// upstream sends its own; and a client that is cut off in front of it does not take the
// event for complete. A block of comments is no event. What comes of the stream does
// not depend on how it was cut.
type numberer struct {
	state  numberState
	length uint8                                                  // of the line
	line   [len("id: ") + idLength + len("/") + numberLength]byte // of the last event
}

// numberLength is the length of the largest number.
const numberLength = len("18446744073709551615")

// numberState is what a numberer knows of the bytes before.
type numberState struct {
	mark   uint8 // how much of a byte order mark has come; 3 behind the place for one
	inLine bool  // a line has begun
	event  bool  // the block has a field
	cr     bool  // the last byte was a CR: an LF belongs to it
	crlf   bool  // the last line of the block ended with CRLF
	lone   bool  // it ended with a CR
}

// byteOrderMark is U+FEFF, which a stream may begin with.
const byteOrderMark = "\xef\xbb\xbf"

func newNumberer(id string) *numberer {
	c := new(numberer)
	c.length = uint8(copy(c.line[:], "id: "+id+"/0"))
	return c
}

// setLast sets the number of the last event.
func (c *numberer) setLast(n uint64) {
	digits := bytes.IndexByte(c.line[:], '/') + 1
	c.length = uint8(len(strconv.AppendUint(c.line[:digits], n, 10)))
}

// next counts an event. The digits are counted up where they are: that is all there is to
// do for almost all.
func (c *numberer) next() {
	i := c.length - 1
	for ; c.line[i] == '9'; i-- {
		c.line[i] = '0'
	}
	if c.line[i] != '/' {
		c.line[i]++
		return
	}
	c.line[i+1] = '1' // and a digit more
	c.line[c.length] = '0'
	c.length++
}

// between reports whether no event has begun.
func (c *numberer) between() bool { return !c.state.event && !c.state.inLine }

// add appends p with ids to out, and the indexes in out behind the events to ends.
func (c *numberer) add(out []byte, ends []int, p []byte) ([]byte, []int) {
	s := &c.state
	if *s == (numberState{mark: uint8(len(byteOrderMark))}) && isOneLine(p) { // as almost always
		c.next()
		out = append(out, p[:len(p)-1]...)
		out = append(out, c.line[:c.length]...)
		out = append(out, '\n', '\n')
		return out, append(ends, len(out))
	}
	copied, i := 0, 0
	hasCR := bytes.IndexByte(p, '\r') >= 0
	for i < len(p) {
		if s.mark < uint8(len(byteOrderMark)) {
			if p[i] == byteOrderMark[s.mark] {
				s.mark++
				i++
				continue
			}
			s.inLine = s.mark > 0 // part of one, which is the name of a field
			s.event = s.inLine
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
		if !s.inLine {
			switch blank := p[i] == '\n' || p[i] == '\r'; {
			case blank && s.event:
				out = append(out, p[copied:i]...)
				copied = i
				out = c.appendLine(out)
				s.event = false
				if s.cr = p[i] == '\r'; s.cr && i+1 < len(p) && p[i+1] == '\n' {
					s.cr = false
					i++
				}
				i++
				out = append(out, p[copied:i]...)
				copied = i
				ends = append(ends, len(out))
				continue
			case blank:
				s.cr = p[i] == '\r'
				i++
				continue
			}
			s.inLine = true
			s.event = s.event || p[i] != ':'
		}
		n := lineEnd(p[i:], hasCR)
		if n < 0 {
			break
		}
		i += n
		s.inLine = false
		s.cr = p[i] == '\r'
		s.crlf, s.lone = false, s.cr
		i++
	}
	return append(out, p[copied:]...), ends
}

// isOneLine reports whether p is a block of one line that is no comment, and that both it
// and the block end with LF.
func isOneLine(p []byte) bool {
	last := len(p) - 1
	return last > 1 && p[0] > ':' && p[last] == '\n' && bytes.IndexByte(p, '\n') == last-1 && bytes.IndexByte(p, '\r') < 0
}

// appendLine appends the line of the next event, which ends as the one before it.
func (c *numberer) appendLine(out []byte) []byte {
	c.next()
	out = append(out, c.line[:c.length]...)
	switch {
	case c.state.crlf:
		return append(out, '\r', '\n')
	case c.state.lone:
		return append(out, '\r')
	}
	return append(out, '\n')
}

// lineEnd returns the index of the first line end in b, -1 for none.
func lineEnd(b []byte, hasCR bool) int {
	lf := bytes.IndexByte(b, '\n')
	if !hasCR {
		return lf
	}
	in := b
	if lf >= 0 {
		in = b[:lf]
	}
	if cr := bytes.IndexByte(in, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
