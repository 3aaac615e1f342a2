package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
	var code []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`\.(?:find\(|unreachable\(ctx, s, )"([a-z]+)"`).FindAllStringSubmatch(string(b), -1) {
			code = append(code, m[1])
		}
	}
	slices.Sort(code)
	code = slices.Compact(code)
	_, table, _ := strings.Cut(page(t), "\n## The checks\n")
	table, _, _ = strings.Cut(table, "\n**")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if !slices.Equal(code, listed) || len(code) < 10 {
		t.Errorf("the code has %q, the page %q", code, listed)
	}
}

// TestContractHasTheGenerations of the code, and no other.
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
		if rows[i][1] != g.name || strings.ReplaceAll(rows[i][2], "v", "") != g.span.String() {
			t.Errorf("the page has %q, the code %s, %s", rows[i][1:], g.name, g.span)
		}
		if !strings.Contains(strings.Join(strings.Fields(page(t)), " "), g.name+" ("+g.span.String()+")") {
			t.Errorf("docs/doctor.md has no %s (%s)", g.name, g.span)
		}
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

// TestPageHasTheOptions that are suggested, which are not those of the configuration.
func TestPageHasTheOptions(t *testing.T) {
	r := readWhole(rechunked(t, recorded(t, "g0-v0.8.0/one_tool")))
	r.summary.ZeroUsagePassed = true
	set := map[string]bool{}
	for _, o := range options(anyRelease, r, nil) {
		if !strings.Contains(page(t), "| `"+o.Option+"` |") {
			t.Errorf("the page has no %s", o.Option)
		}
		name, _, _ := strings.Cut(o.Option, " ")
		set[name] = true
	}
	if rest := options(anyRelease, r, set); len(set) != 5 || rest == nil || len(rest) != 0 {
		t.Errorf("of %v, %+v", set, rest)
	}
}
