package configuration

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
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

// What a value may be is in the error, with the line.
func TestRefusedValues(t *testing.T) {
	const forever = "-5s"
	rules := []struct {
		lines string
		says  []string
	}{
		{"progress loud", []string{"progress", `"loud"`, "envelope", "bare", "unnamed", "comment", "off"}},
		{"imitations maybe", []string{"imitations", "strip", "keep", "trust"}},
		{"error_finish none", []string{"error_finish", "split", "inline"}},
		{"zero_usage never", []string{"zero_usage", "auto", "error", "pass"}},
		{"empty_answer never", []string{"empty_answer", "error", "pass"}},
		{"keepalive_form ping", []string{"keepalive_form", "chunk", "comment"}},
		{"status_line yes", []string{"status_line", "on", "off"}},
		{"cards yes", []string{"cards", "on", "off"}},
		{"reasoning on", []string{"reasoning", "extract", "keep", "drop"}},
		{"history clean", []string{"history", "heal", "keep"}},
		{"max_request 10", []string{"max_request", "1KiB", "10MB"}},
		{"max_frame big", []string{"max_frame", "1MiB"}},
		{"max_frame -1", []string{"max_frame"}},
		{"parallel_window soon", []string{"parallel_window", "duration"}},
		{"parallel_window off", []string{"parallel_window", "duration"}},
		{"done_grace off", []string{"done_grace", "duration"}},
		{"drain_timeout off", []string{"drain_timeout", "duration"}},
		{"idle_timeout " + forever, []string{"idle_timeout", "duration", "off"}},
		{"first_byte_timeout soon", []string{"first_byte_timeout", "duration", "off"}},
		{"stall_timeout soon", []string{"stall_timeout", "duration", "off"}},
		{"keepalive often", []string{"keepalive", "duration", "off"}},
		{"tool", []string{"tool", "emoji", "name"}},
		{"tool x name", []string{"tool"}},
		{"tool 🧲 _magnet", []string{"tool"}},
		{"tool 🧲 a\n\t\ttool 🧲 b", []string{"already specified"}},
		{"keepalive 5s\n\t\tkeepalive 6s", []string{"keepalive", "already specified"}},
		{"keepalive", []string{"keepalive"}},
		{"keepalive 5s 6s", []string{"keepalive"}},
		{"reasoning_extract on", []string{"unrecognized", "reasoning_extract", "keepalive_form"}},
	}
	for _, r := range rules {
		t.Run(r.lines, func(t *testing.T) {
			_, bad, err := sidecar.CommandOn(t, "validate", "http://:8643 {\n\thermes {\n\t\t"+r.lines+"\n\t}\n}\n")
			if err == nil {
				t.Fatal("it is accepted")
			}
			line := "Caddyfile:3"
			if strings.Contains(r.lines, "\n") {
				line = "Caddyfile:4"
			}
			for _, want := range append(r.says, line) {
				if !strings.Contains(bad, want) && !strings.Contains(bad, strings.Trim(want, `"`)) {
					t.Errorf("the error does not say %s: %s", want, bad)
				}
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
		{"max_frame", -1, nil},
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

// A configuration in a Caddyfile and its JSON do the same.
func TestCaddyfileAndJSONDoTheSame(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/crash_in_tool"), upstream.ByFrame))
	listen := harness.FreePort(t)
	sidecar.RunCaddyfile(t, t.TempDir(), strings.NewReplacer("http://:8643 {\n", sidecar.OnLoopback(listen), "127.0.0.1:8642", up.Addr).Replace(everyOption))
	got := client.New(t, "http://"+listen).Chat().All()

	base, _ := sidecar.Serve(t, up, sidecar.Options(everyMember))
	if want := client.New(t, base).Chat().All(); got != want {
		t.Errorf("from the Caddyfile\n%s\nfrom JSON\n%s", got, want)
	}
	a := strict.Decode(t, got)
	if a.Err == nil || a.Last == nil || a.Last.Error == nil || len(a.Starts) != 1 || strings.Contains(got, "event: ") || !strings.Contains(got, `"done"`) {
		t.Errorf("the options have no effect:\n%s", got)
	}
}
