package replay

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPageOffersEveryScenarioOnce(t *testing.T) {
	all := PageScenarios()
	var names []string
	for _, o := range offers(all) {
		names = append(names, o.Name)
		if o.Short == "" || o.About == "" || o.Prompt == "" || !strings.HasPrefix(o.Release, "v0.") {
			t.Errorf("%s: %+v", o.Name, o)
		}
	}
	want := Names(all)
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) || len(slices.Compact(want)) != len(names) {
		t.Errorf("offered: %v, there are: %v", names, want)
	}
}

func TestPageKnowsHowManyToolsRan(t *testing.T) {
	for _, o := range offers(PageScenarios()) {
		want := map[string]int{
			"seq_tools": 4, "parallel_tools": 3, "endless_cards": 3, "crash_in_tool": 1, "endless_crash": 1,
			"kill": 1, "slow_tool": 1, "endless_slow": 1, "one_tool": 1,
			"cards": 3, "approval": 1, "kill_today": 3,
		}[o.Name]
		if o.Tools != want {
			t.Errorf("%s: %d tools, want %d", o.Name, o.Tools, want)
		}
	}
}

func TestPageScenariosAreTheRecordedOnes(t *testing.T) {
	for name, file := range map[string]string{
		"endless_cards": "parallel_tools", "endless_slow": "slow_tool", "endless_crash": "crash_in_tool",
	} {
		i := slices.IndexFunc(PageScenarios(), func(s Scenario) bool { return s.Name == name })
		var stream []byte
		for _, step := range PageScenarios()[i].Steps {
			stream = append(stream, step.Frame...)
		}
		if !bytes.Equal(stream, recording(t, "g1-v0.9.0", file)) {
			t.Errorf("%s differs", name)
		}
	}
}

// Tools that have events take their time, comments included; parallel ones
// start at once.
func TestPaceOfToolEvents(t *testing.T) {
	const ms = time.Millisecond
	for name, want := range map[string][]time.Duration{
		"endless_cards": {300 * ms, 40 * ms, 40 * ms, 150 * ms, 0, 0, 800 * ms, 40 * ms, 40 * ms, 0},
		"endless_slow":  {300 * ms, 40 * ms, 40 * ms, 150 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 40 * ms, 0},
	} {
		i := slices.IndexFunc(PageScenarios(), func(s Scenario) bool { return s.Name == name })
		var got []time.Duration
		for _, step := range PageScenarios()[i].Steps {
			got = append(got, step.Delay)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: delays %v, want %v", name, got, want)
		}
	}
}
