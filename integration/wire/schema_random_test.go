package wire

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// seedVariable repeats the streams of a run of TestAnyStreamIsDescribed.
const seedVariable = "HERMES_SCHEMA_SEED"

// TestAnyStreamIsDescribed: frames of all generations in any order, some of them with
// members that nobody knows, cut anywhere. Whatever the sidecar makes of it, the client
// finds it in frame.json.
func TestAnyStreamIsDescribed(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d repeats these streams", seedVariable, seed)
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
			for name := range scripts {
				c.Play(name).All()
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
	{`"emoji": `, `"more": {"a": [1]}, "emoji": `}, {`"status": "completed"`, `"status": "completed", "duration": 3`}, {`, "status": "running"`, ``}, {`"label": "ls -la", `, ""},
	{`"finish_reason": null`, `"finish_reason": null, "logprobs": null, "stop_reason": 3`}, {`"model": "hermes-agent"`, `"model": "hermes-agent", "system_fingerprint": "fp", "service_tier": null`},
	{`"text": `, `"token": "abcdef1234567890", "text": `}, {`"kind": "lifecycle", `, ""}, {`"command": `, `"severity": 3, "command": `},
	{`"type": "RuntimeError"`, `"type": "RuntimeError", "code": 500, "extra": true`}, {`"error_code": "agent_error"`, `"error_code": "agent_error", "trace": ["a"]`},
	{`"delta": {}`, `"delta": {"content": "last"}`}, {`"delta": {}`, `"delta": {"audio": {"id": "x"}}`}, {`"total_tokens": 7`, `"total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 1}`},
}
