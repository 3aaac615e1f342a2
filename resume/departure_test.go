package resume_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestDepartureIsNoticed whatever body a request has, and however it is framed: net/http
// looks for the end of a connection only once the body has been read to its end.
func TestDepartureIsNoticed(t *testing.T) {
	// They get the id of the stream, and the host.
	const (
		position = "Host: %[2]s\r\nLast-Event-ID: %[1]s/1\r\n"
		length   = "Content-Length: 15\r\n\r\n" + `{"stream":true}`
		chunked  = "Transfer-Encoding: chunked\r\n\r\n8\r\n" + `{"stream` + "\r\n7\r\n" + `":true}` + "\r\n0\r\n\r\n"
		large    = 1 << 20
	)
	for name, request := range map[string]string{
		"keep-alive":             "POST /events HTTP/1.1\r\n" + position + length,
		"close":                  "POST /events HTTP/1.1\r\nConnection: close\r\n" + position + length,
		"close, chunked":         "POST /events HTTP/1.1\r\nConnection: close\r\n" + position + chunked,
		"HTTP/1.0":               "POST /events HTTP/1.0\r\n" + position + length,
		"HTTP/1.0, no body":      "POST /events HTTP/1.0\r\n" + position + "\r\n",
		"a large body":           "POST /events HTTP/1.1\r\n" + position + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", large, strings.Repeat("x", large)),
		"100-continue, not sent": "POST /events HTTP/1.1\r\nExpect: 100-continue\r\n" + position + length,
		"GET":                    "GET /events/%[1]s HTTP/1.1\r\n" + position + "\r\n",
		"GET with a body":        "GET /events/%[1]s HTTP/1.0\r\n" + position + length,
		"GET from the beginning": "GET /events/%[1]s HTTP/1.1\r\nConnection: close\r\nHost: %[2]s\r\n" + chunked,
		"the key":                "POST /events HTTP/1.0\r\nHost: %[2]s\r\nIdempotency-Key: k\r\n" + length,
		"the key, a position":    "POST /events HTTP/1.0\r\nIdempotency-Key: k\r\n" + position + length,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil, streams([]string{event(1), event(2)}, onlyOnce()))
			q := post(key, "k")
			q.body = `{"stream":true}`
			first := l.send(q).want(http.StatusOK)
			first.next()
			first.leave()
			until(t, "the first has left", func() bool { return l.runs.Stats().Detached == 1 })

			c, err := net.Dial("tcp", l.srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := fmt.Fprintf(c, request, first.id(), l.srv.Listener.Addr()); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err == nil && res.StatusCode == http.StatusContinue {
				res, err = http.ReadResponse(in, nil)
			}
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(err, res)
			}
			until(t, "it reads", func() bool { st := l.runs.Stats(); return st.Readers == 1 && st.Detached == 0 })
			c.Close()
			until(t, "it has left", func() bool { st := l.runs.Stats(); return st.Readers == 0 && st.Detached == 1 })
		})
	}
}

// TestBodiesThatCannotBeRead get an error, not a stream whose end would go unnoticed.
func TestBodiesThatCannotBeRead(t *testing.T) {
	l := newLab(t, nil, streams([]string{event(1), event(2)}, onlyOnce()))
	first := l.send(post(resume.DetachHeader, "1m")).want(http.StatusOK)
	c, err := net.Dial("tcp", l.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "POST /events HTTP/1.1\r\nHost: %s\r\nLast-Event-ID: %s/0\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n", l.srv.Listener.Addr(), first.id())
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	problemOf(t, &reply{Response: res, t: t, in: bufio.NewReader(res.Body)}, http.StatusBadRequest)
	if _, err := io.ReadAll(c); err != nil {
		t.Error(err)
	}
	l.wantAsked(1)
}

// onlyOnce is a channel that says yes once.
func onlyOnce() <-chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	return c
}
