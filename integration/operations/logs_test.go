package operations

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// named waits for a line of the logger whose name begins with the prefix and that
// has the text, and returns it decoded.
func (w *watched) named(prefix, text string) map[string]any {
	w.t.Helper()
	deadline := time.Now().Add(harness.Patience)
	for time.Now().Before(deadline) {
		for line := range strings.SplitSeq(w.Log.String(), "\n") {
			var e map[string]any
			if json.Unmarshal([]byte(line), &e) != nil {
				continue
			}
			if name, _ := e["logger"].(string); strings.HasPrefix(name, prefix) && strings.Contains(line, text) {
				return e
			}
		}
		w.Says(text)
	}
	w.t.Fatalf("no line of %s with %s", prefix, text)
	return nil
}

// scenes are answers that end in each way.
func scenes(t *testing.T) upstream.Router {
	return upstream.Router{
		"good":  upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame),
		"crash": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/crash_in_tool"), upstream.ByFrame),
		"cut": func(x *upstream.Exchange) {
			x.Begin("hi")
			x.Reset()
		},
		"none":  func(x *upstream.Exchange) { x.Reset() },
		"other": upstream.AsJSON("200 OK", `{"object":"list"}`),
	}
}

// TestAbnormalEndIsOneLine with all that is known of the stream.
func TestAbnormalEndIsOneLine(t *testing.T) {
	up := upstream.New(t, scenes(t).Play)
	w := watch(t, up, "", "hermes")
	for _, name := range []string{"good", "crash", "cut", "none", "other"} {
		w.Play(name).All()
	}
	lines := w.Log.Entries()
	if len(lines) != 4 || lines[0]["msg"] != "hermes sidecar" {
		t.Fatalf("%d lines, want the build and one for each abnormal end: %v", len(lines), lines)
	}
	for i, want := range []map[string]any{
		{"outcome": "agent_crashed", "status": 200., "finish_reason": "error", "tools": 1., "chunks": 5., "model": "hermes-agent"},
		{"outcome": "upstream_aborted", "status": 200., "finish_reason": "error", "tools": 0., "chunks": 2., "model": "hermes-agent"},
		{"outcome": "upstream_aborted", "status": 502., "finish_reason": "", "tools": 0., "chunks": 0., "model": ""},
	} {
		line := lines[1+i]
		if line["level"] != "warn" || line["upstream"] != up.Addr || line["seconds"].(float64) <= 0 {
			t.Errorf("line %v", line)
		}
		if id := line["completion_id"].(string); strings.HasPrefix(id, "chatcmpl-") != (want["status"] == 200.) {
			t.Errorf("completion id %q", id)
		}
		for name, v := range want {
			if line[name] != v {
				t.Errorf("%s is %v, want %v, in %v", name, line[name], v, line)
			}
		}
	}
}

// TestAccessLogHasTheOutcome, and what log_append makes of placeholders.
func TestAccessLogHasTheOutcome(t *testing.T) {
	up := upstream.New(t, scenes(t).Play)
	w := watch(t, up, "", "log\n\tlog_append hermes_id {http.hermes.completion_id}\n\tlog_append hermes_seconds {http.hermes.seconds}\n\tlog_append hermes_model {http.hermes.model}\n\thermes")
	for name, want := range map[string]map[string]any{
		"good":  {"hermes_outcome": "ok", "hermes_tools": 1., "hermes_model": "hermes-agent", "status": 200.},
		"crash": {"hermes_outcome": "agent_crashed", "hermes_tools": 1., "hermes_model": "hermes-agent", "status": 200.},
		"none":  {"hermes_outcome": "upstream_aborted", "hermes_tools": 0., "hermes_model": "", "status": 502.},
		"other": {"hermes_outcome": nil, "hermes_tools": nil, "hermes_model": nil, "status": 200.},
	} {
		w.Play(name).All()
		line := w.named("http.log.access", `"X-Play":["`+name+`"]`)
		for field, v := range want {
			if line[field] != v {
				t.Errorf("%s: %s is %v, want %v", name, field, line[field], v)
			}
		}
		id, _ := line["hermes_id"].(string)
		seconds, _ := line["hermes_seconds"].(float64)
		if streamed := name == "good" || name == "crash"; strings.HasPrefix(id, "chatcmpl-") != streamed || streamed && seconds <= 0 {
			t.Errorf("%s: id %q, seconds %v", name, id, seconds)
		}
	}
}

// TestAccessLogNamesWhatIsIgnored of a request, on the paths of Hermes' that are asked for an
// answer, and nowhere else. What Hermes gets stays as it is.
func TestAccessLogNamesWhatIsIgnored(t *testing.T) {
	got := make(chan string, 1)
	up := upstream.New(t, func(x *upstream.Exchange) {
		got <- string(x.Body)
		upstream.AsJSON("200 OK", `{"object":"list"}`)(x)
	})
	w := watch(t, up, "", "log\n\thermes {\n\t\tmax_request 64KiB\n\t}")
	const tools = `{"stream":false,"messages":[],"tools":[{"type":"function"}],"n":2,"n":1,"response_format":{"type":"json_object"}}`
	const ignored = "response_format tools"
	for i, c := range []struct {
		path, body string
		chunked    bool
		want       string
	}{
		{"/v1/chat/completions", tools, false, ignored},
		{"/v1/chat/completions", tools, true, ignored},
		{"/p/work/v1/chat/completions", tools, false, ignored},
		{"/v1/responses", `{"input":"hi","background":true,"text":{"format":{"type":"json_schema"}}}`, false, "background text.format"},
		{"/v1/runs", `{"input":"hi","tool_choice":"required"}`, true, "tool_choice"},
		{"/v1/chat/completions", `{"messages":[],"tools":[],"n":1,"tool_choice":"auto","response_format":{"type":"text"},"background":false}`, false, ""},
		{"/v1/embeddings", tools, false, ""},
		{"/v1/chat/completions", tools + strings.Repeat(" ", 64<<10), false, ""}, // larger than max_request: it is not read
		{"/v1/chat/completions", tools + strings.Repeat(" ", 64<<10), true, ""},
		{"/v1/chat/completions", tools[:len(tools)-1], false, ""}, // no JSON
	} {
		body := io.Reader(strings.NewReader(c.body))
		if c.chunked {
			body = io.MultiReader(body)
		}
		res, err := http.Post(fmt.Sprintf("%s%s?case=%d.", w.Base, c.path, i), "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if sent := <-got; sent != c.body {
			t.Errorf("%s: upstream got %q", c.path, harness.Clip(sent))
		}
		var names []string
		listed, _ := w.named("http.log.access", fmt.Sprintf("case=%d.", i))["hermes_ignored"].([]any)
		for _, name := range listed {
			names = append(names, name.(string))
		}
		if strings.Join(names, " ") != c.want {
			t.Errorf("%s %s: %q, want %q", c.path, harness.Clip(c.body), names, c.want)
		}
	}
}

// TestAccessLogOfAClientThatLeft has the outcome, though log_append does not run.
func TestAccessLogOfAClientThatLeft(t *testing.T) {
	w := watch(t, upstream.New(t, upstream.HeldBack(nil)), "", "log\n\tlog_append hermes_id {http.hermes.completion_id}\n\thermes")
	live := w.Chat()
	live.Frame()
	live.Leave()
	line := w.named("http.log.access", "/v1/chat/completions")
	if line["hermes_outcome"] != "client_gone" || line["hermes_tools"] != 0. {
		t.Errorf("line %v", line)
	}
	if id, ok := line["hermes_id"]; ok {
		t.Errorf("log_append has run (%v): say so in docs/observability.md", id)
	}
}

// TestEventsAreEmitted: Caddy's debug log shows each. Handlers of events are
// plugins, of which this binary has none.
func TestEventsAreEmitted(t *testing.T) {
	w := watch(t, upstream.New(t, scenes(t).Play), "debug", "hermes")
	for name, want := range map[string]string{"good": "hermes_stream_ended", "crash": "hermes_stream_failed"} {
		w.Play(name).All()
		line := w.named("events", want)
		data, _ := line["data"].(map[string]any)
		if line["msg"] != "event" || line["origin"] != "http.handlers.hermes" || data["model"] != "hermes-agent" || data["tools"] != 1. {
			t.Errorf("%s: %v", name, line)
		}
	}
}
