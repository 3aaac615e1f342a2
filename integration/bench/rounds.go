package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// pair is floor and plugin, both running, in front of one backend.
type pair struct{ floor, plugin *proxyProcess }

// startPair starts the floor and, beside it, the variant.
func startPair(s stage, v variant) (p pair, err error) {
	if p.floor, err = s.caddy.start(floor, s.work+"/floor", s.backend.addr, "off"); err != nil {
		return p, err
	}
	if p.plugin, err = s.caddy.start(v, s.work+"/beside", s.backend.addr, "off"); err != nil {
		p.floor.stop()
	}
	return p, err
}

func (p pair) stop() {
	p.floor.stop()
	p.plugin.stop()
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

// compare does n rounds of the job with both at once.
func (p pair) compare(j job, n int) (c compared, err error) {
	var ratios, floors, plugins, added, base []float64
	for range n {
		var f, g measured
		var ferr, gerr error
		var both sync.WaitGroup
		both.Go(func() { f, ferr = p.floor.measure(j) })
		both.Go(func() { g, gerr = p.plugin.measure(j) })
		both.Wait()
		if err := errors.Join(ferr, gerr, f.failed(), g.failed()); err != nil {
			return c, err
		}
		if tools := j.Streams * marksIn(j); g.Kept > 0 || g.Tools != tools {
			return c, fmt.Errorf("%d tools of %d, and %d markers stayed", g.Tools, tools, g.Kept)
		}
		ratios = append(ratios, float64(g.cpu)/float64(f.cpu))
		floors, plugins = append(floors, micros(f.cpu)), append(plugins, micros(g.cpu))
		added, base = append(added, micros(g.P50-f.P50)), append(base, micros(f.P50))
		c.writes = max(c.writes, float64(g.HTTPChunks)/float64(j.Streams*(j.Chunks+2)))
	}
	c.ratio, c.ratioScatter = median(ratios)
	c.added, c.addedScatter = median(added)
	c.floorCPU, _ = median(floors)
	c.pluginCPU, _ = median(plugins)
	c.floorLatency, _ = median(base)
	return c, nil
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
