package configuration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// What would answer every request with 502 does not validate, however the upstream is
// named, and the error says what to write.
func TestUpstreamWithAPathDoesNotValidate(t *testing.T) {
	for name, site := range map[string]string{
		"hermes_proxy":           "hermes_proxy 127.0.0.1:8642/v1",
		"a URL":                  "hermes_proxy http://127.0.0.1:8642/v1",
		"a slash":                "hermes_proxy 127.0.0.1:8642/",
		"to":                     "hermes_proxy {\n\t\tto 127.0.0.1:8642/v1\n\t}",
		"reverse_proxy":          "hermes\n\treverse_proxy 127.0.0.1:8642/v1",
		"the environment":        "hermes\n\treverse_proxy {env.UPSTREAM_OF_THE_TEST}",
		"hermes_proxy, likewise": "hermes_proxy {env.UPSTREAM_OF_THE_TEST}",
		"in a handle":            "hermes\n\thandle /v1/* {\n\t\treverse_proxy 127.0.0.1:8642/v1\n\t}",
		"in a later site":        "hermes_proxy 127.0.0.1:8642\n}\n:8645 {\n\thermes\n\treverse_proxy 127.0.0.1:8642/v1",
	} {
		t.Setenv("UPSTREAM_OF_THE_TEST", "127.0.0.1:8642/v1")
		_, bad, err := sidecar.CommandOn(t, "validate", ":8643 {\n\t"+site+"\n}\n")
		if err == nil || !strings.Contains(bad, "127.0.0.1:8642, without a path") {
			t.Errorf("%s: %v %s", name, err, bad)
		}
	}
	sockets := ":8643 {\n\thermes_proxy unix//run/hermes.sock tcp/127.0.0.1:8642 hermes.example.com\n}\n"
	if _, bad, err := sidecar.CommandOn(t, "validate", sockets); err != nil {
		t.Errorf("%v %s", err, bad)
	}
}

// What contradicts itself and harms nobody validates with a warning, once.
func TestContradictionsAreWarnings(t *testing.T) {
	for name, c := range map[string]struct{ site, want string }{
		"hermes twice":             {"hermes\n\thermes {\n\t\tprogress bare\n\t}\n\treverse_proxy 127.0.0.1:8642", "some requests go through hermes twice"},
		"hermes and hermes_proxy":  {"hermes\n\thermes_proxy 127.0.0.1:8642", "some requests go through hermes twice"},
		"for other paths":          {"hermes /a/*\n\thermes /b/*\n\treverse_proxy 127.0.0.1:8642", ""},
		"in two sites":             {"hermes_proxy 127.0.0.1:8642\n}\n:8645 {\n\thermes_proxy 127.0.0.1:8642", ""},
		"in two sites of a port":   {"hermes_proxy 127.0.0.1:8642\n}\nhttp://a.localhost:8643 {\n\thermes_proxy 127.0.0.1:8642", ""},
		"stall_timeout":            {"hermes_proxy 127.0.0.1:8642 {\n\t\tstall_timeout 20m\n\t\tidle_timeout 15m\n\t}", "stall_timeout (20m0s) is longer than idle_timeout (15m0s)"},
		"max_stream of a resuming": {"hermes_resume {\n\t\tmax_stream 128MiB\n\t}\n\thermes_proxy 127.0.0.1:8642", "max_stream is larger than max_memory"},
	} {
		_, bad, err := sidecar.CommandOn(t, "validate", ":8643 {\n\t"+c.site+"\n}\n")
		var warnings []string
		for line := range strings.Lines(bad) {
			var entry struct{ Level, Logger, Msg string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "warn" && strings.HasPrefix(entry.Logger, "http.handlers.hermes") {
				warnings = append(warnings, entry.Msg)
			}
		}
		if said := strings.Join(warnings, "\n"); err != nil || len(warnings) > 1 || (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %v, warnings %q, want %q", name, err, warnings, c.want)
		}
	}
}
