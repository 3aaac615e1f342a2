package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// held is what the open idle streams of one process take, each, in kB.
type held struct {
	resident float64 // as the system counts
	live     float64 // of heap and stacks, behind a garbage collection
}

// hold opens n streams in front of a fresh process of the variant, waits for d, in
// which their clients get keepalives, and looks at what the process has.
func hold(s stage, v variant, n int, d time.Duration) (h held, err error) {
	admin, err := freePort()
	if err != nil {
		return h, err
	}
	p, err := s.caddy.start(v, filepath.Join(s.work, v.name), s.backend.addr, admin)
	if err != nil {
		return h, err
	}
	defer p.stop()
	a := adminOf{addr: admin, pid: p.cmd.Process.Pid}
	before, err := a.weigh()
	if err != nil {
		return h, err
	}
	l, err := startLoad(job{
		Target: p.target, Streams: n, Kind: clean, Chunks: 20, Every: 50 * time.Millisecond, End: endsNever,
		Spread: time.Duration(n) * time.Millisecond,
	})
	if err != nil {
		return h, err
	}
	if err := l.opened(); err != nil {
		kill(l.cmd)
		return h, err
	}
	time.Sleep(d)
	after, err := a.weigh()
	l.in.Close()
	r, lerr := l.finish()
	switch {
	case err != nil:
		return h, err
	case lerr != nil:
		return h, lerr
	case r.Wrong > 0:
		return h, r.failed()
	}
	return held{
		resident: (after.resident - before.resident) * 1000 / float64(n),
		live:     (after.heap + after.stacks - before.heap - before.stacks) * 1000 / float64(n),
	}, nil
}

// weighed is what rounds of both say of n streams: ratios and their scatter, and
// kB for a stream.
type weighed struct {
	streams                       int
	resident, live                float64
	residentScatter, liveScatter  float64
	floorResident, pluginResident float64
	floorLive, pluginLive         float64
}

// weigh does the rounds, one process after the other, in turned order.
func weigh(s stage, n, rounds int, d time.Duration) (w weighed, err error) {
	var resident, live, floorResident, pluginResident, floorLive, pluginLive []float64
	for i := range rounds {
		order := []variant{floor, plugin}
		if i%2 == 1 {
			order = []variant{plugin, floor}
		}
		by := make(map[string]held)
		for _, v := range order {
			if by[v.name], err = hold(s, v, n, d); err != nil {
				return w, fmt.Errorf("%s with %d streams: %w", v.name, n, err)
			}
		}
		f, p := by[floor.name], by[plugin.name]
		resident, live = append(resident, p.resident/f.resident), append(live, p.live/f.live)
		floorResident, pluginResident = append(floorResident, f.resident), append(pluginResident, p.resident)
		floorLive, pluginLive = append(floorLive, f.live), append(pluginLive, p.live)
	}
	w.streams = n
	w.resident, w.residentScatter = median(resident)
	w.live, w.liveScatter = median(live)
	w.floorResident, _ = median(floorResident)
	w.pluginResident, _ = median(pluginResident)
	w.floorLive, _ = median(floorLive)
	w.pluginLive, _ = median(pluginLive)
	return w, nil
}

// maxMemory is the goal.
const maxMemory = 1.03

// results returns what has been measured of the goals.
func (w weighed) results() []result {
	return []result{
		{
			fmt.Sprintf("resident bytes of an idle stream, %d streams", w.streams), w.resident, w.residentScatter, maxMemory, "",
			fmt.Sprintf("%.1f and %.1f kB", w.floorResident, w.pluginResident),
		},
		{
			"heap and stacks of one, garbage collected", w.live, w.liveScatter, maxMemory, "",
			fmt.Sprintf("%.1f and %.1f kB", w.floorLive, w.pluginLive),
		},
	}
}
