package site

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// An upstream has no path. The error says what to write instead, and no password.
func TestCheckUpstream(t *testing.T) {
	for address, instead := range map[string]string{
		"127.0.0.1:8642": "", "hermes:8642": "", "hermes": "", ":8642": "", "[::1]:8642": "", "127.0.0.1:8642-8644": "", "http://hermes:8642": "", "https://hermes.example.com": "", "h2c://hermes:8642": "",
		"tcp/127.0.0.1:8642": "", "TCP4/127.0.0.1:8642": "", "udp/127.0.0.1:8642": "", "unix//run/hermes.sock": "", "unix/run/hermes.sock": "", "unix+h2c//run/hermes.sock": "", "unix/@abstract": "", "fd/3": "",
		"{env.HERMES}": "", "{env.HERMES}/v1": "", "http://{env.HERMES}/v1": "", "{file./run/hermes}": "", "": "",
		"127.0.0.1:8642/v1": "127.0.0.1:8642", "127.0.0.1:8642/": "127.0.0.1:8642", "127.0.0.1:8642/v1/chat/completions": "127.0.0.1:8642", "[::1]:8642/v1": "[::1]:8642", ":8642/v1": ":8642",
		"hermes/v1": "hermes", "hermes.example.com/v1": "hermes.example.com", "tcphost/v1": "tcphost", "unixhost/v1": "unixhost", "tcp/127.0.0.1:8642/v1": "tcp/127.0.0.1:8642",
		"8642.example.com": "", "99999": "", "0": "", "123456789012": "",
		"http://127.0.0.1:8642/": "http://127.0.0.1:8642", "https://hermes.example.com/v1/": "https://hermes.example.com", "http://me:secret@hermes/v1": "http://hermes",
	} {
		err := CheckUpstream(address)
		if instead == "" && err != nil || instead != "" && (err == nil || !strings.Contains(err.Error(), "write "+instead+", without a path")) {
			t.Errorf("%s: %v, want %q", address, err, instead)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The path of a Unix socket follows unix/. The error says so, whatever other program's form it has.
func TestCheckUnixSocket(t *testing.T) {
	for _, address := range []string{
		"unix:/run/hermes.sock", "unix:///run/hermes.sock", "unix://run/hermes.sock", "/run/hermes.sock", "http://unix:/run/hermes.sock", "http://unix:/run/hermes.sock:/v1", "http://unix//run/hermes.sock",
		"http+unix:///run/hermes.sock", "UNIX:/run/hermes.sock", "unix+h2c:/run/hermes.sock",
	} {
		for _, check := range []func(string) error{CheckUpstream, checkDial} {
			if err := check(address); err == nil || !strings.Contains(err.Error(), "write unix//run/hermes.sock: ") {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
	for _, address := range []string{"/v1", "http:///v1", "//hermes:8642"} {
		if err := CheckUpstream(address); err == nil || !strings.Contains(err.Error(), "127.0.0.1:8642, a host and a port") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A port alone is an error, which says where a host belongs.
func TestCheckPortAlone(t *testing.T) {
	for address, instead := range map[string]string{
		"8642": "127.0.0.1:8642", "80": "127.0.0.1:80", "65535": "127.0.0.1:65535", "http://8642": "http://127.0.0.1:8642", "https://8642/v1": "https://127.0.0.1:8642",
		"tcp/8642": "tcp/127.0.0.1:8642", "8642/v1": "127.0.0.1:8642",
	} {
		if err := CheckUpstream(address); err == nil || !strings.Contains(err.Error(), "write "+instead+": ") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// check checks an http app with the routes.
func check(t *testing.T, routes string) (warnings []string, err error) {
	t.Helper()
	app := new(caddyhttp.App)
	if err := json.Unmarshal([]byte(`{"servers":{"s":{"routes":[`+routes+`]}}}`), app); err != nil {
		t.Fatal(err)
	}
	return Check(app)
}

const (
	hermes = `{"handler":"hermes"}`
	proxy  = `{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:8642"}]}`
)

// route returns a route with handlers; more are its other members.
func route(more string, handlers ...string) string {
	return `{` + more + `"handle":[` + strings.Join(handlers, ",") + `]}`
}

// An upstream with a path after hermes is an error, and no other is.
func TestUpstreamsWithAPath(t *testing.T) {
	t.Setenv("HERMES_UPSTREAM", "127.0.0.1:8642/v1")
	to := func(dial, more string) string {
		return `{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:1"},{"dial":"` + dial + `"}]` + more + `}`
	}
	for name, c := range map[string]struct {
		routes string
		refuse bool
	}{
		"a path":                  {route("", hermes, to("127.0.0.1:8642/v1", "")), true},
		"as a Caddyfile makes it": {route("", hermes, to("127.0.0.1:8642/v1:80", "")), true},
		"a scheme":                {route("", hermes, to("http://127.0.0.1:8642", "")), true},
		"of the environment":      {route("", hermes, to("{env.HERMES_UPSTREAM}", "")), true},
		"over TLS":                {route("", hermes, to("127.0.0.1:8642/v1", `,"transport":{"protocol":"http","tls":{}}`)), true},
		"of a plugin":             {route("", hermes, to("pipe/name", `,"transport":{"protocol":"pipe"}`)), false},
		"of the request":          {route("", hermes, to("{http.request.host}/x", "")), false},
		"a socket":                {route("", hermes, to("unix//run/hermes.sock", "")), false},
		"not after hermes":        {route("", to("127.0.0.1:8642/v1", "")), false},
	} {
		if _, err := check(t, c.routes); (err != nil) != c.refuse {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// plugin is a handler of a plugin.
type plugin struct{}

func (plugin) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// A handler of a plugin may have routes of its own, in which the page of links may be, and may
// answer. What it has is seen if it is not provisioned yet.
func TestHandlersOfPlugins(t *testing.T) {
	link := `{"handler":"hermes","approvals":{"link":"https://a.example/approve"}}`
	for name, c := range map[string]struct {
		handler string
		refuse  bool
	}{
		"with the page":    {`{"handler":"plugin","routes":[{"handle":[{"handler":"hermes_approvals"}]}]}`, false},
		"without the page": {`{"handler":"plugin"}`, true},
	} {
		if _, err := check(t, route("", link, c.handler)); (err != nil) != c.refuse {
			t.Errorf("%s: %v", name, err)
		}
	}
	app := new(caddyhttp.App)
	if err := json.Unmarshal([]byte(`{"servers":{"s":{"routes":[`+route("")+`,`+route("", link, proxy)+`]}}}`), app); err != nil {
		t.Fatal(err)
	}
	app.Servers["s"].Routes[0].Handlers = []caddyhttp.MiddlewareHandler{plugin{}}
	if _, err := Check(app); err != nil {
		t.Errorf("provisioned: %v", err)
	}
}
