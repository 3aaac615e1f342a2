package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

// raw answers each request with what a function does with its connection, and returns the address.
func raw(t testing.TB, serve func(net.Conn)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			serve(conn)
			conn.Close()
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestWhyNothingAnswers is said in words, with what to do.
func TestWhyNothingAnswers(t *testing.T) {
	secure := httptest.NewUnstartedServer(&fake{dir: "g3-v0.20.3"})
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	secured := secure.Listener.Addr().String()
	plain := strings.TrimPrefix((&fake{dir: "g3-v0.20.3"}).start(t), "http://")
	mail := raw(t, func(c net.Conn) { fmt.Fprint(c, "220 mail ESMTP\r\n") })
	ends := raw(t, func(net.Conn) {})
	long := raw(t, func(c net.Conn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nA: %s\r\n\r\n", strings.Repeat("a", 4*maxHeader)) })
	failing := func(err error) func() (net.Conn, error) { return func() (net.Conn, error) { return nil, err } }
	dialing := func(err error) func() (net.Conn, error) { return failing(&net.OpError{Op: "dial", Err: err}) }
	silent := func() (net.Conn, error) { // a listener may take longer than the timeout to accept
		c, _ := net.Pipe()
		return c, nil
	}
	unknown := &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}
	const noHTTP = "it accepts the connection, but its answer is not HTTP: "

	for name, c := range map[string]struct {
		address   string
		timeout   time.Duration
		dial      func() (net.Conn, error) // nil for a real one
		says, why string
	}{
		"refused":               {caddytest.Refusing(t), 0, nil, "the connection is refused: nothing listens there", "API_SERVER_PORT"},
		"TLS on this port":      {secured, 0, nil, "it speaks TLS on this port", "Use https://" + secured},
		"no TLS on this port":   {"https://" + plain, 0, nil, "it speaks plain HTTP on this port", "Use http://" + plain},
		"an unknown authority":  {"https://" + secured, 0, nil, "its certificate is not trusted: ", "--insecure"},
		"silence":               {"hermes.invalid:8642", 50 * time.Millisecond, silent, "it accepts the connection, but does not answer within 50ms", "--timeout"},
		"another protocol":      {mail, 0, nil, noHTTP, "not Hermes"},
		"an end":                {ends, 0, nil, noHTTP + "EOF", "not Hermes"},
		"a header that is long": {long, 0, nil, noHTTP, "not Hermes"},
		"no such socket":        {"unix/" + filepath.Join(t.TempDir(), "no.sock"), 0, nil, "there is no such socket", "path"},
		"an unknown name":       {"nowhere.invalid:8642", 0, dialing(unknown), "no address was found for nowhere.invalid", "name"},
		"dropped packets":       {"hermes.invalid:8642", time.Second, dialing(os.ErrDeadlineExceeded), "no connection within 1s", "firewall"},
		"no route":              {"hermes.invalid:8642", 0, dialing(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "no connection: dial: connect: ", "8642"},
		"no right":              {"unix//run/hermes.sock", 0, dialing(syscall.EACCES), "this user may not connect: ", "user"},
	} {
		d := testDoctor(c.address, key)
		if c.timeout > 0 {
			d.timeout = c.timeout
		}
		if c.dial != nil {
			d.dial = func(context.Context, string, string) (net.Conn, error) { return c.dial() }
		}
		a := d.examined(t)
		a.expect(t, name, "reachable", Fail, c.says)
		if got := a.finding("reachable"); !strings.Contains(got.Why, c.why) || len(got.Says) > 400 {
			t.Errorf("%s: %+v", name, got)
		}
		if len(a.Findings) != 1 || len(a.Repairs)+len(a.Options) != 0 {
			t.Errorf("%s: %+v", name, a)
		}
	}

	d := testDoctor(secure.URL, "")
	d.insecure = true
	d.examined(t).expect(t, "without verification", "reachable", OK, "")
}

// TestAnswersToProbesAreBounded: an endless one is left.
func TestAnswersToProbesAreBounded(t *testing.T) {
	f := &fake{serve: map[string]http.HandlerFunc{"/health": func(w http.ResponseWriter, r *http.Request) {
		_, err := fmt.Fprint(w, `{"platform": "hermes-agent", "version": "`)
		for err == nil && r.Context().Err() == nil {
			_, err = fmt.Fprint(w, strings.Repeat("9", 1<<10))
		}
	}}}
	d := testDoctor(f.start(t), "")
	to, err := parseTarget(d.to)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := d.server(to, "").get(t.Context(), "/health", false); err != nil || len(r.body) != maxProbe || r.isHermes() {
		t.Errorf("%v: %d bytes", err, len(r.body))
	}
}
