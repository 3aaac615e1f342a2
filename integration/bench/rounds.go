package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// pair is floor and plugin, both running, in front of one backend.
type pair struct{ floor, plugin *proxyProcess }

// startPair starts the variant base as the floor and, beside it, the variant v: which of
// them first is the other way round in every other pair.
func startPair(s stage, base, v variant, i int) (p pair, err error) {
	order := []struct {
		v    variant
		dir  string
		into **proxyProcess
	}{{base, "/floor", &p.floor}, {v, "/beside", &p.plugin}}
	if i%2 == 1 {
		slices.Reverse(order)
	}
	for _, o := range order {
		if *o.into, err = s.caddy.start(o.v, s.work+o.dir, s.backend.addr, "off"); err != nil {
			p.stop()
			return p, err
		}
	}
	return p, nil
}

func (p pair) stop() {
	for _, x := range []*proxyProcess{p.floor, p.plugin} {
		if x != nil {
			x.stop()
		}
	}
}

// measured is what one round says of a proxy.
type measured struct {
	report
	cpu time.Duration // for each chunk of upstream's
}

// measure does the job with the proxy, and looks at its CPU clock before and after.
func (p *proxyProcess) measure(j job) (m measured, err error) {
	j.Target = p.target
	before := p.cpu()
	if m.report, err = run(j); err != nil {
		return m, err
	}
	m.cpu = (p.cpu() - before) / time.Duration(j.Streams*(j.Chunks+2))
	return m, nil
}

// cpu returns the CPU time that the proxy has taken, 0 for none.
func (p *proxyProcess) cpu() time.Duration {
	if p.cmd == nil {
		return 0
	}
	return cpuOf(p.cmd.Process.Pid)
}

// failed is the error of a job in which a stream was wrong.
func (r report) failed() error {
	if r.Wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d streams are wrong, such as: %v", r.Wrong, r.Streams, r.Errors)
}

// compared is what rounds of both say. They share the core at the same time, so that
// what else goes on in the machine meets both alike.
type compared struct {
	ratio, ratioScatter float64 // of CPU times
	floorCPU, pluginCPU float64 // µs for a chunk, medians
	added, addedScatter float64 // µs, of the median latencies of a round
	floorLatency        float64 // µs, median
	writes              float64 // that clients saw for a chunk of upstream's, the most of a round
}

// roundsOfPair is how many rounds two processes do. What one costs depends a little
// on how its memory happens to lie, so that more rounds of the same two would only
// tell that better.
const roundsOfPair = 3

// compare does n rounds of the job with the variants base and v at once.
func (s stage) compare(base, v variant, j job, n int) (c compared, err error) {
	var t tally
	for i := 0; i*roundsOfPair < n; i++ {
		p, err := startPair(s, base, v, i)
		if err != nil {
			return c, err
		}
		err = p.rounds(j, min(roundsOfPair, n-i*roundsOfPair), &t)
		p.stop()
		if err != nil {
			return c, err
		}
	}
	return t.compared(), nil
}

// tally is what the rounds of all pairs say.
type tally struct{ ratios, floors, plugins, added, base, writes []float64 }

func (t *tally) compared() (c compared) {
	c.ratio, c.ratioScatter = median(t.ratios)
	c.added, c.addedScatter = median(t.added)
	c.floorCPU, _ = median(t.floors)
	c.pluginCPU, _ = median(t.plugins)
	c.floorLatency, _ = median(t.base)
	c.writes = slices.Max(t.writes)
	return c
}

// rounds does n rounds, and one before them that does not count.
func (p pair) rounds(j job, n int, t *tally) error {
	for i := range n + 1 {
		var f, g measured
		var ferr, gerr error
		var both sync.WaitGroup
		both.Go(func() { f, ferr = p.floor.measure(j) })
		both.Go(func() { g, gerr = p.plugin.measure(j) })
		both.Wait()
		if err := errors.Join(ferr, gerr, f.failed(), g.failed()); err != nil {
			return err
		}
		if tools := j.Streams * marksIn(j); g.Kept > 0 || g.Tools != tools {
			return fmt.Errorf("%d tools of %d, and %d markers stayed", g.Tools, tools, g.Kept)
		}
		if i == 0 {
			continue
		}
		t.ratios = append(t.ratios, float64(g.cpu)/float64(f.cpu))
		t.floors, t.plugins = append(t.floors, micros(f.cpu)), append(t.plugins, micros(g.cpu))
		t.added, t.base = append(t.added, micros(g.P50-f.P50)), append(t.base, micros(f.P50))
		t.writes = append(t.writes, float64(g.HTTPChunks)/float64(j.Streams*(j.Chunks+2)))
	}
	return nil
}

// marksIn returns how many markers a stream of the job has.
func marksIn(j job) (n int) {
	s := scenario{kind: j.Kind}
	for i := range j.Chunks {
		if s.marks(i) {
			n++
		}
	}
	return n
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
