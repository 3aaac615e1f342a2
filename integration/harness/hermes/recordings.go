// Package hermes has what Hermes says and does: the recordings of real servers in testdata/captures,
// lines of frames that are written as its servers write them, and an Agent, which is a gateway that
// takes the Steps that a test has for a prompt.
//
// Steps are also what package upstream plays where a test decides about the bytes between them.
//
// The generations G0 to G3 are those of docs/contract.md.
package hermes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// Captures is the directory of the recordings of real Hermes servers.
var Captures = harness.Path("testdata/captures")

// A Recording is an answer of a Hermes server.
type Recording struct {
	Generation string // such as g0-v0.8.0 or agent-loop/g0-v0.8.0
	Scenario   string
	Header     string // status line and header, with the blank line
	Body       []byte
}

// String returns the name, such as g0-v0.8.0/one_tool.
func (r Recording) String() string { return r.Generation + "/" + r.Scenario }

// Path returns the path of the request.
func (r Recording) Path() string {
	switch {
	case strings.HasPrefix(r.Scenario, "responses."):
		return "/v1/responses"
	case strings.HasPrefix(r.Scenario, "runs."):
		return "/v1/runs/run_1/events"
	case strings.HasPrefix(r.Scenario, "session."):
		return "/api/sessions/s1/chat/stream"
	}
	return "/v1/chat/completions"
}

// Recorded reads a recording, such as "g0-v0.8.0/one_tool".
func Recorded(t testing.TB, name string) Recording {
	t.Helper()
	r := Recording{Generation: filepath.ToSlash(filepath.Dir(name)), Scenario: filepath.Base(name)}
	var err error
	if r.Body, err = os.ReadFile(filepath.Join(Captures, name+".sse")); err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile(filepath.Join(Captures, name+".headers"))
	if err != nil {
		header = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n")
	}
	lines := strings.FieldsFunc(string(header), func(r rune) bool { return r == '\r' || r == '\n' })
	r.Header = strings.Join(lines, "\r\n") + "\r\n\r\n"
	return r
}

// Recordings reads all event streams for which keep returns true.
func Recordings(t testing.TB, keep func(r Recording) bool) []Recording {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*/*.sse", "*/*/*.sse"} {
		found, err := filepath.Glob(filepath.Join(Captures, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	sort.Strings(names)
	var all []Recording
	for _, n := range names {
		n, _ = filepath.Rel(Captures, strings.TrimSuffix(n, ".sse"))
		if r := Recorded(t, n); keep(r) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		t.Fatal("no recordings below " + Captures)
	}
	return all
}

// Chats reports whether a recording is of /v1/chat/completions.
func Chats(r Recording) bool { return r.Path() == "/v1/chat/completions" }

// Role is the data line of the first chunk of every stream.
var Role = Delta("role", "assistant")

// Envelope begins the chunks that this package writes.
const Envelope = `{"id": "chatcmpl-5ec0de", "object": "chat.completion.chunk", "created": 1795164799, "model": "hermes-agent", `

// Delta returns a data line with one member in the delta, in ASCII as Hermes writes.
func Delta(member, value string) string {
	return "data: " + Envelope + fmt.Sprintf(`"choices": [{"index": 0, "delta": {"%s": %s}, "finish_reason": null}]}`, member, ASCII(value))
}

// Finish returns the data line of the last chunk, which says how many tokens were used.
func Finish(reason string, tokens int) string {
	return "data: " + Envelope + fmt.Sprintf(`"choices": [{"index": 0, "delta": {}, "finish_reason": "%s"}], `+
		`"usage": {"prompt_tokens": %d, "completion_tokens": 0, "total_tokens": %d}}`, reason, tokens, tokens)
}

// Running returns the lines of the event with which a tool of G2 starts.
func Running(tool, id string) []string { return running(tool, "ls -la", id) }

func running(tool, label, id string) []string {
	return []string{"event: hermes.tool.progress",
		fmt.Sprintf(`data: {"tool": "%s", "emoji": "\ud83d\udcbb", "label": %s, "toolCallId": "%s", "status": "running"}`, tool, ASCII(label), id)}
}

// Completed returns the lines of the event with which a tool of G2 ends.
func Completed(tool, id string) []string {
	return []string{"event: hermes.tool.progress", fmt.Sprintf(`data: {"tool": "%s", "toolCallId": "%s", "status": "completed"}`, tool, id)}
}

// ASCII returns a JSON string as Python's json.dumps writes it.
func ASCII(s string) string {
	quoted, _ := json.Marshal(s)
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(string(quoted))) {
		if unit < 0x80 {
			b.WriteByte(byte(unit))
		} else {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// One returns the lines of a frame that has one.
func One(line string) []string { return []string{line} }

// Good returns the frames that end a stream well.
func Good() [][]string { return [][]string{One(Finish("stop", 56)), One("data: [DONE]")} }

// Quoted returns a JSON string as Go writes it.
func Quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
