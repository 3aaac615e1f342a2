package doctor

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestReleases(t *testing.T) {
	for version, want := range map[string]string{
		"0.20.3": "0.20.3", "v0.7.0": "0.7", "0.9": "0.9", "0.21.0rc1": "0.21", "0.18.2.dev3": "0.18.2", "1.0.0": "newer than any known release",
		"dev": "", "": "", "0": "", "x.1.2": "", "0.x": "", "0.1000.0": "", "-1.2.3": "", "0.2.x": "",
	} {
		r, ok := parseRelease(version)
		if ok != (want != "") || ok && (span{r, r}).String() != want {
			t.Errorf("%q: %v, %v", version, span{r, r}, ok)
		}
	}
	for s, want := range map[span]string{
		anyRelease: "every release", {oldest, 16_999}: "up to 0.16", {9_000, newest}: "0.9 and newer", {7_000, 8_999}: "0.7 and 0.8",
		{9_000, 11_999}: "0.9 to 0.11", {13_000, 13_999}: "0.13", {oldest, 19_000}: "up to 0.19", {21_004, 21_999}: "0.21.4 and later 0.21", {18_000, 21_003}: "0.18 to 0.21.3", {19_001, newest}: "0.19.1 and newer",
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestGenerationsOfVersions: agents are known by their version, and by the stream where that says
// nothing. A stream that contradicts the version is told.
func TestGenerationsOfVersions(t *testing.T) {
	for _, c := range []struct {
		dir, scenario, version, want string
	}{
		{"g0-v0.8.0", "", "", "G-1 G0 G1 G2"},
		{"g3-v0.20.3", "", "", "G3"}, // as it was recorded
		{"g3-v0.20.3", "", "dev", "G2 G3 G4 G5"},
		{"g4-transcribed", "reasoning_tools", "0.21.3", "G3"},
		{"g4-transcribed", "reasoning_tools", "0.21.4", "G4"},
		{"g4-transcribed", "reasoning_tools", "0.21.5.post2", "G4"},
		{"g4-transcribed", "reasoning_tools", "0.22.2.post1", "G5"},
		{"g4-transcribed", "reasoning_tools", "1.2.3", "G5"},
		{"g4-transcribed", "reasoning_tools", "dev", "G4 G5"},
		{"g0-v0.8.0", "one_tool", "0.20.3", "G3"},
	} {
		f := &fake{dir: c.dir, scenario: c.scenario, serve: map[string]http.HandlerFunc{"/v1/models": status(200, "", "", "{}")}}
		if c.version != "" {
			f.serve["/health"] = status(200, "", "", `{"platform": "hermes-agent", "version": "`+c.version+`"}`)
		}
		d := testDoctor(f.start(t), "")
		d.ask = c.scenario != ""
		a := d.examined(t)
		if got := strings.Join(a.Generations, " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		if seen, _ := f.requests(); slices.Contains(seen, "POST "+chatPath) != d.ask {
			t.Errorf("%+v: %q", c, seen)
		}
		repaired := slices.ContainsFunc(a.Repairs, func(r Repair) bool { return strings.HasPrefix(r.Upstream, "hermes.status") })
		contradicts := strings.Contains(newReport(a).text(), "it also does what these releases do not: a tool marker")
		if contradicts != (c.scenario == "one_tool") {
			t.Errorf("%+v: %+v", c, a.Findings)
		}
		if newer := strings.Contains(c.want, "G4") || strings.Contains(c.want, "G5"); repaired != newer {
			t.Errorf("%+v: %+v", c, a.Repairs)
		}
	}
}

// TestContractHasTheGenerations of the code, and no other. They are in a row: each release is of one.
func TestContractHasTheGenerations(t *testing.T) {
	b, err := os.ReadFile("../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (G-?\d) \| (.*?) \|`).FindAllStringSubmatch(string(b), -1)
	if len(rows) != len(generations) {
		t.Errorf("%d of %d", len(rows), len(generations))
	}
	for i, g := range generations[:min(len(rows), len(generations))] {
		if i > 0 && g.span.from != generations[i-1].span.to+1 {
			t.Errorf("%s does not follow %s", g.span, generations[i-1].span)
		}
		if rows[i][1] != g.name || strings.ReplaceAll(rows[i][2], "v", "") != g.span.String() {
			t.Errorf("the page has %q, the code %s, %s", rows[i][1:], g.name, g.span)
		}
		if !strings.Contains(strings.Join(strings.Fields(page(t)), " "), g.name+" ("+g.span.String()+")") {
			t.Errorf("docs/doctor.md has no %s (%s)", g.name, g.span)
		}
	}
}
