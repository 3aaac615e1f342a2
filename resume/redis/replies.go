package redis

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// Bounds of a reply. go-redis makes room for what a reply says that follows, and calls itself for
// each array in another: without them a few bytes from whatever listens at the address would end
// the process.
const (
	// maxReply is the size in bytes of a reply. Those to a Store have at most maxEntries pieces, or
	// two records.
	maxReply = 1 << 20
	// maxValues is how many values a reply has, those in its arrays included.
	maxValues = 1024
	// maxDepth is how many arrays are in each other.
	maxDepth = 8
	// maxRecord is the size in bytes of the entry of a log, and of its header, in JSON. What is larger
	// is not kept in Redis.
	maxRecord = 256 << 10
	// maxLine is the size in bytes of a line, such as an error.
	maxLine = 4 << 10
)

// errReply says that a reply is none of Redis'.
var errReply = errors.New("the server does not answer as redis does, or with more than was asked for: check the address")

// replies is a connection that hands on replies of RESP 2 within these bounds. It fails at
// any other, for good.
type replies struct {
	net.Conn
	bad    error
	line   []byte // what has come of the present one
	skip   int    // bytes to come of a string and of its line end
	open   []int  // how many values each array lacks, the outermost first
	size   int    // of the reply so far, in bytes
	values int    // in the reply so far
}

// checked returns a connection that reads from c through replies.
func checked(c net.Conn) net.Conn {
	r := &replies{Conn: c}
	if s, ok := c.(syscall.Conn); ok { // go-redis looks whether an idle one is still open
		return struct {
			*replies
			syscall.Conn
		}{r, s}
	}
	return r
}

// Read implements net.Conn.
func (c *replies) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.bad == nil {
		c.bad = c.check(p[:n])
	}
	if c.bad != nil {
		return 0, c.bad
	}
	return n, err
}

// check follows the replies through the bytes that come next.
func (c *replies) check(p []byte) error {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			p, c.skip = p[n:], c.skip-n
			if c.skip == 0 {
				c.done()
			}
			continue
		}
		n := bytes.IndexByte(p, '\n') + 1
		whole := n > 0
		if !whole {
			n = len(p)
		}
		if len(c.line)+n > maxLine {
			return errReply
		}
		c.line, p = append(c.line, p[:n]...), p[n:]
		if whole {
			if err := c.value(); err != nil {
				return err
			}
			c.line = c.line[:0]
		}
	}
	return nil
}

// value begins the value that a line says comes.
func (c *replies) value() error {
	c.values++
	c.size += len(c.line)
	text, ok := bytes.CutSuffix(c.line, []byte("\r\n"))
	if !ok || len(text) < 2 || c.values > maxValues {
		return errReply
	}
	kind, n := text[0], 0
	switch kind {
	case '+', '-', ':':
	case '$', '*':
		var err error
		if n, err = strconv.Atoi(string(text[1:])); err != nil || n < -1 {
			return errReply
		}
	default:
		return errReply
	}
	switch {
	case kind == '$' && n >= 0 && n <= maxReply:
		c.skip = n + len("\r\n")
		c.size += c.skip
	case kind == '*' && n > 0 && n <= maxValues && len(c.open) < maxDepth:
		c.open = append(c.open, n)
	case n > 0:
		return errReply
	default:
		c.done()
	}
	if c.size > maxReply {
		return errReply
	}
	return nil
}

// done ends a value, each array that it is the last one of, and perhaps the reply.
func (c *replies) done() {
	for i := len(c.open) - 1; i >= 0; i-- {
		if c.open[i]--; c.open[i] > 0 {
			return
		}
		c.open = c.open[:i]
	}
	c.size, c.values = 0, 0
}
