package network

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A resend is a way in which Go's transport could be brought to send a request
// again that an agent has read.
type resend struct {
	name   string
	client []string // headers of the client's
	behind string   // directives between hermes and reverse_proxy
	proxy  string   // of reverse_proxy
}

var resends = []resend{
	{name: "nothing"},
	{name: "a key", client: []string{"Idempotency-Key", "k"}},
	{name: "an empty key", client: []string{"Idempotency-Key", ""}},
	{name: "an empty key of the other name", client: []string{"X-Idempotency-Key", ""}},
	{name: "a key that request_header adds", behind: "request_header Idempotency-Key k"},
	{name: "an empty key that request_header adds", behind: `request_header X-Idempotency-Key ""`},
	{name: "a key that header_up adds", proxy: "header_up Idempotency-Key k"},
	{name: "another body", behind: "request_body {\nset `" + otherQuestion + "`\n}"},
	{name: "another body and a key", behind: "request_header Idempotency-Key k\nrequest_body {\nset `" + otherQuestion + "`\n}"},
	{name: "a buffered body and a key", proxy: "request_buffers 1MB\nheader_up Idempotency-Key k"},
}

// otherQuestion is the body that a handler behind hermes replaces the client's by.
const otherQuestion = `{"model":"hermes-agent","messages":[{"role":"user","content":"another"}]}`

// What an agent has read is not sent to it again: with hermes it is asked as often
// as without it, once, and with the same body.
func TestWhatAnAgentHasReadIsNotSentAgain(t *testing.T) {
	for protocol, start := range map[string]func(testing.TB, string) *askedAgent{"HTTP/1.1": agentOverHTTP1, "h2c": agentOverHTTP2} {
		for _, how := range agentEnds[protocol] {
			t.Run(protocol+" "+how, func(t *testing.T) {
				var directives string
				agents := map[string]*askedAgent{}
				for i, r := range resends {
					for j, hermes := range []string{"", "hermes", "hermes {\nhistory keep\n}"} {
						at := fmt.Sprintf("/%d/%d", i, j)
						agents[at] = start(t, how)
						directives += fmt.Sprintf("handle %s/* {\nroute {\n%s\n%s\nreverse_proxy %s {\n%s\n}\n}\n}\n", at, hermes, r.behind, agents[at].url, r.proxy)
					}
				}
				base, _ := sidecar.ServeCaddyfile(t, directives)
				c := client.New(t, base)
				for i, r := range resends {
					for j, with := range []string{"without hermes", "with hermes", "with history keep"} {
						at := fmt.Sprintf("/%d/%d", i, j)
						if got := c.Post(at+"/v1/chat/completions", r.client...).All(); got != "{}" {
							t.Fatalf("%s, %s: the first answer is %q", r.name, with, got)
						}
						res := c.Post(at+"/v1/chat/completions", r.client...)
						if res.All(); res.StatusCode != http.StatusBadGateway {
							t.Errorf("%s, %s: %s", r.name, with, res.Status)
						}
						want := client.Question
						if strings.Contains(r.behind, "request_body") {
							want = otherQuestion
						}
						if got := agents[at].requests(); !slices.Equal(got, []string{want, want}) {
							t.Errorf("%s, %s: the agent was asked %q, want %q twice, the second time in vain", r.name, with, got, want)
						}
					}
				}
			})
		}
	}
}

// agentEnds are the ways in which an agent leaves its second request unanswered.
var agentEnds = map[string][]string{
	"HTTP/1.1": {"closes", "resets"},
	"h2c":      {"closes", "protocol error", "refused stream", "goaway"},
}

// An askedAgent answers the first request, and reads the others.
type askedAgent struct {
	url string

	mu  sync.Mutex
	got []string // the bodies of its requests
}

// took records a request and returns its number.
func (a *askedAgent) took(body string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got = append(a.got, body)
	return len(a.got)
}

// requests are the bodies of the requests that have come.
func (a *askedAgent) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.got)
}

func agentOverHTTP1(t testing.TB, how string) *askedAgent {
	a := new(askedAgent)
	a.url = upstream.New(t, func(x *upstream.Exchange) {
		switch n := a.took(string(x.Body)); {
		case n == 1:
			upstream.AsJSON("200 OK", "{}")(x)
		case how == "resets":
			x.Reset()
		default:
			x.Fin()
		}
	}).Addr
	return a
}

// agentOverHTTP2 speaks as much HTTP/2 as it takes, by hand: a server of Go's
// would not end a stream in these ways.
func agentOverHTTP2(t testing.TB, how string) *askedAgent {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &askedAgent{url: "h2c://" + ln.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() { defer conn.Close(); a.serveHTTP2(conn, how) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return a
}

// The frames of HTTP/2 and their flags (RFC 9113, section 6).
const (
	h2Data, h2Headers, h2Reset, h2Settings, h2GoAway = 0, 1, 3, 4, 7

	h2Ack, h2EndStream, h2EndHeaders = 1, 1, 4
)

// h2Frame is a frame, of a connection with few streams.
func h2Frame(kind, flags byte, stream byte, payload ...byte) []byte {
	return append([]byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, byte(stream)}, payload...)
}

// serveHTTP2 serves a connection.
func (a *askedAgent) serveHTTP2(conn net.Conn, how string) {
	if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	_, _ = conn.Write(h2Frame(h2Settings, 0, 0))
	bodies := map[byte]string{}
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], head[8]
		if kind == h2Settings && flags&h2Ack == 0 {
			_, _ = conn.Write(h2Frame(h2Settings, h2Ack, 0))
		}
		if kind != h2Data {
			continue
		}
		bodies[stream] += string(payload)
		if flags&h2EndStream == 0 {
			continue
		}
		if a.took(bodies[stream]) == 1 {
			_, _ = conn.Write(h2Frame(h2Headers, h2EndHeaders, stream, 0x88)) // :status 200, of the static table
			_, _ = conn.Write(h2Frame(h2Data, h2EndStream, stream, '{', '}'))
			continue
		}
		switch how {
		case "protocol error":
			_, _ = conn.Write(h2Frame(h2Reset, 0, stream, 0, 0, 0, 1))
		case "refused stream":
			_, _ = conn.Write(h2Frame(h2Reset, 0, stream, 0, 0, 0, 7))
		case "goaway":
			_, _ = conn.Write(h2Frame(h2GoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
			return
		default:
			return
		}
	}
}
