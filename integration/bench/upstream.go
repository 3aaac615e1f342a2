package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// upstream is the scripted backend. It writes each frame as one chunk of HTTP, in
// one write.
type upstream struct {
	open   atomic.Int64 // streams
	chunks atomic.Int64 // HTTP chunks of answers that were streams
	wrong  atomic.Int64 // requests that were no scenario
	made   sync.Map     // of scenarios that are flat, the bytes of their answers
}

// upstreamState is what GET /state answers.
type upstreamState struct{ Open, Chunks, Wrong int64 }

// runUpstream serves until standard input ends, and says its address on standard
// output.
func runUpstream() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	u := new(upstream)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
		go u.serve(c.(*net.TCPConn))
	}
}

// serve answers the requests of a connection.
func (u *upstream) serve(c *net.TCPConn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 2<<10)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if !u.answer(c, req, body) {
			return
		}
	}
}

// answer answers a request. It is false when the connection is not to be used any
// more.
func (u *upstream) answer(c *net.TCPConn, req *http.Request, body []byte) bool {
	switch {
	case req.URL.Path == "/state":
		state, _ := json.Marshal(upstreamState{u.open.Load(), u.chunks.Load(), u.wrong.Load()})
		return whole(c, 200, string(state))
	case req.Method == http.MethodGet:
		return whole(c, 200, `{"object": "list", "data": [{"id": "hermes-agent", "object": "model", "created": 1795164814, "owned_by": "hermes"}]}`)
	}
	var chat struct {
		Stream   bool
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(body, &chat); err != nil || len(chat.Messages) == 0 {
		u.wrong.Add(1)
		return whole(c, 400, `{"error": {"message": "no messages"}}`)
	}
	s, err := parseScenario(messageText(chat.Messages[len(chat.Messages)-1].Content))
	if err != nil || !chat.Stream {
		u.wrong.Add(1)
		return whole(c, 400, `{"error": {"message": "no scenario"}}`)
	}
	u.open.Add(1)
	defer u.open.Add(-1)
	if s.flat {
		return u.flat(c, s)
	}
	return u.stream(c, s)
}

// flat answers with the scenario's stream, which has no pauses, as fast as it is read:
// made beforehand, and many chunks in a write.
func (u *upstream) flat(c *net.TCPConn, s scenario) bool {
	made, ok := u.made.Load(s)
	if !ok {
		made, _ = u.made.LoadOrStore(s, wholeStream(s))
	}
	u.chunks.Add(int64(s.chunks) + 2)
	_, err := c.Write(made.([]byte))
	return err == nil
}

// wholeStream returns all that answers a scenario that ends well. Each frame is a chunk of
// HTTP.
func wholeStream(s scenario) []byte {
	f := newFrames(s)
	all := []byte(streamHeader)
	add := func(frame []byte) {
		all = append(append(fmt.Appendf(all, "%x\r\n", len(frame)), frame...), "\r\n"...)
	}
	add(f.role())
	for i := range s.chunks {
		add(f.chunk(i, time.Unix(0, 0)))
	}
	add(f.end())
	return append(all, "0\r\n\r\n"...)
}

// messageText returns the text of a message: gateways make lists of parts of some.
func messageText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts) // what is neither has no text
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func whole(c net.Conn, status int, body string) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
	return err == nil
}

const streamHeader = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"

// stream answers with the scenario's stream.
func (u *upstream) stream(c *net.TCPConn, s scenario) bool {
	f := newFrames(s)
	var out []byte
	send := func(prefix string, frame []byte) bool {
		out = append(fmt.Appendf(append(out[:0], prefix...), "%x\r\n", len(frame)), frame...)
		out = append(out, "\r\n"...)
		_, err := c.Write(out)
		u.chunks.Add(1)
		return err == nil
	}
	if !send(streamHeader, f.role()) {
		return false
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Read(make([]byte, 1)) // a proxy sends nothing while it is answered
	}()
	next := time.Now().Add(s.first)
	at := time.NewTimer(s.first)
	defer at.Stop()
	for i := range s.chunks {
		select {
		case <-gone:
			return false
		case <-at.C:
			next = next.Add(s.every)
			at.Reset(time.Until(next))
		}
		if !send("", f.chunk(i, time.Now())) {
			return false
		}
	}
	switch s.end {
	case endsReset:
		_ = c.SetLinger(0) // close sends a reset
		return false
	case endsClosed:
		return false
	case endsNever:
		<-gone
		return false
	}
	if s.end != endsEarly && !send("", f.end()) {
		return false
	}
	if _, err := io.WriteString(c, "0\r\n\r\n"); err != nil {
		return false
	}
	_ = c.SetReadDeadline(time.Now()) // the next request is not ours to read
	<-gone
	return c.SetReadDeadline(time.Time{}) == nil
}
