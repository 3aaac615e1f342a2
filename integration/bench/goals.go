package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// goals says how long the measurements take.
type goals struct {
	stage
	rounds int
	length time.Duration
	weighs int
	idle   time.Duration
	only   string
	bench  string // how long a benchmark runs each time, as go test takes it

	all, over int // results, and those over their budget
}

// goalsCommand measures what has a budget, and fails if a budget is exceeded.
func goalsCommand(f *flag.FlagSet) func(stage) error {
	g := &goals{bench: "0.5s"}
	f.IntVar(&g.rounds, "rounds", 18, "rounds of floor and plugin for each load")
	f.DurationVar(&g.length, "length", 6*time.Second, "of a round's streams")
	f.IntVar(&g.weighs, "weighs", 3, "rounds of floor and plugin for memory")
	f.DurationVar(&g.idle, "idle", 15*time.Second, "how long streams are idle before their memory is measured")
	f.StringVar(&g.only, "only", "", "histories, queue, cpu, opening, flat, resume, noise, memory or crowd; nothing for all")
	return func(s stage) error {
		g.stage = s
		return g.run()
	}
}

func (g *goals) run() error {
	fmt.Println("| | measured | scatter | budget | |\n| --- | --- | --- | --- | --- |")
	for _, part := range []struct {
		name    string
		measure func() error
	}{
		{"histories", g.histories}, {"queue", g.queue}, {"cpu", g.cpu}, {"opening", g.opening}, {"flat", g.flat},
		{"resume", g.resume}, {"noise", g.noise}, {"memory", g.memory}, {"crowd", g.crowd},
	} {
		if g.only != "" && !strings.Contains(g.only, part.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, part.name)
		if err := part.measure(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if g.over > 0 {
		return fmt.Errorf("%d of %d results are over their budget", g.over, g.all)
	}
	return nil
}

// A result is a measurement and its budget.
type result struct {
	what    string
	value   float64
	scatter float64 // half the distance between the quartiles of the rounds
	limit   float64 // the most that it may be, noBudget if there is none
	unit    string
	beside  string // the numbers of a ratio
}

// noBudget is the limit of a measurement without a budget.
const noBudget = -1

// report prints a result, and counts it.
func (g *goals) report(r result) {
	limit, mark := "", ""
	if r.limit != noBudget {
		limit = number(r.limit) + r.unit
		if r.value > r.limit {
			mark = "**over**"
			g.over++
		}
	}
	g.all++
	fmt.Printf("| %s | %s%s | %s | %s | %s |\n", r.what, number(r.value), r.unit, number(r.scatter), limit, strings.TrimSpace(r.beside+" "+mark))
}

// number prints three decimals of a number below ten, and none of a larger one.
func number(v float64) string {
	if v < 10 && v > -10 {
		return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
	}
	return fmt.Sprintf("%.0f", v)
}

// roundsOfPair is how many rounds two processes do. The result depends a little on where the
// memory of a process happens to lie, which more rounds of the same two would not average out.
const roundsOfPair = 3

// pairs runs both variants in front of one backend, for n rounds. They share the core at the same
// time, so that other work on the machine affects both alike. New processes take their places after
// some rounds, and start in the other order. It calls round for each round, and once before them,
// with counts false.
func (g *goals) pairs(variants [2]variant, n int, round func(both [2]running, counts bool) error) (err error) {
	for i := 0; i*roundsOfPair < n && err == nil; i++ {
		var both [2]running
		for k := range both {
			if at := (i + k) % 2; err == nil {
				both[at], err = g.start(variants[at])
			}
		}
		for k := 0; err == nil && k <= min(roundsOfPair, n-i*roundsOfPair); k++ {
			err = round(both, k > 0)
		}
		both[0].stop()
		both[1].stop()
	}
	return err
}

// A comparison has numbers of rounds: CPU times of a chunk and latencies in µs, and how many writes
// clients saw for a chunk.
type comparison struct{ floors, plugins, added, base, writes []float64 }

// compare does rounds of the job with both variants at once.
func (g *goals) compare(variants [2]variant, j job) (c comparison, err error) {
	return c, g.pairs(variants, g.rounds, func(both [2]running, counts bool) error {
		var reports [2]report
		var cpu [2]time.Duration
		var wg sync.WaitGroup
		for i := range both {
			wg.Go(func() { reports[i], cpu[i] = both[i].measure(j) })
		}
		wg.Wait()
		floor, ours := reports[0], reports[1]
		if err := errors.Join(floor.failed(), ours.failed()); err != nil {
			return err
		}
		if tools := j.Streams * j.Scenario.markers(); variants[1] != variants[0] && (ours.Kept > 0 || ours.Tools != tools) {
			return fmt.Errorf("%d tools of %d, and %d markers stayed", ours.Tools, tools, ours.Kept)
		}
		if counts {
			c.floors, c.plugins = append(c.floors, micros(cpu[0])), append(c.plugins, micros(cpu[1]))
			c.added, c.base = append(c.added, micros(ours.P50-floor.P50)), append(c.base, micros(floor.P50))
			c.writes = append(c.writes, float64(ours.HTTPChunks)/float64(j.chunks()))
		}
		return nil
	})
}

// reportRatio reports the median of the rounds' ratios, beside the medians of their parts, which are
// printed so many times as large.
func (g *goals) reportRatio(what string, floors, ours []float64, limit, times float64, unit string) {
	var ratios []float64
	for i, base := range floors {
		ratios = append(ratios, ours[i]/base)
	}
	ratio, scatter := median(ratios)
	f, _ := median(floors)
	o, _ := median(ours)
	g.report(result{what, ratio, scatter, limit, "", fmt.Sprintf("%.2f and %.2f %s", f*times, o*times, unit)})
}

// reportAdded reports the median of added times, beside that of the times that they are added to.
func (g *goals) reportAdded(what string, added, to []float64, limit float64) {
	middle, scatter := median(added)
	base, _ := median(to)
	g.report(result{what, middle, scatter, limit, " µs", fmt.Sprintf("to %.0f µs", base)})
}

// chunks compares CPU and latency of a chunk of streams at the pace of a model.
func (g *goals) chunks(what string, base, v variant, k kind, limit float64) (c comparison, err error) {
	const every = 10 * time.Millisecond
	s := scenario{Kind: k, Chunks: int(g.length / every), Every: every, End: endsWell}
	c, err = g.compare([2]variant{base, v}, job{Streams: 25, Scenario: s, Spread: 100 * time.Millisecond})
	if err == nil {
		g.reportRatio("CPU of a chunk, "+what, c.floors, c.plugins, limit, 1, "µs")
		g.reportAdded("added latency of a chunk, "+what, c.added, c.base, noBudget)
	}
	return c, err
}

// noise compares the floor with itself.
func (g *goals) noise() error {
	_, err := g.chunks("the floor beside itself", floor, floor, clean, noBudget)
	return err
}

// cpu measures CPU, latency and writes of a chunk.
func (g *goals) cpu() error {
	for _, load := range []struct {
		kind  kind
		what  string
		limit float64
	}{{clean, "a clean stream", 1.08}, {markers, "a marker every 20 chunks", 1.10}} {
		c, err := g.chunks(load.what, floor, plugin, load.kind, load.limit)
		if err != nil {
			return err
		}
		g.report(result{"writes for a chunk, " + load.what, slices.Max(c.writes), 0, 1, "", ""})
	}
	return nil
}

// resume measures hermes_resume beside hermes alone: with requests that do not ask for it, and
// with one reader for each.
func (g *goals) resume() error {
	_, err := g.chunks("hermes_resume not asked for", plugin, idleResume, clean, noBudget)
	if err == nil {
		_, err = g.chunks("hermes_resume with one reader", plugin, resume, clean, 1.20)
	}
	return err
}

// opening measures CPU time of a stream beside its chunks, and the time to the first byte.
func (g *goals) opening() error {
	short := job{Streams: 400, Scenario: scenario{Kind: clean, Chunks: 1, End: endsWell}, Spread: 2 * time.Second}
	variants := [2]variant{floor, plugin}
	c, err := g.compare(variants, short)
	if err != nil {
		return err
	}
	chunks := float64(short.Scenario.Chunks + 2)
	g.reportRatio("CPU of a stream with one chunk, from its opening to its end", c.floors, c.plugins, 1.22, chunks, "µs")
	var base, added []float64
	err = g.pairs(variants, g.rounds, func(both [2]running, counts bool) error {
		to, more, err := firstBytes(both[0].target, both[1].target, 300)
		if counts {
			base, added = append(base, micros(to)), append(added, micros(more))
		}
		return err
	})
	if err == nil {
		g.reportAdded("added time to the first byte of a stream", added, base, 50)
	}
	return err
}

// flat measures the CPU time of a chunk of streams that come as fast as the proxy is.
func (g *goals) flat() error {
	const chunks = 200_000 // of a round
	for _, n := range []int{1_000, 10_000, 100_000} {
		s := scenario{Kind: markers, Chunks: n, End: endsWell, Flat: true}
		c, err := g.compare([2]variant{floor, plugin}, job{Streams: chunks / n, Scenario: s, Spread: time.Second / 2})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("CPU of a chunk, flat out, streams of %d with a marker every 20", n)
		g.reportRatio(what, c.floors, c.plugins, 3.5, 1, "µs")
	}
	return nil
}

// memory measures what an open idle stream takes, one process after the other, each round in
// another order.
func (g *goals) memory() error {
	variants := []variant{floor, plugin, quiet}
	for _, n := range []int{2000, min(9900, mostStreams()-200)} { // connections of the parts before may linger
		held := map[string][]float64{}
		for i := range g.weighs {
			for k := range variants {
				v := variants[(i+k)%len(variants)]
				w, err := g.hold(v, n)
				if err != nil {
					return fmt.Errorf("%s with %d streams: %w", v.name, n, err)
				}
				held[v.name] = append(held[v.name], w)
			}
		}
		for _, v := range variants[1:] {
			what := fmt.Sprintf("resident bytes of an idle stream, %s, %d streams", v.name, n)
			g.reportRatio(what, held[floor.name], held[v.name], 1.08, 1, "kB")
		}
	}
	return nil
}

// hold opens n streams in front of a fresh process, waits while their clients may get
// keepalives, and returns what each of them takes, in kB. They are opened slowly: how many are
// opened at once decides which goroutines begin on the large stacks of others that have ended.
func (g *goals) hold(v variant, n int) (each float64, err error) {
	o, err := g.start(v)
	if err != nil {
		return 0, err
	}
	defer o.stop()
	before, err := o.weigh()
	if err != nil {
		return 0, err
	}
	j := job{Target: o.target, Streams: n, Scenario: scenario{Kind: clean, Chunks: 20, Every: 50 * time.Millisecond}, Spread: time.Duration(n) * 2 * time.Millisecond}
	err = whileOpen(j, func() error {
		time.Sleep(g.idle)
		after, err := o.weigh()
		each = (after - before) / 1000 / float64(n)
		return err
	})
	return each, err
}

// crowd measures the most memory that the sidecar takes with as many open streams as the limits
// of the deployments are made for, under the limit of the chart, the lowest of all in deploy:
// Caddy sets GOMEMLIMIT to nine tenths of it.
func (g *goals) crowd() error {
	const streams = 1000
	limit, err := chartLimit()
	if err != nil {
		return err
	}
	s := g.stage
	s.caddy = caddy{filepath.Join(g.work, "hermes-sidecar"), []string{fmt.Sprintf("GOMEMLIMIT=%d", limit/10*9)}}
	if err := build(s.caddy.binary, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-tags", "nobadger,nomysql,nopgx", "./cmd/hermes-sidecar"); err != nil {
		return err
	}
	p, err := s.start(plugin)
	if err != nil {
		return err
	}
	defer p.stop()
	j := job{Target: p.target, Streams: streams, History: 100_000, Scenario: scenario{Kind: clean, Chunks: 30, Every: time.Second}, Spread: 10 * time.Second}
	return whileOpen(j, func() error {
		most := float64(peakOf(p.cmd.Process.Pid))
		g.report(result{fmt.Sprintf("most resident bytes with %d streams, of the chart's limit", streams), most / float64(limit), 0, 0.75, "",
			fmt.Sprintf("%.0f of %.0f MB", most/1e6, float64(limit)/1e6)})
		return nil
	})
}

// chartLimit returns the sidecar's limit of memory in the chart, in bytes.
func chartLimit() (int64, error) {
	const name = "../deploy/kubernetes/chart/values.yaml"
	values, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?ms)^sidecar:$.*?^    limits: \{memory: (\d+)Mi\}$`).FindSubmatch(values)
	if found == nil {
		return 0, fmt.Errorf("%s has no limit of the sidecar's memory in Mi", name)
	}
	mebibytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	return mebibytes << 20, err
}

// historyBudgets are rows of BenchmarkHistory in package rewrite, in milliseconds for a megabyte
// of a request.
var historyBudgets = []struct {
	benchmark, what string
	limit           float64
}{
	{"nothing", "nothing to heal", 0.5},
	{"code", "code and nothing to heal", 0.5},
	{"markers", "code and 200 markers", 2},
	{"records", "code and a record for every fourth answer", 8},
}

// benchmark runs benchmarks of packages so many times, and returns what go test prints.
func (g *goals) benchmark(names string, count int, packages ...string) (string, error) {
	flags := []string{"test", "-run", "^$", "-bench", names, "-count", strconv.Itoa(count), "-benchtime", g.bench, "-cpu", "1"}
	cmd := exec.Command("go", append(flags, packages...)...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return string(out), nil
}

// queue measures what hermes_queue adds to a request for which a place is free. That is too little to
// be seen from the outside: it takes both rows of a benchmark in turns, so that other work on the
// machine affects both alike.
func (g *goals) queue() error {
	var alone, added []float64
	for range g.rounds {
		out, err := g.benchmark("^BenchmarkQueue$", 1, "./caddymodule")
		if err != nil {
			return err
		}
		took := map[string]float64{}
		for _, m := range regexp.MustCompile(`(?m)^BenchmarkQueue/(\w+)\s+\d+\s+([0-9.]+) ns/op`).FindAllStringSubmatch(out, -1) {
			v, _ := strconv.ParseFloat(m[2], 64)
			took[m[1]] = v / 1000
		}
		if took["alone"] == 0 || took["free"] == 0 {
			return fmt.Errorf("no benchmark in\n%s", out)
		}
		alone, added = append(alone, took["alone"]), append(added, took["free"]-took["alone"])
	}
	g.reportAdded("CPU that hermes_queue adds to a request, with a place free", added, alone, 5)
	return nil
}

// histories takes the medians of the benchmark.
func (g *goals) histories() error {
	out, err := g.benchmark("^BenchmarkHistory", min(g.rounds, 5), "./rewrite")
	if err != nil {
		return err
	}
	for _, h := range historyBudgets {
		for _, size := range []string{"100kB", "5MB"} {
			var ms []float64
			for _, m := range regexp.MustCompile(`(?m)^BenchmarkHistory/`+h.benchmark+`_`+size+`\s.*?([0-9.]+) ms/MB`).FindAllStringSubmatch(out, -1) {
				v, _ := strconv.ParseFloat(m[1], 64)
				ms = append(ms, v)
			}
			if len(ms) == 0 {
				return fmt.Errorf("no benchmark %s_%s in\n%s", h.benchmark, size, out)
			}
			middle, scatter := median(ms)
			g.report(result{"a history of " + size + " with " + h.what, middle, scatter, h.limit, " ms a megabyte", ""})
		}
	}
	return nil
}
