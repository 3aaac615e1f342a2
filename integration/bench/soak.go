package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"
)

// soak says how long and how wide.
type soak struct {
	streams int
	chunks  float64
	length  time.Duration
	reload  time.Duration
	settle  time.Duration
}

// soakCommand keeps streams open, reloads meanwhile, and compares what the process has at the
// end with what it had before.
func soakCommand(f *flag.FlagSet) func(stage) error {
	s := new(soak)
	f.IntVar(&s.streams, "streams", 10_000, "streams that are open at a time")
	f.Float64Var(&s.chunks, "chunks", 20, "chunks a second of all streams together")
	f.DurationVar(&s.length, "for", 10*time.Minute, "how long")
	f.DurationVar(&s.reload, "reload", time.Minute, "between two reloads")
	f.DurationVar(&s.settle, "settle", 3*time.Minute, "how long goroutines and memory may take to go back")
	return s.run
}

func (s *soak) run(on stage) error {
	o, err := on.start(plugin)
	if err != nil {
		return err
	}
	defer o.stop()
	// Streams that come and go, and connections that wait for the next, also need files.
	if n := mostStreams() - 100; n < s.streams {
		fmt.Printf("%d streams instead of %d: more files may not be open\n", n, s.streams)
		s.streams = n
	}
	// As many streams as there will be come first, because Go never frees the descriptors of
	// goroutines.
	flood := job{Target: o.target, Streams: s.streams, Scenario: scenario{Kind: tools, Chunks: 3, Every: 20 * time.Millisecond}, Spread: time.Duration(s.streams) * time.Millisecond}
	if err := whileOpen(flood, func() error { return nil }); err != nil {
		return fmt.Errorf("before the soak: %w", err)
	}
	before, err := s.settled(o, func(now state) bool { return now.goroutines < float64(s.streams/10+100) })
	if err != nil {
		return fmt.Errorf("before the soak: %w", err)
	}
	fmt.Printf("%-8s %s\n", "before", before)
	r, err := s.siege(o)
	if err != nil {
		return err
	}
	fmt.Printf("%d streams were read, with %d chunks: %v\n", r.Streams, r.Chunks, r.Verdicts)
	after, err := s.settled(o, func(now state) bool {
		return now.goroutines <= before.goroutines+10 && now.heap <= before.heap*1.1
	})
	fmt.Printf("%-8s %s\n", "after", after)
	return errors.Join(r.failed(), err)
}

// A state is what the process has.
type state struct{ goroutines, active, heap, resident float64 }

func (s state) String() string {
	return fmt.Sprintf("%6.0f goroutines, %6.0f streams, %7.1f MB of heap, %7.1f MB resident", s.goroutines, s.active, s.heap/1e6, s.resident/1e6)
}

func (r running) state() (state, error) {
	v, err := r.gauges()
	resident := float64(residentOf(r.cmd.Process.Pid))
	return state{v["go_goroutines"], v["caddy_hermes_streams_active"], v["go_memstats_heap_alloc_bytes"], resident}, err
}

// settled waits until no stream is open, the heap gets no smaller (a second collection empties
// the pools), and the state is enough.
func (s *soak) settled(o running, enough func(state) bool) (now state, err error) {
	for deadline := time.Now().Add(s.settle); ; time.Sleep(5 * time.Second) {
		before := now.heap
		if now, err = o.state(); err != nil {
			return now, err
		}
		if before > 0 && now.heap > before*0.98 && now.active == 0 && enough(now) {
			return now, nil
		}
		if time.Now().After(deadline) {
			return now, fmt.Errorf("goroutines or memory are not back after %s", s.settle)
		}
	}
}

// siege has clients keep the streams open, and reloads.
func (s *soak) siege(o running) (r report, err error) {
	c := newClient(job{Target: o.target, Streams: s.streams})
	ended := make(chan report, 1)
	go func() { ended <- s.besiege(c) }()
	<-c.settled
	every := time.NewTicker(s.reload)
	defer every.Stop()
	for n := 1; ; n++ {
		select {
		case r := <-ended:
			return r, nil
		case <-every.C:
		}
		now, err := o.state()
		if err == nil {
			err = o.reload(n)
		}
		if err != nil {
			return r, err
		}
		fmt.Printf("%-8s %s\n", time.Duration(n)*s.reload, now)
	}
}

// churnEvery is how often a stream that ends is opened. Its role, three chunks and its end are
// a part of the chunks.
const churnEvery = 500 * time.Millisecond

// besiege keeps streams open, almost all of them idle. Others end in every way there is.
func (s *soak) besiege(c *client) report {
	begun := time.Now()
	rnd := rand.New(rand.NewPCG(1, 2))
	every := time.Duration(float64(s.streams) / (s.chunks - 5/churnEvery.Seconds()) * float64(time.Second))
	for i := range s.streams {
		idle := scenario{Kind: []kind{clean, lines}[i%2], First: time.Duration(rnd.Int64N(int64(every))), Every: every, End: endsNever, Seed: i}
		if rest := s.length - time.Minute - idle.First; rest > 0 {
			idle.Chunks = 1 + int(rest/every)
		}
		c.soak(idle, c.leave)
		time.Sleep(time.Millisecond)
	}
	c.settle(true)
	for i := s.streams; time.Since(begun) < s.length; i++ {
		short := scenario{
			Kind: []kind{clean, tools, lines}[i%3], Chunks: 3, First: time.Duration(rnd.Int64N(int64(10 * time.Second))),
			Every: time.Duration(rnd.Int64N(int64(10 * time.Second))), End: []ending{endsWell, endsReset, endsNever}[(i/3)%3], Seed: i,
		}
		leave := make(chan struct{})
		if short.End == endsNever {
			time.AfterFunc(short.First+2*short.Every+2*time.Second, func() { close(leave) })
		}
		c.soak(short, leave)
		time.Sleep(churnEvery)
	}
	close(c.leave)
	return c.done()
}

// soak reads a stream in the background. It must say how it ended.
func (c *client) soak(s scenario, leave <-chan struct{}) {
	c.wg.Go(func() {
		k := check{scenario: s}
		o := c.read(&k, leave)
		want := map[ending]verdict{endsWell: saysStop, endsReset: saysError, endsNever: wasLeft}[s.End]
		if o.wrong == nil && o.verdict != want {
			o.wrong = fmt.Errorf("the end says %q instead of %q", o.verdict, want)
		}
		if o.wrong == nil && s.End != endsNever && !k.done {
			o.wrong = fmt.Errorf("no [DONE] after an end that says %q", o.verdict)
		}
		c.note(&k, o)
	})
}
