package demo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recording reads a recorded stream of any release.
func recording(t *testing.T, release, name string) string {
	t.Helper()
	stream, err := os.ReadFile(filepath.Join("..", "testdata", "captures", release, name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return string(stream)
}

// byName returns a scenario.
func byName(t *testing.T, name string) scenario {
	t.Helper()
	chosen, err := choose([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
}

func TestPaceIsThatOfAnAgent(t *testing.T) {
	const ms = time.Millisecond
	for name, want := range map[string][]time.Duration{
		"one_tool":      {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 40 * ms, 40 * ms, 40 * ms, 0},
		"crash_in_tool": {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 0},
		"kill":          {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 40 * ms, 400 * ms},
		// Tools that have events take their time, comments included.
		"endless_slow": {300 * ms, 40 * ms, 40 * ms, 150 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 40 * ms, 0},
		"approval":     {300 * ms, 40 * ms, 150 * ms, 800 * ms, 800 * ms, 40 * ms, 40 * ms, 0},
	} {
		var got []time.Duration
		for _, step := range byName(t, name).steps {
			got = append(got, step.delay)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: delays %v, want %v", name, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		names      []string
		want, fail string
	}{
		{nil, "cards approval provider_error kill_today one_tool parallel_tools model_imitates think_tags crash_in_tool kill", ""},
		{[]string{"plain", "kill"}, "plain kill", ""},
		{[]string{"nope"}, "", `unknown scenario "nope": choose one of cards, approval, `},
	} {
		chosen, err := choose(c.names)
		var got []string
		for _, s := range chosen {
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != c.want || (err == nil) != (c.fail == "") || err != nil && !strings.HasPrefix(err.Error(), c.fail) {
			t.Errorf("%q: %q, %v", c.names, got, err)
		}
	}
}

// TestScenarios are described, and their steps are the recording: those of killed backends are a
// torn beginning of it.
func TestScenarios(t *testing.T) {
	tools := map[string]int{
		"seq_tools": 4, "parallel_tools": 3, "endless_cards": 3, "crash_in_tool": 1, "endless_crash": 1,
		"kill": 1, "slow_tool": 1, "endless_slow": 1, "one_tool": 1, "cards": 3, "approval": 1, "kill_today": 3,
	}
	names := map[string]bool{}
	for _, s := range scenarios() {
		if s.Short == "" || s.About == "" || s.Prompt == "" || s.Title == "" || s.Tools != tools[s.Name] || names[s.Name] {
			t.Errorf("%s: %+v", s.Name, s)
		}
		names[s.Name] = true
		var stream []byte
		for _, step := range s.steps {
			stream = append(stream, step.frame...)
		}
		full, err := recordings.ReadFile(s.file())
		if err != nil {
			t.Fatal(err)
		}
		if captured := map[string]string{"v0.8.0": "g0-v0.8.0", "v0.9.0": "g1-v0.9.0"}[s.Release]; captured != "" && string(full) != recording(t, captured, cmp.Or(s.Recording, s.Name)) {
			t.Errorf("%s: not as it was recorded", s.Name)
		}
		torn := s.aborts() && !bytes.HasSuffix(stream, []byte("\n")) && s.finish == ""
		if !bytes.HasPrefix(full, stream) || torn == (len(stream) == len(full)) {
			t.Errorf("%s: the steps are not the recording, or no torn beginning of it", s.Name)
		}
	}
}

func TestMarkersAreLinesWithAnEmoji(t *testing.T) {
	for _, test := range []struct {
		content string
		real    bool // as the content of a chunk
		line    int  // lines that look like one
	}{
		{"\n`💻 ls -la`\n", true, 1},
		{"\n`✍️ out.txt`\n", true, 1},
		{"\n`💻 ``\n", true, 1},
		{"Sure\n`💻 ls -la`\ndone", false, 1},
		{"\n`git status`\n", false, 0},
		{"`💻` icon.", false, 0},
		{"Use `💻 x` here", false, 0},
	} {
		data, _ := json.Marshal(test.content) // a string is always JSON
		e := parseFrame(fmt.Appendf(nil, `data: {"choices":[{"delta":{"content":%s}}]}`, data))
		if _, ok := e.startsTool(); ok != test.real {
			t.Errorf("%q: a marker %v, want %v", test.content, ok, test.real)
		}
		if _, n := withoutMarkers(test.content); n != test.line {
			t.Errorf("%q: %d marker lines, want %d", test.content, n, test.line)
		}
	}
}
