package demo

import (
	"strings"
	"testing"
)

// errorFinish is how a repaired stream ends after a failure.
const errorFinish = `data: {"error":{"message":"the agent stopped","type":"upstream_error","param":null,"code":"agent_crashed"}}

data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"error"}]}

data: [DONE]

`

// crashRepaired is crash_in_tool as it has to be.
const crashRepaired = `data: {"choices":[{"index":0,"delta":{"content":"Running."},"finish_reason":null}]}

event: hermes.tool.progress
data: {"tool":"terminal","emoji":"💻","label":"make test","toolCallId":"a","status":"running"}

event: hermes.tool.progress
data: {"tool":"terminal","toolCallId":"a","status":"completed","interrupted":true}

` + errorFinish

// played is a scenario with the recording on the left and stream on the right.
func played(t *testing.T, name, stream string) play {
	t.Helper()
	p := play{scenario: byName(t, name), right: transcribe(stream)}
	p.left = transcribe(recording(t, "g0-v0.8.0", name))
	return p
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ name, old, new, want string }{
		{"text lost", "Running.", "Run", `the content is "Run"`},
		{"marker left", "Running.", "Running.\\n`💻 make test`\\n", "the content is"},
		{"tool lost", "event: hermes.tool.progress", ": no event", "0 tools are shown, but 1 ran"},
		{"wrong label", "make test", "make", `tool 1 is "💻" "make"`},
		{"never completed", `"toolCallId":"a","status":"completed"`, `"toolCallId":"a","status":"running"`, "tool 1 started 2 times and completed 0 times"},
		{"no error", `"error":{`, `"fault":{`, `the error code is ""`},
		{"other code", "agent_crashed", "upstream_aborted", `the error code is "upstream_aborted"`},
		{"no message", "the agent stopped", "", "the error has no message"},
		{"a success", `"finish_reason":"error"`, `"finish_reason":"stop"`, `the finish reason is "stop"`},
		{"no done", "[DONE]", "{}", "[DONE] is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream := strings.ReplaceAll(crashRepaired, test.old, test.new)
			if test.name == "tool lost" {
				// A comment names no event and "tool" stays unknown.
				stream = strings.ReplaceAll(stream, `"toolCallId":"a"`, `"id":"a"`)
			}
			wrong := strings.Join(played(t, "crash_in_tool", stream).check(), "\n")
			if !strings.Contains(wrong, "with the sidecar: "+test.want) {
				t.Errorf("found %q, want %q", wrong, test.want)
			}
		})
	}
}

func TestCheckFindsABackendThatDoesNotReplay(t *testing.T) {
	p := played(t, "one_tool", recording(t, "g3-v0.20.3", "one_tool"))
	p.left = transcribe(recording(t, "g0-v0.8.0", "crash_in_tool")[:200])
	if wrong := p.check(); len(wrong) != 2 || !strings.HasPrefix(wrong[0], "without the sidecar: the content") {
		t.Errorf("found %q, want the content and the finish reason", wrong)
	}
}

func TestImitationsMayDifferInWhiteSpaceOnly(t *testing.T) {
	upstream := "Sure\n`💻 ls -la`\ndone"
	for got, want := range map[string]bool{"Sure\ndone": true, "Sure\n\ndone": true, upstream: false, "Suredone": false, "Sure": false} {
		if sameText(got, upstream) != want {
			t.Errorf("%q: same %v, want %v", got, !want, want)
		}
	}
}
