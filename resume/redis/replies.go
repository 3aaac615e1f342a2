package redis

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// Bounds of a reply. go-redis allocates memory for as much as a reply announces: without bounds, a
// few bytes from another server at the address would end the process.
const (
	// maxReply is the maximum size of a reply in bytes. Replies to a Store have at most maxEntries
	// pieces, or two records.
	maxReply = 1 << 20
	// maxValues is the maximum number of values in a reply, including those in its arrays, and so
	// also the maximum depth of nested arrays. A cluster describes each range of its slots in about
	// 20 values.
	maxValues = 16 << 10
	// maxRecord is the maximum size in bytes of the entry of a log, and of its header, in JSON. A
	// log with a larger one is not kept in Redis.
	maxRecord = 256 << 10
	// maxLine is the maximum size in bytes of a line, such as an error.
	maxLine = 4 << 10
)

// errReply means that a reply is not one of Redis, or is out of bounds.
var errReply = errors.New("the server does not answer like redis, or sends more than was requested: " +
	"check the address")

// replies is a connection that passes on replies of RESP 2 within these bounds, and fails on any
// other reply.
type replies struct {
	net.Conn
	in     *bufio.Reader
	stop   func() bool // no longer closes it when its time is over
	line   []byte      // the rest of a line that Read has to return
	skip   int         // bytes of a string and its line end that were not read yet
	size   int         // of the reply to the last command so far, in bytes
	values int         // that the reply announces
}

// checked returns a connection that reads from c through replies.
func checked(c net.Conn) net.Conn { return checkedUntil(context.Background(), c) }

// checkedUntil returns a connection that reads from c through replies, and is closed when ctx is done.
func checkedUntil(ctx context.Context, c net.Conn) net.Conn {
	r := &replies{Conn: c, in: bufio.NewReaderSize(c, maxLine)}
	r.stop = context.AfterFunc(ctx, func() { _ = c.Close() })
	if s, ok := c.(syscall.Conn); ok { // go-redis checks whether an idle connection is still open
		return struct {
			*replies
			syscall.Conn
		}{r, s}
	}
	return r
}

// Close implements net.Conn.
func (c *replies) Close() error {
	c.stop()
	return c.Conn.Close()
}

func (c *replies) Read(p []byte) (n int, err error) {
	if len(c.line) == 0 && c.skip == 0 {
		line, err := c.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || err == nil && !c.take(line) {
			err = errReply
		}
		if err != nil {
			return 0, err
		}
		c.line = line
	}
	if len(c.line) > 0 {
		n = copy(p, c.line)
		c.line = c.line[n:]
		return n, nil
	}
	n, err = c.in.Read(p[:min(len(p), c.skip)])
	c.skip -= n
	return n, err
}

// take counts the value that line begins, and reports whether it is valid and within the bounds.
func (c *replies) take(line []byte) bool {
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || len(text) < 2 {
		return false
	}
	c.size += len(line)
	switch text[0] {
	case '+', '-', ':':
	case '$', '*':
		n, err := strconv.Atoi(string(text[1:]))
		switch {
		case err != nil || n < -1 || n > maxReply:
			return false
		case text[0] == '*':
			c.values += max(n, 0)
		case n >= 0:
			c.skip = n + len("\r\n")
			c.size += c.skip
		}
	default:
		return false
	}
	return c.size <= maxReply && c.values <= maxValues
}

// Write implements net.Conn. The next reply must answer b: Write fails if there is a reply before.
func (c *replies) Write(b []byte) (int, error) {
	if c.in.Buffered() > 0 {
		return 0, errReply
	}
	c.size, c.values = 0, 0
	return c.Conn.Write(b)
}
