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
	"time"
)

// runUpstream serves the scripted backend until standard input ends, and writes its address to
// standard output.
func runUpstream() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	if err := serveUpstream(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// serveUpstream answers requests until the listener is closed. Each frame is one chunk of HTTP,
// in one write.
func serveUpstream(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			r := bufio.NewReaderSize(c, 2<<10)
			for again := true; again; {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				body, err := io.ReadAll(req.Body)
				again = err == nil && answerRequest(c.(*net.TCPConn), req, body)
			}
		}()
	}
}

// answerRequest reports whether the connection may be used again.
func answerRequest(c *net.TCPConn, req *http.Request, body []byte) bool {
	if req.Method == http.MethodGet {
		return whole(c, 200, `{"object": "list", "data": [{"id": "hermes-agent", "object": "model", "created": 1795164814, "owned_by": "hermes"}]}`)
	}
	var chat struct {
		Stream   bool
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(body, &chat); err != nil || len(chat.Messages) == 0 {
		return whole(c, 400, `{"error": {"message": "no messages"}}`)
	}
	var s scenario
	err := json.Unmarshal([]byte(messageText(chat.Messages[len(chat.Messages)-1].Content)), &s)
	switch {
	case err != nil || !chat.Stream:
		return whole(c, 400, `{"error": {"message": "no scenario"}}`)
	case s.Flat:
		_, err := c.Write(wholeStream(s))
		return err == nil
	}
	return stream(c, s)
}

// messageText returns the text of a message, which some gateways make a list of parts.
func messageText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts) // any other content has no text
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

const (
	streamHeader = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
	streamEnd    = "0\r\n\r\n"
)

// appendChunk appends a frame as a chunk of HTTP.
func appendChunk(b, frame []byte) []byte {
	return append(append(fmt.Appendf(b, "%x\r\n", len(frame)), frame...), "\r\n"...)
}

// made has the answers of wholeStream by their scenarios.
var made sync.Map

// wholeStream returns the whole answer of a scenario that has no pauses and ends well.
func wholeStream(s scenario) []byte {
	if b, ok := made.Load(s); ok {
		return b.([]byte)
	}
	f := &frames{scenario: s}
	all := appendChunk([]byte(streamHeader), f.role())
	for i := range s.Chunks {
		all = appendChunk(all, f.chunk(i, time.Unix(0, 0)))
	}
	all = append(appendChunk(all, f.end()), streamEnd...)
	made.Store(s, all)
	return all
}

// stream answers with the scenario's stream, and reports whether the connection may be used
// again.
func stream(c *net.TCPConn, s scenario) bool {
	f := &frames{scenario: s}
	var out []byte
	send := func(prefix string, frame []byte) bool {
		out = appendChunk(append(out[:0], prefix...), frame)
		_, err := c.Write(out)
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
	next := time.Now().Add(s.First)
	at := time.NewTimer(s.First)
	defer at.Stop()
	for i := range s.Chunks {
		select {
		case <-gone:
			return false
		case <-at.C:
			next = next.Add(s.Every)
			at.Reset(time.Until(next))
		}
		if !send("", f.chunk(i, time.Now())) {
			return false
		}
	}
	switch s.End {
	case endsReset:
		_ = c.SetLinger(0) // close sends a reset
		return false
	case endsClosed:
		return false
	case endsNever:
		<-gone
		return false
	}
	if s.End != endsEarly && !send("", f.end()) {
		return false
	}
	if _, err := io.WriteString(c, streamEnd); err != nil {
		return false
	}
	_ = c.SetReadDeadline(time.Now()) // the goroutine above must not read the next request
	<-gone
	return c.SetReadDeadline(time.Time{}) == nil
}
