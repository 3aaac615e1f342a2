package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// held is what the open idle streams of one process take.
type held struct {
	bytes  float64 // resident, for each stream
	idle   float64 // resident before the first, in all
	report report
}

// hold opens n streams in front of a fresh process of the variant, waits for d, in
// which their clients get keepalives, and looks at what the process has.
func hold(c caddy, v variant, work, upstream string, n int, d time.Duration) (h held, err error) {
	p, err := c.start(v, filepath.Join(work, v.name), upstream, "off")
	if err != nil {
		return h, err
	}
	defer p.stop()
	pid := p.cmd.Process.Pid
	before := residentOf(pid)
	l, err := startLoad(job{
		Target: p.target, Streams: n, Kind: clean, Chunks: 20, Every: 50 * time.Millisecond, End: endsNever,
		Spread: time.Duration(n) * 2 * time.Millisecond,
	})
	if err != nil {
		return h, err
	}
	if err := l.opened(); err != nil {
		kill(l.cmd)
		return h, err
	}
	time.Sleep(d)
	h.idle = float64(before)
	h.bytes = float64(residentOf(pid)-before) / float64(n)
	l.in.Close()
	if h.report, err = l.finish(); err != nil {
		return h, err
	}
	if h.report.Wrong > 0 {
		return h, fmt.Errorf("%d of %d streams are wrong, such as: %v", h.report.Wrong, n, h.report.Errors)
	}
	return h, nil
}

// weighed is what rounds of both say of n streams.
type weighed struct {
	streams, rounds int
	ratio, scatter  float64 // of bytes for a stream
	floor, plugin   float64 // kB for a stream, medians
}

// weigh does the rounds, one process after the other, in turned order.
func weigh(c caddy, work, upstream string, n, rounds int, d time.Duration) (w weighed, err error) {
	var ratios, floors, plugins []float64
	for i := range rounds {
		order := []variant{floor, plugin}
		if i%2 == 1 {
			order = []variant{plugin, floor}
		}
		by := make(map[string]float64)
		for _, v := range order {
			h, err := hold(c, v, work, upstream, n, d)
			if err != nil {
				return w, fmt.Errorf("%s with %d streams: %w", v.name, n, err)
			}
			by[v.name] = h.bytes / 1000
		}
		ratios = append(ratios, by[plugin.name]/by[floor.name])
		floors, plugins = append(floors, by[floor.name]), append(plugins, by[plugin.name])
	}
	w.streams, w.rounds = n, rounds
	w.ratio, w.scatter = median(ratios)
	w.floor, _ = median(floors)
	w.plugin, _ = median(plugins)
	return w, nil
}
