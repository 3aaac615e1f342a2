package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
		got, err := parseTarget(in)
		switch {
		case want == "" && (err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "127.0.0.1:8642")):
			t.Errorf("%q: %v, %v", in, got, err)
		case want != "" && (err != nil || got.String() != want):
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{"http://a": "80", "https://a": "443", "a:1": "1"} {
		if got, _ := parseTarget(in); got.port() != want {
			t.Errorf("%s: port %s", in, got.port())
		}
	}
}

// subjectsOf returns what a command examines, each as "agent < what names it < sidecar".
func subjectsOf(t testing.TB, env map[string]string, args ...string) (all []string) {
	t.Helper()
	of, err := doctorFlags(t, env, args...).subjects()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	for _, p := range of {
		says := p.String() + " < " + filepath.Base(p.namedBy)
		if p.sidecar.url != nil {
			says += " < " + p.sidecar.String()
		}
		for name := range p.set {
			if name != "handler" {
				says += " " + name
			}
		}
		all = append(all, says)
	}
	return all
}

// hermesConfig is a configuration as the Caddyfile adapter makes it of sites with hermes.
const hermesConfig = `{"apps": {"http": {"servers": {
	"plain": {"listen": [":8643"], "routes": [{"handle": [
		{"handler": "hermes", "stall_timeout": 1800000000000},
		{"handler": "reverse_proxy", "upstreams": [{"dial": "127.0.0.1:8642"}, {"dial": "127.0.0.1:8652"}]}]}]},
	"routes": {"listen": ["192.0.2.7:8653"], "routes": [
		{"match": [{"path": ["/unrelated"]}], "handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": "unrelated:1"}]}]},
		{"handle": [{"handler": "hermes"}]},
		{"handle": [{"handler": "subroute", "routes": [{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": "hermes:8642"}], "transport": {"protocol": "http", "tls": {}}}]}]}]}]},
	"secure": {"listen": [":443"], "routes": [{"match": [{"host": ["a.example.com"]}], "handle": [{"handler": "subroute", "routes": [{"handle": [
		{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "unix//run/h.sock"}, {"dial": "127.0.0.1:8642"}]}]}]}]}]},
	"several": {"listen": [":8000-8010"], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "{env.DOCTOR_TEST}:8642"}]}]}]},
	"unnamed": {"listen": [":8683"], "tls_connection_policies": [{}], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "127.0.0.1:8642"}]}]}]},
	"z": {"listen": [":8673"], "automatic_https": {"skip": ["localhost"]}, "routes": [{"match": [{"host": ["localhost"]}], "handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "last:8642"}]}]}]},
	"dynamic": {"listen": [":8663"], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "dynamic_upstreams": {}}]}]}
}}}}`

// TestAgentsThatAreExamined are those of the flag, the configuration, the environment, or the
// default, in this order.
func TestAgentsThatAreExamined(t *testing.T) {
	t.Setenv("DOCTOR_TEST", "fromenv")
	t.Chdir(t.TempDir())
	image := map[string]string{"HERMES_UPSTREAM": "hermes:8642 other:8642"}
	ofImage := []string{"http://hermes:8642 < HERMES_UPSTREAM", "http://other:8642 < HERMES_UPSTREAM"}
	for _, c := range []struct {
		file, text string // that is written before
		env        map[string]string
		args       []string
		want       []string
	}{
		{"", "", nil, nil, []string{"http://127.0.0.1:8642 < the default"}},
		{"", "", image, nil, ofImage},
		{"", "", image, []string{"--to", ":1", "--through", ":2"}, []string{"http://127.0.0.1:1 < --to < http://127.0.0.1:2"}},
		{"Caddyfile", ":80\nrespond hi\n", image, nil, ofImage},
		{"caddy.json", hermesConfig, image, []string{"--config", "caddy.json"}, []string{
			"http://127.0.0.1:8642 < caddy.json < http://127.0.0.1:8643 stall_timeout",
			"http://127.0.0.1:8652 < caddy.json < http://127.0.0.1:8643 stall_timeout",
			"https://hermes:8642 < caddy.json < http://192.0.2.7:8653",
			"unix//run/h.sock < caddy.json < https://a.example.com:443",
			"http://fromenv:8642 < caddy.json",
			"http://last:8642 < caddy.json < http://localhost:8673",
		}},
	} {
		if c.file != "" {
			if err := os.WriteFile(c.file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := subjectsOf(t, c.env, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: got\n%s\nwant\n%s", c.file, c.args, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	got := subjectsOf(t, nil, "--config", "caddy.json", "--through", "https://hermes.example.com")
	if !strings.HasSuffix(got[0], "< https://hermes.example.com stall_timeout") {
		t.Errorf("%q", got)
	}
}
