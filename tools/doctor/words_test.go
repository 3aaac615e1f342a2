package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
)

// hostile is what no report may have: the key, another secret, and what a terminal acts
// upon. Its beginning shows that a report quotes it.
const hostile = "seen " + key + " sk-0123456789abcdef0123 \x1b]0;x\x07\u202e\u2028\nfake"

// unfit returns what a report must not have and has, in both of its forms.
func unfit(t testing.TB, a Agent) (bad []string) {
	t.Helper()
	text, object := texts(t, NewReport(a))
	var decoded any
	if err := json.Unmarshal([]byte(object), &decoded); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{text, object, fmt.Sprint(decoded)} {
		for _, part := range []string{key, "sk-0123456789", "\x1b", "\x07", "\u202e", "\u2028", "\nfake"} {
			if strings.Contains(of, part) {
				bad = append(bad, part)
			}
		}
	}
	return bad
}

// quotedJSON returns hostile as a JSON string.
var quotedJSON = func() string { b, _ := json.Marshal(hostile); return string(b) }()

// hostileStreams have hostile in every place of a stream that a report may quote.
var hostileStreams = map[string]string{
	"the name of a tool": `event: hermes.tool.progress
data: {"tool": "seen ` + strings.Trim(quotedJSON, `"`) + `", "emoji": "x", "label": "y", "toolCallId": "1", "status": "running"}

`,
	"a name with escapes": `event: hermes.tool.progress
data: {"tool": ` + escapedJSON(hostile) + `, "toolCallId": "1", "status": "running"}

`,
	"a label and an id": `event: hermes.tool.progress
data: {"tool": "a", "emoji": ` + quotedJSON + `, "label": ` + quotedJSON + `, "toolCallId": ` + quotedJSON + `, "status": ` + quotedJSON + `}

`,
	"a marker":           chunkWith(`"delta": {"content": "\n` + "`💻 seen " + strings.Trim(quotedJSON, `"`) + "`" + `\n"}, "finish_reason": null`),
	"a finish reason":    chunkWith(`"delta": {"content": "a"}, "finish_reason": ` + quotedJSON),
	"an error":           "data: {\"error\": {\"message\": " + quotedJSON + ", \"code\": " + quotedJSON + ", \"type\": " + quotedJSON + "}}\n\n",
	"an error in words":  "data: {\"error\": " + quotedJSON + "}\n\n",
	"an error event":     "event: error\ndata: {\"error\": {\"message\": " + quotedJSON + "}}\n\n",
	"the name of events": "event: " + strings.NewReplacer("\n", "").Replace(hostile) + "\ndata: {\"object\": " + quotedJSON + "}\n\n",
	"an id and a model":  `data: {"id": ` + quotedJSON + `, "object": "chat.completion.chunk", "model": ` + quotedJSON + `, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "error"}]}` + "\n\n",
	"a status":           "event: hermes.status\ndata: {\"kind\": " + quotedJSON + ", \"text\": " + quotedJSON + "}\n\n",
}

// escapedJSON returns a string as JSON in which every character is an escape.
func escapedJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return `"` + b.String() + `"`
}

// chunkWith returns a chunk whose choice has the members.
func chunkWith(members string) string {
	return `data: {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "hermes-agent", "choices": [{"index": 0, ` + members + `}]}` + "\n\n"
}

// TestNothingThatOthersSayReachesAReportAsItCame, from a recording or from an agent.
func TestNothingThatOthersSayReachesAReportAsItCame(t *testing.T) {
	first := chunkWith(`"delta": {"role": "assistant"}, "finish_reason": null`)
	for name, stream := range hostileStreams {
		stream = first + stream + chunkWith(`"delta": {}, "finish_reason": "stop"`) + "data: [DONE]\n\n"
		a, err := Recording(strings.NewReader(stream), "x.sse", recording.Meta{}, Options{Key: key})
		if bad := unfit(t, a); err != nil || len(bad) > 0 {
			t.Errorf("%s, recorded: %v; has %q\n%+v", name, err, bad, a)
		}
		a = answered(t, testOptions(), func(w http.ResponseWriter, r *http.Request) {
			events(w)
			io.WriteString(w, stream)
		})
		if bad := unfit(t, a); len(bad) > 0 {
			t.Errorf("%s: has %q\n%+v", name, bad, a)
		}
	}
	line := strings.NewReplacer("\n", " ", "\x1b", "", "\x07", "").Replace(hostile) // as far as a header can carry it
	says := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if header != "" {
				w.Header().Set(header, line)
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	message := `{"error": {"message": ` + quotedJSON + `, "code": "gateway_auth_failed"}}`
	for name, serve := range map[string]map[string]http.HandlerFunc{
		"a version":         {"/health": says(200, "", `{"platform": "hermes-agent", "version": `+quotedJSON+`}`)},
		"a version, almost": {"/health": says(200, "", `{"platform": "hermes-agent", "version": "0.20.3`+strings.Trim(quotedJSON, `"`)+`"}`)},
		"a hop":             {"/health": says(200, "Via", `{"platform": "hermes-agent", "version": "0.20.3"}`)},
		"a redirect":        {"/health": says(302, "Location", "")},
		"a proxy":           {"/health": says(502, "", message)},
		"a refusal":         {"/v1/models": says(403, "", message)},
		"a failure":         {"/v1/models": says(500, "", message)},
		"a refused chat":    {chatPath: says(500, "", message)},
		"a type":            {chatPath: says(200, "Content-Type", "{}")},
		"an encoding":       {chatPath: says(200, "Content-Encoding", "{}")},
	} {
		o := testOptions()
		o.Key, o.Ask = key, true
		o.Through = &Through{Target: target(t, (&fake{dir: "g3-v0.20.3", scenario: "plain", key: key, serve: serve}).start(t))}
		a := examine(t, (&fake{dir: "g3-v0.20.3", scenario: "plain", key: key, serve: serve}).start(t), o)
		if bad := unfit(t, a); len(bad) > 0 {
			t.Errorf("%s: has %q\n%+v", name, bad, a)
		}
	}
}

// TestRecordingsAreNotHeld: the memory that it takes to examine one does not depend on its
// size, or on how much is to be said of it.
func TestRecordingsAreNotHeld(t *testing.T) {
	const size, most = 24 << 20, 12 << 20
	var tools bytes.Buffer
	for i := 0; tools.Len() < size; i++ {
		fmt.Fprintf(&tools, "event: hermes.tool.progress\ndata: {\"tool\": \"%0500d\", \"emoji\": \"x\", \"label\": \"y\", \"toolCallId\": \"%d\", \"status\": \"running\"}\n\n", i, i)
	}
	for name, text := range map[string]string{
		"frames": chunkWith(`"delta": {"content": "a"}, "finish_reason": null`), "tools": tools.String(), "a line": "x", "zeros": "\x00",
	} {
		in := &caddytest.Endless{Text: text, Size: size}
		if _, err := Recording(in, "x", recording.Meta{Path: chatPath}, Options{}); err != nil || in.Peak > most {
			t.Errorf("%s: %v, %d MiB in use", name, err, in.Peak>>20)
		}
	}
}
