package configuration

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// everyOption is a Caddyfile that sets all options, none to its default.
const everyOption = `{
	admin off
}

http://:8643 {
	hermes {
		max_frame 2MiB
		imitations keep
		reasoning drop
		history keep
		max_request 5MB
		parallel_window 80ms
		tool "🛰️" satellite
		tool 🧲 magnet
		progress unnamed
		status_line on
		cards on
		done_grace 3s
		error_finish inline
		zero_usage error
		empty_answer pass
		first_byte_timeout 30s
		idle_timeout 1m
		stall_timeout 45s
		keepalive 7s
		keepalive_form comment
		drain_timeout 4s
	}
	reverse_proxy 127.0.0.1:8642
}
`

// everyMember is the same in JSON.
var everyMember = map[string]any{
	"handler": "hermes", "max_frame": 2 << 20, "imitations": "keep",
	"reasoning": "drop", "history": "keep", "max_request": 5_000_000, "parallel_window": 80 * time.Millisecond,
	"tool": map[string]string{"🛰️": "satellite", "🧲": "magnet"}, "progress": "unnamed", "status_line": true, "cards": true,
	"done_grace": 3 * time.Second, "error_finish": "inline", "zero_usage": "error", "empty_answer": "pass", "first_byte_timeout": 30 * time.Second,
	"idle_timeout": time.Minute, "stall_timeout": 45 * time.Second, "keepalive": 7 * time.Second, "keepalive_form": "comment",
	"drain_timeout": 4 * time.Second,
}

// handlers are the handlers of the only route in a configuration.
func handlers(t testing.TB, config string) []map[string]any {
	t.Helper()
	var c struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					Routes []struct {
						Handle []map[string]any
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		t.Fatalf("%v in %s", err, config)
	}
	for _, s := range c.Apps.HTTP.Servers {
		if len(s.Routes) == 1 {
			return s.Routes[0].Handle
		}
	}
	t.Fatalf("not one server with one route: %s", config)
	return nil
}

func TestEveryOptionInTheCaddyfile(t *testing.T) {
	out, bad, err := sidecar.CommandOn(t, "adapt", everyOption, "--validate")
	if err != nil {
		t.Fatalf("%v: %s", err, bad)
	}
	handle := handlers(t, out)
	if len(handle) != 2 || handle[1]["handler"] != "reverse_proxy" {
		t.Fatalf("handlers %v", handle)
	}
	want, _ := json.Marshal(everyMember)
	got, _ := json.Marshal(handle[0])
	if !reflect.DeepEqual(handle[0], asMap(t, want)) {
		t.Errorf("adapted\n%s\nwant\n%s", got, want)
	}
}

func asMap(t testing.TB, b []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The directive without options is the handler without members, and it stands
// behind encode.
func TestNoOptionsInTheCaddyfile(t *testing.T) {
	out, bad, err := sidecar.CommandOn(t, "adapt", "http://:8643 {\n\treverse_proxy 127.0.0.1:8642\n\thermes\n\tencode gzip\n}\n")
	if err != nil {
		t.Fatalf("%v: %s", err, bad)
	}
	handle := handlers(t, out)
	if len(handle) != 3 || handle[0]["handler"] != "encode" || handle[2]["handler"] != "reverse_proxy" ||
		!reflect.DeepEqual(handle[1], map[string]any{"handler": "hermes"}) {
		t.Errorf("handlers %v", handle)
	}
}

// Timeouts and keepalives that are off are off in the JSON too.
func TestOffInTheCaddyfile(t *testing.T) {
	out, bad, err := sidecar.CommandOn(t, "adapt", "http://:8643 {\n\thermes {\n\t\tkeepalive off\n\t\tidle_timeout off\n\t\tfirst_byte_timeout off\n\t\tstall_timeout off\n\t\tstatus_line off\n\t\tcards off\n\t}\n}\n", "--validate")
	if err != nil {
		t.Fatalf("%v: %s", err, bad)
	}
	want := map[string]any{"handler": "hermes", "keepalive": 0.0, "idle_timeout": 0.0}
	if h := handlers(t, out)[0]; !reflect.DeepEqual(h, want) {
		t.Errorf("handler %v, want %v", h, want)
	}
}

// The same options as JSON, durations in either of Caddy's ways.
func TestEveryOptionInJSON(t *testing.T) {
	for name, change := range map[string]sidecar.Options{
		"nanoseconds": {},
		"strings":     {"parallel_window": "80ms", "done_grace": "3s", "idle_timeout": "1m", "keepalive": "7s", "drain_timeout": "4s"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			file := filepath.Join(home, "caddy.json")
			conf := sidecar.Config{Sites: []sidecar.Site{{Listen: ":8643", Upstream: "127.0.0.1:8642", Options: sidecar.Options(everyMember).With(change)}}}
			harness.WriteFile(t, file, conf.JSON(t))
			if _, bad, err := sidecar.Command(t, home, "validate", "--config", file); err != nil {
				t.Errorf("%v: %s", err, bad)
			}
		})
	}
}

func TestRefusedValuesInJSON(t *testing.T) {
	for _, r := range []struct {
		option string
		value  any
		says   []string
	}{
		{"progress", "loud", []string{"envelope", "bare", "unnamed", "comment", "off"}},
		{"imitations", "maybe", []string{"strip", "keep", "trust"}},
		{"error_finish", "none", []string{"split", "inline"}},
		{"zero_usage", "never", []string{"auto", "error", "pass"}},
		{"empty_answer", "never", []string{"error", "pass"}},
		{"keepalive_form", "ping", []string{"chunk", "comment"}},
		{"reasoning", "on", []string{"extract", "keep", "drop"}},
		{"history", "clean", []string{"heal", "keep"}},
		{"max_request", -1, nil},
		{"max_frame", 1<<10 - 1, []string{"1KiB", "1GiB"}},
		{"max_request", 1<<30 + 1, []string{"1KiB", "1GiB"}},
		{"parallel_window", "-1s", nil},
		{"done_grace", "-1s", nil},
		{"drain_timeout", "-1s", nil},
		{"idle_timeout", "-1s", nil},
		{"first_byte_timeout", "-1s", nil},
		{"stall_timeout", "-1s", nil},
		{"keepalive", "-1s", nil},
		{"tool", map[string]string{"x": "name"}, nil},
		{"keep_alive", "5s", nil}, // no such option
	} {
		t.Run(r.option, func(t *testing.T) {
			home := t.TempDir()
			file := sidecar.Config{Sites: []sidecar.Site{{Listen: ":8643", Upstream: "127.0.0.1:8642", Options: sidecar.Options{r.option: r.value}}}}.Write(t, home)
			_, bad, err := sidecar.Command(t, home, "validate", "--config", file)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range append(r.says, r.option) {
				if !strings.Contains(bad, want) {
					t.Errorf("the error does not say %q: %s", want, bad)
				}
			}
		})
	}
}

// The directive that is hermes and reverse_proxy in one repairs streams, and
// what is reverse_proxy's in it does its work.
func TestHermesProxyDirective(t *testing.T) {
	up := upstream.New(t, upstream.Library(hermes.Recordings(t, hermes.Chats), upstream.ByFrame).Play)
	base, _ := sidecar.ServeCaddyfile(t, `
	hermes_proxy /v1/* `+up.Addr+` {
		header_up X-Team progress
		progress off
		transport http {
			keepalive 4s
		}
		keepalive 20s
	}
	handle /elsewhere {
		respond "not here" 404
	}`)
	c := client.New(t, base)
	a := c.Play("g0-v0.8.0/one_tool").Answer()
	a.CheckGood(t)
	if len(a.Starts) != 0 || strings.Contains(a.Content, "`") {
		t.Errorf("starts %v, content %q", a.Starts, a.Content)
	}
	if got := up.Requests()[0].Header.Get("X-Team"); got != "progress" {
		t.Errorf("upstream saw X-Team %q", got)
	}
	c.Play("g0-v0.8.0/crash_in_tool").Answer().CheckError(t, "agent_crashed")
	if r := c.Post("/elsewhere"); r.StatusCode != 404 {
		t.Errorf("outside of the matcher: %s", r.Status)
	}
}

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

// The encode directive compresses what the sidecar has repaired, the error
// finish included, whichever of the two comes first in the Caddyfile.
func TestEncodeCompressesTheRepairedStream(t *testing.T) {
	scripts := upstream.Router{
		"good": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/labels"), upstream.ByFrame),
		"cut": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Torn([]byte(hermes.Role[:9]))
		},
	}
	up := upstream.New(t, scripts.Play)
	for _, order := range []string{"hermes\n\tencode gzip", "encode gzip\n\thermes"} {
		base, _ := sidecar.ServeCaddyfile(t, "\t"+order+"\n\treverse_proxy "+up.Addr)
		c := client.New(t, base)
		for name := range scripts {
			want := c.Play(name).All()
			r := c.Play(name, "Accept-Encoding", "gzip")
			if r.Header.Get("Content-Encoding") != "gzip" {
				t.Fatalf("Content-Encoding %q", r.Header.Get("Content-Encoding"))
			}
			z, err := gzip.NewReader(r.In)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(z); string(got) != want || err != nil {
				t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, got, want)
			}
		}
	}
}

// handle_errors has no word in a stream that has begun, and cannot break the
// JSON of one that has not. On other paths errors are its own.
func TestHandleErrorsStaysOutOfStreams(t *testing.T) {
	up := upstream.New(t, upstream.Router{
		"cut": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Reset()
		},
		"nothing": (*upstream.Exchange).Fin,
	}.Play)
	base, _ := sidecar.ServeCaddyfile(t, "\thermes\n\treverse_proxy "+up.Addr+"\n\thandle_errors {\n\t\trespond \"<html>error page</html>\"\n\t}")
	c := client.New(t, base)
	c.Play("cut").Answer().CheckError(t, "upstream_aborted")
	if e := client.CheckJSON(t, c.Play("nothing"), 502, up.Addr); e.Code != "upstream_aborted" {
		t.Errorf("code %q", e.Code)
	}
	r := c.Post("/v1/models", "X-Play", "nothing")
	if body := r.All(); r.StatusCode != 502 || body != "<html>error page</html>" {
		t.Errorf("%s: %q", r.Status, body)
	}
}

// Other handlers that answer with an event stream are repaired as well.
func TestStreamsOfOtherHandlersAreRepaired(t *testing.T) {
	sidecar.NeedsModule(t, "http.handlers.file_server")
	r := hermes.Recorded(t, "g0-v0.8.0/one_tool")
	dir := t.TempDir()
	harness.WriteFile(t, filepath.Join(dir, "answer.sse"), r.Body)
	base, _ := sidecar.ServeCaddyfile(t, "\troot "+dir+"\n\thermes\n\theader Content-Type text/event-stream\n\trewrite * /answer.sse\n\tmethod GET\n\tfile_server")
	client.New(t, base).Chat().CheckRepaired(t)
}
