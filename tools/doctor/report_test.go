package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
)

// hostile is what no report may have: the key, another secret, and what a terminal acts
// upon. Its beginning shows that a report quotes it.
const hostile = "seen " + key + " sk-0123456789abcdef0123 \x1b]0;x\x07\u202e\u2028\nfake"

// unfit returns what a report must not have and has, in both of its forms.
func unfit(t testing.TB, a Agent) (bad []string) {
	t.Helper()
	text, object := newReport(a).text(), newReport(a).json()
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

// quotedJSON is hostile as a JSON string, and bareJSON is it without its quotes.
var quotedJSON, bareJSON = func() (string, string) {
	b, _ := json.Marshal(hostile)
	return string(b), string(b[1 : len(b)-1])
}()

// hostileStreams have hostile in every place of a stream that a report may quote.
var hostileStreams = map[string]string{
	"the name of a tool":  tool(`"seen `+bareJSON+`"`, `"x"`, `"running"`),
	"a name with escapes": tool(escapedJSON(hostile), `"x"`, `"running"`),
	"a label and an id":   tool(`"a"`, quotedJSON, quotedJSON),
	"a marker":            chunkWith(`"delta": {"content": "\n` + "`💻 seen " + bareJSON + "`" + `\n"}, "finish_reason": null`),
	"a finish reason":     chunkWith(`"delta": {"content": "a"}, "finish_reason": ` + quotedJSON),
	"an error":            `data: {"error": {"message": ` + quotedJSON + `, "code": ` + quotedJSON + `, "type": ` + quotedJSON + "}}\n\n",
	"an error in words":   `data: {"error": ` + quotedJSON + "}\n\n",
	"an error event":      "event: error\n" + `data: {"error": {"message": ` + quotedJSON + "}}\n\n",
	"the name of events":  "event: " + strings.ReplaceAll(hostile, "\n", "") + "\n" + `data: {"object": ` + quotedJSON + "}\n\n",
	"an id and a model": `data: {"id": ` + quotedJSON + `, "object": "chat.completion.chunk", "model": ` + quotedJSON +
		`, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "error"}]}` + "\n\n",
	"a status": "event: hermes.status\n" + `data: {"kind": ` + quotedJSON + `, "text": ` + quotedJSON + "}\n\n",
}

// tool returns an event of a tool, whose emoji, label and id are all value.
func tool(name, value, status string) string {
	return fmt.Sprintf("event: hermes.tool.progress\ndata: "+
		`{"tool": %s, "emoji": %[2]s, "label": %[2]s, "toolCallId": %[2]s, "status": %s}`+"\n\n", name, value, status)
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
		a, err := testDoctor("", key).record(strings.NewReader(stream), "x.sse", recording.Meta{})
		if bad := unfit(t, a); err != nil || len(bad) > 0 {
			t.Errorf("%s, recorded: %v; has %q\n%+v", name, err, bad, a)
		}
		a = asking(t, events(nil, stream)).examined(t)
		if bad := unfit(t, a); len(bad) > 0 {
			t.Errorf("%s: has %q\n%+v", name, bad, a)
		}
	}
	line := strings.NewReplacer("\n", " ", "\x1b", "", "\x07", "").Replace(hostile) // as far as a header can carry it
	message := `{"error": {"message": ` + quotedJSON + `, "code": "gateway_auth_failed"}}`
	for name, serve := range map[string]map[string]http.HandlerFunc{
		"a version":         {"/health": status(200, "", "", `{"platform": "hermes-agent", "version": `+quotedJSON+`}`)},
		"a version, almost": {"/health": status(200, "", "", `{"platform": "hermes-agent", "version": "0.20.3`+bareJSON+`"}`)},
		"a hop":             {"/health": status(200, "Via", line, `{"platform": "hermes-agent", "version": "0.20.3"}`)},
		"a redirect":        {"/health": status(302, "Location", line, "")},
		"a proxy":           {"/health": status(502, "", "", message)},
		"a refusal":         {"/v1/models": status(403, "", "", message)},
		"a failure":         {"/v1/models": status(500, "", "", message)},
		"a refused chat":    {chatPath: status(500, "", "", message)},
		"a type":            {chatPath: status(200, "Content-Type", line, "{}")},
		"an encoding":       {chatPath: status(200, "Content-Encoding", line, "{}")},
	} {
		agent := &fake{dir: "g3-v0.20.3", scenario: "plain", key: key, serve: serve}
		sidecar := &fake{dir: agent.dir, scenario: agent.scenario, key: key, serve: serve}
		d := testDoctor(agent.start(t), key)
		d.ask, d.through = true, sidecar.start(t)
		a := d.examined(t)
		if bad := unfit(t, a); len(bad) > 0 {
			t.Errorf("%s: has %q\n%+v", name, bad, a)
		}
	}
}

// TestWhatOthersSayIsShort, printable, and without secrets.
func TestWhatOthersSayIsShort(t *testing.T) {
	d := &doctor{key: "quite-a-key"}
	for in, want := range map[string]string{
		strings.Repeat("a", 10*maxSaid): strings.Repeat("a", maxSaid),
		"a\x1b[0m\nb\u202e":             "a�[0m�b�",
		"quite-a-key, quite-a-key":      "[redacted], [redacted]",
		"Bearer abcdef123456":           "Bearer [redacted]",
		"":                              "",
	} {
		if got := d.fit(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	for _, n := range []int{maxSaid, maxProbe} {
		if got := d.fit(strings.Repeat("x", n-5) + d.key); strings.Contains(got, "quite") {
			t.Errorf("a part of the key is left: %q", got)
		}
	}
}

// page is docs/doctor.md.
func page(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPageHasTheChecks of the code, and no other.
func TestPageHasTheChecks(t *testing.T) {
	names := func(expr, text string) []string {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(expr).FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
		return slices.Sorted(maps.Keys(found))
	}
	files, _ := filepath.Glob("*.go") // the pattern is good
	var all []byte
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	_, table, _ := strings.Cut(page(t), "\n## The checks\n")
	table, _, _ = strings.Cut(table, "\n**")
	code, listed := names(`\.(?:find\(|findUnreachable\(ctx, s, )"([a-z]+)"`, string(all)), names("(?m)^\\| `([a-z]+)` \\|", table)
	if !slices.Equal(code, listed) || len(code) < 10 {
		t.Errorf("the code has %q, the page %q", code, listed)
	}
}

// TestPageHasTheJSON as it is written.
func TestPageHasTheJSON(t *testing.T) {
	_, example, _ := strings.Cut(page(t), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	d := json.NewDecoder(strings.NewReader(example))
	d.DisallowUnknownFields()
	var r Report
	if err := d.Decode(&r); err != nil || r.Schema != schema || len(r.Agents) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	a := r.Agents[0]
	if len(a.Findings) == 0 || len(a.Repairs) == 0 || len(a.Options) == 0 || r.Result != newReport(a).Result {
		t.Errorf("%+v", r)
	}
	known := options(anyRelease, nil, nil)
	if o := known[len(known)-1]; o.Option != a.Options[0].Option || o.When != a.Options[0].When {
		t.Errorf("%+v", a.Options)
	}
	if r := repairs[len(repairs)-1]; r.Upstream != a.Repairs[0].Upstream || r.Client != a.Repairs[0].Client {
		t.Errorf("%+v", a.Repairs)
	}
}
