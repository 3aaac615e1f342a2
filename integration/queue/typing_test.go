package queue

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// zipped returns text in gzip's form.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// A socket is the connection of a client that types a request.
type socket struct {
	net.Conn
	t    testing.TB
	rest string // of the body, which is to come
}

// types sends the header of a request and a part of its body. The length of the body is announced,
// unless it is chunked.
func (p *place) types(path, header, body string, chunked bool) *socket {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	length := fmt.Sprintf("Content-Length: %d", len(body))
	if chunked {
		length = "Transfer-Encoding: chunked"
		body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	s := &socket{conn, p.t, body[len(body)-5:]}
	s.send("POST " + path + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(p.base, "http://") + "\r\nAuthorization: Bearer any\r\n" + header + "\r\n" + length + "\r\n\r\n")
	if strings.Contains(header, "Expect:") {
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			p.t.Fatalf("%q, %v", line, err)
		}
	}
	s.send(body[:len(body)-5])
	return s
}

func (s *socket) send(text string) {
	s.t.Helper()
	if _, err := s.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// ends sends the rest of the body.
func (s *socket) ends() { s.t.Helper(); s.send(s.rest) }

// status reads the status of the answer.
func (s *socket) status() int {
	s.t.Helper()
	reader := bufio.NewReader(s)
	for {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		if res.StatusCode >= 200 {
			return res.StatusCode
		}
	}
}

// TestTyping: a place is held while the agent works, not while a client types. However many bodies come
// without an end, whatever their form, others are served. When one has come, its run has a place, or
// waits for one.
func TestTyping(t *testing.T) {
	t.Parallel()
	const plain, js = `{"messages": [{"role": "user", "content": "slow-typed"}]}`, "Content-Type: application/json"
	for name, c := range map[string]struct {
		header, body string
		chunked      bool
		first        bool // the sidecar reads it first
	}{
		"compressed":           {js + "\r\nContent-Encoding: gzip", zipped(plain), false, false},
		"compressed, chunked":  {js + "\r\nContent-Encoding: gzip", zipped(plain), true, false},
		"expected, compressed": {js + "\r\nExpect: 100-continue\r\nContent-Encoding: gzip", zipped(plain), false, false},
		"too large":            {js, strings.Replace(plain, "{", "{"+strings.Repeat(" ", 3000), 1), false, false},
		"plain":                {js, plain, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceOf(t, hermes.New(t, 2), site{queue: []string{"runs 2"}, hermes: []string{"max_request 2KiB"}})
			var typed []*socket
			for range 8 {
				typed = append(typed, p.types(chat.path, c.header, c.body, c.chunked))
			}
			if !c.first {
				harness.Until(t, "the agent reads their bodies", func() bool { return p.Reading() == len(typed) })
			}
			for i := range 4 {
				p.ask(chat, "honest", fmt.Sprintf("hello-%d", i)).good(chat)
			}
			if n := p.metric("running"); n > 0 {
				t.Errorf("%v places are taken", n)
			}
			for _, s := range typed[:4] {
				s.ends()
			}
			harness.Until(t, "two run, and two wait", func() bool { return p.metric("running") == 2 && p.metric("waiting") == 2 })
			p.Until(t, "slow-typed")
			p.Release()
			for _, s := range typed[:4] {
				if got := s.status(); got != http.StatusOK {
					t.Errorf("status %d", got)
				}
			}
			if p.Refusals() > 0 || p.MostAtOnce() > 2 {
				t.Errorf("%d refused, %d at once", p.Refusals(), p.MostAtOnce())
			}
			for _, s := range typed[4:] {
				s.Close()
			}
			p.free(2)
		})
	}
}
