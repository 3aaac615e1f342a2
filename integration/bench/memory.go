package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// held is what the open idle streams of one process take, each, in kB, behind a
// collection whose memory has been given back to the system.
type held struct {
	resident float64 // as the system counts what is no file's
	live     float64 // as Go counts heap and stacks
}

// opening is the time between two streams that are opened. The proxy is not busy then:
// how many streams it opens at once decides which of their goroutines begin on the large
// stacks of others that have ended.
const opening = 2 * time.Millisecond

// hold opens n streams in front of a fresh process of the variant, waits for d, in
// which their clients may get keepalives, and looks at what the process has.
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
	before, err := a.weighCollected()
	if err != nil {
		return h, err
	}
	l, err := startLoad(job{
		Target: p.target, Streams: n, Kind: clean, Chunks: 20, Every: 50 * time.Millisecond, End: endsNever,
		Spread: time.Duration(n) * opening,
	})
	if err != nil {
		return h, err
	}
	if err := l.opened(); err != nil {
		kill(l.cmd)
		return h, err
	}
	time.Sleep(d)
	after, err := a.weighCollected()
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

// weighed is what the rounds say of a variant beside the floor: n streams in each.
type weighed struct {
	v       variant
	streams int
	rounds  []struct{ floor, v held }
}

// weigh does the rounds, one process after the other, each time in another order.
func weigh(s stage, n, rounds int, d time.Duration) ([]weighed, error) {
	all := []weighed{{v: plugin, streams: n}, {v: quiet, streams: n}}
	for i := range rounds {
		order := []variant{floor, plugin, quiet}
		by := make(map[string]held)
		for k := range order {
			v := order[(i+k)%len(order)]
			h, err := hold(s, v, n, d)
			if err != nil {
				return nil, fmt.Errorf("%s with %d streams: %w", v.name, n, err)
			}
			by[v.name] = h
		}
		for j := range all {
			w := &all[j]
			w.rounds = append(w.rounds, struct{ floor, v held }{by[floor.name], by[w.v.name]})
		}
	}
	return all, nil
}

// maxMemory is the budget of an idle stream's resident memory, as a ratio to the floor.
const maxMemory = 1.06

// results returns the measurements of the rounds.
func (w weighed) results() []result {
	return []result{
		w.result(fmt.Sprintf("resident bytes of an idle stream, %s, %d streams", w.v.name, w.streams), func(h held) float64 { return h.resident }, maxMemory),
		w.result("heap and stacks of one", func(h held) float64 { return h.live }, noBudget),
	}
}

// result returns the ratio of one of the numbers to that of the floor.
func (w weighed) result(what string, of func(held) float64, limit float64) result {
	var floors, vs []float64
	for _, r := range w.rounds {
		floors, vs = append(floors, of(r.floor)), append(vs, of(r.v))
	}
	return ratioOf(what, floors, vs, limit, "kB")
}
