package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// A target is where a proxy takes requests.
type target struct {
	Addr   string
	Header map[string]string // of requests, beside Content-Type
}

// An answer is an event stream as it comes.
type answer struct {
	net.Conn
	body    io.Reader
	returns int           // CRs in the chunked body
	asked   time.Time     // when the request was sent
	took    time.Duration // until the header came
}

// ask sends the request for a scenario, after so many bytes of history, and reads the header of
// the answer. Patience bounds the whole unless it is 0.
func ask(at target, s scenario, history int, patience time.Duration) (a *answer, err error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+at.Addr+chatCompletions, bytes.NewReader(s.request(history)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range at.Header {
		req.Header.Set(k, v)
	}
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
		_ = conn.SetDeadline(time.Now().Add(patience)) // fails on a closed connection only
	}
	asked := time.Now()
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(conn, 4<<10)
	res, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 400))
		return nil, fmt.Errorf("%s: %s", res.Status, said)
	}
	a = &answer{Conn: conn, body: res.Body, asked: asked, took: time.Since(asked)}
	if len(res.TransferEncoding) > 0 {
		a.body = httputil.NewChunkedReader(returnCounter{r, &a.returns}) // res.Body has read nothing yet
	}
	return a, nil
}

// chunks returns how many chunks of HTTP have come, which are the proxy's flushes. Each has two CRs, and
// the last one, which is empty, one or two that are read; an event stream of Hermes has none itself.
func (a *answer) chunks() int { return max(0, a.returns-1) / 2 }

// A returnCounter counts the CRs that are read.
type returnCounter struct {
	io.Reader
	n *int
}

func (c returnCounter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	*c.n += bytes.Count(b[:n], []byte("\r"))
	return n, err
}

// eachEvent calls f with the data of each event of the stream that has any, until its end or f's
// error. It takes streams that a strict reader would refuse: peers also write them.
func eachEvent(r io.Reader, f func(data string) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 4<<10), 1<<20)
	data := ""
	for in.Scan() {
		line := strings.TrimRight(in.Text(), "\r")
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			data += strings.TrimSpace(value)
		} else if line == "" && data != "" {
			if err := f(data); err != nil {
				return err
			}
			data = ""
		}
	}
	return in.Err()
}
