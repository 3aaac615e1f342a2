package operations

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	"google.golang.org/protobuf/proto"
)

// named waits for a line of the logger whose name begins with the prefix and that
// has the text, and returns it decoded.
func (w *watched) named(prefix, text string) (found map[string]any) {
	w.t.Helper()
	harness.Until(w.t, prefix+" says "+text, func() bool {
		for line := range strings.SplitSeq(w.Log.String(), "\n") {
			var e map[string]any
			if !strings.Contains(line, text) || json.Unmarshal([]byte(line), &e) != nil {
				continue
			}
			if name, _ := e["logger"].(string); strings.HasPrefix(name, prefix) {
				found = e
				return true
			}
		}
		return false
	})
	return found
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
	w := watch(t, up, "", "log\n\thermes_resume {\n\t\tdetach 1m\n\t}\n\thermes {\n\t\tmax_request 64KiB\n\t}")
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
		{"/v1/responses", `{"stream":true,"background":true,"tools":[1]}`, false, "tools"}, // hermes_resume gives a background
		{"/v1/runs", `{"input":"hi","tool_choice":"required"}`, true, "tool_choice"},
		{"/v1/chat/completions", `{"messages":[],"tools":[],"n":1,"tool_choice":"auto","response_format":{"type":"text"},"background":false}`, false, ""},
		{"/v1/embeddings", tools, false, ""},
		{"/v1/chat/completions", tools + strings.Repeat(" ", 64<<10), false, ""}, // larger than max_request: it is not read
		{"/v1/chat/completions", tools + strings.Repeat(" ", 64<<10), true, ""},
		{"/v1/chat/completions", tools[:len(tools)-1], false, ""}, // no JSON
	} {
		w.Send(http.MethodPost, fmt.Sprintf("%s?case=%d.", c.path, i), client.Body(c.body, c.chunked), "Content-Type", "application/json").Leave()
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

// said must be in no log: keys, what was asked, and what was answered.
var said = map[string]string{
	"the key":           "hermes-key-7f3a",
	"a cookie":          "cookie-51c2",
	"the question":      "where is the treasure",
	"the answer":        "under the old oak",
	"the reasoning":     "pirates would dig",
	"a tool's argument": "dig --deep /oak",
	"a key in an error": "sk-live-0123456789abcdef",
}

// tellAll is a sidecar with everything switched on that writes or lists, which has
// answered with each of said in all ways: good, crashed, cut, refused, whole.
func tellAll(t *testing.T, global string) (w *watched, recordings, home string) {
	t.Helper()
	begin := [][]string{hermes.One(hermes.Role), hermes.One(hermes.Delta("content", "<think>"+said["the reasoning"]+"</think>")),
		hermes.One(hermes.Delta("content", "\n`💻 "+said["a tool's argument"]+"`\n")), hermes.One(hermes.Delta("content", said["the answer"]))}
	whole := `{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": ` + hermes.ASCII(said["the answer"]) +
		`}, "finish_reason": "stop"}], "usage": {"total_tokens": 0}}`
	scripts := upstream.Router{
		"good":  upstream.Lines(append(begin, hermes.Good()...)...),
		"crash": upstream.Lines(append(begin, hermes.One(hermes.Finish("stop", 0)), hermes.One("data: [DONE]"))...),
		"error": upstream.Lines(append(begin, hermes.One("data: "+hermes.Envelope+`"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": {"message": "401: `+said["a key in an error"]+`"}}`), hermes.One("data: [DONE]"))...),
		"cut": func(x *upstream.Exchange) {
			x.Events()
			for _, f := range begin {
				x.Frame(f...)
			}
			x.Torn([]byte(hermes.Role[:9]))
		},
		"nothing": (*upstream.Exchange).Fin,
		"whole":   upstream.AsJSON("200 OK", whole),
		"status":  upstream.AsJSON("500 Internal Server Error", `{"error": {"message": `+hermes.ASCII(said["the answer"])+`}}`),
	}
	up := upstream.New(t, scripts.Play)
	recordings = filepath.Join(t.TempDir(), "recordings")
	w = watch(t, up, global, "log\n\thermes {\n\t\trecord "+recordings+"\n\t}")
	for _, e := range w.Cmd.Env {
		if h, ok := strings.CutPrefix(e, "HOME="); ok {
			home = h // the last one counts
		}
	}
	body := `{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":` + hermes.ASCII(said["the question"]) + "},{\"role\":\"assistant\",\"content\":\"`💻 ls`\\n" + said["the answer"] + `"}]}`
	for name := range scripts {
		w.Send(http.MethodPost, "/v1/chat/completions", strings.NewReader(body), "X-Play", name,
			"Authorization", "Bearer "+said["the key"], "Cookie", "session="+said["a cookie"]).All()
	}
	return w, recordings, home
}

// checkSilent wants none of said in a text.
func checkSilent(t *testing.T, where, text string) {
	t.Helper()
	for what, secret := range said {
		if strings.Contains(text, secret) {
			t.Errorf("%s has %s", where, what)
		}
	}
}

// Logs, the access log among them, storage, metrics and the list of streams have
// nothing that was said, nor keys. In the debug log likewise. Recordings, which the operator
// has asked for, have what the agent said, and nothing of the request; no other user may read them.
func TestNothingSaidIsKept(t *testing.T) {
	for _, global := range []string{"", "debug"} {
		t.Run("log "+global, func(t *testing.T) {
			w, recordings, home := tellAll(t, global)
			checkSilent(t, "the metrics", w.Client.Get("/metrics"))
			_, list := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK)
			checkSilent(t, "the list of streams", list)
			if !strings.Contains(list, `"outcome"`) {
				t.Errorf("the list is empty: %s", list)
			}
			w.Terminate()
			w.Exit()
			log := w.Log.String()
			checkSilent(t, "the log", log)
			for _, sign := range []string{`"Authorization":["REDACTED"]`, "http.log.access", "http.handlers.hermes", "history healed"} {
				if !strings.Contains(log, sign) {
					t.Errorf("the log has no %s", sign)
				}
			}
			err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || d.Name() == "Caddyfile" {
					return err
				}
				b, err := os.ReadFile(path)
				checkSilent(t, path, string(b))
				return err
			})
			if err != nil {
				t.Error(err)
			}
			checkRecordings(t, recordings)
		})
	}
}

// checkRecordings checks the recordings of tellAll.
func checkRecordings(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 8 {
		t.Errorf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
		text := harness.ReadFile(t, path)
		for _, what := range []string{"the key", "a cookie", "the question"} {
			if strings.Contains(text, said[what]) {
				t.Errorf("%s has %s", path, what)
			}
		}
		if strings.HasSuffix(path, ".sse") && !strings.Contains(text, said["the answer"]) {
			t.Errorf("%s has no answer: %q", path, harness.Clip(text))
		}
	}
}

// TestHeadersOfUpstreamStayShort: none of them reaches a file or a log line uncut
// (contract section 7), neither in an answer nor in an error that quotes it.
func TestHeadersOfUpstreamStayShort(t *testing.T) {
	sidecar.NeedsMemory(t)
	const large, limit = 1 << 20, 16 << 10
	long := strings.Repeat("\x01x", large/2) // four times as long, quoted
	text := strings.Repeat("x", large)
	body := "\r\nTransfer-Encoding: chunked\r\n\r\n"
	good := string(hermes.Recorded(t, "g3-v0.20.3/one_tool").Body)
	stream := func(header string) upstream.Script {
		return func(x *upstream.Exchange) {
			x.Raw("HTTP/1.1 200 OK\r\n" + header + body)
			x.Chunk([]byte(good))
			x.End()
		}
	}
	raw := func(s string) upstream.Script {
		return func(x *upstream.Exchange) { x.Raw(s); x.Fin() }
	}
	scripts := upstream.Router{
		"type":      stream("Content-Type: text/event-stream; x=" + text),
		"encoding":  stream("Content-Type: text/event-stream\r\nContent-Encoding: " + text),
		"other":     stream("Content-Type: text/event-stream\r\nX-Hermes-Completed: " + text),
		"malformed": raw("HTTP/1.1 200 OK\r\n" + long + "\r\n\r\n"),
		"name":      raw("HTTP/1.1 200 OK\r\n" + long + ": x\r\n\r\n"),
		"status":    raw("HTTP/1.1 " + long + "\r\n\r\n"),
		"version":   raw(long + " 200 OK\r\n\r\n"),
		"length":    raw("HTTP/1.1 200 OK\r\nContent-Length: " + text + "\r\n\r\n"),
		"transfer":  raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + text + "\r\n\r\n"),
		"trailer":   raw("HTTP/1.1 200 OK\r\nTrailer: " + text + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		"bad chunk": raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream" + body + text + "\r\n"),
		"bad trailer": raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTrailer: X" + body + "3\r\nabc\r\n0\r\n" +
			text + "\r\n\r\n"),
	}
	up := upstream.New(t, scripts.Play)
	spans := newCollector(t)
	dir := filepath.Join(t.TempDir(), "recordings")
	w := watch(t, up, "", "tracing\n\thermes {\n\t\trecord "+dir+"\n\t\trecord_max 1GB\n\t}", spans.environment()...)

	paths := []string{"/v1/chat/completions", "/v1/responses", "/v1/runs/run_1/events", "/v1/models", "/api/sessions/s/chat/stream"}
	for name := range scripts {
		for _, path := range paths {
			// An answer that is torn, or whose header is too long for this client, is an error.
			if r, err := w.Ask(http.MethodPost, path, strings.NewReader(`{"stream":true,"messages":[]}`), "X-Play", name); err == nil {
				_, _ = io.Copy(io.Discard, r.In) // likewise
				r.Leave()
			}
		}
	}
	_, list := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK)
	if len(list) > 100<<10 {
		t.Errorf("the admin API lists %d bytes", len(list))
	}
	for range len(scripts) * len(paths) {
		if size := proto.Size(<-spans.spans); size > limit {
			t.Errorf("a span has %d bytes", size)
		}
	}
	w.named("http.handlers.hermes", "upstream_aborted")
	w.named("http.log.error", "malformed")
	lines := 0
	for line := range strings.SplitSeq(w.Log.String(), "\n") {
		lines++
		if len(line) > limit {
			t.Errorf("a log line has %d bytes: %.300s", len(line), line)
		}
	}
	if lines < len(scripts) {
		t.Errorf("%d log lines", lines)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing is recorded: %v", err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || filepath.Ext(f.Name()) == ".json" && info.Size() > limit {
			t.Errorf("%s has %d bytes, %v", f.Name(), info.Size(), err)
		}
	}
}
