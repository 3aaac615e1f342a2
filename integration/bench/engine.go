package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// engineGoals are the benchmarks of package rewrite that are goals.
var engineGoals = []struct {
	benchmark, what string
	ns, allocs      float64
}{
	{"UntouchedFrame", "engine: an untouched frame", 120, 0},
	{"MarkerFrame", "engine: a marker", 600, 1},
	{"ToolEvent", "engine: a tool event", 600, 1},
	{"StrippedText", "engine: text that is stripped", 600, 1},
}

// measureEngine runs those benchmarks n times, and takes the medians.
func measureEngine(n int) (results []result, err error) {
	var names []string
	for _, g := range engineGoals {
		names = append(names, g.benchmark)
	}
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^Benchmark("+strings.Join(names, "|")+")$", "-count", strconv.Itoa(n), "-cpu", "1", "./rewrite")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("the benchmarks of the engine: %w\n%s", err, out)
	}
	for _, g := range engineGoals {
		var ns, allocs []float64
		for _, m := range regexp.MustCompile(`(?m)^Benchmark`+g.benchmark+`\s.*?(\S+) allocs/frame\s+(\S+) ns/frame`).FindAllStringSubmatch(string(out), -1) {
			a, _ := strconv.ParseFloat(m[1], 64)
			t, _ := strconv.ParseFloat(m[2], 64)
			allocs, ns = append(allocs, a), append(ns, t)
		}
		if len(ns) == 0 {
			return nil, fmt.Errorf("no benchmark %s in\n%s", g.benchmark, out)
		}
		r := result{what: g.what, limit: g.ns, unit: " ns"}
		r.value, r.scatter = median(ns)
		results = append(results, r)
		r = result{what: g.what + ", allocations", limit: g.allocs}
		r.value, r.scatter = median(allocs)
		results = append(results, r)
	}
	return results, nil
}
