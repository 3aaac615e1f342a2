package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// An upstream is a server that speaks HTTP/1.1 by hand, so that a test decides
// about every byte and about how a connection ends.
type upstream struct {
	addr string
	ln   net.Listener
	play script
	wg   sync.WaitGroup

	asked chan struct{} // has room for the news of one request

	mu    sync.Mutex
	conns map[net.Conn]bool
	seen  []*http.Request
}

// A script answers one request. When it returns, the connection waits for the
// next one, unless the script has closed it.
type script func(x *exchange)

// An exchange is a request that has been read whole, and the connection it came
// on.
type exchange struct {
	net.Conn
	req  *http.Request
	body []byte
	gone chan struct{} // closed when the sidecar has closed the connection
	in   *bufio.Reader
	shut bool
}

// newUpstream listens on a port of its own until the end of the test.
func newUpstream(t testing.TB, play script) *upstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{addr: ln.Addr().String(), ln: ln, play: play, asked: make(chan struct{}, 1), conns: map[net.Conn]bool{}}
	u.wg.Go(u.accept)
	t.Cleanup(u.close)
	return u
}

func (u *upstream) accept() {
	for {
		c, err := u.ln.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		u.conns[c] = true
		u.mu.Unlock()
		u.wg.Go(func() { u.serve(c) })
	}
}

func (u *upstream) close() {
	u.ln.Close()
	u.mu.Lock()
	for c := range u.conns {
		c.Close()
	}
	u.mu.Unlock()
	u.wg.Wait()
}

func (u *upstream) serve(c net.Conn) {
	defer func() {
		c.Close()
		u.mu.Lock()
		delete(u.conns, c)
		u.mu.Unlock()
	}()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		u.mu.Lock()
		u.seen = append(u.seen, req)
		u.mu.Unlock()
		select {
		case u.asked <- struct{}{}:
		default:
		}
		x := &exchange{Conn: c, req: req, body: body, gone: make(chan struct{}), in: in}
		next := make(chan error, 1)
		upgrade := req.Header.Get("Upgrade") != ""
		if !upgrade {
			// Nothing follows a request before it is answered: the end of this
			// read is the next request or the end of the connection.
			u.wg.Go(func() {
				_, err := in.Peek(1)
				if err != nil {
					close(x.gone)
				}
				next <- err
			})
		}
		u.play(x)
		if x.shut || upgrade {
			c.Close()
			return
		}
		if <-next != nil {
			return
		}
	}
}

// requests are the requests that have come so far.
func (u *upstream) requests() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*http.Request(nil), u.seen...)
}

// raw writes bytes as they are. An error means that the sidecar has closed the
// connection, which x.gone tells as well.
func (x *exchange) raw(s string) { io.WriteString(x.Conn, s) }

// header starts a response: a status such as "200 OK" and whole header lines.
func (x *exchange) header(status string, lines ...string) {
	x.raw("HTTP/1.1 " + status + "\r\n" + strings.Join(append(lines, "\r\n"), "\r\n"))
}

// events starts a chunked event stream.
func (x *exchange) events(lines ...string) {
	x.header("200 OK", append([]string{"Content-Type: text/event-stream", "Transfer-Encoding: chunked"}, lines...)...)
}

// chunk sends one HTTP chunk in one write.
func (x *exchange) chunk(b []byte) {
	if len(b) > 0 {
		x.raw(fmt.Sprintf("%x\r\n%s\r\n", len(b), b))
	}
}

// frame sends one event, lines and blank line, as a chunk.
func (x *exchange) frame(lines ...string) {
	x.chunk([]byte(strings.Join(lines, "\n") + "\n\n"))
}

// end ends a chunked body as it should end.
func (x *exchange) end() { x.raw("0\r\n\r\n") }

// finish ends a stream well: a finish chunk with usage, [DONE] and the end of the body.
func (x *exchange) finish() {
	x.frame(finish("stop", 5))
	x.frame("data: [DONE]")
	x.end()
}

// torn sends a part of a chunk that promised to be longer, and closes.
func (x *exchange) torn(part []byte) {
	x.raw(fmt.Sprintf("%x\r\n%s", len(part)+100, part))
	x.fin()
}

// fin closes the connection in good order.
func (x *exchange) fin() {
	x.shut = true
	x.Conn.Close()
}

// reset closes the connection by RST.
func (x *exchange) reset() {
	x.Conn.(*net.TCPConn).SetLinger(0)
	x.fin()
}

// wait blocks until c is closed, the sidecar has left, or patience ends; it
// reports whether c was closed.
func (x *exchange) wait(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-x.gone:
		return false
	case <-time.After(patience):
		return false
	}
}

// silence says nothing until the sidecar leaves.
func (x *exchange) silence() { x.wait(nil) }

// pause lets time pass for the sidecar, whose clock is under test; it ends early
// when the sidecar leaves. What else is to happen in that time may not have happened
// at its end: see atAnyPace.
func (x *exchange) pause(d time.Duration) {
	select {
	case <-x.gone:
	case <-time.After(d):
	}
}

// asJSON answers with a status and a JSON body.
func asJSON(status, body string) script {
	return func(x *exchange) {
		x.header(status, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)))
		x.raw(body)
	}
}
