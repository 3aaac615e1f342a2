package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

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

// A body that is a byte too large is so as well when its end comes along with
// its last bytes.
func TestARequestThatIsTooLargeByItsLastByte(t *testing.T) {
	up, got := arrivals(t)
	base, _ := sidecar.Serve(t, up, sidecar.Options{"max_request": 1024})
	polluted := history(pollutedContent)
	body := polluted + strings.Repeat(" ", 1025-len(polluted))
	if status := byHand(t, base, false, client.ChunkedHead+fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	receive(t, got).want(t, body, true)
}

// What a site does to a request whose body it limits behind hermes is what it
// does without hermes, its error route included.
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
				status := postTo(t, base+"/api", body, chunked)
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
func postTo(t testing.TB, url, body string, chunked bool) int {
	t.Helper()
	var in io.Reader = strings.NewReader(body)
	if chunked {
		in = io.MultiReader(in)
	}
	res, err := http.Post(url, "application/json", in)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
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

// The client may take longer to send its request than upstream to answer it.
func TestFirstByteTimeoutWhileTheClientSends(t *testing.T) {
	harness.AtAnyPace(t, 400*time.Millisecond, func(t testing.TB, d time.Duration) {
		up, got := arrivals(t)
		base, _ := sidecar.Serve(t, up, sidecar.Options{"history": "keep", "first_byte_timeout": d.String(), "idle_timeout": d.String()})
		body := history(pollutedContent)
		out, in := io.Pipe()
		go func() {
			third := len(body) / 3
			for _, part := range []string{body[:third], body[third : 2*third], body[2*third:]} {
				_, _ = io.WriteString(in, part)
				<-time.After(3 * d / 4)
			}
			_ = in.Close()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", out)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
		receive(t, got).want(t, body, true)
	})
}
