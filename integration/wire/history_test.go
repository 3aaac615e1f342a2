package wire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

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

// An arrival is a request as upstream has got it.
type arrival struct {
	*http.Request
	body string
}

// arrivals is an upstream that answers {} and passes on what has come.
func arrivals(t testing.TB) (*upstream.Server, chan arrival) {
	got := make(chan arrival, 1)
	return upstream.New(t, func(x *upstream.Exchange) {
		got <- arrival{x.Req, string(x.Body)}
		upstream.AsJSON("200 OK", "{}")(x)
	}), got
}

// upload posts a body, of known length or chunked, and wants the answer {}.
func upload(t testing.TB, base, body string, chunked bool, headers ...string) {
	t.Helper()
	r := client.New(t, base).Send(http.MethodPost, "/v1/chat/completions", client.Body(body, chunked), headers...)
	if b := r.All(); b != "{}" || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %q", r.Status, b)
	}
}

// receive waits for what an upstream tells.
func receive(t testing.TB, got chan arrival) arrival {
	t.Helper()
	select {
	case a := <-got:
		return a
	case <-time.After(harness.Patience):
		t.Fatal("upstream has got no request")
		return arrival{}
	}
}

// want checks the body of an arrival, and its length.
func (a arrival) want(t testing.TB, body string, chunked bool) {
	t.Helper()
	if a.body != body {
		t.Errorf("upstream got %d bytes %q, want %d %q", len(a.body), harness.Clip(a.body), len(body), harness.Clip(body))
	}
	if chunked {
		if a.ContentLength != -1 || len(a.TransferEncoding) != 1 {
			t.Errorf("Content-Length %d, Transfer-Encoding %v; want it chunked", a.ContentLength, a.TransferEncoding)
		}
	} else if a.ContentLength != int64(len(body)) {
		t.Errorf("Content-Length %d, want %d", a.ContentLength, len(body))
	}
}

func TestHistories(t *testing.T) {
	zip := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	padded := func(s string, size int) string { return s + strings.Repeat(" ", size-len(s)) }
	polluted, healed := history(pollutedContent), history(healedContent)
	gone := len(polluted) - len(healed)
	up, got := arrivals(t)
	base, s := sidecar.Serve(t, up, nil)
	for _, c := range []struct {
		name, in, want string
		headers        []string
	}{
		{"polluted", polluted, healed, nil},
		{"clean", healed, healed, nil},
		{"10 MB", padded(polluted, 10_000_000), padded(healed, 10_000_000-gone), nil},
		{"more than 10 MB", padded(polluted, 10_000_001), padded(polluted, 10_000_001), nil},
		{"gzip", zip(polluted), zip(polluted), []string{"Content-Encoding", "gzip"}},
		{"garbage after it", polluted + "{", polluted + "{", nil},
		{"digest", polluted, healed, []string{"Content-Digest", "sha-256=:AAAA:"}},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(c.name+" chunked "+strconv.FormatBool(chunked), func(t *testing.T) {
				upload(t, base, c.in, chunked, c.headers...)
				a := receive(t, got)
				a.want(t, c.want, chunked)
				if a.Header.Get("Content-Digest") != "" {
					t.Error("the digest of other bytes has passed")
				}
			})
		}
	}
	lines := 0
	for _, e := range s.Log.Entries() {
		if e["msg"] == "history healed" {
			lines++
			if e["level"] != "info" || e["markers"] != 4.0 || e["path"] != "/v1/chat/completions" {
				t.Errorf("log %v", e)
			}
		}
	}
	if lines != 6 {
		t.Errorf("%d lines about healed histories, want 6", lines)
	}
	if strings.Contains(s.Log.String(), "Let me look") {
		t.Error("the log has what was said")
	}
}

func TestExpectContinue(t *testing.T) {
	up, got := arrivals(t)
	base, _ := sidecar.Serve(t, up, nil)
	conn := client.Dial(t, base)
	in := bufio.NewReader(conn)
	body := history(pollutedContent)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	if line, err := in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(conn, body)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	receive(t, got).want(t, history(healedContent), false)
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
		up, got := arrivals(t)
		base, _ := sidecar.ServeCaddyfile(t, "\thermes\n\treverse_proxy "+harness.FreePort(t)+" "+up.Addr+" {\n\t\tlb_policy first\n\t\tlb_retries 1\n\t\tfail_duration 1m\n\t\t"+buffers+"\n\t}")
		upload(t, base, bodies[0], false)
		receive(t, got).want(t, bodies[1], false)
	}
}

// With Caddyfile directives around it: an error page's reverse_proxy gets all of a request, and Caddy's own limit of a
// request's size is in force.
func TestRequestsWithCaddysOwnDirectives(t *testing.T) {
	up, got := arrivals(t)
	dead := harness.FreePort(t)
	base, _ := sidecar.ServeCaddyfile(t, `
	hermes
	request_body /limited/* {
		max_size 100
	}
	handle /fallback/* {
		reverse_proxy `+dead+`
	}
	handle {
		reverse_proxy `+up.Addr+`
	}
	handle_errors 502 {
		reverse_proxy `+up.Addr+`
	}`)
	for _, chunked := range []bool{false, true} {
		body := history(pollutedContent)
		if status := postTo(t, base, "/limited/v1/chat/completions", body, chunked); status != http.StatusRequestEntityTooLarge {
			t.Errorf("chunked %v: status %d, want 413", chunked, status)
		}
		if status := postTo(t, base, "/fallback/api", body, chunked); status != http.StatusOK {
			t.Errorf("chunked %v: status %d", chunked, status)
		}
		receive(t, got).want(t, body, chunked)
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

// What a site does to a request whose body it limits after hermes is the same as
// without hermes, its error route included.
func TestALimitOfTheBodyBehindHermes(t *testing.T) {
	body := `{"messages":[{"role":"assistant","content":"` + "\\n`💻 ls`\\n" + `"}],"pad":"` + strings.Repeat("x", 100) + `"}`
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprint("chunked ", chunked), func(t *testing.T) {
			var bare int
			for i, directive := range []string{"", "hermes", "hermes {\nhistory keep\n}"} {
				first, _ := arrivals(t)
				second, _ := arrivals(t)
				base, _ := sidecar.ServeCaddyfile(t, directive+`
	handle {
		request_body {
			max_size 50
		}
		reverse_proxy `+first.Addr+`
	}
	handle_errors {
		reverse_proxy `+second.Addr+"\n\t}")
				status := postTo(t, base, "/api", body, chunked)
				if i == 0 {
					bare = status
				}
				if status != bare {
					t.Errorf("%q: status %d, without it %d", directive, status, bare)
				}
				if n := len(first.Requests()) + len(second.Requests()); n != 0 {
					t.Errorf("%q: %d requests have passed whole", directive, n)
				}
			}
			if bare != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d without hermes, want 413", bare)
			}
		})
	}
}

// postTo posts a body, and returns the status of the answer.
func postTo(t testing.TB, base, path, body string, chunked bool) int {
	t.Helper()
	r := client.New(t, base).Send(http.MethodPost, path, client.Body(body, chunked))
	r.Leave()
	return r.StatusCode
}

// A request that the client has not sent in good order is its own failure, not
// one of the agent's that is worth another try.
func TestRequestsThatAreNotSentInGoodOrder(t *testing.T) {
	body := history(pollutedContent)
	for _, o := range []sidecar.Options{nil, {"history": "keep"}} {
		up, _ := arrivals(t)
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
