package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// engineGoals are the benchmarks of package rewrite that are goals.
var engineGoals = []struct {
	benchmark, what string
	ns, allocs      float64
}{
	{"GoalUntouched/prose", "an untouched frame", 120, 0},
	{"GoalUntouched/varied", "untouched frames of all kinds", 120, 0},
	{"GoalUntouched/newline", "an untouched frame that ends in a newline", 120, 0},
	{"GoalUntouched/code", "an untouched frame with code", 120, 0},
	{"GoalUntouched/line", "an untouched frame that begins a line", 120, 0},
	{"GoalUntouched/reasoning", "an untouched frame of reasoning", 120, 0},
	{"GoalEdited/marker", "a marker, for which two events leave", 600, 1},
	{"GoalEdited/marker_behind_text", "a marker and the text before it, each", 600, 1},
	{"GoalEdited/stripped", "a frame of a marker that is stripped", 600, 1},
	{"GoalEdited/reasoning", "a frame with reasoning between tags", 600, 1},
	{"GoalEvent", "a tool event", 600, 1},
	{"GoalEdited/event", "a tool event without id, for which two leave", 600, 1},
	{"GoalLast/stop", "the last two frames, each", 600, 1},
	{"GoalLast/crash", "the last frames of a crash, each", 600, 1},
	{"GoalLast/error", "the last frames of an error with upstream's message, each", 600, 1},
}

// historyGoals are the benchmarks of healing a history, measured in copies of it.
var historyGoals = []struct {
	benchmark, what string
	copies          float64
}{
	{"GoalHistory/nothing_100kB", "a history of 100 kB with nothing to heal", 1.3},
	{"GoalHistory/nothing_5MB", "a history of 5 MB with nothing to heal", 1.3},
	{"GoalHistory/code_100kB", "a history of 100 kB with code and nothing to heal", 1.3},
	{"GoalHistory/code_5MB", "a history of 5 MB with code and nothing to heal", 1.3},
	{"GoalHistory/markers_100kB", "a history of 100 kB with 200 markers", 3},
	{"GoalHistory/markers_5MB", "a history of 5 MB with 200 markers", 3},
}

// measureEngine runs those benchmarks n times, and takes the medians.
func measureEngine(n int) (results []result, err error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkGoal", "-count", strconv.Itoa(n), "-benchtime", "0.5s", "-cpu", "1", "./rewrite")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("the benchmarks of the engine: %w\n%s", err, out)
	}
	for _, g := range engineGoals {
		var ns, allocs []float64
		for _, m := range regexp.MustCompile(`(?m)^Benchmark`+g.benchmark+`\s.*?(\S+) allocs/frame.*?(\S+) ns/frame$`).FindAllStringSubmatch(string(out), -1) {
			a, _ := strconv.ParseFloat(m[1], 64)
			t, _ := strconv.ParseFloat(m[2], 64)
			allocs, ns = append(allocs, a), append(ns, t)
		}
		if len(ns) == 0 {
			return nil, fmt.Errorf("no benchmark %s in\n%s", g.benchmark, out)
		}
		r := result{what: "engine: " + g.what, limit: g.ns, unit: " ns"}
		r.value, r.scatter = median(ns)
		results = append(results, r)
		r = result{what: "engine: " + g.what + ", allocations", limit: g.allocs}
		r.value, r.scatter = median(allocs)
		results = append(results, r)
	}
	for _, g := range historyGoals {
		var copies []float64
		for _, m := range regexp.MustCompile(`(?m)^Benchmark`+g.benchmark+`\s.*?(\S+) copies`).FindAllStringSubmatch(string(out), -1) {
			c, _ := strconv.ParseFloat(m[1], 64)
			copies = append(copies, c)
		}
		if len(copies) == 0 {
			return nil, fmt.Errorf("no benchmark %s in\n%s", g.benchmark, out)
		}
		r := result{what: "engine: " + g.what, limit: g.copies, unit: " copies"}
		r.value, r.scatter = median(copies)
		results = append(results, r)
	}
	return results, nil
}
