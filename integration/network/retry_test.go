package network

import (
	"bufio"
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
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	"golang.org/x/net/http2"
)

// checkAgain wants an answer that tells SDKs not to send the request again, and
// says why, where the agent may be running; and one that says nothing of the kind
// where it could not be reached.
func checkAgain(t *testing.T, r *client.Reply, e strict.APIError, running bool) {
	t.Helper()
	got, said := r.Header.Values("X-Should-Retry"), strings.Contains(e.Message, "the agent may be running")
	switch {
	case running && (len(got) != 1 || got[0] != "false" || !said):
		t.Errorf("X-Should-Retry %q with %q, want false: the agent may be running", got, e.Message)
	case !running && (len(got) != 0 || e.Message != "the agent could not be reached"):
		t.Errorf("X-Should-Retry %q with %q, want none: nobody could be asked", got, e.Message)
	}
}

// Each error instead of an answer says whether the agent may have begun a run.
func TestErrorsSayWhetherTheAgentMayBeRunning(t *testing.T) {
	play := func(x *upstream.Exchange) {
		switch x.Req.Header.Get("X-Play") {
		case "reset":
			x.Reset()
		case "header":
			x.Events("X-Should-Retry: true")
			x.Fin()
		case "silent":
			x.Silence()
		case "500":
			upstream.AsJSON("500 Internal Server Error", `{}`)(x)
		}
		x.Fin()
	}
	up, one, two := upstream.New(t, play), upstream.New(t, play), upstream.New(t, play)
	over2 := agentOverHTTP2(t, "closes")
	over2.took("") // so that it reads the first request, too
	var none [6]string
	for i := range none {
		none[i] = harness.FreePort(t)
	}
	nobody := none[0]
	again := "lb_policy first\nlb_retries 1\nfail_duration 1m\n" // so that the second try is another's
	post := "lb_retry_match {\nmethod POST\n}\n"
	cases := []struct {
		name    string
		hermes  string
		behind  string // directives
		to      string
		proxy   string // options of reverse_proxy
		play    string
		status  int
		running bool
	}{
		{name: "refused", to: nobody, status: 502},
		{name: "refused over h2c", to: "h2c://" + nobody, status: 502},
		{name: "refused, for a request that was not read", hermes: "{\nhistory keep\n}", to: nobody, status: 502},
		{name: "refused, for a request that Caddy has read", to: nobody, proxy: "request_buffers 1MB", status: 502},
		{name: "refused, for another body", behind: "request_body {\nset `{}`\n}", to: nobody, status: 502},
		{name: "refused twice", to: none[1] + " " + none[2], proxy: again, status: 502},
		{name: "no TLS", to: "https://" + up.Addr, status: 502},
		{name: "nobody to ask", to: none[3], proxy: "fail_duration 1m\nmax_fails 1", status: 503},
		{name: "lost", to: up.Addr, status: 502, running: true},
		{name: "lost by a reset", to: up.Addr, play: "reset", status: 502, running: true},
		{name: "lost after its header", to: up.Addr, play: "header", status: 502, running: true},
		{name: "lost over h2c", to: over2.url, status: 502, running: true},
		{name: "lost, with a request that was not read", hermes: "{\nhistory keep\n}", to: up.Addr, status: 502, running: true},
		{name: "lost, with another body", behind: "request_body {\nset `{}`\n}", to: up.Addr, status: 502, running: true},
		{name: "lost, and then refused", to: one.Addr + " " + none[4], proxy: again + post + "request_buffers 1MB", status: 502, running: true},
		{name: "refused, and then lost", to: none[5] + " " + two.Addr, proxy: again, status: 502, running: true},
		{name: "silent, first_byte_timeout", hermes: "{\nfirst_byte_timeout 100ms\n}", to: up.Addr, play: "silent", status: 504, running: true},
		{name: "silent, idle_timeout", hermes: "{\nidle_timeout 100ms\n}", to: up.Addr, play: "silent", status: 504, running: true},
		{name: "silent, stall_timeout", hermes: "{\nstall_timeout 100ms\n}", to: up.Addr, play: "silent", status: 504, running: true},
		{name: "silent, Caddy's timeout", to: up.Addr, proxy: "transport http {\nresponse_header_timeout 100ms\n}", play: "silent", status: 504, running: true},
		{name: "failed, and tried in vain", to: up.Addr, proxy: "lb_retries 1\nrequest_buffers 1MB\nlb_retry_match {\nexpression `{rp.status_code} == 500`\n}", play: "500", status: 500, running: true},
	}
	var directives string
	for i, c := range cases {
		directives += fmt.Sprintf("handle /%d/* {\nroute {\nhermes %s\n%s\nreverse_proxy %s {\n%s\n}\n}\n}\n", i, c.hermes, c.behind, c.to, c.proxy)
	}
	base, _ := sidecar.ServeCaddyfile(t, directives)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cl := client.New(t, base)
			path := fmt.Sprintf("/%d/v1/chat/completions", i)
			if c.status == http.StatusServiceUnavailable {
				cl.Post(path).All() // after this one Caddy knows that it is not there
			}
			r := cl.Post(path, "X-Play", c.play)
			if c.status == http.StatusInternalServerError { // Caddy's own page
				if r.StatusCode != c.status || r.Header.Get("X-Should-Retry") != "false" {
					t.Errorf("%s, header %v", r.Status, r.Header)
				}
				return
			}
			checkAgain(t, r, client.CheckJSON(t, r, c.status, up.Addr), c.running)
		})
	}
	if len(one.Requests()) != 1 || len(two.Requests()) != 1 {
		t.Errorf("agents beside one that refuses were asked %d and %d times, want once each", len(one.Requests()), len(two.Requests()))
	}
}

// While the client still sends its request, it is the same: what has gone out may
// have begun something, and what could not be sent has not.
func TestErrorsWhileTheClientSends(t *testing.T) {
	closed := make(chan struct{}, 10)
	agent := harness.Listen(t, func(_ context.Context, conn net.Conn) { // it closes after the first bytes of a request's body
		if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = r.Body.Read(make([]byte, 1))
		}
		conn.Close()
		closed <- struct{}{}
	})
	for to, running := range map[string]bool{agent.Addr: true, harness.FreePort(t): false} {
		for _, hermes := range []string{"hermes", "hermes {\nhistory keep\n}", "hermes {\nhistory keep\nidle_timeout off\n}"} {
			base, _ := sidecar.ServeCaddyfile(t, hermes+"\nreverse_proxy "+to)
			conn := client.Dial(t, base)
			// It does not begin like an object: it goes on while it comes. Go's server
			// reads on before it answers, hence the rest.
			_, _ = io.WriteString(conn, strings.Replace(client.ChunkedHead, "Host: x", "Host: 127.0.0.1", 1)+"3\r\n[1,\r\n")
			if running {
				select {
				case <-closed:
				case <-time.After(harness.Patience):
					t.Fatalf("%s: the agent was not asked", hermes)
				}
			}
			_, _ = io.WriteString(conn, "2\r\n2]\r\n0\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s, running %v: %v", hermes, running, err)
			}
			r := client.NewReply(t, res, func() {})
			checkAgain(t, r, client.CheckJSON(t, r, http.StatusBadGateway, to), running)
		}
	}
}

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

// otherQuestion is the body that a handler after hermes replaces the client's by.
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
	a := new(askedAgent)
	a.url = "h2c://" + harness.Listen(t, func(_ context.Context, conn net.Conn) { a.serveHTTP2(conn, how) }).Addr
	return a
}

// serveHTTP2 serves a connection.
func (a *askedAgent) serveHTTP2(conn net.Conn, how string) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f, bodies := http2.NewFramer(conn, conn), map[uint32]string{}
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
			_ = f.WriteSettingsAck()
		}
		data, ok := frame.(*http2.DataFrame)
		if !ok {
			continue
		}
		bodies[data.StreamID] += string(data.Data())
		if !data.StreamEnded() {
			continue
		}
		if a.took(bodies[data.StreamID]) == 1 {
			status200 := []byte{0x88} // of the static table
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: data.StreamID, BlockFragment: status200, EndHeaders: true})
			_ = f.WriteData(data.StreamID, true, []byte("{}"))
			continue
		}
		switch how {
		case "protocol error":
			_ = f.WriteRSTStream(data.StreamID, http2.ErrCodeProtocol)
		case "refused stream":
			_ = f.WriteRSTStream(data.StreamID, http2.ErrCodeRefusedStream)
		case "goaway":
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			return
		default:
			return
		}
	}
}
