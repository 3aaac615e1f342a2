package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

// raw serves connections one after another with a function, and returns the address.
func raw(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// TestWhyNobodyAnswers is said in words, with what to do.
func TestWhyNobodyAnswers(t *testing.T) {
	secure := httptest.NewUnstartedServer(&fake{dir: "g3-v0.20.3"})
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	secured := strings.TrimPrefix(secure.URL, "https://")
	plain := strings.TrimPrefix((&fake{dir: "g3-v0.20.3"}).start(t), "http://")
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	for name, c := range map[string]struct {
		address   string
		timeout   time.Duration
		dial      error
		says, why string
	}{
		"refused":               {address: caddytest.Refusing(t), says: "the connection is refused: nothing listens there", why: "API_SERVER_PORT"},
		"TLS on this port":      {address: secured, says: "it speaks TLS on this port", why: "Use https://" + secured},
		"no TLS on this port":   {address: "https://" + plain, says: "it speaks plain HTTP on this port", why: "Use http://" + plain},
		"an unknown authority":  {address: "https://" + secured, says: "its certificate is not trusted: ", why: "--insecure"},
		"silence":               {address: silent.Addr().String(), timeout: 50 * time.Millisecond, says: "it accepts the connection, but does not answer within 50ms", why: "--timeout"},
		"another protocol":      {address: raw(t, func(c net.Conn) { fmt.Fprint(c, "220 mail ESMTP\r\n") }), says: "it accepts the connection, but its answer is no HTTP: ", why: "not Hermes"},
		"an end":                {address: raw(t, func(c net.Conn) { c.Read(make([]byte, 1<<10)) }), says: "it accepts the connection, but its answer is no HTTP: EOF", why: "not Hermes"},
		"no such socket":        {address: "unix/" + filepath.Join(t.TempDir(), "no.sock"), says: "there is no such socket", why: "path"},
		"an unknown name":       {address: "nowhere.invalid:8642", dial: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}, says: "no address is known for nowhere.invalid", why: "name"},
		"dropped packets":       {address: "hermes.invalid:8642", timeout: time.Second, dial: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, says: "no connection within 1s", why: "firewall"},
		"no route":              {address: "hermes.invalid:8642", dial: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, says: "no connection: dial: connect: ", why: "8642"},
		"no right":              {address: "unix//run/hermes.sock", dial: &net.OpError{Op: "dial", Err: syscall.EACCES}, says: "this user may not connect: ", why: "user"},
		"a header that is long": {address: raw(t, func(c net.Conn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nA: %s\r\n\r\n", strings.Repeat("a", 4*maxHeader)) }), says: "it accepts the connection, but its answer is no HTTP: ", why: "not Hermes"},
	} {
		o := testOptions()
		o.Key = key
		if c.timeout > 0 {
			o.Timeout = c.timeout
		}
		if c.dial != nil {
			o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, c.dial }
		}
		a := examine(t, c.address, o)
		got := a.finding(t, "reachable")
		if got.Level != Fail || !strings.HasPrefix(got.Says, c.says) || !strings.Contains(got.Why, c.why) || len(got.Says) > 400 {
			t.Errorf("%s: %+v", name, got)
		}
		if len(a.Findings) != 1 || len(a.Repairs)+len(a.Options) != 0 {
			t.Errorf("%s: %+v", name, a)
		}
	}

	o := testOptions()
	o.Insecure = true
	if got := examine(t, secure.URL, o).finding(t, "reachable"); got.Level != OK {
		t.Errorf("without verification: %+v", got)
	}
}

// TestAgentThatStopsAnswering after /health.
func TestAgentThatStopsAnswering(t *testing.T) {
	f := &fake{dir: "g3-v0.20.3", serve: map[string]http.HandlerFunc{"/v1/models": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}}
	if got := examine(t, f.start(t), testOptions()).finding(t, "models"); got.Level != Fail || !strings.HasPrefix(got.Says, "/v1/models: it accepts the connection") {
		t.Errorf("%+v", got)
	}
}

// TestAnswersToProbesAreBounded: an endless one is left.
func TestAnswersToProbesAreBounded(t *testing.T) {
	f := &fake{dir: "g3-v0.20.3", serve: map[string]http.HandlerFunc{"/health": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"platform": "hermes-agent", "version": "`)
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, strings.Repeat("9", 1<<10)); err != nil {
				return
			}
		}
	}}}
	s := newServer(target(t, f.start(t)), testOptions().withDefaults())
	r, err := s.get(context.Background(), "/health", false)
	if err != nil || len(r.body) != maxProbe {
		t.Errorf("%v: %d bytes", err, len(r.body))
	}
}

// target reads an address.
func target(t testing.TB, address string) Target {
	t.Helper()
	to, err := ParseTarget(address)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestAgentOnASocket is asked there, and no network reaches it.
func TestAgentOnASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "h.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	s := &httptest.Server{Listener: ln, Config: &http.Server{Handler: &fake{dir: "g3-v0.20.3"}}}
	s.Start()
	defer s.Close()
	o := testOptions()
	o.OwnAddresses = func() ([]netip.Addr, error) { return nil, errors.New("is not asked") }
	a := examine(t, "unix/"+socket, o)
	if got := a.finding(t, "network"); got.Level != OK || a.Version != "0.20.3" {
		t.Errorf("%+v", a)
	}
}

// TestUnknownOwnAddresses are no problem of the agent's.
func TestUnknownOwnAddresses(t *testing.T) {
	o := testOptions()
	o.OwnAddresses = func() ([]netip.Addr, error) { return nil, errors.New("not allowed") }
	if got := examine(t, (&fake{dir: "g3-v0.20.3"}).start(t), o).finding(t, "network"); got.Level != Info || !strings.HasSuffix(got.Says, "is not known: not allowed") {
		t.Errorf("%+v", got)
	}
}

func TestTargets(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:8642":                         "http://127.0.0.1:8642",
		":8642":                                  "http://127.0.0.1:8642",
		"[::1]:8642":                             "http://[::1]:8642",
		"hermes:8642/v1":                         "http://hermes:8642",
		"http://hermes:8642/v1/chat/completions": "http://hermes:8642",
		"https://hermes.example.com/":            "https://hermes.example.com",
		"https://hermes.example.com/p/work/v1":   "https://hermes.example.com/p/work",
		"h2c://hermes:8642":                      "http://hermes:8642",
		"unix//run/hermes.sock":                  "unix//run/hermes.sock",
		"127.0.0.1":                              "",
		"hermes":                                 "",
		"":                                       "",
		":":                                      "",
		"unix/":                                  "",
		"ftp://hermes:21":                        "",
		"http://":                                "",
		"http://hermes:":                         "",
		"http://me:" + key + "@hermes:8642":      "",
		"http://hermes:8642/?api_key=" + key:     "",
		"http://hermes:8642/#" + key:             "",
		"me:" + key + "@hermes:8642":             "",
		"http://hermes:8642/%zz" + key:           "",
	} {
		got, err := ParseTarget(in)
		switch {
		case want == "" && (err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "127.0.0.1:8642")):
			t.Errorf("%q: %v, %v", in, got, err)
		case want != "" && (err != nil || got.String() != want):
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{"http://a": "80", "https://a": "443", "a:1": "1"} {
		if got := target(t, in).port(); got != want {
			t.Errorf("%s: port %s", in, got)
		}
	}
}

// TestLoopback is this machine for this machine only.
func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "localhost": true, "a.Localhost": true, "::ffff:127.0.0.1": true,
		"10.0.0.1": false, "hermes": false, "localhost.example.com": false, "0.0.0.0": false} {
		if isLoopback(host) != want {
			t.Errorf("%s: %v", host, !want)
		}
	}
	own, err := ownAddresses()
	for _, a := range own {
		if err != nil || a.IsLoopback() {
			t.Errorf("%v, %v", a, err)
		}
	}
}
