package rewrite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/tidwall/gjson"
)

// placeSecrets are secrets, as they may stand in the JSON of a message.
var placeSecrets = []string{
	"sk-abcdEFGH1234567890", "\\u0073k-abcdEFGH1234567890", "ghp_abcdEFGH1234567890", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdEFGH",
}

// secretPlaces are the places of a message about a failure or the agent's state, the JSON string %s.
var secretPlaces = map[string]string{
	"the error of a finish chunk":         role() + text("x") + finishChunk("error", `, "error": {"message": %s, "type": "x"}`) + doneFrame,
	"another member of it":                role() + text("x") + finishChunk("error", `, "error": {"message": "x", "param": %s, "meta": {"raw": [%s]}}`) + doneFrame,
	"a message that is none":              role() + text("x") + finishChunk("error", `, "error": {"message": [%s], "type": %s}`) + doneFrame,
	"an error that is a string":           role() + text("x") + finishChunk("error", `, "error": %s`) + doneFrame,
	"an error that is an array":           role() + text("x") + finishChunk("error", `, "error": [%s]`) + doneFrame,
	"a hermes block":                      role() + text("x") + finishChunk("error", `, "hermes": {"failed": true, "error": %s, "x": {"y": %s}}`) + doneFrame,
	"both":                                role() + text("x") + finishChunk("error", zeroUsage+`, "hermes": {"error": %s}, "error": {"message": %s}`) + doneFrame,
	"a finish for length":                 role() + text("x") + finishChunk("length", `, "error": {"message": %s}, "hermes": {"error": %s}`) + doneFrame,
	"a finish for stop":                   role() + text("x") + finishChunk("stop", realUsage+`, "error": {"message": %s}, "hermes": {"error": %s}`) + doneFrame,
	"a finish for a crash":                role() + finishChunk("stop", zeroUsage+`, "error": {"message": %s}, "error": %s, "hermes": {"error": %s}, "hermes": %s`) + doneFrame,
	"a finish of another kind":            role() + text("x") + finishChunk("content_filter", `, "error": %s`) + doneFrame,
	"the first of two errors":             role() + text("x") + finishChunk("error", `, "error": {"message": %s}, "error": {"message": "b"}`) + doneFrame,
	"the second of two errors":            role() + text("x") + finishChunk("error", `, "error": {"message": "a"}, "error": {"message": %s}`) + doneFrame,
	"each of three errors and two blocks": role() + text("x") + finishChunk("length", `, "error": %s, "hermes": [%s], "error": {"message": %s}, "hermes": {"x": %s}, "error": null`) + doneFrame,
	"an error whose name is escaped":      role() + text("x") + finishChunk("stop", realUsage+`, "\u0065rror": {"message": %s}, "h\u0065rmes": {"error": %s}`) + doneFrame,
	"the error of a choice":               role() + text("x") + strings.Replace(finishChunk("error", ""), `"delta"`, `"error": {"message": %s}, "delta"`, 1) + doneFrame,
	"the hermes block of a choice":        role() + text("x") + strings.Replace(finishChunk("stop", realUsage), `"delta"`, `"hermes": {"error": %s}, "delta"`, 1) + doneFrame,
	"the first choices of two":            role() + text("x") + strings.Replace(finishChunk("length", ""), `"choices"`, `"choices": [{"index": 0, "error": %s}], "choices"`, 1) + doneFrame,
	"choices whose name is escaped":       role() + text("x") + strings.Replace(finishChunk("length", ""), `"choices"`, `"ch\u006fices": [{"index": 0, "error": %s}], "choices"`, 1) + doneFrame,
	"a second finish":                     role() + text("x") + finishChunk("stop", realUsage) + finishChunk("stop", `, "error": %s`) + doneFrame,
	"an error in a delta":                 role() + strings.Replace(text("b"), "}\n\n", `, "error": {"message": %s}}`+"\n\n", 1) + doneFrame,
	"a hermes block in a delta":           role() + text("`\U0001f4bb l") + strings.Replace(delta(""), "}\n\n", `, "hermes": {"x": %s}}`+"\n\n", 1) + text("s") + stop(),
	"a delta that is held":                role() + strings.Replace(text("`\U0001f4bb l"), "}\n\n", `, "hermes": {"x": %s}, "h\u0065rmes": %s}`+"\n\n", 1) + text("s") + stop(),
	"a delta behind half a tag":           role() + text("<thi") + strings.Replace(delta(""), `"delta"`, `"err\u006fr": %s, "error": null, "delta"`, 1) + text("b") + stop(),
	"a delta that is taken apart":         role() + strings.Replace(text("a\n\n<think>b</think>c\n`\U0001f4bb ls`\nd"), `"choices"`, `"error": %s, "error": null, "choices"`, 1) + stop(),
	"an error that another has wrapped":   role() + g2Start("t", "x", "l", "c") + named("error", `{`+envelopeWritten+`, "detail": %s, "error": "boom"}`) + stop(),
	"deltas that are alike":               role() + text("x") + strings.Repeat(strings.Replace(text("b"), "}\n\n", `, "h\u0065rmes": {"error": %s}}`+"\n\n", 1), 5) + stop(),
	"an error frame":                      role() + text("x") + `data: {"error": {"message": %s}, "detail": %s}` + "\n\n" + doneFrame,
	"two in an error frame":               role() + `data: {"error": {"message": %s}, "error": {"message": "x"}}` + "\n\n",
	"a named error":                       role() + named("error", `{"error": {"message": %s}}`) + doneFrame,
	"a named error without one":           role() + named("error", `{"message": %s, "code": 500}`) + stop(),
	"a named error that is a string":      role() + named("error", `%s`) + stop(),
	"a named error that is no JSON":       role() + named("error", `{"message": %s`) + stop(),
	"an error by its type":                role() + `data: {"type": "error", "message": %s}` + "\n\n" + stop(),
	"a status":                            role() + named("hermes.status", `{"kind": "lifecycle", "text": %s}`) + text("x") + stop(),
	"an approval":                         role() + named("approval.request", `{"command": %s, "choices": ["once"], "description": %s}`) + text("x") + stop(),
	"another named event":                 role() + named("x.y", `{"error": {"message": %s}}`) + text("x") + stop(),
	"an event that says that it failed":   role() + named("x.failed", `{"why": %s}`) + text("x") + stop(),
	"a tool event":                        role() + named("hermes.tool.progress", `{"tool": "t", "toolCallId": "c", "status": "running", "error": %s}`) + text("x") + stop(),
	"a tool event in a comment":           role() + ": hermes.tool.progress {\"tool\": \"t\", \"toolCallId\": \"c\", \"status\": \"running\", \"error\": %s}\n\n" + text("x") + stop(),
	"after [DONE]":                        role() + text("x") + stop() + `data: {` + envelopeOfTests + `, "choices": [], "error": %s}` + "\n\n",
	"a tool event of its end":             role() + g2Start("t", "x", "l", "c") + named("hermes.tool.progress", `{"tool": "t", "toolCallId": "c", "status": "completed", "error": %s}`) + text("x") + stop(),
	"a tool event of another kind":        role() + named("hermes.tool.progress", `{"tool": "t", "toolCallId": "c", "status": "failed", "error": %s}`) + named("hermes.tool.progress", `{`+envelopeOfTests+`, "choices": [], "tool": "t", "toolCallId": "d", "status": "failed", "error": %s}`) + text("x") + stop(),
	"data of several lines":               role() + "event: error\ndata: {\"error\":\ndata:{\"message\": %s,\ndata: \"x\": 1}}\n\n" + stop(),
	"a frame with CRLF":                   role() + "event: error\r\ndata: {\"error\": {\"message\": %s}}\r\n\r\n" + stop(),
	"an event of an error":                role() + named("tool.error", `{"message": %s}`) + stop(),
	"a response's error event":            created(0, responseOfTests) + named("error", `{"type":"error","message":%s,"param":%s,"sequence_number":1}`),
	"a response that failed":              created(0, responseOfTests) + named("response.failed", `{"type":"response.failed","response":{"id":"resp_1","error":{"message":%s},"output":[%s]}}`),
	"a response with an error":            created(0, responseOfTests) + named("response.incomplete", `{"type":"response.incomplete","response":{"id":"resp_1","error":{"message":%s},"incomplete_details":{"reason":%s}}}`),
	"a response's status":                 created(0, responseOfTests) + named("hermes.status", `{"kind":"warn","text":%s}`) + outputDelta(1),
	"a response's error that is no JSON":  created(0, responseOfTests) + named("error", `%s and more`),
	"two errors of a response":            created(0, responseOfTests) + named("x", `{"error":%s,"error":{"a":%s},"hermes":%s}`),
	"after the end of a response":         created(0, responseOfTests) + strings.Replace(created(1, responseOfTests), "created", "completed", 2) + named("error", `{"message":%s}`),
	"a response that has not begun":       named("error", `{"type":"error","message":%s}`) + `data: {"error":%s}` + "\n\n" + named("error", `%s and "responses"`),
	"a run that failed":                   runEvent("message.delta", ``) + runEvent("run.failed", `, "error": %s, "output": %s`),
	"a run that was interrupted":          runEvent("message.delta", ``) + runEvent("run.interrupted", `, "error": %s`),
	"a run's error event":                 runEvent("message.delta", ``) + named("error", `{"message": %s}`),
	"a run's approval":                    runEvent("approval.request", `, "command": %s`) + runEvent("run.completed", ``),
	"errors twice, of a response":         `data: {"type": "responses", "error": %s, "error": "x"}` + "\n\n" + `data: {"type": "response.created", "error": "x", "error": %s}` + "\n\n",
	"names with escapes, of a response":   `data: {"type": "response.created", "x": "responses", "\u0065rror": %s}` + "\n\n" + `data: {"type": "response.created", "err\u006fr": %s, "error": null}` + "\n\n",
	"errors twice, of a run":              runEvent("x", `, "error": %s, "error": "x"`) + runEvent("x", `, "error": "x", "error": %s`),
	"names with escapes, of a run":        runEvent("x", `, "\u0065rror": %s`) + runEvent("x", `, "err\u006fr": %s, "error": null`),
	"errors twice, of a session":          sessionFrame("error", `"error": %s, "error": "x"`, 1) + sessionFrame("error", `"error": "x", "error": %s`, 2),
	"names with escapes, of a session":    sessionFrame("error", `"\u0065rror": %s`, 1) + sessionFrame("error", `"err\u006fr": %s, "error": null`, 2),
	"a session's error":                   sessionFrame("message.started", `"message": {}`, 1) + sessionFrame("error", `"message": %s, "code": %s`, 2),
	"a session's approval":                sessionFrame("approval.request", `"command": %s, "request_id": "r"`, 1) + sessionFrame("done", ``, 2),
	"a session's run that failed":         sessionFrame("run.failed", `"error": %s`, 2) + sessionFrame("done", ``, 3),
}

// placeParams returns the params of a request for the stream in.
func placeParams(in string) Params {
	switch {
	case strings.Contains(in, `"sess_1"`):
		return sessionParams
	case strings.Contains(in, `"run_id"`):
		return Params{RunID: "run_1"}
	case strings.Contains(in, `"responses"`):
		return Params{Responses: true}
	case strings.Contains(in, `"response`):
		return Params{}
	}
	return chatParams
}

// A message with a secret leaves as if it had been redacted before: no other byte changes, whatever the form
// and the cut.
func TestSecretsInEveryPlaceAreRedacted(t *testing.T) {
	options := []Options{{}, {ErrorFinish: ErrorFinishInline}, {Progress: ProgressBare}, {Progress: ProgressUnnamed}, {Progress: ProgressComment}, {Progress: ProgressOff}}
	for name, place := range secretPlaces {
		for _, secret := range placeSecrets {
			message := `"a \u0085\u009b2J \"` + "\u0085" + `%s\" \/ \u00e9"`
			in := strings.ReplaceAll(place, "%s", fmt.Sprintf(message, secret))
			clean := strings.ReplaceAll(place, "%s", fmt.Sprintf(message, redacted))
			for _, o := range options {
				p := placeParams(in)
				want, _ := run(clean, o, p, inOne, CauseAborted)
				if !strings.Contains(want, redacted) && !strings.HasPrefix(name, "a tool event") && name != "an error that is an array" &&
					name != "the first of two errors" && name != "two in an error frame" { // of which one remains
					t.Fatalf("%s, %+v: the message does not leave", name, o)
				}
				out, _ := anyCut(t, in, o, p, CauseAborted)
				same(t, out, want, fmt.Sprintf("%s, %s, %+v: outputs", name, secret, o))
				if t.Failed() {
					return
				}
			}
		}
	}
}

// Nothing is redacted in the words of the agent and of its tools.
func TestSecretsInWhatIsSaidStay(t *testing.T) {
	for name, in := range map[string]string{
		"text":              role() + text("key sk-abcdEFGH1234567890") + text("api_key=abcdef12") + stop(),
		"reasoning":         role() + delta(`"reasoning_content": "key sk-abcdEFGH1234567890"`) + text("x") + stop(),
		"a tool":            role() + g2Start("terminal", "💻", "curl -H 'Authorization: Bearer abc123'", "call_1") + g2End("terminal", "call_1") + text("x") + stop(),
		"another event":     role() + named("x.y", `{"text": "sk-abcdEFGH1234567890"}`) + text("x") + stop(),
		"a response's text": created(0, responseOfTests) + strings.Replace(outputDelta(1), `"In"`, `"sk-abcdEFGH1234567890"`, 1) + strings.Replace(created(2, responseOfTests+`,"output":["sk-abcdEFGH1234567890"]`), "created", "completed", 2),
		"a run's text":      runEvent("message.delta", `, "delta": "sk-abcdEFGH1234567890"`) + runEvent("run.completed", `, "output": "sk-abcdEFGH1234567890"`),
		"a session's text":  sessionFrame("assistant.delta", `"delta": "sk-abcdEFGH1234567890"`, 1) + sessionFrame("run.failed", `"messages": ["sk-abcdEFGH1234567890"]`, 2) + sessionFrame("done", "", 3),
		"foreign":           named("error", `{"message": "sk-abcdEFGH1234567890", "foreign": 1}`),
	} {
		p := placeParams(in)
		if name == "foreign" {
			p = Params{}
		}
		out, _ := run(in, Options{Progress: ProgressBare}, p, oneByte, CauseEOF)
		same(t, out, in, name+": bytes")
	}
}

// If an answer that is not streamed says that the agent failed, its content is an error message.
func TestSecretsOfAnswers(t *testing.T) {
	const secret, hidden = "a \\u0085 sk-abcdEFGH1234567890", "a \\u0085 [redacted]"
	said := content(secret)
	with := func(choice, completion string) string {
		return strings.Replace(completion, `"choices": [`, `"choices": [`+choice+`, `, 1)
	}
	failed := func(s string) string {
		return `{"index": 1, "message": {"role": "assistant"` + content(s) + `}, "finish_reason": "error"}`
	}
	choiceError := func(s string) string { return `{"index": 1, "error": {"message": "` + s + `"}}` }
	for name, c := range map[string]struct{ in, want string }{
		"another choice failed": {with(failed(secret), completion(said, "stop", realUsage)), with(failed(hidden), completion(content(hidden), "stop", realUsage))},
		"the error of a choice": {with(choiceError(secret), completion(said, "stop", realUsage)), with(choiceError(hidden), completion(said, "stop", realUsage))},
		"error":                 {completion(said, "error", realUsage), completion(content(hidden), "error", realUsage)},
		"an error":              {completion(said, "stop", realUsage+`, "error": {"message": "`+secret+`"}`), completion(content(hidden), "stop", realUsage+`, "error": {"message": "`+hidden+`"}`)},
		"two errors":            {completion(said, "stop", `, "error": "`+secret+`", "error": {}`), completion(content(hidden), "stop", `, "error": "`+hidden+`", "error": {}`)},
		"a hermes block":        {completion(said, "length", `, "hermes": {"failed": true, "error": "`+secret+`"}`), completion(content(hidden), "length", `, "hermes": {"failed": true, "error": "`+hidden+`"}`)},
		"one in part":           {completion(said, "length", `, "hermes": {"failed": false, "error": "`+secret+`"}`), completion(said, "length", `, "hermes": {"failed": false, "error": "`+hidden+`"}`)},
		"none":                  {completion(said, "stop", realUsage), completion(said, "stop", realUsage)},
		"none, for length":      {completion(said, "length", realUsage), completion(said, "length", realUsage)},
	} {
		in, want := strings.ReplaceAll(c.in, `\\u`, `\u`), strings.ReplaceAll(c.want, `\\u`, `\u`)
		a := RepairAnswer([]byte(in), &Options{}, nil)
		same(t, string(a.Body), want, name+": bytes")
		if a.Changed != (in != want) || a.Code != "" {
			t.Errorf("%s: changed %t, code %q", name, a.Changed, a.Code)
		}
	}
	in := strings.ReplaceAll(completion(content("API call failed after 3 retries: "+secret+"\\n "), "stop", zeroUsage), `\\`, `\`)
	a := RepairAnswer([]byte(in), &Options{}, nil)
	begins(t, string(a.Body), `{"error":{"message":"API call failed after 3 retries: a \u0085 [redacted]",`)
}

// hostileErrors are parts of messages that might cost more than their length.
var hostileErrors = map[string]string{
	"prefixes": "sk-", "prefixes in words": "ask-", "bearers": "Bearer ", "bearers without end": "bearer:", "names": "key ", "names and colons": "key:",
	"equals signs": "key=", "colons": "a:", "users": "u:p@,", "users without a host": "a:@", "quotes": `key=\"`, "both quotes": `key='key=\"`, "pairs": `('key', 'a'), `,
	"schemes": "Bearer", "backslashes": `\\\\`, "escapes": `\u0073`, "escapes of escapes": `\\u0073k-`, "tokens": "eyJ", "secrets": "sk-abc ", "long secrets": "sk-abcdEFGH1234567890,", "passwords": "a:b@c,",
	"spaces": "key    ", "spaces after": "bearer     ", "dots": "key=...", "words": "hf_hub_",
	"stars": "key=***", "paths": "a:b/", "ports": "h:1/", "percents": "key%3D", "encoded spaces": "%20", "colons alone": ":", "brackets": "key])",
}

func hostileError(unit string, n int) string {
	return role() + finishChunk("error", `, "error": {"message": "`+strings.Repeat(unit, n/len(unit))+`", "api_key": "x"}`) + doneFrame
}

func TestRedactionCostsLinearTime(t *testing.T) {
	for name, unit := range hostileErrors {
		checkLinear(t, name, 8<<10, 16, func(n int) time.Duration {
			in := []byte(hostileError(unit, n))
			s, out := New(&Options{}, chatParams), make([]byte, 0, 8*len(in))
			begun := cpuTime()
			s.Feed(out, in, epoch)
			return cpuTime() - begun
		})
	}
}

// A message full of secrets becomes no longer than a bound allows, and it takes no
// more than a few times its length to redact it.
func TestRedactionIsBounded(t *testing.T) {
	alone.NotUnderRace(t)
	const size, many = 256 << 10, 100_000
	feed := func(in string, p Params) (string, uint64) {
		s := New(&Options{MaxFrame: 8 << 20}, p)
		out := make([]byte, 0, 4*len(in)+1<<20)
		took := allocated(func() { out = s.Feed(out, []byte(in), epoch) })
		return string(s.Finish(out, CauseEOF)), took
	}
	for name, unit := range hostileErrors {
		value, out := []byte(`["`+strings.Repeat(unit, size/len(unit))+`"]`), []byte(nil)
		if took := allocated(func() { out = redact.Value(value) }); took > uint64(5*len(value)) || len(out) > len(value)*4/3+redact.MaxGrowth {
			t.Errorf("%s: %d bytes become %d, and take %d", name, len(value), len(out), took)
		}
		lines := func(unit string) string {
			return role() + "data: {\"error\":[\ndata: \"" + strings.Repeat(unit+"\",\ndata: \"", size/(len(unit)+12)) + "\"]}\n\n" + doneFrame
		}
		_, least := feed(lines(strings.Repeat("x", len(unit))), chatParams)
		cut := role() + `data: {"error": {"message": "` + strings.Repeat(unit, size/len(unit)) + `"}}` + "\n\n"
		for _, in := range []string{hostileError(unit, size), lines(unit), cut} {
			out, took := feed(in, chatParams)
			if len(out) > 3*len(in)+256<<10 || in == lines(unit) && took > least+uint64(16*len(in)) {
				t.Errorf("%s: %d bytes become %d, and take %d, without secrets %d", name, len(in), len(out), took, least)
			}
			again, _ := feed(out, chatParams)
			same(t, again, out, name+": twice and once")
		}
	}
	// Very many secrets take little wherever they stand; an edit of each would take more.
	for in, times := range map[string]uint64{
		role() + named("error", strings.Repeat("sk-abc ", many)):                                      7,
		role() + "data: {" + strings.Repeat(`"error":"sk-abc ",`, many) + `"x":1}` + "\n\n":           3,
		`data: {"run_id":"run_1","event":"x","error":"` + strings.Repeat("sk-abc ", many) + "\"}\n\n": 7,
	} {
		out, took := feed(in, placeParams(in))
		_, least := feed(strings.ReplaceAll(in, "sk-", "xx-"), placeParams(in))
		if took > least+times*uint64(len(in)) || strings.Contains(out, "sk-") {
			t.Errorf("%.50s…: %d bytes take %d, without secrets %d", in, len(in), took, least)
		}
	}
}

// Beyond a bound the rest of a value is written anew: its bytes are the same.
func TestManySecretsOfAValue(t *testing.T) {
	for _, n := range []int{maxRedactedEdits - 1, maxRedactedEdits, maxRedactedEdits + 1, 3 * maxRedactedEdits} {
		const long = "sk-abcdEFGH1234567890" // longer than what stands for it
		place := role() + "data: {\"error\": [\ndata: \"" + strings.Repeat("\\u00e9 %s\", \"", n) + "\", 1 ] }\n\n" + doneFrame
		out := repair(strings.ReplaceAll(place, "%s", long))
		same(t, out, repair(strings.ReplaceAll(place, "%s", redacted)), fmt.Sprint(n, " secrets"))
	}
	// An error that is none says nothing: the rest of the frame stays, however much it is.
	in := role() + `data: {"error": null, "message": "` + strings.Repeat("sk-abcdef ", 2*maxRedactedEdits) + "\"}\n\n" + text("x") + stop()
	same(t, repair(in), in, "bytes")
	// In data of several lines no line ends within a string.
	for _, n := range []int{maxRedactedEdits + 1, 2 * maxRedactedEdits, 20 * maxRedactedEdits} {
		in := role() + "data: {\"error\": [\ndata: \"" + strings.Repeat("sk-abcdEF1234\",\ndata: \"", n) + "\" ] }\n\n" + doneFrame
		out := repair(in)
		if events := decode(out); strings.Contains(out, "sk-abc") || !json.Valid([]byte(events[1].data)) || strings.Count(events[1].data, redacted) != n {
			t.Errorf("%d secrets: got %.300q", n, out)
		}
	}
}

const (
	keyOfTests = "sk-abcdefghijklmnop1234567890"
	// saidText is how Hermes 0.22 ends a turn that failed at the provider.
	saidText = "custom rejected your API key, so the model can't be reached.\n\nProvider said: HTTP 401: scripted failure 401 " + keyOfTests
)

// The words of a provider about a failure, which Hermes 0.22 writes into the text, lose their secrets; only
// the error finish changes more.
func TestSecretsThatAProviderSaid(t *testing.T) {
	for _, r := range chats(t, "live-g5-v0.22.2") {
		if !strings.Contains(r.body, "Provider said: ") {
			continue
		}
		underAll(t, r.body, func(_ Options, out string, v *view) {
			equal(t, strings.Contains(out, keyOfTests), false, r.name()+": the key leaves")
			same(t, v.content, strings.Replace(look(t, r.body).content, keyOfTests, redacted, 1), r.name()+": contents")
			equal(t, strings.Join(v.finishes, " "), "error", r.name()+": finishes")
		})
	}
}

// Secrets are redacted from the words "Provider said: " at the start of a line to the end of the text. All
// other bytes stay.
func TestWhereAProviderSaidIt(t *testing.T) {
	const s, gone = "Provider said: HTTP 401: " + keyOfTests, "Provider said: HTTP 401: " + redacted
	for _, c := range []struct{ in, want string }{
		{s, gone},
		{"a\n" + s, "a\n" + gone},
		{"a\r\n" + s + ".", "a\r\n" + gone + "."},
		{keyOfTests + "\n\n" + s, keyOfTests + "\n\n" + gone},
		{s + "\nb\n" + keyOfTests + "\nBearer abc", gone + "\nb\n" + redacted + "\nBearer " + redacted},
		{s + "\n" + s, gone + "\n" + gone},
		{"He and the " + s, "He and the " + s},
		{"He and the " + s + "\n" + s, "He and the " + s + "\n" + gone},
		{"a\n  " + s, "a\n  " + s},
		{"provider said: " + keyOfTests, "provider said: " + keyOfTests},
		{"Provider said " + keyOfTests, "Provider said " + keyOfTests},
		{"Provider said: ", "Provider said: "},
		{"Provider said: none of your business", "Provider said: none of your business"},
		{"> " + s, "> " + s},
		{"a > " + s, "a > " + s},
		{"Details: " + keyOfTests, "Details: " + keyOfTests},
	} {
		for _, json := range []string{asciiJSON(c.in), rawJSON(c.in), strings.ReplaceAll(asciiJSON(c.in), "P", `\u0050`), strings.ReplaceAll(asciiJSON(c.in), "s", `\u0073`)} {
			chunk := delta(`"content": ` + json)
			in := role() + text("Let me see. ") + text("x") + chunk + text(" and "+keyOfTests) + stop()
			out, _ := anyCut(t, in, Options{}, chatParams, CauseEOF)
			same(t, look(t, out).content, "Let me see. x"+c.want+" and "+keyOfTests, fmt.Sprintf("%q: contents", c.in))
			if c.in == c.want {
				same(t, out, in, fmt.Sprintf("%q: bytes", c.in))
			}
			same(t, repair(out), out, fmt.Sprintf("%q: twice and once", c.in))

			// The same text where it is not streamed, and in the other streams.
			a := RepairAnswer([]byte(completion(`, "content": `+json, "stop", realUsage)), &Options{}, nil)
			same(t, messageOf(t, a.Body).Content, c.want, fmt.Sprintf("%q: contents of an answer", c.in))
			for i, in := range []string{sessionAnswer(json), responseAnswer(json, someTokens, "")} {
				a := RepairAnswer([]byte(in), &Options{}, nil)
				if got := textsOf(string(a.Body)); len(got) != 1 || got[0] != c.want || a.Changed != (c.in != c.want) {
					t.Errorf("answer %d: %q, %v, want %q", i, got, a.Changed, c.want)
				}
			}
			streamed := turnStream(json, someTokens)
			out, _ = run(streamed, Options{}, Params{Responses: true}, oneByte, CauseEOF)
			for _, got := range textsOf(out) {
				if got != c.want && got != "Let me see." {
					t.Errorf("a text of a response is %q, want %q", got, c.want)
				}
			}
			equal(t, len(textsOf(out)), 5, "texts")
			if c.in == c.want {
				same(t, out, streamed, "bytes of a response")
			}
			again, _ := run(out, Options{}, Params{Responses: true}, inOne, CauseEOF)
			same(t, again, out, "outputs of a second sidecar")
			in = sessionFrame("assistant.delta", `"delta": `+json, 1) + sessionFrame("assistant.completed", `"message_id": "m", "content": `+json+`, "completed": true`, 2) + sessionFrame("done", "", 3)
			out, _ = run(in, Options{}, sessionParams, oneByte, CauseEOF)
			if got := textsOf(out); len(got) != 2 || got[0] != c.in || got[1] != c.want {
				t.Errorf("the texts of a session are %q", got)
			}
		}
		if t.Failed() {
			t.Fatalf("%q", c.in)
		}
	}
}

// sessionAnswer is the answer of a session that is not streamed, with the content, JSON.
func sessionAnswer(content string) string {
	return `{"object": "hermes.session.chat.completion", "session_id": "s", "message": {"role": "assistant", "content": ` + content + `}, "usage": {"input_tokens": 0}, "runtime": {"model": "` + keyOfTests + `"}}`
}

const (
	someTokens = `{"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}`
	noTokens   = `{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}`
)

// responseAnswer is a response with the text, JSON, after other items.
func responseAnswer(text, usage, items string) string {
	return `{"id": "resp_1", "object": "response", "status": "completed", "created_at": 1795385777, "model": "hermes-agent", "output": [` + items +
		`{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ` + text + `}]}], "usage": ` + usage + `}`
}

// turnStream is a stream of /v1/responses as Hermes 0.22 writes it, with the text, JSON, in
// its four places, after a comment of the model's.
func turnStream(text, usage string) string {
	var b strings.Builder
	seq := 0
	write := func(name, members string) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\": \"%s\", %s, \"sequence_number\": %d}\n\n", name, name, members, seq)
		seq++
	}
	write("response.created", `"response": {"id": "resp_1", "object": "response", "status": "in_progress", "created_at": 1795385777, "model": "hermes-agent", "output": []}`)
	write("response.output_item.done", `"output_index": 0, "item": {"id": "msg_0", "status": "completed", "phase": "commentary", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]}`)
	write("response.output_item.added", `"output_index": 1, "item": {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}`)
	write("response.output_text.delta", `"item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": `+text+`, "logprobs": []`)
	write("response.output_text.done", `"item_id": "msg_1", "output_index": 1, "content_index": 0, "text": `+text+`, "logprobs": []`)
	write("response.output_item.done", `"output_index": 1, "item": {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": `+text+`}]}`)
	write("response.completed", `"response": `+responseAnswer(text, usage, ""))
	return b.String()
}

// textsOf returns the texts of answers in a stream, or in an answer that is not streamed:
// the strings that are the value of content, of text or of delta, in order.
func textsOf(in string) (texts []string) {
	var walk func(key, value gjson.Result) bool
	walk = func(key, value gjson.Result) bool {
		switch {
		case value.IsObject() || value.IsArray():
			value.ForEach(walk)
		case value.Type == gjson.String && (key.Str == "content" || key.Str == "text" || key.Str == "delta"):
			texts = append(texts, value.Str)
		}
		return true
	}
	for line := range strings.Lines(in) {
		walk(gjson.Result{}, gjson.Parse(strings.TrimPrefix(line, "data: ")))
	}
	return texts
}

// Secrets in other places of an answer's content are redacted; those in arguments and outputs of tools, in reasoning
// and in what a provider says in two chunks stay. Nothing else changes.
func TestOtherPlacesOfWhatAProviderSaid(t *testing.T) {
	said := asciiJSON(saidText)
	event := func(name, members string) string {
		return named(name, `{"type":"`+name+`",`+members+`,"sequence_number":9}`)
	}
	for name, c := range map[string]struct {
		in    string
		stays bool
	}{
		"the finish chunk":     {in: finishChunkWith(`"content": `+said, "stop", realUsage)},
		"with a role":          {in: delta(`"role": "assistant", "content": ` + said)},
		"repeated":             {in: strings.Replace(delta(`"content": `+said), `"delta"`, `"text": `+said+`, "delta"`, 1)},
		"another choice":       {in: strings.Replace(delta(`"content": `+said), `"index": 0`, `"index": 1`, 1)},
		"twice":                {in: delta(`"content": ` + said + `, "content": ` + said)},
		"an escaped name":      {in: delta(`"c\u006fntent": ` + said)},
		"parts":                {in: delta(`"content": [{"type": "text", "text": ` + said + `}]`)},
		"CRLF":                 {in: strings.ReplaceAll(delta(`"content": `+said), "\n", "\r\n")},
		"several lines":        {in: strings.Replace(delta(`"content": `+said), `"choices"`, "\ndata: \"choices\"", 1)},
		"more fields":          {in: "id: 7\nretry: 5\n" + delta(`"content": `+said)},
		"reasoning":            {in: delta(`"reasoning_content": ` + said), stays: true},
		"arguments":            {in: delta(`"tool_calls": [{"index": 0, "function": {"arguments": ` + said + `}}]`), stays: true},
		"a chunk of its own":   {in: text("a\n\nProvider said: ") + text(keyOfTests), stays: true},
		"words in two chunks":  {in: text("a\n\nProvider ") + text("said: "+keyOfTests), stays: true},
		"after reasoning":      {in: text("\n\n<think>x</think>Provider said: " + keyOfTests)},
		"white space after":    {in: texts("\n\n<think>x</think>", " \n ", "  Provider said: "+keyOfTests)},
		"a tag in two chunks":  {in: texts("\n\n<think>x</thi", "nk> Provider said: "+keyOfTests)},
		"after a marker line":  {in: texts("a\n", "`💻 ls`\nProvider said: "+keyOfTests)},
		"after a held line":    {in: texts("a\n`💻", " ls`", "\nProvider said: "+keyOfTests)},
		"in a line that holds": {in: texts("a\n", "Provider said: "+keyOfTests+"\n`💻")},

		// In the stream of a response.
		"a part of its content": {in: event("response.content_part.done", `"part":{"type":"output_text","text":`+said+`}`)},
		"an item":               {in: event("response.output_item.added", `"item":{"type":"message","content":`+said+`}`)},
		"a delta of its text":   {in: unnamed(event("response.output_text.delta", `"delta":`+said))},
		"a response":            {in: event("response.incomplete", `"response":`+responseAnswer(said, someTokens, `{"type": "reasoning", "summary": []}, `))},
		"the output of a tool":  {in: event("response.output_item.done", `"item":{"type":"function_call_output","output":[{"type":"input_text","text":`+said+`}]}`), stays: true},
		"a call":                {in: event("response.output_item.done", `"item":{"type":"function_call","arguments":`+said+`}`), stays: true},
		"a delta of a call":     {in: event("response.function_call_arguments.delta", `"delta":`+said), stays: true},
		"a summary":             {in: event("response.reasoning_summary_text.done", `"text":`+said), stays: true},
		"an item of reasoning":  {in: event("response.output_item.done", `"item":{"type":"reasoning","summary":[{"type":"summary_text","text":`+said+`}]}`), stays: true},
	} {
		for _, o := range allOptions() {
			in, p := role()+text("a ")+text("b")+c.in+stop(), chatParams
			if strings.Contains(c.in, `"response.`) {
				in, p = created(0, responseOfTests)+c.in, Params{Responses: true}
			} else if o.Reasoning == ReasoningKeep && strings.Contains(c.in, "think") {
				continue // the text goes on in a line
			}
			want, _ := run(strings.ReplaceAll(in, keyOfTests, redacted), o, p, inOne, CauseEOF)
			if c.stays {
				want = strings.ReplaceAll(want, redacted, keyOfTests)
			}
			out, _ := anyCut(t, in, o, p, CauseEOF)
			same(t, out, want, name+": outputs")
			again, _ := run(out, o, p, inOne, CauseEOF)
			same(t, again, out, name+": twice and once")
			if t.Failed() {
				t.Fatalf("%s with %+v", name, o)
			}
		}
	}
}

// A turn of /v1/responses that failed says so (contract section 6).
func TestCompletedTurnsThatFailed(t *testing.T) {
	for text, fails := range map[string]bool{
		saidText:                          true,
		"\nProvider said: ":               true,
		"It says:\n  Provider said: boom": false,
		"Hello":                           false,
		"":                                false,
		"API call failed after 3 retries: HTTP 500: boom " + keyOfTests: true,
		" Error code: 401 - no\n":                    true,
		"It said: API call failed after 3 retries: ": false,
		"(No response generated)":                    true,
		"(empty)":                                    true,
		"⚠️ No reply: the model stayed silent":       true,
		"I reached the maximum iterations (90) but couldn't summarize. Error: boom": true,
		"I reached the station":                false,
		"⚠️ Provider authentication failed: x": true,
	} {
		for _, spell := range []func(string) string{asciiJSON, rawJSON} {
			for _, usage := range []string{noTokens, someTokens, `{"input_tokens": 0}`, `null`} {
				in := turnStream(spell(text), usage)
				out, sum := anyCut(t, in, Options{}, Params{Responses: true}, CauseEOF)
				last := out[strings.LastIndex(out, "event: "):]
				before, after := in[:strings.LastIndex(in, "event: ")], in[strings.LastIndex(in, "event: "):]
				if strings.Contains(text, "Provider said: ") {
					before, after = strings.ReplaceAll(before, keyOfTests, redacted), strings.ReplaceAll(after, keyOfTests, redacted)
				}
				same(t, strings.TrimSuffix(out, last), before, "bytes before the last event")
				if !fails || usage != noTokens {
					same(t, last, after, text+": last events")
					equal(t, sum.Code, "", text)
					continue
				}
				message := strings.Replace(strings.TrimSpace(text), keyOfTests, redacted, 1)
				want := strings.Replace(after, "completed", "failed", 2)
				want = strings.Replace(want, `"status": "completed"`, `"status": "failed"`, 1)
				want = strings.Replace(want, noTokens, noTokens+`,"error":{"code":"agent_error","message":`+spell(message)+`}`, 1)
				same(t, last, strings.ReplaceAll(want, keyOfTests, redacted), text+": last events")
				if sum.Code != CodeAgentError || sum.ID != "resp_1" {
					t.Errorf("%q: %+v", text, sum)
				}
				again, _ := run(out, Options{}, Params{Responses: true}, inOne, CauseEOF)
				same(t, again, out, "outputs of a second sidecar")
				for framing, in := range reframed(in) {
					if out, _ := run(in, Options{}, Params{}, oneByte, CauseEOF); strings.Count(out, "response.completed") != 0 || strings.Count(out, "response.failed") != 2 {
						t.Errorf("in %s: %s", framing, out)
					}
				}
			}
			if t.Failed() {
				t.Fatalf("%q", text)
			}
		}
	}
}

// The same turn that is not streamed is an error with a status, unless tools have run.
func TestResponsesThatFailedAtOnce(t *testing.T) {
	said := asciiJSON(saidText)
	const empty = `{"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [], "usage": ` + noTokens + `}`
	for name, c := range map[string]struct{ in, message string }{
		"as Hermes writes it": {responseAnswer(said, noTokens, ""), strings.Replace(saidText, keyOfTests, redacted, 1)},
		"with reasoning":      {responseAnswer(said, noTokens, `{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, `), strings.Replace(saidText, keyOfTests, redacted, 1)},
		"an older text":       {responseAnswer(`"API call failed after 3 retries: boom"`, noTokens, ""), "API call failed after 3 retries: boom"},
		"no response":         {responseAnswer(`"(No response generated)"`, noTokens, ""), "(No response generated)"},
		"nothing":             {responseAnswer(`" "`, noTokens, ""), Message(CodeCrashed)},
		"no output":           {empty, Message(CodeCrashed)},

		"real usage":          {responseAnswer(said, someTokens, ""), ""},
		"after a tool":        {responseAnswer(said, noTokens, `{"type": "function_call", "call_id": "c", "arguments": "{}"}, `), ""},
		"after a text":        {responseAnswer(said, noTokens, `{"type": "message", "content": [{"type": "output_text", "text": "a"}]}, `), ""},
		"nothing but thought": {strings.Replace(empty, "[]", `[{"type": "reasoning"}]`, 1), ""},
		"in progress":         {strings.Replace(empty, "completed", "in_progress", 1), ""},
		"another text":        {responseAnswer(`"(empty)"`, noTokens, ""), ""},
		"a text":              {responseAnswer(`"Hello"`, noTokens, ""), ""},
		"another object":      {strings.Replace(empty, `"response"`, `"list"`, 1), ""},
	} {
		a := RepairAnswer([]byte(c.in), &Options{}, nil)
		clean := strings.ReplaceAll(c.in, keyOfTests, redacted)
		if c.message == "" {
			same(t, string(a.Body), clean, name)
			if a.Code != "" || a.Changed != (clean != c.in) {
				t.Errorf("%s: %+v", name, a)
			}
			continue
		}
		want := `{"error":{"message":` + asciiJSON(c.message) + `,"type":"server_error","param":null,"code":"agent_incomplete","hermes":{"completed":false,"partial":false,"failed":true}}}`
		if strings.HasPrefix(c.message, "the agent") {
			want = strings.Replace(want, asciiJSON(c.message), string(jsonspan.Quote(c.message)), 1)
		}
		same(t, string(a.Body), want, name)
		same(t, string(a.Kept), clean, name+": kept")
		if a.Code != CodeAgentIncomplete || a.ID != "resp_1" || !a.Changed {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// One that says that it failed loses all secrets, wherever they are.
	in := strings.Replace(responseAnswer(`"bad key `+keyOfTests+`"`, noTokens, ""), `"status": "completed"`, `"status": "failed", "error": {"message": "`+keyOfTests+`"}`, 1)
	a := RepairAnswer([]byte(in), &Options{}, nil)
	same(t, string(a.Body), strings.ReplaceAll(in, keyOfTests, redacted), "a response that failed")
	in = `{"object": "response", "status": "incomplete", "incomplete_details": {"reason": "` + keyOfTests + `"}, "metadata": {"x": "` + keyOfTests + `"}}`
	a = RepairAnswer([]byte(in), &Options{}, nil)
	same(t, string(a.Body), strings.Replace(in, keyOfTests, redacted, 1), "an incomplete response")
}

// Very many secrets of a text, whose rest is replaced as a whole, do not hide those of an error after it. A status
// that is no JSON is no event, even if its brackets match: it is redacted as text.
func TestSecretsAroundTextsThatAreReplaced(t *testing.T) {
	const key = "sk-abcdefghijkl"
	event := `data: {"type":"response.completed","sequence_number":1,"response":{"output":[{"type":"message","content":[{"type":"output_text","text":"Provider said: ` +
		strings.Repeat(key+" ", 300) + `"}]}],"error":{"message":"` + key + `"}},"error":"` + key + `"}` + "\n\n"
	out, _ := run(event, Options{}, Params{Responses: true}, inOne, CauseEOF)
	same(t, out, strings.ReplaceAll(event, key, redacted), "bytes")
	for _, data := range []string{`{"kind"` + key + `: "x"}`, `{"text": ` + key + `"x"}`, `{"text": "x"` + key} {
		in := named("hermes.status", data)
		out, _ := run(in, Options{}, sessionParams, inOne, CauseEOF)
		begins(t, out, strings.ReplaceAll(in, key, redacted))
	}
}
