package replay

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPaceIsThatOfAnAgent(t *testing.T) {
	const ms = time.Millisecond
	for name, want := range map[string][]time.Duration{
		"one_tool":       {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 40 * ms, 40 * ms, 40 * ms, 0},
		"parallel_tools": {300 * ms, 40 * ms, 40 * ms, 150 * ms, 0, 0, 800 * ms, 40 * ms, 40 * ms, 0},
		"crash_in_tool":  {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 0},
		"kill":           {300 * ms, 40 * ms, 40 * ms, 150 * ms, 800 * ms, 40 * ms, 400 * ms},
		"slow_tool":      {300 * ms, 40 * ms, 40 * ms, 150 * ms, 5000 * ms, 40 * ms, 0},
		"cards":          {300 * ms, 40 * ms, 150 * ms, 800 * ms, 150 * ms, 0, 800 * ms, 40 * ms, 40 * ms, 40 * ms, 40 * ms, 0},
		// Tools that have events take their time, comments included.
		"endless_cards": {300 * ms, 40 * ms, 40 * ms, 150 * ms, 0, 0, 800 * ms, 40 * ms, 40 * ms, 0},
		"endless_slow":  {300 * ms, 40 * ms, 40 * ms, 150 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 40 * ms, 0},
		"approval":      {300 * ms, 40 * ms, 150 * ms, 800 * ms, 800 * ms, 40 * ms, 40 * ms, 0},
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

// TestStepsAreTheRecording: those of killed backends are a torn beginning of it.
func TestStepsAreTheRecording(t *testing.T) {
	for _, s := range Scenarios() {
		var stream []byte
		for _, step := range s.Steps {
			stream = append(stream, step.Frame...)
		}
		full, err := recordings.ReadFile("recordings/" + s.Release + "/" + cmp.Or(s.recording, s.Name) + ".sse")
		if err != nil {
			t.Fatal(err)
		}
		if captured := map[string]string{"v0.8.0": "g0-v0.8.0", "v0.9.0": "g1-v0.9.0"}[s.Release]; captured != "" && !bytes.Equal(full, recording(t, captured, cmp.Or(s.recording, s.Name))) {
			t.Errorf("%s: not as it was recorded", s.Name)
		}
		if s.Aborts && (!bytes.HasPrefix(full, stream) || bytes.HasSuffix(stream, []byte("\n")) || s.finish() != "") {
			t.Errorf("%s: %q is no torn beginning of the recording", s.Name, stream)
		}
		if !s.Aborts && !bytes.Equal(stream, full) {
			t.Errorf("%s: the steps are not the recording", s.Name)
		}
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	tools := map[string]int{
		"seq_tools": 4, "parallel_tools": 3, "endless_cards": 3, "crash_in_tool": 1, "endless_crash": 1,
		"kill": 1, "slow_tool": 1, "endless_slow": 1, "one_tool": 1, "cards": 3, "approval": 1, "kill_today": 3,
	}
	names := map[string]bool{}
	for _, s := range Scenarios() {
		if s.Short == "" || s.About == "" || s.Prompt == "" || s.Title == "" || s.Tools != tools[s.Name] || names[s.Name] {
			t.Errorf("%s: %+v", s.Name, s)
		}
		names[s.Name] = true
	}
}
