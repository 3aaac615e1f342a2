package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// goals says what is measured of them.
type goals struct {
	rounds  int
	seconds int
	only    string
	weighs  int
	idle    time.Duration
}

func goalFlags(f *flag.FlagSet) *goals {
	g := new(goals)
	f.IntVar(&g.rounds, "rounds", 15, "rounds of floor and plugin for each load")
	f.IntVar(&g.seconds, "seconds", 4, "how long a round of streams is")
	f.IntVar(&g.weighs, "weighs", 3, "rounds of floor and plugin for memory")
	f.DurationVar(&g.idle, "idle", 25*time.Second, "how long streams are idle before their memory is looked at")
	f.StringVar(&g.only, "only", "", "one load: clean, markers or lines")
	return g
}

func runGoals(g *goals) error {
	work, err := os.MkdirTemp("", "hermes-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c, err := buildCaddy(work)
	if err != nil {
		return err
	}
	b, err := startBackend()
	if err != nil {
		return err
	}
	defer b.stop()
	if g.only == "" || g.only == "memory" {
		for _, n := range []int{2000, min(10_000, mostStreams())} {
			w, err := weigh(c, work, b.addr, n, g.weighs, g.idle)
			if err != nil {
				return err
			}
			fmt.Printf("%+v\n", w)
		}
	}
	p, err := startPair(c, work, b.addr)
	if err != nil {
		return err
	}
	defer p.stop()
	for _, k := range []kind{clean, markers, lines} {
		if g.only != "" && g.only != string(k) {
			continue
		}
		const every = 10 * time.Millisecond
		j := job{Streams: 25, Kind: k, Chunks: g.seconds * int(time.Second/every), Every: every, End: endsWell, Spread: 100 * time.Millisecond}
		if _, err := p.compare(j, 1); err != nil { // warm
			return err
		}
		r, err := p.compare(j, g.rounds)
		if err != nil {
			return err
		}
		fmt.Printf("%-8s %+v\n", k, r)
	}
	return nil
}
