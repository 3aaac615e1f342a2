package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// answer reads the answer to a request from its connection.
type answer struct {
	r      *bufio.Reader
	status int
	header http.Header
	chunks int // of HTTP, which are the proxy's flushes

	chunked bool
	left    int64 // of the chunk under way or, without chunks, of the body; -1 for up to the end
	ended   bool
}

// get sends a request for a chat completion and reads the header of its answer.
func get(c net.Conn, p target, body []byte) (*answer, error) {
	req := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", p.Path, p.Addr, len(body))
	for k, v := range p.Header {
		req = fmt.Appendf(req, "%s: %s\r\n", k, v)
	}
	if _, err := c.Write(append(append(req, "\r\n"...), body...)); err != nil {
		return nil, err
	}
	a := &answer{r: bufio.NewReaderSize(c, 4<<10)}
	line, err := a.line()
	if err != nil {
		return nil, fmt.Errorf("the status line: %w", err)
	}
	if _, err := fmt.Sscanf(line, "HTTP/1.1 %d", &a.status); err != nil {
		return nil, fmt.Errorf("the status line %q: %w", line, err)
	}
	h, err := textproto.NewReader(a.r).ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	a.header = http.Header(h)
	a.chunked = strings.EqualFold(a.header.Get("Transfer-Encoding"), "chunked")
	if length := a.header.Get("Content-Length"); a.chunked {
	} else if length == "" {
		a.left = -1
	} else if a.left, err = strconv.ParseInt(length, 10, 64); err != nil {
		return nil, fmt.Errorf("the length: %w", err)
	}
	return a, nil
}

func (a *answer) line() (string, error) {
	b, err := a.r.ReadSlice('\n')
	return strings.TrimRight(string(b), "\r\n"), err
}

// Read reads from the body. A body that is cut ends in io.ErrUnexpectedEOF or the
// connection's error.
func (a *answer) Read(b []byte) (int, error) {
	if a.chunked && a.left == 0 && !a.ended {
		if err := a.next(); err != nil {
			return 0, err
		}
	}
	if a.ended || !a.chunked && a.left == 0 {
		return 0, io.EOF
	}
	if a.left > 0 && int64(len(b)) > a.left {
		b = b[:a.left]
	}
	n, err := a.r.Read(b)
	if a.left < 0 {
		return n, err
	}
	a.left -= int64(n)
	if err == nil && a.chunked && a.left == 0 {
		_, err = a.r.Discard(len("\r\n"))
	}
	return n, cut(err)
}

// next reads the size of the next chunk.
func (a *answer) next() error {
	line, err := a.line()
	if err != nil {
		return cut(err)
	}
	size, _, _ := strings.Cut(line, ";")
	if a.left, err = strconv.ParseInt(size, 16, 64); err != nil {
		return fmt.Errorf("the size of a chunk: %w", err)
	}
	if a.left > 0 {
		a.chunks++
		return nil
	}
	a.ended = true
	for { // trailers
		if line, err = a.line(); err != nil || line == "" {
			return cut(err)
		}
	}
}

// cut makes an end that is none what it is.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// event is an event as the harness looks at it.
type event struct {
	name string
	data []byte
}

// eachEvent calls f for each event of the stream, until its end or f's error.
func eachEvent(r io.Reader, f func(event) error) error {
	lines := bufio.NewReaderSize(r, 4<<10)
	var e event
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		} else if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch name, value, _ := bytes.Cut(line, []byte(":")); {
		case len(line) == 0 && e.data != nil:
			if err := f(e); err != nil {
				return err
			}
			e = event{}
		case string(name) == "event":
			e.name = string(bytes.TrimSpace(value))
		case string(name) == "data":
			e.data = append(e.data, bytes.TrimSpace(value)...)
		}
	}
}

// chunk is what the harness reads of a chunk, whoever has written it.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string
		}
		FinishReason string `json:"finish_reason"`
	}
	Error      json.RawMessage
	ToolCallID string `json:"toolCallId"`
	Status     string
}
