package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// historyBudgets are the rows of BenchmarkHistory in package rewrite, in milliseconds for
// a megabyte of a request.
var historyBudgets = []struct {
	benchmark, what string
	limit           float64
}{
	{"nothing_100kB", "a history of 100 kB with nothing to heal", 0.5},
	{"nothing_5MB", "a history of 5 MB with nothing to heal", 0.5},
	{"code_100kB", "a history of 100 kB with code and nothing to heal", 0.5},
	{"code_5MB", "a history of 5 MB with code and nothing to heal", 0.5},
	{"markers_100kB", "a history of 100 kB with code and 200 markers", 2},
	{"markers_5MB", "a history of 5 MB with code and 200 markers", 2},
}

// measureHistories runs the benchmark n times, and takes the medians.
func measureHistories(n int) (results []result, err error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkHistory", "-count", strconv.Itoa(n), "-benchtime", "0.5s", "-cpu", "1", "./rewrite")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("the benchmark of histories: %w\n%s", err, out)
	}
	for _, h := range historyBudgets {
		var ms []float64
		for _, m := range regexp.MustCompile(`(?m)^BenchmarkHistory/`+h.benchmark+`\s.*?(\S+) ms/MB`).FindAllStringSubmatch(string(out), -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				return nil, fmt.Errorf("the benchmark of histories: %w", err)
			}
			ms = append(ms, v)
		}
		if len(ms) == 0 {
			return nil, fmt.Errorf("no benchmark %s in\n%s", h.benchmark, out)
		}
		r := result{what: h.what, limit: h.limit, unit: " ms a megabyte"}
		r.value, r.scatter = median(ms)
		results = append(results, r)
	}
	return results, nil
}
