package health

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/spf13/cobra"
)

// healthRun runs caddy hermes-health with arguments.
func healthRun(t *testing.T, args ...string) error {
	t.Helper()
	var c healthCommand
	cmd := &cobra.Command{}
	c.flags(cmd)
	// A busy machine may answer later than the default wants.
	if err := cmd.ParseFlags(append([]string{"--timeout", caddytest.Patience.String()}, args...)); err != nil {
		t.Fatal(err)
	}
	return c.run()
}

// TestHealthCommandTellsByTheStatus, and follows no redirect, so that it is the sidecar that
// answers.
func TestHealthCommandTellsByTheStatus(t *testing.T) {
	for status, want := range map[int]string{
		200: "", 204: "", 299: "",
		301: "the answer is 301 Moved Permanently", 404: "the answer is 404 Not Found",
		503: "the answer is 503 Service Unavailable", 199 + 400: "the answer is 599 ",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/up" {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		err := healthRun(t, "--url", srv.URL+"/up")
		srv.Close()
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != srv.URL+"/up: "+want) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// TestHealthCommandUsesNoProxy of the environment, whatever the host is called.
func TestHealthCommandUsesNoProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	if err := healthRun(t, "--url", "http://hermes.invalid:8644/"); err == nil {
		t.Error("no error")
	}
}

func TestHealthCommandSaysWhyInOneLine(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed := caddytest.Refusing(t)
	for _, c := range []struct {
		args []string
		err  string
	}{
		{[]string{"--url", "http://" + silent.Addr().String() + "/", "--timeout", "20ms"}, "/: no answer within 20ms"},
		{[]string{"--url", "http://" + closed + "/"}, "/: dial tcp " + closed + ": connect: connection refused"},
		{[]string{"--url", "http://me:secret@" + closed + "/"}, "http://me:xxxxx@"},
		{[]string{"--url", "127.0.0.1:8644"}, `--url "127.0.0.1:8644": use a URL such as http://127.0.0.1:8644/healthz`},
		{[]string{"--url", "file:///etc/hostname"}, "use a URL such as"},
		{[]string{"--url", "http://"}, "use a URL such as"},
		{[]string{"--timeout", "0s"}, "--timeout 0s: use a duration above 0"},
	} {
		err := healthRun(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.err) || strings.ContainsAny(err.Error(), "\n\r") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

// TestHealthCommandAsksLoopback unless it is told otherwise.
func TestHealthCommandAsksLoopback(t *testing.T) {
	var c healthCommand
	c.flags(&cobra.Command{})
	if c.url != "http://127.0.0.1:8644/healthz" || c.timeout.String() != "2s" {
		t.Errorf("%+v", c)
	}
}
