package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"
)

// turns is what a client does to compare when the first byte comes: it opens streams of one
// chunk, one after the other, at both targets in turns.
type turns struct {
	Base, Beside target
	Pairs        int
	Rest         time.Duration // between a stream's end and the next one, for what proxies still do
}

// firstBytes is what such a client says: medians of the times from a request to the header
// of its answer.
type firstBytes struct {
	Base  time.Duration
	Added time.Duration // of the differences of all pairs
}

// runTurns takes the turns that standard input asks for.
func runTurns() error {
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the turns: %w", err)
	}
	var t turns
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("reading the turns: %w", err)
	}
	f, err := t.take()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// take takes the turns. Which target comes first is the other way round in every other pair.
func (t turns) take() (firstBytes, error) {
	var base, added []time.Duration
	for i := range t.Pairs {
		var took [2]time.Duration // of Base and Beside
		for k := range took {
			who := (i + k) % 2
			var err error
			if took[who], err = firstByte([...]target{t.Base, t.Beside}[who], i); err != nil {
				return firstBytes{}, err
			}
			time.Sleep(t.Rest)
		}
		base, added = append(base, took[0]), append(added, took[1]-took[0])
	}
	return firstBytes{quantile(base, 0.5), quantile(added, 0.5)}, nil
}

// firstByte reads a stream of one chunk to its end, and returns when its header came.
func firstByte(at target, seed int) (time.Duration, error) {
	conn, err := net.DialTimeout("tcp", at.Addr, time.Minute)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	k := check{s: scenario{kind: clean, chunks: 1, end: endsWell, seed: seed}, latency: new(sample)}
	body := k.s.request(at.Model)
	since := time.Now()
	a, err := get(conn, at, body)
	took := time.Since(since)
	switch {
	case err != nil:
		return 0, err
	case a.status != 200:
		return 0, fmt.Errorf("status %d", a.status)
	}
	if err := eachEvent(a, func(e event) error { return k.event(e, time.Now()) }); err != nil {
		return 0, err
	}
	return took, k.complete()
}

// takeTurns has a client take turns at floor and plugin.
func (p pair) takeTurns(pairs int, rest time.Duration) (f firstBytes, err error) {
	l, err := startRole(roleTurns, turns{p.floor.target, p.plugin.target, pairs, rest})
	if err != nil {
		return f, err
	}
	defer kill(l.cmd)
	if err := json.NewDecoder(l.out).Decode(&f); err != nil {
		return f, fmt.Errorf("the client broke off: %w", err)
	}
	return f, nil
}

// firstByte measures how much later the first byte of an answer comes, in n rounds, and one
// for each pair of processes that does not count.
func (s stage) firstByte(n int) (result, error) {
	const pairs, rest = 300, 2 * time.Millisecond
	var base, added []float64
	for i := 0; i*roundsOfPair < n; i++ {
		p, err := startPair(s, floor, plugin, i)
		if err != nil {
			return result{}, err
		}
		for k := range min(roundsOfPair, n-i*roundsOfPair) + 1 {
			f, err := p.takeTurns(pairs, rest)
			if err != nil {
				p.stop()
				return result{}, err
			}
			if k > 0 {
				base, added = append(base, micros(f.Base)), append(added, micros(f.Added))
			}
		}
		p.stop()
	}
	middle, scatter := median(added)
	floor, _ := median(base)
	return result{"added time to the first byte of a stream", middle, scatter, 50, " µs", fmt.Sprintf("to %.0f µs", floor)}, nil
}
