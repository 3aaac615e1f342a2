package replay

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEmbeddedRecordingsAreTheRecordedOnes(t *testing.T) {
	files, err := recordings.ReadDir("recordings")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		embedded, err := recordings.ReadFile("recordings/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(embedded, recording(t, "g0-v0.8.0", strings.TrimSuffix(file.Name(), ".sse"))) {
			t.Errorf("%s differs", file.Name())
		}
	}
}

func TestStepsAreTheRecording(t *testing.T) {
	for _, s := range Scenarios() {
		var stream []byte
		for _, step := range s.Steps {
			stream = append(stream, step.Frame...)
		}
		name := cmp.Or(s.recording, s.Name)
		directory := "recordings"
		if s.OpenWebUI {
			directory += "-v0.22.2"
		}
		full, err := recordings.ReadFile(directory + "/" + name + ".sse")
		if err != nil {
			t.Fatal(err)
		}
		if s.Aborts && (!bytes.HasPrefix(full, stream) || bytes.HasSuffix(stream, []byte("\n")) || s.finish() != "") {
			t.Errorf("%s: %q is no torn beginning of the recording", s.Name, stream)
		}
		if !s.Aborts && !bytes.Equal(stream, full) {
			t.Errorf("%s: the steps are not the recording", s.Name)
		}
	}
}

func TestPaceIsThatOfAnAgent(t *testing.T) {
	const ms = time.Millisecond
	for name, want := range map[string][]time.Duration{
		"one_tool":       {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 40 * ms, 40 * ms, 40 * ms, 0},
		"parallel_tools": {300 * ms, 40 * ms, 40 * ms, 150 * ms, 0, 0, 800 * ms, 40 * ms, 40 * ms, 0},
		"crash_in_tool":  {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 0},
		"kill":           {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 40 * ms, 400 * ms},
		"slow_tool":      {300 * ms, 40 * ms, 40 * ms, 150 * ms, 5000 * ms, 40 * ms, 0},
		"cards":          {300 * ms, 40 * ms, 150 * ms, 800 * ms, 150 * ms, 0, 800 * ms, 40 * ms, 40 * ms, 40 * ms, 40 * ms, 0},
		"approval":       {300 * ms, 40 * ms, 150 * ms, 800 * ms, 800 * ms, 40 * ms, 40 * ms, 0},
	} {
		var got []time.Duration
		for _, step := range byName(t, name).Steps {
			got = append(got, step.Delay)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: delays %v, want %v", name, got, want)
		}
	}
}

func TestSelect(t *testing.T) {
	shown, err := Select(nil)
	if got := Names(shown); err != nil || !slices.Equal(got, []string{"cards", "approval", "provider_error", "kill_today", "one_tool", "parallel_tools", "model_imitates", "think_tags", "crash_in_tool", "kill"}) {
		t.Errorf("by default: %v, error %v", got, err)
	}
	chosen, err := Select([]string{"plain", "kill"})
	if got := Names(chosen); err != nil || !slices.Equal(got, []string{"plain", "kill"}) {
		t.Errorf("chosen: %v, error %v", got, err)
	}
	if _, err = Select([]string{"nope"}); err == nil || !strings.Contains(err.Error(), `"nope"`) || !strings.Contains(err.Error(), "one_tool, ") {
		t.Errorf("unknown: error %v, want one that lists the names", err)
	}
}
