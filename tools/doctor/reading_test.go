package doctor

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
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

// examined examines a stream as a recording.
func examined(t testing.TB, name string, stream []byte) Agent {
	t.Helper()
	a, err := new(doctor).record(bytes.NewReader(stream), name, recording.Meta{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return a
}

// readWhole reads a whole stream.
func readWhole(stream []byte) *reading {
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

// captured are the directories of recordings, each with the release that wrote them.
var captured = map[string]release{
	"gm1-v0.6.0": 6_000, "g0-v0.8.0": 8_000, "g1-v0.9.0": 9_000, "g2-v0.13.0": 13_000, "g3-v0.20.3": 20_003, "g4-transcribed": newInG5,
	"agent-loop/g0-v0.8.0": 8_000, "agent-loop/g2-v0.13.0": 13_000, "agent-loop/g3-v0.20.3": 20_003,
	"live-g0-v0.8.0": 8_000, "live-g2-v0.12.0": 12_000, "live-g3-v0.18.2": 18_002, "live-g3-v0.19.0": 19_000, "live-g3-v0.20.0": 20_000,
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
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(b, []byte("data:")) {
				continue // no events at all
			}
			n++
			if shown := readWhole(b).shown; shown.what != "" && !shown.meets(span{of, of}) {
				t.Errorf("%s: taken for %s", file, shown.span)
			}
		}
	}
	if n < 150 {
		t.Errorf("%d recordings only", n)
	}
}

// TestReportsOfRecordings are those in testdata.
func TestReportsOfRecordings(t *testing.T) {
	for _, name := range []string{
		"gm1-v0.6.0/one_tool", "g0-v0.8.0/parallel_tools", "g0-v0.8.0/model_imitates", "g1-v0.9.0/crash_in_tool", "g2-v0.13.0/one_tool",
		"g3-v0.20.3/crash_after_text", "live-g4-v0.21.5/reasonctool", "live-g5-v0.22.2/err401", "live-g5-v0.22.2/danger",
	} {
		golden(t, strings.ReplaceAll(name, "/", "-")+".txt", newReport(examined(t, name, recorded(t, name))).text())
	}
	golden(t, "g0-v0.8.0-one_tool.json", newReport(examined(t, "g0-v0.8.0/one_tool", recorded(t, "g0-v0.8.0/one_tool"))).json())
}

// TestFindingsOfRecordings: reasons are upstream's where it gave one, zero usage is told from
// none, a stream that is no chat tells little and is no mistake, and a failure tells a release.
func TestFindingsOfRecordings(t *testing.T) {
	const ended = "the answer ended with an error, "
	for _, c := range []struct {
		name, check string
		level       Level
		says        string
	}{
		{"live-g5-v0.22.2/outage", "answer", Warn, ended + "agent_error: “HTTP 500: scripted failure 500 [redacted]”"},
		{"g0-v0.8.0/crash_in_tool", "answer", Warn, ended + "agent_crashed: the agent failed before its answer was complete and gave no reason"},
		{"live-g3-v0.20.0/empty", "answer", Warn, ended + "empty_answer: the agent ended without an answer"},
		{"g0-v0.8.0/crash_in_tool", "usage", Info, "the answer reports a usage of zero tokens"},
		{"agent-loop/g0-v0.8.0/no_usage", "usage", Warn, "the answer has text, and a usage of zero tokens"},
		{"live-g3-v0.19.0/runs.approval", "answer", Info, "a stream without a chunk"},
		{"g2-v0.13.0/crash_in_tool", "generation", Info, "G2 or G3 or G4 or G5, "},  // a stop may also be an empty answer
		{"g4-transcribed/truncated_result", "generation", Info, "G3 or G4 or G5, "}, // with finish_reason length
		{"g3-v0.20.3/crash_in_tool", "generation", Info, "G3 or G4 or G5, "},
		{"live-g0-v0.8.0/manypar", "generation", Info, "G0, "},
	} {
		examined(t, c.name, recorded(t, c.name)).expect(t, c.name, c.check, c.level, c.says)
	}
	a := examined(t, "cut", recorded(t, "live-g5-v0.22.2/danger")[:400])
	a.expect(t, "cut", "usage", Info, "the answer reports no usage")
}

func TestRecordingsThatAreNone(t *testing.T) {
	d := new(doctor)
	for _, in := range []string{"", "hello\n", `{"object":"list"}`, "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK"} {
		if _, err := d.record(strings.NewReader(in), "x", recording.Meta{}); !errors.Is(err, recording.ErrNothing) {
			t.Errorf("%q: %v", in, err)
		}
	}
	_, err := d.record(strings.NewReader("data: [DONE]\n\n"), "x", recording.Meta{Cause: "bad"})
	if err == nil || !strings.Contains(err.Error(), `invalid cause "bad"`) {
		t.Error(err)
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
	got := string(testDoctor("", "").newExamination("", "").steps(r))
	if strings.Count(got, "§") != maxTold || !strings.HasSuffix(got, "; and 4 more") || !strings.Contains(got, fmt.Sprintf("a marker (%d times)", maxTold+3)) {
		t.Error(got)
	}
}

// TestRecordingsAreNotHeld: the memory that it takes to examine one does not depend on its
// size, or on how much is to be said of it.
func TestRecordingsAreNotHeld(t *testing.T) {
	alone.NotUnderRace(t)
	const size, most = 24 << 20, 12 << 20
	var tools bytes.Buffer
	for i := 0; tools.Len() < size; i++ {
		fmt.Fprintf(&tools, "event: hermes.tool.progress\ndata: {\"tool\": \"%0500d\", \"emoji\": \"x\", \"label\": \"y\", \"toolCallId\": \"%d\", \"status\": \"running\"}\n\n", i, i)
	}
	for name, text := range map[string]string{
		"frames": chunkWith(`"delta": {"content": "a"}, "finish_reason": null`), "tools": tools.String(), "a line": "x", "zeros": "\x00",
	} {
		in := &caddytest.Endless{Text: text, Size: size}
		if _, err := new(doctor).record(in, "x", recording.Meta{Path: chatPath}); err != nil || in.Peak > most {
			t.Errorf("%s: %v, %d MiB in use", name, err, in.Peak>>20)
		}
	}
}
