// Package upstream is the server that the sidecar asks. A Server speaks HTTP/1.1 by hand, so that
// a Script decides on every byte and on how the connection ends.
//
// Replay answers with a recording, cut as a Cutter says. A Router has several scripts, of which
// the request's X-Play header names one.
package upstream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/schema"
)

// A Server answers requests as its script says.
type Server struct {
	Addr string
	play Script
	in   *harness.Listener

	Asked chan struct{} // gets a value for a request, unless one is in it already

	mu     sync.Mutex
	seen   []*http.Request
	bodies []string
}

// A Script answers one request. When it returns, the connection waits for the
// next one, unless the script has closed it.
type Script func(x *Exchange)

// An Exchange is a request that has been read whole, and the connection it came
// on.
type Exchange struct {
	net.Conn
	Req  *http.Request
	Body []byte
	Gone chan struct{} // closed when the sidecar has closed the connection
	In   *bufio.Reader // what follows the request, after an upgrade
	shut bool
	sent *schema.Sender
}

// New starts a server on a port of its own. It ends with the test.
func New(t testing.TB, play Script) *Server {
	t.Helper()
	u := &Server{play: play, Asked: make(chan struct{}, 1)}
	u.in = harness.Listen(t, u.serve)
	u.Addr = u.in.Addr
	return u
}

// Close ends the server and its connections, and waits for the scripts.
func (u *Server) Close() { u.in.Close() }

func (u *Server) serve(_ context.Context, c net.Conn) {
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
		if isAboutRows(req) {
			io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		u.mu.Lock()
		u.seen, u.bodies = append(u.seen, req), append(u.bodies, string(body))
		u.mu.Unlock()
		select {
		case u.Asked <- struct{}{}:
		default:
		}
		x := &Exchange{Conn: c, Req: req, Body: body, Gone: make(chan struct{}), In: in, sent: schema.NewSender()}
		next := make(chan error, 1)
		upgrade := req.Header.Get("Upgrade") != ""
		if !upgrade {
			// Nothing follows a request before it is answered: the end of this
			// read is the next request or the end of the connection.
			go func() {
				_, err := in.Peek(1)
				if err != nil {
					close(x.Gone)
				}
				next <- err
			}()
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

// isAboutRows reports whether the sidecar asks with a request for what a session has stored. A Server has no
// sessions, as Hermes before 0.16, and no script or test hears of it: hermes.Agent has some.
func isAboutRows(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/api/sessions/") && strings.HasSuffix(r.URL.Path, "/messages")
}

// Requests returns the requests that have come so far.
func (u *Server) Requests() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.seen)
}

// Bodies returns their bodies.
func (u *Server) Bodies() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.bodies)
}

// Raw writes bytes as they are. An error means that the sidecar has closed the connection,
// and so does x.Gone.
func (x *Exchange) Raw(s string) {
	x.sent.Write([]byte(s))
	x.write(s)
}

// write sends bytes that are not part of the body.
func (x *Exchange) write(s string) { io.WriteString(x.Conn, s) }

// Header starts a response: a status such as "200 OK" and whole header lines.
func (x *Exchange) Header(status string, lines ...string) {
	x.write("HTTP/1.1 " + status + "\r\n" + strings.Join(append(lines, "\r\n"), "\r\n"))
}

// Events starts a chunked event stream.
func (x *Exchange) Events(lines ...string) {
	x.Header("200 OK", append([]string{"Content-Type: text/event-stream", "Transfer-Encoding: chunked"}, lines...)...)
}

// Begin starts a chat stream: the header, the role and some texts, each in a frame.
func (x *Exchange) Begin(texts ...string) {
	x.Events()
	x.Frame(hermes.Role)
	for _, text := range texts {
		x.Text(text)
	}
}

// Text sends a text in a frame.
func (x *Exchange) Text(text string) { x.Frame(hermes.Delta("content", text)) }

// Die breaks the connection as a process that is killed does.
func (x *Exchange) Die() { x.Reset() }

// Chunk sends one HTTP chunk in one write.
func (x *Exchange) Chunk(b []byte) {
	if len(b) > 0 {
		x.sent.Write(b)
		x.write(fmt.Sprintf("%x\r\n%s\r\n", len(b), b))
	}
}

// Frame sends one event, lines and blank line, as a chunk.
func (x *Exchange) Frame(lines ...string) {
	x.Chunk([]byte(strings.Join(lines, "\n") + "\n\n"))
}

// End ends a chunked body well.
func (x *Exchange) End() { x.write("0\r\n\r\n") }

// Finish ends a stream well: a finish chunk with usage, [DONE] and the end of the body.
func (x *Exchange) Finish() {
	x.Frame(hermes.Finish("stop", 5))
	x.Frame("data: [DONE]")
	x.End()
}

// Torn sends a part of a chunk that promised to be longer, and closes.
func (x *Exchange) Torn(part []byte) {
	x.sent.Write(part)
	x.write(fmt.Sprintf("%x\r\n%s", len(part)+100, part))
	x.Fin()
}

// Fin closes the connection by FIN.
func (x *Exchange) Fin() {
	x.shut = true
	x.Conn.Close()
}

// Reset closes the connection by RST.
func (x *Exchange) Reset() {
	x.Conn.(*net.TCPConn).SetLinger(0)
	x.Fin()
}

// Wait blocks until c is closed, the sidecar has left, or harness.Patience ends. It reports
// whether c was closed.
func (x *Exchange) Wait(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-x.Gone:
		return false
	case <-time.After(harness.Patience):
		return false
	}
}

// Silence writes nothing until the sidecar leaves.
func (x *Exchange) Silence() { x.Wait(nil) }

// Pause lets time pass for the sidecar, whose clock is under test. It ends early if the
// sidecar leaves. On a busy machine other things may not have happened at its end: see
// harness.AtAnyPace.
func (x *Exchange) Pause(d time.Duration) {
	select {
	case <-x.Gone:
	case <-time.After(d):
	}
}

// AsJSON returns a script that answers with a status and a JSON body.
func AsJSON(status, body string) Script {
	return func(x *Exchange) {
		x.Header(status, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)))
		x.Raw(body)
	}
}

// Lines returns a script of frames, given by their lines, that ends well.
func Lines(frames ...[]string) Script {
	return func(x *Exchange) {
		x.Events()
		for _, f := range frames {
			x.Frame(f...)
		}
		x.End()
	}
}

// Chat returns a script of a chat: its role, what the steps say, and a good end, unless they break off.
func Chat(steps ...hermes.Step) Script {
	return func(x *Exchange) {
		x.Begin()
		if hermes.Play(x, steps...) {
			x.Finish()
		}
	}
}

// HeldBack returns a script that sends the role, and the rest of a good answer once rest is
// closed.
func HeldBack(rest <-chan struct{}) Script { return Chat(hermes.Waits(rest), hermes.Says("hi")) }

// A Cutter divides a body into HTTP chunks.
type Cutter func(body []byte) [][]byte

// ByFrame makes a chunk of each event, as Hermes does.
func ByFrame(body []byte) [][]byte { return bytes.SplitAfter(body, []byte("\n\n")) }

// Replay returns a script that answers with a recording, from the header to the end.
func Replay(r hermes.Recording, c Cutter) Script {
	parts := c(r.Body)
	return func(x *Exchange) {
		x.Raw(r.Header)
		if !strings.Contains(r.Header, "chunked") {
			x.Raw(string(r.Body))
			return
		}
		for _, p := range parts {
			x.Chunk(p)
		}
		x.End()
	}
}

// A Router has scripts by their names.
type Router map[string]Script

// Play plays the script that the request's X-Play header names.
func (r Router) Play(x *Exchange) {
	if s := r[x.Req.Header.Get("X-Play")]; s != nil {
		s(x)
		return
	}
	AsJSON("404 Not Found", `{"error":"no such script"}`)(x)
}

// Library returns a router of recordings by their names.
func Library(all []hermes.Recording, c Cutter) Router {
	r := Router{}
	for _, rec := range all {
		r[rec.String()] = Replay(rec, c)
	}
	return r
}

// Held returns a server whose streams wait after the first frames until rest is closed.
func Held(t testing.TB) (up *Server, rest chan struct{}) {
	rest = make(chan struct{})
	up = New(t, Router{
		"":             Chat(hermes.Says("hi"), hermes.Marks("💻 make"), hermes.Waits(rest), hermes.Says("\n\nok")),
		"header alone": func(x *Exchange) { x.Events(); x.Wait(rest) },
		"no header":    (*Exchange).Silence,
	}.Play)
	return up, rest
}
