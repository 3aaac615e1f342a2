package main

import (
	"fmt"
	"strings"
)

// result is what has been measured of a goal.
type result struct {
	what    string
	value   float64
	scatter float64 // half the distance between the quartiles of the rounds
	limit   float64 // the most that it may be, noGoal for any
	unit    string
	beside  string // the numbers behind a ratio
}

// noGoal is the limit of what is told beside the goals.
const noGoal = -1

// ratioOf returns the result of rounds that gave the numbers ours beside those of the floor: the
// median of the ratios.
func ratioOf(what string, floor, ours []float64, limit float64, unit string) result {
	ratios := make([]float64, len(floor))
	for i := range ratios {
		ratios[i] = ours[i] / floor[i]
	}
	ratio, scatter := median(ratios)
	f, _ := median(floor)
	o, _ := median(ours)
	return result{what, ratio, scatter, limit, "", fmt.Sprintf("%.1f and %.1f %s", f, o, unit)}
}

// reached reports whether the goal is.
func (r result) reached() bool { return r.limit == noGoal || r.value <= r.limit }

// printResults prints a table.
func printResults(results []result) {
	fmt.Println("\n| goal | measured | scatter | limit | |\n| --- | --- | --- | --- | --- |")
	for _, r := range results {
		mark, limit := "", number(r.limit)+r.unit
		if r.limit == noGoal {
			limit = ""
		}
		if !r.reached() {
			mark = "**missed**"
		}
		fmt.Printf("| %s | %s%s | %s | %s | %s |\n", r.what, number(r.value), r.unit, number(r.scatter), limit, strings.TrimSpace(r.beside+" "+mark))
	}
}

// countMissed returns an error if goals are missed, with their number.
func countMissed(results []result) error {
	missed := 0
	for _, r := range results {
		if !r.reached() {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d goals are missed", missed, len(results))
	}
	return nil
}

// number prints three decimals of a ratio and one of what is larger.
func number(v float64) string {
	if v < 10 && v > -10 {
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
	}
	return fmt.Sprintf("%.0f", v)
}
