package clients

import (
	"bufio"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// A cut is where a connection ends.
type cut struct {
	behind *regexp.Regexp // of what the client is sent; nil if it is sent nothing
	when   func()         // returns when it is time; nil if it is at once
	reset  bool           // by RST; what the client has not read by then may be lost to it
}

// A cutter forwards connections to a sidecar. The first that begins with a request below
// /v1/ has the first cut, and so on, and those behind the last one stay.
type cutter struct {
	url  string
	asks chan int      // how many such connections there are, with each
	left chan struct{} // gets a value for each that the client closes
	to   string

	mu     sync.Mutex
	n      int
	cuts   []cut
	conns  map[net.Conn]bool
	closed bool
}

// newCutter starts a cutter in front of a base URL. It ends with the test.
func newCutter(t testing.TB, base string, cuts ...cut) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{url: "http://" + l.Addr().String(), asks: make(chan int, 100), left: make(chan struct{}, 100), to: strings.TrimPrefix(base, "http://"), cuts: cuts, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { l.Close(); c.close() })
	all.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { c.forward(down.(*net.TCPConn)) })
		}
	})
	return c
}

// close closes all connections, and those to come.
func (c *cutter) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.conns {
		conn.Close()
	}
}

// keep has a connection be closed with the cutter.
func (c *cutter) keep(conn net.Conn) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = true
	if c.closed {
		conn.Close()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, conn)
		conn.Close()
	}
}

// next returns the cut of a connection, nil if it stays.
func (c *cutter) next() *cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.asks <- c.n
	if c.n > len(c.cuts) {
		return nil
	}
	return &c.cuts[c.n-1]
}

// forward forwards a connection until either side closes it, or to its cut.
func (c *cutter) forward(down *net.TCPConn) {
	defer c.keep(down)()
	in := bufio.NewReader(down)
	line, err := in.Peek(len("POST /v1/"))
	if err != nil {
		return
	}
	asks := strings.Contains(string(line), " /v1/")
	up, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer c.keep(up)()
	var end *cut
	if asks {
		end = c.next()
	}
	go func() {
		_, err := io.Copy(up, in)
		up.Close()
		if err == nil && asks {
			c.left <- struct{}{}
		}
	}()
	if end == nil {
		_, _ = io.Copy(down, up)
		return
	}
	if end.behind != nil && !copyTo(down, up, end.behind) {
		return
	}
	if end.when != nil {
		end.when()
	}
	if end.reset {
		_ = down.SetLinger(0)
	}
}

// copyTo copies to the end of the first match of the pattern, and returns false if there is
// none.
func copyTo(down io.Writer, up io.Reader, pattern *regexp.Regexp) bool {
	var seen []byte
	sent := 0
	for b := make([]byte, 4096); ; {
		n, err := up.Read(b)
		seen = append(seen, b[:n]...)
		to := len(seen)
		match := pattern.FindIndex(seen)
		if match != nil {
			to = match[1]
		}
		if _, werr := down.Write(seen[sent:to]); match != nil || err != nil || werr != nil {
			return match != nil
		}
		sent = to
	}
}

// await returns the next value of a channel. If none comes it fails the test.
func await[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(harness.Patience):
		t.Fatal("what the test waits for does not come")
		panic("unreachable")
	}
}
