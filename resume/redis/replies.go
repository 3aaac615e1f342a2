package redis

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// Bounds of a reply. go-redis makes room for what a reply says that follows: without them a few
// bytes from another server at the address would end the process.
const (
	// maxReply is the size in bytes of a reply. Those to a Store have at most maxEntries pieces, or
	// two records.
	maxReply = 1 << 20
	// maxValues is how many values a reply has, those in its arrays included. So it is also how
	// many arrays are in each other at most.
	maxValues = 1024
	// maxRecord is the size in bytes of the entry of a log, and of its header, in JSON. What is larger
	// is not kept in Redis.
	maxRecord = 256 << 10
	// maxLine is the size in bytes of a line, such as an error.
	maxLine = 4 << 10
)

// errReply says that a reply is none of Redis'.
var errReply = errors.New("the server does not answer as redis does, or with more than was asked for: " +
	"check the address")

// replies is a connection that hands on replies of RESP 2 within these bounds. It fails at
// any other, for good.
type replies struct {
	net.Conn
	bad    error
	line   []byte // what has come of the present one
	skip   int    // bytes to come of a string and of its line end
	size   int    // since the last command, in bytes
	values int    // that are said to come since the last command
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

// Write implements net.Conn. What comes next is another reply.
func (c *replies) Write(p []byte) (int, error) {
	c.size, c.values = 0, 0
	return c.Conn.Write(p)
}

// check follows the replies through the bytes that come next.
func (c *replies) check(p []byte) error {
	if c.size += len(p); c.size > maxReply {
		return errReply
	}
	for len(p) > 0 {
		if n := min(c.skip, len(p)); n > 0 {
			p, c.skip = p[n:], c.skip-n
			continue
		}
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		if len(c.line)+len(line) >= maxLine {
			return errReply
		}
		c.line, p = append(c.line, line...), rest
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
	text, ok := bytes.CutSuffix(c.line, []byte("\r"))
	if !ok || len(text) < 2 {
		return errReply
	}
	n := 0
	switch text[0] {
	case '+', '-', ':':
	case '$', '*':
		var err error
		if n, err = strconv.Atoi(string(text[1:])); err != nil || n < -1 || n > maxReply {
			return errReply
		}
	default:
		return errReply
	}
	switch {
	case text[0] == '*':
		c.values += max(n, 0)
	case text[0] == '$' && n >= 0:
		c.skip = n + len("\r\n")
	}
	if c.values > maxValues {
		return errReply
	}
	return nil
}
