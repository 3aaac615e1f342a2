package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// siege is what the client of a soak does: it keeps streams open, almost all of
// them idle, and has some end in every way there is, in whose places others come.
type siege struct {
	Target  target
	Streams int
	For     time.Duration
	Chunks  float64 // of all streams together, in a second
}

// churnEvery is how often a stream that ends is opened. Its role, three chunks
// and its end are a part of the chunks.
const churnEvery = 500 * time.Millisecond

// soaker is a siege being done.
type soaker struct {
	siege
	*client
	rnd *rand.Rand
	wg  sync.WaitGroup
}

// runSoaker does the siege that standard input asks for.
func runSoaker() error {
	s := &soaker{client: newClient(), rnd: rand.New(rand.NewPCG(1, 2))}
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the siege: %w", err)
	}
	if err := json.Unmarshal(line, &s.siege); err != nil {
		return fmt.Errorf("reading the siege: %w", err)
	}
	s.client.job.Target = s.siege.Target
	begun := time.Now()
	for i := range s.siege.Streams {
		s.idle(i)
		time.Sleep(time.Millisecond)
	}
	fmt.Println("open")
	for i := s.siege.Streams; time.Since(begun) < s.For; i++ {
		s.churn(i)
		time.Sleep(churnEvery)
	}
	close(s.client.leave)
	s.wg.Wait()
	return s.say()
}

// idle opens a stream with chunks at any times of the siege, which does not end.
func (s *soaker) idle(i int) {
	busy := 5 / churnEvery.Seconds() // chunks a second of the others
	every := time.Duration(float64(s.siege.Streams) / (s.siege.Chunks - busy) * float64(time.Second))
	first := time.Duration(s.rnd.Int64N(int64(every)))
	n := 0
	if rest := s.For - time.Minute - first; rest > 0 {
		n = 1 + int(rest/every)
	}
	s.open(scenario{kind: []kind{clean, lines}[i%2], chunks: n, first: first, every: every, end: endsNever, seed: i}, s.client.leave)
}

// churn opens a stream that ends within half a minute: well, by the backend's death,
// or by the client's leaving.
func (s *soaker) churn(i int) {
	c := scenario{
		kind: []kind{clean, tools, lines}[i%3], chunks: 3, first: time.Duration(s.rnd.Int64N(int64(10 * time.Second))),
		every: time.Duration(s.rnd.Int64N(int64(10 * time.Second))), end: []ending{endsWell, endsReset, endsNever}[(i/3)%3], seed: i,
	}
	leave := make(chan struct{})
	if c.end == endsNever {
		time.AfterFunc(c.first+2*c.every+2*time.Second, func() { close(leave) })
	}
	s.open(c, leave)
}

// open reads a stream in the background. One that has died must say so.
func (s *soaker) open(c scenario, leave <-chan struct{}) {
	s.wg.Go(func() {
		k := check{s: c, latency: &s.latency}
		a, v, err := s.read(&k, leave)
		want := map[ending]verdict{endsWell: saysStop, endsReset: saysError, endsNever: wasLeft}[c.end]
		if err == nil && v != want {
			err = fmt.Errorf("the end says %q instead of %q", v, want)
		}
		if err == nil && c.end != endsNever && !k.done {
			err = fmt.Errorf("no [DONE] behind an end that says %q", v)
		}
		s.note(&k, a, v, err)
	})
}
