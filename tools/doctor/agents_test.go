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

// TestAgentThatIsExamined is the one of the flag, the configuration, the environment, or
// the default, in this order.
func TestAgentThatIsExamined(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	image := map[string]string{"HERMES_UPSTREAM": "hermes:8642 other:8642"}
	check := func(name string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	check("nothing", subjectsOf(t, nil), "http://127.0.0.1:8642 < the default")
	check("the image", subjectsOf(t, image), "http://hermes:8642 < HERMES_UPSTREAM", "http://other:8642 < HERMES_UPSTREAM")
	check("a flag", subjectsOf(t, image, "--to", ":1", "--through", ":2"), "http://127.0.0.1:1 < --to < http://127.0.0.1:2")

	config := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config(":80\nrespond hi\n")
	check("a Caddyfile of something else", subjectsOf(t, image), "http://hermes:8642 < HERMES_UPSTREAM", "http://other:8642 < HERMES_UPSTREAM")
}

// hermesConfig is a configuration as the Caddyfile adapter makes it of sites with hermes.
const hermesConfig = `{"apps": {"http": {"servers": {
	"plain": {"listen": [":8643"], "routes": [{"handle": [
		{"handler": "hermes", "stall_timeout": 1800000000000},
		{"handler": "reverse_proxy", "upstreams": [{"dial": "127.0.0.1:8642"}, {"dial": "127.0.0.1:8652"}]}]}]},
	"routes": {"listen": ["192.0.2.7:8653"], "routes": [
		{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": "unrelated:1"}]}]},
		{"handle": [{"handler": "hermes"}]},
		{"handle": [{"handler": "subroute", "routes": [{"handle": [{"handler": "reverse_proxy", "upstreams": [{"dial": "hermes:8642"}], "transport": {"protocol": "http", "tls": {}}}]}]}]}]},
	"secure": {"listen": [":443"], "routes": [{"match": [{"host": ["a.example.com"]}], "handle": [{"handler": "subroute", "routes": [{"handle": [
		{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "unix//run/h.sock"}, {"dial": "127.0.0.1:8642"}]}]}]}]}]},
	"several": {"listen": [":8000-8010"], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "{env.DOCTOR_TEST}:8642"}]}]}]},
	"unnamed": {"listen": [":8683"], "tls_connection_policies": [{}], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "127.0.0.1:8642"}]}]}]},
	"z": {"listen": [":8673"], "automatic_https": {"skip": ["localhost"]}, "routes": [{"match": [{"host": ["localhost"]}], "handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "upstreams": [{"dial": "last:8642"}]}]}]},
	"dynamic": {"listen": [":8663"], "routes": [{"handle": [{"handler": "hermes"}, {"handler": "reverse_proxy", "dynamic_upstreams": {}}]}]}
}}}}`

func TestAgentsOfAConfiguration(t *testing.T) {
	t.Setenv("DOCTOR_TEST", "fromenv")
	file := filepath.Join(t.TempDir(), "caddy.json")
	if err := os.WriteFile(file, []byte(hermesConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	got := subjectsOf(t, map[string]string{"HERMES_UPSTREAM": "unused:1"}, "--config", file)
	want := []string{
		"http://127.0.0.1:8642 < caddy.json < http://127.0.0.1:8643 stall_timeout",
		"http://127.0.0.1:8652 < caddy.json < http://127.0.0.1:8643 stall_timeout",
		"https://hermes:8642 < caddy.json < http://192.0.2.7:8653",
		"unix//run/h.sock < caddy.json < https://a.example.com:443",
		"http://fromenv:8642 < caddy.json",
		"http://last:8642 < caddy.json < http://localhost:8673",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = subjectsOf(t, nil, "--config", file, "--through", "https://hermes.example.com")
	if !strings.HasSuffix(got[0], "< https://hermes.example.com stall_timeout") {
		t.Errorf("%q", got)
	}
}
