package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// history is a request whose assistant said content, and whose user quotes it.
func history(content string) string {
	said := hermes.ASCII(content)
	return `{"model": "hermes-agent", "stream": true, "messages": [{"role": "assistant", "content": ` + said +
		`}, {"role": "assistant", "content": [{"type": "text", "text": ` + said + `}]}, {"role": "user", "content": "` + "\\n`\\ud83d\\udcbb ls`\\n" + `"}]}`
}

const (
	pollutedContent = "Let me look.\n`💻 ls -la`\n\n`📖 a.go`\n\n\nDone."
	healedContent   = "Let me look.\n\nDone."
)

// answersNothing starts an upstream that answers {}.
func answersNothing(t testing.TB) *upstream.Server {
	return upstream.New(t, upstream.AsJSON("200 OK", "{}"))
}

// postTo posts a body, and returns the status of the answer.
func postTo(t testing.TB, base, path, body string, chunked bool) int {
	t.Helper()
	r := client.New(t, base).Send(http.MethodPost, path, client.Body(body, chunked))
	r.Leave()
	return r.StatusCode
}

// A connection that is refused costs nothing of the request: Caddy's reverse_proxy sends all of it to the next
// upstream, however much of it is buffered.
func TestNextUpstreamGetsTheWholeRequest(t *testing.T) {
	large := history(healedContent + strings.Repeat("x", 1<<20))
	for buffers, bodies := range map[string][]string{
		"":                          {history(pollutedContent), history(healedContent)},
		"request_buffers 10":        {history(pollutedContent), history(healedContent)},
		"request_buffers unlimited": {large, large},
	} {
		up := answersNothing(t)
		base, _ := sidecar.ServeCaddyfile(t, "\thermes\n\treverse_proxy "+harness.FreePort(t)+" "+up.Addr+" {\n\t\tlb_policy first\n\t\tlb_retries 1\n\t\tfail_duration 1m\n\t\t"+buffers+"\n\t}")
		if status := postTo(t, base, "/v1/chat/completions", bodies[0], false); status != http.StatusOK {
			t.Errorf("%q: status %d", buffers, status)
		}
		if got := up.Bodies(); !slices.Equal(got, bodies[1:]) {
			t.Errorf("%q: upstream got %d requests, %q", buffers, len(got), harness.Clip(strings.Join(got, "")))
		}
	}
}

// What a site does to a request whose body it limits, in front of hermes or behind it, and to one that its
// error page sends to another upstream, is the same as without hermes.
func TestRequestsWithCaddysOwnDirectives(t *testing.T) {
	const limit = "request_body {\nmax_size 50\n}\n"
	body, first := history(pollutedContent), answersNothing(t)
	for _, c := range []struct {
		name, site string
		status     int
		second     []string // what the upstream of the error page gets
	}{
		{"a limit in front", limit + "reverse_proxy " + first.Addr, http.StatusRequestEntityTooLarge, nil},
		{"a limit behind", "handle {\n" + limit + "reverse_proxy " + first.Addr + "\n}", http.StatusRequestEntityTooLarge, nil},
		{"an error page", "reverse_proxy " + harness.FreePort(t), http.StatusOK, []string{body}},
	} {
		for _, hermes := range []string{"", "hermes", "hermes {\nhistory keep\n}"} {
			for _, chunked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %q, chunked %v", c.name, hermes, chunked), func(t *testing.T) {
					second := answersNothing(t)
					base, _ := sidecar.ServeCaddyfile(t, hermes+"\n"+c.site+"\nhandle_errors {\nreverse_proxy "+second.Addr+"\n}")
					if status := postTo(t, base, "/api", body, chunked); status != c.status {
						t.Errorf("status %d, want %d", status, c.status)
					}
					if got := second.Bodies(); !slices.Equal(got, c.second) || len(first.Bodies()) > 0 {
						t.Errorf("the upstreams got %q and %q", first.Bodies(), got)
					}
				})
			}
		}
	}
}

// A request that the client has not sent in good order is its own failure, not
// one of the agent's that is worth another try.
func TestRequestsThatAreNotSentInGoodOrder(t *testing.T) {
	body := history(pollutedContent)
	for _, o := range []sidecar.Options{nil, {"history": "keep"}} {
		up := answersNothing(t)
		base, s := sidecar.Serve(t, up, o)
		part := client.ChunkedHead + fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
		if status := byHand(t, base, false, part, "zz\r\n"); status != http.StatusBadRequest {
			t.Errorf("%v: status %d for a malformed chunk, want 400", o, status)
		}
		if status := byHand(t, base, true, part); status != 0 && status != 499 {
			t.Errorf("%v: status %d for a client that has gone", o, status)
		}
		if n := len(up.Requests()); n != 0 {
			t.Errorf("%v: %d requests have come whole", o, n)
		}
		s.Stop()
		if log := s.Log.String(); strings.Contains(log, "upstream_aborted") {
			t.Errorf("%v: the log blames upstream:\n%s", o, log)
		}
	}
}

// byHand sends what is written of a request, and closes the client's half of the
// connection if it leaves. It returns the status of the answer, 0 for none.
func byHand(t testing.TB, base string, leaves bool, parts ...string) int {
	t.Helper()
	conn := client.Dial(t, base)
	defer conn.Close()
	for _, part := range parts {
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
	}
	if leaves {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}
