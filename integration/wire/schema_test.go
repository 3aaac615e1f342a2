package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/schema"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// everything plays each kind of frame that Hermes sends in a chat, with a tool that is open at the end.
func everything(x *upstream.Exchange) {
	x.Begin("<think>hm</think>\n\nhi", "\n\n`💻 ls`\n\nthere")
	x.Frame(hermes.Running("terminal", "call_1")...)
	x.Frame("event: hermes.status", `data: {"kind": "lifecycle", "text": "Retrying in 2.0s"}`)
	x.Frame("event: approval.request", `data: {"command": "rm -rf x", "pattern_key": "k", "pattern_keys": ["k"], "description": "d", "allow_permanent": true, "allow_session": true, "request_id": "0f9c", `+
		`"event": "approval.request", "run_id": "chatcmpl-5ec0de", "timestamp": 1795164799.25, "session_id": "api-60", "choices": ["once", "deny"]}`)
	x.Frame("event: hermes.other", `data: {"a": 1, "id": 7}`)
	x.Frame(hermes.Completed("terminal", "call_1")...)
	x.Frame(hermes.Running("read_file", "call_2")...)
}

// TestEveryKindOfFrameIsDescribed: the sidecar writes each of the kinds that frame.json has, and nothing
// else. What it writes in the other tests, the client holds against the schema as well.
func TestEveryKindOfFrameIsDescribed(t *testing.T) {
	s, seen := schema.Load(t, "frame.json"), map[string]int{}
	kinds := kindsOfFrames(t)
	count := func(t *testing.T, body string) {
		t.Helper()
		for raw := range strings.SplitAfterSeq(body, "\n\n") {
			if raw == "" {
				continue
			}
			f, err := schema.Frame(raw)
			if err != nil || f == nil {
				t.Errorf("%q: %v", raw, err)
				continue
			}
			of := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return s.At(t, "/$defs/"+kind).Validate(f) != nil })
			if len(of) != 1 {
				t.Errorf("%q is %q, want one kind", raw, of)
			}
			for _, kind := range of {
				seen[kind]++
			}
		}
	}
	session := harness.ReadFile(t, harness.Path("testdata/written/session.tools.sse"))
	session, _, _ = strings.Cut(session, "event: tool.completed")
	scripts := upstream.Router{
		"cut":      func(x *upstream.Exchange) { everything(x); x.Reset() },
		"whole":    func(x *upstream.Exchange) { everything(x); x.Frame(hermes.Delta("content", "ok")); x.Finish() },
		"run":      upTo(t, "g3-v0.20.3/runs.one_tool", "tool.started"),
		"response": upTo(t, "g3-v0.20.3/responses.one_tool", `"type": "function_call"`),
		"session":  func(x *upstream.Exchange) { x.Events(); x.Chunk([]byte(session)); x.End() },
		"silent":   func(x *upstream.Exchange) { x.Events(); x.Silence() },
		"slow":     func(x *upstream.Exchange) { x.Begin(); x.Silence() },
	}
	up := upstream.New(t, scripts.Play)
	for _, form := range forms {
		for _, more := range []sidecar.Options{{}, {"status_line": false, "cards": false, "error_finish": "inline"}} {
			t.Run(fmt.Sprintf("%s %v", form, more), func(t *testing.T) {
				base, _ := sidecar.Serve(t, up, sidecar.Still.With(more).With(sidecar.Options{"progress": form}))
				c := client.New(t, base)
				for _, script := range []string{"cut", "whole"} {
					body := c.Play(script).All()
					if form == "envelope" || form == "unnamed" {
						count(t, body) // in the others Hermes' own events pass as they are
					} else {
						count(t, stateOfHermes.ReplaceAllString(body, ""))
					}
				}
			})
		}
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"keepalive": "1ms"})))
	count(t, c.Play("silent").Frame().Raw)
	slow := c.Play("slow")
	for e := slow.Frame(); seen["keepaliveChunk"] == 0; e = slow.Frame() {
		count(t, e.Raw)
	}
	for script, path := range map[string]string{"run": "/v1/runs/run_1/events", "response": "/v1/responses", "session": "/api/sessions/s1/chat/stream"} {
		body := c.Post(path, "X-Play", script).All()
		n := map[string]int{"run": 2, "response": 4, "session": 3}[script]
		frames := strings.SplitAfter(strings.TrimSuffix(body, "\n\n"), "\n\n")
		count(t, strings.Join(frames[len(frames)-n:], "")+"\n\n")
	}
	for form, wants := range map[string]string{"envelope": "status", "unnamed": "status", "bare": "statusBare", "comment": "statusComment"} {
		base, _ := sidecar.ServeCaddyfile(t, "\thermes_queue {\n\t\truns 1\n\t}\n\thermes {\n\t\tprogress "+form+"\n\t}\n\treverse_proxy "+up.Addr)
		c, before := client.New(t, base), seen[wants]
		c.Play("slow").Frame() // has the place
		count(t, c.Play("whole").Frame().Raw)
		if seen[wants] != before+1 {
			t.Errorf("%s: a client that waits is not told in the form %s", form, wants)
		}
	}
	// What ends a stream whose client was told that it waits.
	for path, n := range map[string]int{"/v1/chat/completions": 5, "/v1/responses": 2, "/api/sessions/s1/chat/stream": 3} {
		rest := make(chan struct{})
		up := upstream.New(t, upstream.Router{
			"held":    func(x *upstream.Exchange) { x.Begin(); x.Wait(rest); x.Reset() },
			"refused": upstream.AsJSON("429 Too Many Requests", `{"error": {"message": "not now", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"}}`),
		}.Play)
		base, _ := sidecar.ServeCaddyfile(t, "\thermes_queue {\n\t\truns 1\n\t\twait 1h\n\t}\n\thermes\n\treverse_proxy "+up.Addr)
		c := client.New(t, base)
		c.Play("held").Frame() // has the place
		waits := c.Post(path, "X-Play", "refused")
		body := waits.Frame().Raw
		close(rest)
		body += waits.All()
		if count(t, body); strings.Count(body, "\n\n") != n {
			t.Errorf("%s: %q", path, body)
		}
	}
	for _, kind := range kinds {
		if seen[kind] == 0 {
			t.Errorf("nothing is %s", kind)
		}
	}
	t.Logf("%v", seen)
}

// upTo plays a recording up to the frame that has start, with which a tool starts.
func upTo(t testing.TB, name, start string) upstream.Script {
	body := hermes.Recorded(t, name).Body
	at := bytes.Index(body, []byte(start))
	at += bytes.Index(body[at:], []byte("\n\n")) + 2
	return func(x *upstream.Exchange) {
		x.Events()
		x.Chunk(body[:at])
		x.End()
	}
}

// stateOfHermes matches the events with which Hermes says something of its state.
var stateOfHermes = regexp.MustCompile(`(?m)^event: (hermes\.status|approval\.request|hermes\.other)\n.*\n\n`)

var forms = []string{"envelope", "bare", "unnamed", "comment", "off"}

// kindsOfFrames returns the definitions that a frame may be one of.
func kindsOfFrames(t *testing.T) (kinds []string) {
	t.Helper()
	var doc struct {
		AnyOf []struct {
			Ref string `json:"$ref"`
		}
	}
	if err := json.Unmarshal([]byte(harness.ReadFile(t, harness.Path("docs/schema/frame.json"))), &doc); err != nil {
		t.Fatal(err)
	}
	for _, of := range doc.AnyOf {
		kinds = append(kinds, strings.TrimPrefix(of.Ref, "#/$defs/"))
	}
	return kinds
}

// TestStreamsOfHermesAreDescribed: every frame of every recorded chat, and of what the sidecar makes of it
// with any options, whole and cut, is one of frame.json, and so are those that pass.
func TestStreamsOfHermesAreDescribed(t *testing.T) {
	all := hermes.Recordings(t, hermes.Chats)
	scripts := upstream.Library(all, upstream.ByFrame)
	for _, r := range all {
		scripts[r.String()+" cut"] = func(x *upstream.Exchange) { x.Events(); x.Chunk(r.Body[:len(r.Body)*2/3]); x.End() }
	}
	up := upstream.New(t, scripts.Play)
	whole, valid := schema.Load(t, "frame.json").At(t, ""), map[string]bool{}
	for _, o := range []sidecar.Options{
		{},
		{"progress": "unnamed", "zero_usage": "error"},
		{"error_finish": "inline", "reasoning": "drop", "imitations": "trust", "cards": false},
		{"progress": "bare", "reasoning": "keep", "imitations": "keep", "zero_usage": "pass", "empty_answer": "pass"},
		{"progress": "comment", "error_finish": "inline", "zero_usage": "error"},
		{"progress": "off"},
	} {
		t.Run(fmt.Sprint(o), func(t *testing.T) {
			base, _ := sidecar.Serve(t, up, sidecar.Still.With(o))
			c, n := client.New(t, base), 0
			for name := range scripts {
				for raw := range strings.SplitAfterSeq(c.Play(name).All(), "\n\n") {
					f, err := schema.Frame(raw)
					if err == nil && f != nil && (o["progress"] == nil || o["progress"] == "unnamed" || f["event"] == nil) {
						n++
						if !valid[raw] {
							err = whole.Validate(f)
						}
						valid[raw] = err == nil
					}
					if err != nil {
						t.Errorf("%s: %q: %v", name, harness.Clip(raw), err)
					}
				}
			}
			if n < 1000 {
				t.Errorf("%d frames", n)
			}
		})
	}
}

// TestErrorsAreDescribed: where there is no answer, error.json says what there is.
func TestErrorsAreDescribed(t *testing.T) {
	s := schema.Load(t, "error.json")
	failed := harness.ReadFile(t, harness.Path("testdata/captures/g0-v0.8.0/nonstream.failed_result.http"))
	head, body, _ := strings.Cut(strings.ReplaceAll(failed, "\r\n", "\n"), "\n\n")
	failed = strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body
	up := upstream.New(t, upstream.Router{
		"aborted": func(x *upstream.Exchange) { x.Events(); x.Reset() },
		"silent":  func(x *upstream.Exchange) { x.Silence() },
		"failed":  func(x *upstream.Exchange) { x.Raw(failed) },
		"slow":    func(x *upstream.Exchange) { x.Begin(); x.Silence() },
	}.Play)
	base, _ := sidecar.Serve(t, up, sidecar.Options{"first_byte_timeout": "1ms", "keepalive": 0})
	patient, _ := sidecar.Serve(t, up, sidecar.Still)
	refused, _ := sidecar.Serve(t, &upstream.Server{Addr: harness.FreePort(t)}, nil)
	resumed, _ := sidecar.ServeCaddyfile(t, "\thermes_resume\n\thermes\n\treverse_proxy "+up.Addr)
	full, _ := sidecar.ServeCaddyfile(t, "\thermes_queue {\n\t\truns 1\n\t\twaiting 0\n\t}\n\thermes\n\treverse_proxy "+up.Addr)
	client.New(t, full).Play("slow").Frame() // has the place
	for _, test := range []struct {
		base, script, kind string
		status             int
		headers            []string
	}{
		{patient, "aborted", "noAnswer", http.StatusBadGateway, nil},
		{base, "silent", "noAnswer", http.StatusGatewayTimeout, nil},
		{refused, "", "noAnswer", http.StatusBadGateway, nil},
		{patient, "failed", "agentFailed", http.StatusBadGateway, nil},
		{full, "", "noPlace", http.StatusTooManyRequests, nil},
		{resumed, "", "problem", http.StatusBadRequest, []string{"X-Hermes-Detach", "soon"}},
		{resumed, "", "problem", http.StatusNotFound, []string{"Idempotency-Key", "k", "Last-Event-ID", "stream_AAAAAAAAAAAAAAAAAAAAAA/1"}},
	} {
		r := client.New(t, test.base).Play(test.script, test.headers...)
		body, err := io.ReadAll(r.In)
		if err != nil {
			t.Fatal(err)
		}
		v, err := schema.Parse(string(body))
		if err == nil {
			err = s.At(t, "/$defs/"+test.kind).Validate(v)
		}
		if err != nil || r.StatusCode != test.status {
			t.Errorf("%s: %s %s: %v", test.script, r.Status, body, err)
		}
	}
}

// seedVariable repeats the streams of a run of TestAnyStreamIsDescribed.
const seedVariable = "HERMES_SCHEMA_SEED"

// TestAnyStreamIsDescribed: frames of all generations in any order, some of them with unknown members, cut
// anywhere. Whatever the sidecar makes of it, the client finds it in frame.json.
func TestAnyStreamIsDescribed(t *testing.T) {
	seed := harness.Seed(t, seedVariable)
	random := rand.New(rand.NewPCG(seed, seed))
	const streams = 200
	scripts := upstream.Router{}
	for i := range streams {
		body := anyStream(random)
		abort := random.IntN(2) == 0
		scripts[fmt.Sprint(i)] = func(x *upstream.Exchange) {
			x.Events()
			x.Chunk([]byte(body))
			if abort {
				x.Torn(nil)
			} else {
				x.End()
			}
		}
	}
	up := upstream.New(t, scripts.Play)
	var conf sidecar.Config
	pick := func(values ...any) any { return values[random.IntN(len(values))] }
	for range 8 {
		conf.Sites = append(conf.Sites, sidecar.Site{Listen: harness.FreePort(t), Upstream: up.Addr, Options: sidecar.Still.With(sidecar.Options{
			"progress": pick("envelope", "envelope", "unnamed", "unnamed", "bare", "comment", "off"), "cards": pick(true, false), "status_line": pick(true, false),
			"error_finish": pick("split", "inline"), "imitations": pick("strip", "keep", "trust"), "reasoning": pick("extract", "keep", "drop"),
			"zero_usage": pick("auto", "error", "pass"), "empty_answer": pick("error", "pass"),
		})})
	}
	sidecar.Run(t, t.TempDir(), conf)
	for i, site := range conf.Sites {
		t.Run(fmt.Sprint(i, site.Options), func(t *testing.T) {
			c := client.New(t, "http://"+site.Listen)
			for i := range streams {
				c.Play(fmt.Sprint(i)).All()
			}
		})
	}
}

// anyStream returns some frames in a row.
func anyStream(random *rand.Rand) string {
	const g3 = `"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, "error": {"message": "boom sk-abcdefghijklmnop1234567890", "type": "RuntimeError"}, ` +
		`"hermes": {"completed": true, "partial": false, "failed": true, "error": "boom", "error_code": "agent_error"}}`
	pool := [][]string{
		hermes.One(hermes.Role), hermes.One(hermes.Delta("content", "hi ")), hermes.One(hermes.Delta("content", "\n`💻 ls -la`\n")), hermes.One(hermes.Delta("content", "\n\n<think>hm")),
		hermes.One(hermes.Delta("content", "</think>\n\nso")), hermes.One(hermes.Delta("content", "a\n`📖 a.txt`\nb\n")), hermes.One(hermes.Delta("reasoning_content", "hm")), hermes.One(hermes.Delta("content", " ")),
		hermes.Running("terminal", "c1"), hermes.Completed("terminal", "c1"), hermes.Running("read_file", "c2"), hermes.Completed("read_file", "c2"), hermes.Running("_thinking", "c3"),
		{"event: hermes.tool.progress", `data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls"}`},
		{"event: hermes.status", `data: {"kind": "lifecycle", "text": "Retrying"}`},
		{"event: approval.request", `data: {"command": "rm -rf x", "event": "approval.request", "choices": ["once", "deny"]}`},
		{"event: other", `data: {"a": 1, "model": "x", "event": "y"}`},
		{": keepalive"}, {`data: {"error": {"message": "token=abcdef1234567890", "type": "t"}}`}, {`event: error`, `data: {"error": {"message": "m"}}`}, {`data: {"error": "m"}`}, {"data: not JSON"},
		hermes.One(hermes.Finish("stop", 5)), hermes.One(hermes.Finish("stop", 0)), hermes.One(hermes.Finish("length", 5)), hermes.One("data: [DONE]"),
		{"data: " + hermes.Envelope + `"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], ` + g3},
		{"data: " + hermes.Envelope + `"choices": [{"index": 0, "delta": {"content": "<think>x</think>y"}, "finish_reason": "length"}], ` + g3},
		{"data: " + hermes.Envelope + `"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}`},
		{"data: " + hermes.Envelope + `"choices": [{"index": 1, "delta": {"content": "second"}, "finish_reason": null}]}`},
	}
	var body strings.Builder
	for range 1 + random.IntN(16) {
		frame := strings.Join(pool[random.IntN(len(pool))], "\n")
		if random.IntN(4) == 0 {
			frame = strings.NewReplacer(spoils[random.IntN(len(spoils))]...).Replace(frame)
		}
		body.WriteString(frame + "\n\n")
	}
	if random.IntN(3) == 0 {
		return body.String()[:random.IntN(body.Len())]
	}
	return body.String()
}

// spoils are what other versions of Hermes may say: old and new text. They leave alone what
// a chunk must have, for a chunk that is spliced keeps what is odd about it.
var spoils = [][]string{
	{`"toolCallId": "c1"`, `"toolCallId": null`}, {`"toolCallId": "c1"`, `"toolCallId": ""`}, {`"toolCallId": "c1", `, ""}, {`"tool": "terminal"`, `"tool": 5`},
	{`"emoji": `, `"more": {"a": [1]}, "emoji": `}, {`"status": "completed"`, `"status": "completed", "took": 3`}, {`, "status": "running"`, ``}, {`"label": "ls -la", `, ""},
	{`"finish_reason": null`, `"finish_reason": null, "logprobs": null, "stop_reason": 3`}, {`"model": "hermes-agent"`, `"model": "hermes-agent", "system_fingerprint": "fp", "service_tier": null`},
	{`"text": `, `"token": "abcdef1234567890", "text": `}, {`"kind": "lifecycle", `, ""}, {`"command": `, `"severity": 3, "command": `},
	{`"type": "RuntimeError"`, `"type": "RuntimeError", "code": 500, "extra": true`}, {`"error_code": "agent_error"`, `"error_code": "agent_error", "trace": ["a"]`},
	{`"delta": {}`, `"delta": {"content": "last"}`}, {`"delta": {}`, `"delta": {"audio": {"id": "x"}}`}, {`"total_tokens": 7`, `"total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 1}`},
}
