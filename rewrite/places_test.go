package rewrite

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact/redacttest"
)

// placeSecrets are secrets, as they may stand in the JSON of a message.
var placeSecrets = []string{
	"sk-abcdEFGH1234567890", "\\u0073k-abcdEFGH1234567890", "ghp_abcdEFGH1234567890", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdEFGH",
}

// Where a message may stand, as the JSON string %s, that says something of a failure
// or of the agent's state.
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
	"behind [DONE]":                       role() + text("x") + stop() + `data: {` + envelopeOfTests + `, "choices": [], "error": %s}` + "\n\n",
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
	"behind the end of a response":        created(0, responseOfTests) + strings.Replace(created(1, responseOfTests), "created", "completed", 2) + named("error", `{"message":%s}`),
	"a response that has not begun":       named("error", `{"type":"error","message":%s}`) + `data: {"error":%s}` + "\n\n" + named("error", `%s and "responses"`),
	"a run that failed":                   runEvent("message.delta", ``) + runEvent("run.failed", `, "error": %s, "output": %s`),
	"a run that was interrupted":          runEvent("message.delta", ``) + runEvent("run.interrupted", `, "error": %s`),
	"a run's error event":                 runEvent("message.delta", ``) + named("error", `{"message": %s}`),
	"a run's approval":                    runEvent("approval.request", `, "command": %s`) + runEvent("run.completed", ``),
	"a session's error":                   sessionFrame("message.started", `"message": {}`, 1) + sessionFrame("error", `"message": %s, "code": %s`, 2),
	"a session's run that failed":         sessionFrame("run.failed", `"error": %s`, 2) + sessionFrame("done", ``, 3),
}

// placeParams are those of the stream in.
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

// onlyOneRemains has the places of errors that do not remain.
var onlyOneRemains = map[string]bool{"the first of two errors": true, "two in an error frame": true}

// With a secret in it, a message leaves as it does with what stands for secrets: no
// other byte changes, whatever the form and the cut.
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
				if !strings.Contains(want, redacted) && !strings.HasPrefix(name, "a tool event") && name != "an error that is an array" && !onlyOneRemains[name] {
					t.Fatalf("%s, %+v: the message does not leave", name, o)
				}
				for _, cut := range []cutter{inOne, oneByte} {
					out, _ := run(in, o, p, cut, CauseAborted)
					same(t, out, want, fmt.Sprintf("%s, %s, %+v: outputs", name, secret, o))
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

// Formats of secrets, each in one place.
func TestSecretsOfEveryFormatAreRedacted(t *testing.T) {
	for _, text := range redacttest.Secrets {
		if strings.Contains(text, `\`) {
			continue // is in JSON already
		}
		in, want := redacttest.Marked(text)
		place := secretPlaces["the error of a finish chunk"]
		out := repair(strings.ReplaceAll(place, "%s", asciiJSON(in)))
		same(t, out, repair(strings.ReplaceAll(place, "%s", asciiJSON(want))), text)
		same(t, repair(out), out, text+", twice")
	}
}

// In what is said by the agent, and by its tools, nothing is redacted.
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

// What ends a stream in upstream's stead repeats what upstream has said, without
// secrets.
func TestSecretsInWhatIsRepeated(t *testing.T) {
	const secret = "sk-abcdEFGH1234567890"
	for name, in := range map[string]string{
		"an error finish":         role() + text("x") + `data: {"error": {"message": "a \u0085 ` + secret + `"}}` + "\n\n",
		"a response":              created(0, responseOfTests+`,"last_error":"a \u0085 `+secret+`"`),
		"a response's last error": created(0, responseOfTests) + named("error", `{"message":"a \u0085 `+secret+`"}`),
		"a run's":                 runEvent("message.delta", ``) + named("error", `{"message":"a \u0085 `+secret+`"}`),
	} {
		first, _ := run(in, Options{}, placeParams(in), inOne, CauseAborted)
		from := strings.LastIndex(first, "data: {")
		if name == "an error finish" {
			from = strings.Index(first, `"hermes":{`)
		}
		if end := first[from:]; strings.Contains(end, secret) || !strings.Contains(end, `a \u0085 [redacted]`) {
			t.Errorf("%s: %s", name, end)
		}
	}
}

// Of an answer that is not streamed and says that the agent failed, the content is
// why; of others it is the answer.
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
	if want := `{"error":{"message":"API call failed after 3 retries: a \u0085 [redacted]",`; !strings.HasPrefix(string(a.Body), want) {
		t.Errorf("got %s", a.Body)
	}
}

// hostileErrors are messages that would cost more than their length, if they could.
var hostileErrors = map[string]string{
	"prefixes": "sk-", "prefixes in words": "ask-", "bearers": "Bearer ", "bearers without end": "bearer:", "names": "key ", "names and colons": "key:",
	"equals signs": "key=", "colons": "a:", "users": "u:p@,", "users without a host": "a:@", "quotes": `key=\"`, "both quotes": `key='key=\"`, "pairs": `('key', 'a'), `,
	"backslashes": `\\\\`, "escapes": `\u0073`, "escapes of escapes": `\\u0073k-`, "tokens": "eyJ", "secrets": "sk-abc ", "long secrets": "sk-abcdEFGH1234567890,", "passwords": "a:b@c,",
	"spaces": "key    ", "spaces behind": "bearer     ", "dots": "key=...", "words": "hf_hub_", "stars": "key=***", "paths": "a:b/", "ports": "h:1/", "percents": "key%3D", "brackets": "key])",
}

func hostileError(unit string, n int) string {
	return role() + finishChunk("error", `, "error": {"message": "`+strings.Repeat(unit, n/len(unit))+`", "api_key": "x"}`) + doneFrame
}

func TestRedactionCostsLinearTime(t *testing.T) {
	const times, small = 16, 8 << 10
	for name, unit := range hostileErrors {
		t.Run(name, func(t *testing.T) {
			took := func(n int) time.Duration {
				in := []byte(hostileError(unit, n))
				s := New(&Options{}, chatParams)
				out := make([]byte, 0, 8*len(in))
				begun := time.Now()
				s.Feed(out, in, epoch)
				return time.Since(begun)
			}
			took(small)
			least, most := max(min(took(small), took(small), took(small)), 100*time.Microsecond), took(times*small)
			for since := time.Now(); most > 5*times*least && time.Since(since) < 5*time.Second; { // the machine may be busy
				most = min(most, took(times*small))
			}
			if most > 5*times*least {
				t.Errorf("%d times the message costs %v instead of %v", times, most, times*least)
			}
		})
	}
}

// allocated returns the bytes that have been allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// A message full of secrets becomes no longer than a bound allows, and it takes no
// more than a few times its length to redact it.
func TestRedactionIsBounded(t *testing.T) {
	size := 256 << 10 / min(cutStride, 4)
	feed := func(in string) (out []byte, took int64) {
		s := New(&Options{MaxFrame: 8 << 20}, chatParams)
		out = make([]byte, 0, 4*len(in)+1<<20)
		before := allocated()
		out = s.Feed(out, []byte(in), epoch)
		return s.Finish(out, CauseEOF), int64(allocated() - before)
	}
	for name, unit := range hostileErrors {
		value := []byte(`["` + strings.Repeat(unit, size/len(unit)) + `"]`)
		before := allocated()
		out := redact.Value(value)
		if took := allocated() - before; took > uint64(5*len(value)) {
			t.Errorf("%s: %d bytes take %d", name, len(value), took)
		}
		if len(out) > len(value)*4/3+redact.MaxGrowth {
			t.Errorf("%s: %d bytes become %d", name, len(value), len(out))
		}
		lines := func(unit string) string {
			return role() + "data: {\"error\":[\ndata: \"" + strings.Repeat(unit+"\",\ndata: \"", size/(len(unit)+12)) + "\"]}\n\n" + doneFrame
		}
		_, least := feed(lines(strings.Repeat("x", len(unit))))
		for _, in := range []string{hostileError(unit, size), lines(unit)} {
			out, took := feed(in)
			if len(out) > 3*len(in)+256<<10 {
				t.Errorf("%s: %d bytes become %d", name, len(in), len(out))
			}
			if in == lines(unit) && took > least+int64(16*len(in)) {
				t.Errorf("%s: %d bytes take %d, without secrets %d", name, len(in), took, least)
			}
			again, _ := feed(string(out))
			same(t, string(again), string(out), name+": twice and once")
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
	// In data of several lines no line ends within a string.
	for _, n := range []int{maxRedactedEdits + 1, 2 * maxRedactedEdits, 20 * maxRedactedEdits} {
		in := role() + "data: {\"error\": [\ndata: \"" + strings.Repeat("sk-abcdEF1234\",\ndata: \"", n) + "\" ] }\n\n" + doneFrame
		out := repair(in)
		if events := decode(out); strings.Contains(out, "sk-abc") || !json.Valid([]byte(events[1].data)) || strings.Count(events[1].data, redacted) != n {
			t.Errorf("%d secrets: got %.300q", n, out)
		}
	}
}
