package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// goals says what is measured, and for how long.
type goals struct {
	rounds int
	length time.Duration
	weighs int
	idle   time.Duration
	only   string
}

func goalFlags(f *flag.FlagSet) *goals {
	g := new(goals)
	f.IntVar(&g.rounds, "rounds", 24, "rounds of floor and plugin for each load")
	f.DurationVar(&g.length, "length", 6*time.Second, "of a round's streams")
	f.IntVar(&g.weighs, "weighs", 3, "rounds of floor and plugin for memory")
	f.DurationVar(&g.idle, "idle", 15*time.Second, "how long streams are idle before their memory is looked at")
	f.StringVar(&g.only, "only", "", "histories, cpu, opening, flat, resume, noise, memory or crowd; nothing for all")
	return g
}

// runGoals measures what has a budget, and fails if a budget is exceeded.
func runGoals(g *goals) error {
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.close()
	var all []result
	for _, part := range []struct {
		name    string
		measure func() ([]result, error)
	}{
		{"histories", func() ([]result, error) { return measureHistories(min(g.rounds, 5)) }},
		{"cpu", func() ([]result, error) { return g.cpu(s) }},
		{"opening", func() ([]result, error) { return g.opening(s) }},
		{"flat", func() ([]result, error) { return g.flat(s) }},
		{"resume", func() ([]result, error) { return g.resume(s) }},
		{"noise", func() ([]result, error) { return g.noise(s) }},
		{"memory", func() ([]result, error) { return g.memory(s) }},
		{"crowd", func() ([]result, error) { return crowd(s) }},
	} {
		if g.only != "" && !strings.Contains(g.only, part.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, part.name)
		results, err := part.measure()
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		printResults(results)
		all = append(all, results...)
	}
	return checkBudgets(all)
}

// loads are the streams that the CPU time of a chunk is measured with.
var loads = []struct {
	kind  kind
	what  string
	limit float64
}{
	{clean, "a clean stream", 1.06},
	{markers, "a marker every 20 chunks", 1.10},
}

// load returns a round of streams.
func (g *goals) load(k kind) job {
	const every = 10 * time.Millisecond
	return job{
		Streams: 25, Kind: k, Chunks: int(g.length / every), Every: every,
		End: endsWell, Spread: 100 * time.Millisecond,
	}
}

// noise compares the floor with itself: what is measured then is the harness.
func (g *goals) noise(s stage) ([]result, error) {
	r, err := s.compare(floor, floor, g.load(clean), g.rounds)
	if err != nil {
		return nil, err
	}
	return []result{
		{"the floor beside itself: CPU of a chunk", r.ratio, r.ratioScatter, noBudget, "", fmt.Sprintf("%.1f and %.1f µs", r.floorCPU, r.pluginCPU)},
		{"the floor beside itself: added latency", r.added, r.addedScatter, noBudget, " µs", ""},
	}, nil
}

// cpu measures CPU, latency and writes for a chunk.
func (g *goals) cpu(s stage) (results []result, err error) {
	for _, load := range loads {
		r, err := s.compare(floor, plugin, g.load(load.kind), g.rounds)
		if err != nil {
			return nil, err
		}
		results = append(results,
			result{"CPU of a chunk, " + load.what, r.ratio, r.ratioScatter, load.limit, "", fmt.Sprintf("%.1f and %.1f µs", r.floorCPU, r.pluginCPU)},
			result{"added latency of a chunk, " + load.what, r.added, r.addedScatter, noBudget, " µs", fmt.Sprintf("to %.0f µs", r.floorLatency)},
			result{"writes for a chunk, " + load.what, r.writes, 0, 1, "", ""})
	}
	return results, nil
}

// opening measures what a stream costs around its chunks: CPU from its opening to its end,
// and the time to the first byte.
func (g *goals) opening(s stage) ([]result, error) {
	short := job{Streams: 400, Kind: clean, Chunks: 1, End: endsWell, Spread: 2 * time.Second}
	r, err := s.compare(floor, plugin, short, g.rounds)
	if err != nil {
		return nil, err
	}
	first, err := s.firstByte(g.rounds)
	if err != nil {
		return nil, err
	}
	perStream := float64(short.Chunks + 2)
	return []result{{
		"CPU of a stream with one chunk, from its opening to its end", r.ratio, r.ratioScatter, 1.22, "",
		fmt.Sprintf("%.0f and %.0f µs", r.floorCPU*perStream, r.pluginCPU*perStream),
	}, first}, nil
}

// flat measures CPU for a chunk of streams that come as fast as the proxy is.
func (g *goals) flat(s stage) (results []result, err error) {
	const chunks = 200_000 // of a round
	for _, n := range []int{1_000, 10_000, 100_000} {
		j := job{Streams: chunks / n, Kind: markers, Chunks: n, End: endsWell, Flat: true, Spread: time.Second / 2}
		r, err := s.compare(floor, plugin, j, g.rounds)
		if err != nil {
			return nil, err
		}
		results = append(results, result{
			fmt.Sprintf("CPU of a chunk, flat out, streams of %d with a marker every 20", n), r.ratio, r.ratioScatter, 1.75, "",
			fmt.Sprintf("%.2f and %.2f µs", r.floorCPU, r.pluginCPU),
		})
	}
	return results, nil
}

// resume measures hermes_resume beside hermes alone: with requests that do not ask for it,
// and with one reader for each.
func (g *goals) resume(s stage) (results []result, err error) {
	for _, c := range []struct {
		what  string
		v     variant
		limit float64
	}{{"not asked for", idleResume, noBudget}, {"with one reader", resume, 1.20}} {
		r, err := s.compare(plugin, c.v, g.load(clean), g.rounds)
		if err != nil {
			return nil, err
		}
		results = append(results,
			result{"hermes_resume " + c.what + ": CPU of a chunk", r.ratio, r.ratioScatter, c.limit, "", fmt.Sprintf("%.1f and %.1f µs", r.floorCPU, r.pluginCPU)},
			result{"hermes_resume " + c.what + ": added latency of a chunk", r.added, r.addedScatter, noBudget, " µs", fmt.Sprintf("to %.0f µs", r.floorLatency)})
	}
	return results, nil
}

// memory measures what an open idle stream takes.
func (g *goals) memory(s stage) (results []result, err error) {
	for _, n := range []int{2000, min(9900, mostStreams())} {
		weighed, err := weigh(s, n, g.weighs, g.idle)
		if err != nil {
			return nil, err
		}
		for _, w := range weighed {
			results = append(results, w.results()...)
		}
	}
	return results, nil
}
