package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// A target is where a proxy takes requests.
type target struct {
	Addr, Path, Model string
	Header            map[string]string
}

// An answer is an event stream as it comes.
type answer struct {
	net.Conn
	body   io.Reader
	chunks int           // of HTTP, which are the proxy's flushes
	asked  time.Time     // when the request was sent
	took   time.Duration // until the header came
}

// ask sends the request for a scenario, after so many bytes of history, and reads the header of
// the answer. Patience bounds the whole unless it is 0.
func ask(at target, s scenario, history int, patience time.Duration) (a *answer, err error) {
	conn, err := net.DialTimeout("tcp", at.Addr, time.Minute)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if patience > 0 {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return nil, err
		}
	}
	body := s.request(at.Model, history)
	req := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", at.Path, at.Addr, len(body))
	for k, v := range at.Header {
		req = fmt.Appendf(req, "%s: %s\r\n", k, v)
	}
	asked := time.Now()
	if _, err := conn.Write(append(append(req, "\r\n"...), body...)); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(conn, 4<<10)
	header := textproto.NewReader(r)
	status, err := header.ReadLine()
	if err != nil {
		return nil, fmt.Errorf("the status line: %w", err)
	}
	fields, err := header.ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200") {
		said := make([]byte, 400)
		n, _ := r.Read(said)
		return nil, fmt.Errorf("%s: %s", status, said[:n])
	}
	a = &answer{Conn: conn, body: r, asked: asked, took: time.Since(asked)}
	if strings.EqualFold(http.Header(fields).Get("Transfer-Encoding"), "chunked") {
		a.body = &chunkedBody{r: r, chunks: &a.chunks}
	}
	return a, nil
}

// A chunkedBody counts the chunks of HTTP that it decodes. A body that is cut ends in
// io.ErrUnexpectedEOF or the connection's error.
type chunkedBody struct {
	r      *bufio.Reader
	left   int64 // of the current chunk
	chunks *int
}

func (c *chunkedBody) Read(b []byte) (n int, err error) {
	if c.left == 0 {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, unexpected(err)
		}
		size, _, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), ";")
		if c.left, err = strconv.ParseInt(size, 16, 64); err != nil {
			return 0, fmt.Errorf("the size of a chunk: %w", err)
		}
		if c.left == 0 {
			return 0, io.EOF
		}
		*c.chunks++
	}
	n, err = c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	if err == nil && c.left == 0 {
		_, err = c.r.Discard(len("\r\n"))
	}
	return n, unexpected(err)
}

// unexpected returns the error of a body that ends before its end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// eachEvent calls f with the data of each event of the stream, until its end or f's error.
func eachEvent(r io.Reader, f func(data []byte) error) error {
	in := bufio.NewReaderSize(r, 4<<10)
	var data []byte
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		} else if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, bytes.TrimSpace(value)...)
		} else if len(line) == 0 && data != nil {
			if err := f(data); err != nil {
				return err
			}
			data = nil
		}
	}
}
