package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// startBackend serves the scripted backend until this process ends.
func startBackend() (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { panic(http.Serve(l, http.HandlerFunc(answerRequest))) }()
	return l.Addr().String(), nil
}

// answerRequest plays the scenario in the last message of a request.
func answerRequest(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if req.Method == http.MethodGet {
		io.WriteString(w, `{"object": "list", "data": [{"id": "hermes-agent", "object": "model", "created": 1795164814, "owned_by": "hermes"}]}`)
		return
	}
	var chat struct {
		Stream   bool
		Messages []struct{ Content json.RawMessage }
	}
	var s scenario
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(body, &chat)
	}
	if n := len(chat.Messages); err == nil && n > 0 {
		err = json.Unmarshal([]byte(messageText(chat.Messages[n-1].Content)), &s)
	}
	switch {
	case err != nil || !chat.Stream || len(chat.Messages) == 0:
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error": {"message": "no scenario"}}`)
	case s.Flat:
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = c.Write(wholeAnswer(s))
			c.Close()
		}
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		stream(w, req, s)
	}
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

// wholeAnswer returns the answer, with its header, of a scenario that has no pauses and ends well.
// Each frame is a chunk of HTTP.
func wholeAnswer(s scenario) []byte {
	var all bytes.Buffer
	all.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunks := httputil.NewChunkedWriter(&all) // a buffer takes all
	f := &frames{scenario: s}
	chunks.Write(f.role())
	for i := range s.Chunks {
		chunks.Write(f.chunk(i, time.Unix(0, 0)))
	}
	chunks.Write(f.end())
	chunks.Close()
	all.WriteString("\r\n")
	return all.Bytes()
}

// stream sends the scenario's stream. Each frame is one chunk of HTTP, in one write.
func stream(w http.ResponseWriter, req *http.Request, s scenario) {
	c := http.NewResponseController(w)
	send := func(frame []byte) {
		_, _ = w.Write(frame) // a client that has gone ends the request's context
		_ = c.Flush()
	}
	f := &frames{scenario: s}
	send(f.role())
	next := time.Now().Add(s.First)
	at := time.NewTimer(s.First)
	defer at.Stop()
	for i := range s.Chunks {
		select {
		case <-req.Context().Done():
			return
		case <-at.C:
			next = next.Add(s.Every)
			at.Reset(time.Until(next))
		}
		send(f.chunk(i, time.Now()))
	}
	switch s.End {
	case endsReset:
		if conn, _, err := c.Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0) // close sends a reset
			conn.Close()
		}
	case endsClosed:
		panic(http.ErrAbortHandler) // the server closes the connection
	case endsNever:
		<-req.Context().Done()
	case endsWell, endsCrash:
		send(f.end())
	}
}
