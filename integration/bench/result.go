package main

import (
	"fmt"
	"strings"
)

// result is a measurement, held against its budget.
type result struct {
	what    string
	value   float64
	scatter float64 // half the distance between the quartiles of the rounds
	limit   float64 // the most that it may be, noBudget if there is none
	unit    string
	beside  string // the numbers behind a ratio
}

// noBudget is the limit of a measurement without a budget.
const noBudget = -1

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

// within reports whether the value is within its budget.
func (r result) within() bool { return r.limit == noBudget || r.value <= r.limit }

// printResults prints a table.
func printResults(results []result) {
	fmt.Println("\n| | measured | scatter | budget | |\n| --- | --- | --- | --- | --- |")
	for _, r := range results {
		mark, limit := "", number(r.limit)+r.unit
		if r.limit == noBudget {
			limit = ""
		}
		if !r.within() {
			mark = "**over**"
		}
		fmt.Printf("| %s | %s%s | %s | %s | %s |\n", r.what, number(r.value), r.unit, number(r.scatter), limit, strings.TrimSpace(r.beside+" "+mark))
	}
}

// checkBudgets returns an error if budgets are exceeded, with their number.
func checkBudgets(results []result) error {
	over := 0
	for _, r := range results {
		if !r.within() {
			over++
		}
	}
	if over > 0 {
		return fmt.Errorf("%d of %d results are over their budget", over, len(results))
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
