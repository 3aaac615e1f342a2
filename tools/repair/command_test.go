package repair

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// repairRun runs caddy hermes-repair with arguments.
func repairRun(t *testing.T, in string, args ...string) (status int, out string, err error) {
	t.Helper()
	var c repairCommand
	cmd := &cobra.Command{}
	c.flags(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	status, err = c.run(cmd.Flags().Args(), strings.NewReader(in), &b)
	return status, b.String(), err
}

// stream22 is a stream of Hermes 0.22 with the first tool of testdata/sessions.
const stream22 = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"hermes-agent","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}

event: hermes.tool.progress
data: {"tool":"terminal","emoji":"💻","label":"sleep 1","toolCallId":"call_0_0","status":"running"}

event: hermes.tool.progress
data: {"tool":"terminal","toolCallId":"call_0_0","status":"completed"}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"One."},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}

data: [DONE]

`

func TestRepairCommand(t *testing.T) {
	const captures, sessions = "../../testdata/captures/", "../../testdata/sessions/"
	good := captures + "g0-v0.8.0/one_tool.sse"
	body, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, in string
		args     []string
		status   int
		has      string
		err      string
	}{
		{"a file", "", []string{good}, 0, "event: hermes.tool.progress\ndata: {\"id\"", ""},
		{"standard input", string(body), nil, 0, "event: hermes.tool.progress\ndata: {\"id\"", ""},
		{"a dash", string(body), []string{"-"}, 0, "event: hermes.tool.progress\ndata: {\"id\"", ""},
		{"an option", string(body), []string{"--progress", "comment"}, 0, ": hermes.tool.progress {\"tool\"", ""},
		{"a tool", string(body), []string{"--tool", "💻 shell"}, 0, `"tool":"shell"`, ""},
		{"an explanation", string(body), []string{"--explain"}, 0, "§1 a tool marker", ""},
		{"a crash", "", []string{captures + "g0-v0.8.0/crash_in_tool.sse"}, 4, `"code":"agent_crashed"`, ""},
		{"a broken end", string(body[:len(body)/2]), []string{"--cause", "aborted"}, 4, `"code":"upstream_aborted"`, ""},
		{"a path", ": keepalive\n\n", []string{"--path", "/v1/runs/run_7/events", "--cause", "aborted"}, 4, `"event": "run.failed", "run_id": "run_7"`, ""},
		{"an answer that failed", "", []string{captures + "g0-v0.8.0/nonstream.failed_result.http"}, 4, `{"error":{"message":"API call failed`, ""},
		{"a header of curl", "HTTP/1.1 100 Continue\r\n\r\nHTTP/2 200\r\nA: b\r\n\r\n" + string(body), nil, 0, "event: hermes.tool.progress\ndata: {\"id\"", ""},
		{"a session", stream22, []string{"--session", sessions + "v0.22.2-completed.json"}, 0, `"status":"completed","args":{"command":"sleep 1; echo one"},"result":"{\"output\": \"one\", \"exit_code\": 0, \"error\": null}"`, ""},
		{"a session, explained", stream22, []string{"--session", sessions + "v0.22.2-completed.json", "--explain"}, 0, "§8 what upstream has stored about the call is added to the event", ""},
		{"a session of another time", stream22, []string{"--session", sessions + "v0.16.0-completed.json", "--cards", "off", "--status-line", "off"}, 0, `"toolCallId":"call_0_0","status":"completed"}`, ""},
		{"no session", stream22, []string{"--session", "nope.json"}, 1, "", "opening the session: open nope.json"},
		{"a session that is none", stream22, []string{"--session", good}, 1, "", "the answer is not from Hermes to GET /api/sessions/{id}/messages"},
		{"no file", "", []string{"nope.sse"}, 1, "", "opening the recording: open nope.sse"},
		{"a wrong option", "", []string{"--progress", "loud"}, 1, "", `--progress: invalid progress "loud": must be envelope, bare, unnamed, comment or off`},
		{"a wrong cause", "", []string{"--cause", "bad"}, 1, "", `invalid cause "bad": must be eof, aborted, timeout or shutdown`},
		{"an answer", `{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"Hi"}}]}`, nil, 0, "Hi", ""},
		{"an answer, explained", `{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"Hi"}}]}`, []string{"--explain"}, 0, "ended well", ""},
		{"a refusal", `{"error":{"message":"Invalid API key"}}`, nil, 4, "Invalid API key", ""},
		{"a refusal, explained", `{"error":{"message":"Invalid API key"}}`, []string{"--explain"}, 4, "ended in an error", ""},
		{"another answer", `{"object":"list","data":[]}`, nil, 1, `"list"`, "not a chat completion"},
		{"nothing", "", nil, 1, "", "no frame from Hermes"},
		{"something else", "hello\n", nil, 1, "hello", "no frame from Hermes"},
		{"another answer, explained", `{"object":"list","data":[]}`, []string{"--explain"}, 1, "", "not a chat completion"},
		{"half of an answer, explained", "{", []string{"--explain"}, 1, "", "not a chat completion"},
		{"something else, explained", "hello\n", []string{"--explain"}, 1, "hello", "no frame from Hermes"},
	} {
		status, out, err := repairRun(t, c.in, c.args...)
		if status != c.status || strings.Contains(out, "HTTP/") || !strings.Contains(out, c.has) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: status %d, error %v, output\n%s", c.name, status, err, out)
		}
		if err != nil && strings.Contains(out, "ended") {
			t.Errorf("%s: how it ended is not known, output\n%s", c.name, out)
		}
	}
}

// TestRepairCommandReadsWhatIsKnown of a recording, unless it is told.
func TestRepairCommandReadsWhatIsKnown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.sse")
	for name, content := range map[string]string{
		file: ": keepalive\n\n", strings.TrimSuffix(file, ".sse") + ".json": `{"path": "/v1/runs/run_7/events", "cause": "timeout"}`,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		has  string
	}{
		{nil, "the agent was silent for too long"},
		{[]string{"--cause", "shutdown"}, "shutting down"},
	} {
		if status, out, err := repairRun(t, "", append(c.args, file)...); status != 4 || err != nil || !strings.Contains(out, c.has) {
			t.Errorf("%v: status %d, error %v, output %s", c.args, status, err, out)
		}
	}
}
