package doctor

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

var update = flag.Bool("update", false, "write the golden files")

const captures = "../../testdata/captures"

// recorded returns a recording with its header, if there is one.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(captures, name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	header, err := os.ReadFile(filepath.Join(captures, name+".headers"))
	if err != nil {
		return body
	}
	return append(append(bytes.TrimRight(header, "\r\n"), "\r\n\r\n"...), body...)
}

// examined examines a recording.
func examined(t testing.TB, name string, stream []byte) Agent {
	t.Helper()
	a, err := Recording(bytes.NewReader(stream), name, recording.Meta{}, Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return a
}

// read reads a whole stream.
func read(stream []byte) *reading {
	r := newReading("")
	r.feed(stream)
	r.finish(rewrite.CauseEOF)
	return r
}

// golden compares a text with the file, or writes it.
func golden(t testing.TB, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s: %v; got\n%s", file, err, got)
	}
}

// texts returns both forms of a report.
func texts(t testing.TB, r Report) (text, object string) {
	t.Helper()
	var asText, asJSON bytes.Buffer
	if err := errors.Join(r.WriteText(&asText), r.WriteJSON(&asJSON)); err != nil {
		t.Fatal(err)
	}
	return asText.String(), asJSON.String()
}

// finding returns the first finding of a check, and fails if there is none.
func (a Agent) finding(t testing.TB, check string) Finding {
	t.Helper()
	for _, f := range a.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Errorf("no finding %s, but %+v", check, a.Findings)
	return Finding{}
}

// option returns the value that is suggested for an option, and when.
func (a Agent) option(name string) (value, when string) {
	for _, o := range a.Options {
		if value, is := strings.CutPrefix(o.Option, name+" "); is {
			return value, o.When
		}
	}
	return "", ""
}

// captured are the directories of recordings, each with the release that wrote them.
var captured = map[string]release{
	"gm1-v0.6.0": minor(6), "g0-v0.8.0": minor(8), "g1-v0.9.0": minor(9), "g2-v0.13.0": minor(13), "g3-v0.20.3": 20_003, "g4-transcribed": newInG5,
	"agent-loop/g0-v0.8.0": minor(8), "agent-loop/g2-v0.13.0": minor(13), "agent-loop/g3-v0.20.3": 20_003,
	"live-g0-v0.8.0": minor(8), "live-g2-v0.12.0": minor(12), "live-g3-v0.18.2": 18_002, "live-g3-v0.19.0": minor(19), "live-g3-v0.20.0": minor(20),
	"live-g4-v0.21.5": 21_005, "live-g5-v0.22.2": 22_002,
}

// TestNoRecordingIsTakenForAnotherRelease than the one that wrote it.
func TestNoRecordingIsTakenForAnotherRelease(t *testing.T) {
	n := 0
	for dir, of := range captured {
		files, err := filepath.Glob(filepath.Join(captures, dir, "*.sse"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, file := range files {
			name := dir + "/" + strings.TrimSuffix(filepath.Base(file), ".sse")
			stream := recorded(t, name)
			if !bytes.Contains(stream, []byte("data:")) {
				continue // no events at all
			}
			n++
			_, body, err := recording.Open(bytes.NewReader(stream))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(body)
			if r := read(b); r.shown.what != "" && !r.shown.span.meets(span{of, of}) {
				t.Errorf("%s: taken for %s", name, r.shown.span)
			}
		}
	}
	if n < 150 {
		t.Errorf("%d recordings only", n)
	}
}

// TestGenerationsOfRecordings with a tool, by the stream.
func TestGenerationsOfRecordings(t *testing.T) {
	for name, want := range map[string]string{
		"gm1-v0.6.0/one_tool":         "", // nothing in it tells
		"g0-v0.8.0/one_tool":          "G0",
		"g1-v0.9.0/one_tool":          "G1",
		"g2-v0.13.0/one_tool":         "G2 G3 G4 G5", // until one fails
		"g2-v0.13.0/crash_in_tool":    "G2 G3 G4 G5", // a stop may also be an empty answer
		"g3-v0.20.3/crash_in_tool":    "G3 G4 G5",
		"live-g4-v0.21.5/reasonctool": "G4 G5",
		"live-g5-v0.22.2/danger":      "G5",
		"live-g0-v0.8.0/manypar":      "G0",
	} {
		if got := strings.Join(examined(t, name, recorded(t, name)).Generations, " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestReportsOfRecordings are those in testdata.
func TestReportsOfRecordings(t *testing.T) {
	for _, name := range []string{
		"gm1-v0.6.0/one_tool", "g0-v0.8.0/parallel_tools", "g0-v0.8.0/model_imitates", "g1-v0.9.0/crash_in_tool", "g2-v0.13.0/one_tool",
		"g3-v0.20.3/crash_after_text", "live-g4-v0.21.5/reasonctool", "live-g5-v0.22.2/err401", "live-g5-v0.22.2/danger",
	} {
		text, _ := texts(t, NewReport(examined(t, name, recorded(t, name))))
		golden(t, strings.ReplaceAll(name, "/", "-")+".txt", text)
	}
	_, object := texts(t, NewReport(examined(t, "g0-v0.8.0/one_tool", recorded(t, "g0-v0.8.0/one_tool"))))
	golden(t, "g0-v0.8.0-one_tool.json", object)
}

// rechunked returns a stream as a hop sends it that decodes chunks, and cuts their text
// every three characters.
func rechunked(t testing.TB, stream []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	for frame := range strings.SplitSeq(string(stream), "\n\n") {
		_, text, found := strings.Cut(frame, `"delta": {"content": "`)
		text, behind, _ := strings.Cut(text, `"}`)
		if !found {
			out.WriteString(frame + "\n\n")
			continue
		}
		head, _, _ := strings.Cut(frame, `"delta": {`)
		var parts []string
		for i := 0; i < len(text); {
			n := 3
			switch {
			case strings.HasPrefix(text[i:], `\ud83`):
				n = 12 // a pair
			case text[i] == '\\':
				n = 2
			}
			n = min(n, len(text)-i)
			if j := strings.IndexByte(text[i:i+n], '\\'); j > 0 {
				n = j
			}
			parts = append(parts, text[i:i+n])
			i += n
		}
		for _, p := range parts {
			out.WriteString(strings.NewReplacer(`": `, `":`, `, "`, `,"`).Replace(head) + `"delta":{"content":"` + p + `"}` + behind + "\n\n")
		}
	}
	return out.Bytes()
}

// TestImitationsThatAreToBeTrusted are those of a hop that cuts text anew. Without one the
// option has a condition, and with tool events there are no markers.
func TestImitationsThatAreToBeTrusted(t *testing.T) {
	for _, c := range []struct {
		name        string
		again       bool
		value, when string
	}{
		{"g0-v0.8.0/one_tool", false, "", ""},
		{"g0-v0.8.0/one_tool", true, "trust", "something between this command and Hermes writes the chunks anew"},
		{"g0-v0.8.0/plain", true, "trust", "something between"},
		{"g0-v0.8.0/model_imitates", false, "trust", "only if"},
		{"g2-v0.13.0/one_tool", true, "", ""},
		{"g2-v0.13.0/model_imitates", false, "trust", "only if"}, // nothing shows that it is so new
		{"agent-loop/g0-v0.8.0/plain", true, "trust", "something between"},
		{"g4-transcribed/reasoning_tools", true, "", ""},
	} {
		stream := recorded(t, c.name)
		if c.again {
			stream = rechunked(t, stream)
		}
		a := examined(t, c.name, stream)
		if value, when := a.option("imitations"); value != c.value || !strings.HasPrefix(when, c.when) {
			t.Errorf("%+v: %q %q", c, value, when)
		}
		hasChunks := false
		for _, f := range a.Findings {
			hasChunks = hasChunks || f.Check == "chunks" && f.Level == Warn
		}
		if hasChunks != c.again {
			t.Errorf("%+v: %+v", c, a.Findings)
		}
	}
}

// TestReasonsAreUpstreams, where it gave one.
func TestReasonsAreUpstreams(t *testing.T) {
	for name, want := range map[string]string{
		"g3-v0.20.3/crash_after_text": "agent_error: “boom after text”",
		"live-g5-v0.22.2/err401":      "agent_error: “HTTP 401: scripted failure 401 [redacted]”",
		"live-g5-v0.22.2/outage":      "agent_error: “HTTP 500: scripted failure 500 [redacted]”",
		"g0-v0.8.0/crash_in_tool":     "agent_crashed: the agent failed before its answer was complete and gave no reason",
		"live-g3-v0.20.0/empty":       "empty_answer: the agent ended without an answer",
	} {
		if got := examined(t, name, recorded(t, name)).finding(t, "answer"); got.Says != "the answer ended in an error, "+want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, want := range map[string]string{
		"live-g5-v0.22.2/err401": "the answer reports a usage of zero tokens", "g0-v0.8.0/crash_in_tool": "the answer reports a usage of zero tokens",
		"live-g5-v0.22.2/danger": "204 tokens in, 40 out",
	} {
		if got := examined(t, name, recorded(t, name)).finding(t, "usage"); got.Says != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	a := examined(t, "cut", recorded(t, "live-g5-v0.22.2/danger")[:400])
	if got := a.finding(t, "usage"); got.Says != "the answer reports no usage" {
		t.Errorf("%+v", got)
	}
}

// TestCardsAreSuggested where there are tools to draw.
func TestCardsAreSuggested(t *testing.T) {
	for name, has := range map[string]string{
		"g0-v0.8.0/parallel_tools": "(3 of them in this answer)", "live-g4-v0.21.5/danger": "(1 of them in this answer)", "live-g5-v0.22.2/err401": "With cards",
	} {
		a := examined(t, name, recorded(t, name))
		if value, when := a.option("cards"); (value == "on") != (has != "") || has != "" && !strings.Contains(when, "Open WebUI") {
			t.Errorf("%s: %q %q", name, value, when)
		}
		for _, o := range a.Options {
			if o.Option == "cards on" && !strings.Contains(o.Why, has) {
				t.Errorf("%s: %s", name, o.Why)
			}
		}
	}
}

// TestZeroUsageThatMayPass has a condition where a crash looks the same.
func TestZeroUsageThatMayPass(t *testing.T) {
	for name, when := range map[string]string{
		"agent-loop/g0-v0.8.0/no_usage": "if the answer is whole",
		"live-g3-v0.18.2/nousage":       "if the answer is whole", // nothing shows that it is so new
		"g0-v0.8.0/one_tool":            "",
	} {
		a := examined(t, name, recorded(t, name))
		value, got := a.option("zero_usage")
		if (value == "pass") != (when != "") || !strings.HasPrefix(got, when) {
			t.Errorf("%s: %q %q", name, value, got)
		}
		if level := a.finding(t, "usage").Level; (level == Warn) != (when != "") {
			t.Errorf("%s: usage is %s", name, level)
		}
	}
	r := read(recorded(t, "live-g3-v0.18.2/nousage"))
	if of := options(span{minor(19), minor(19)}, r, nil); of[0].Option != "zero_usage pass" || of[0].When != "always, with this provider" {
		t.Errorf("of a release that reports its failures: %+v", of)
	}
}

// TestConfiguredOptionsAreNotSuggested again.
func TestConfiguredOptionsAreNotSuggested(t *testing.T) {
	r := read(rechunked(t, recorded(t, "g0-v0.8.0/one_tool")))
	if of := options(anyRelease, r, nil); len(of) != 4 {
		t.Errorf("%+v", of)
	}
	set := map[string]bool{"imitations": true, "cards": true, "progress": true, "stall_timeout": true, "zero_usage": true}
	if of := options(anyRelease, r, set); of == nil || len(of) != 0 {
		t.Errorf("%+v", of)
	}
}

func TestRecordingsThatAreNone(t *testing.T) {
	for _, in := range []string{"", "hello\n", `{"object":"list"}`, "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK"} {
		if _, err := Recording(strings.NewReader(in), "x", recording.Meta{}, Options{}); !errors.Is(err, recording.ErrNothing) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := Recording(strings.NewReader("data: [DONE]\n\n"), "x", recording.Meta{Cause: "bad"}, Options{}); err == nil || !strings.Contains(err.Error(), `invalid cause "bad"`) {
		t.Error(err)
	}
}

// TestStreamsThatAreNoChats tell little, and are no mistake.
func TestStreamsThatAreNoChats(t *testing.T) {
	a := examined(t, "runs", recorded(t, "live-g3-v0.19.0/runs.approval"))
	if f := a.finding(t, "answer"); f.Level != Info || !strings.Contains(f.Says, "without a chunk") {
		t.Errorf("%+v", a)
	}
}

// TestManyRepairsAreCounted, and not all listed.
func TestManyRepairsAreCounted(t *testing.T) {
	r := &reading{times: map[string]int{}}
	for i := range maxTold + 3 {
		var s rewrite.Step
		for _, text := range []string{fmt.Sprintf("tool %d", i), "a marker"} {
			s.Notes = append(s.Notes, struct{ Section, Text string }{"2", text})
		}
		r.step(s)
	}
	got := string(editor{}.told(r))
	if strings.Count(got, "§") != maxTold || !strings.HasSuffix(got, "; and 4 more") || !strings.Contains(got, fmt.Sprintf("a marker (%d times)", maxTold+3)) {
		t.Error(got)
	}
}

// TestWhatOthersSayIsShort, printable, and without secrets.
func TestWhatOthersSayIsShort(t *testing.T) {
	e := editor{"quite-a-key"}
	for in, want := range map[string]string{
		strings.Repeat("a", 10*maxSaid): strings.Repeat("a", maxSaid),
		"a\x1b[0m\nb\u202e":             "a�[0m�b�",
		"quite-a-key, quite-a-key":      "[redacted], [redacted]",
		"Bearer abcdef123456":           "Bearer [redacted]",
		"":                              "",
	} {
		if got := e.said(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	if got := e.said(strings.Repeat("x", maxSaid-5) + "quite-a-key"); strings.Contains(got, "quite") {
		t.Errorf("a part of the key is left: %q", got)
	}
	if got := e.said(strings.Repeat("x", maxProbe-5) + "quite-a-key"); strings.Contains(got, "quite") {
		t.Errorf("a part of the key is left: %q", got)
	}
}
