package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
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

func soakFlags(f *flag.FlagSet) *soak {
	s := new(soak)
	f.IntVar(&s.streams, "streams", 10_000, "streams that are open at a time")
	f.Float64Var(&s.chunks, "chunks", 20, "chunks a second of all streams together")
	f.DurationVar(&s.length, "for", 10*time.Minute, "how long")
	f.DurationVar(&s.reload, "reload", time.Minute, "between two reloads")
	f.DurationVar(&s.settle, "settle", 3*time.Minute, "how long goroutines and memory may take to go back")
	return s
}

// runSoak keeps streams open, and looks at what the process has at the end.
func runSoak(s *soak) error {
	on, err := newStage()
	if err != nil {
		return err
	}
	defer on.close()
	admin, err := freePort()
	if err != nil {
		return err
	}
	p, err := on.caddy.start(plugin, filepath.Join(on.work, plugin.name), on.backend.addr, admin)
	if err != nil {
		return err
	}
	defer p.stop()
	a := adminOf{admin, filepath.Join(on.work, plugin.name, "Caddyfile"), p.cmd.Process.Pid}

	// Streams that come and go, and connections that wait for the next, need files, too.
	if n := mostStreams() - 100; n < s.streams {
		fmt.Printf("%d streams instead of %d: more files may not be open\n", n, s.streams)
		s.streams = n
	}
	before, err := s.flood(p, a, on.backend)
	if err != nil {
		return fmt.Errorf("before the soak: %w", err)
	}
	fmt.Printf("%-8s %s\n", "before", before)

	r, err := s.siege(p, a)
	if err != nil {
		return err
	}
	fmt.Printf("%d streams were read, with %d chunks: %v\n", r.Streams, r.Chunks, r.Verdicts)
	if r.Wrong > 0 {
		err = fmt.Errorf("%d streams are wrong, such as: %v", r.Wrong, r.Errors)
	}
	return errors.Join(err, s.after(a, on.backend, before))
}

// flood opens as many streams as there will be, and leaves them, for Go never gives
// back what describes a goroutine: 40,000 of them, 17 MB. It returns what the process
// has behind that, when nothing is open any more.
func (s *soak) flood(p *proxyProcess, a adminOf, b *backend) (l looked, err error) {
	load, err := startLoad(job{
		Target: p.target, Streams: s.streams, Kind: tools, Chunks: 3, Every: 20 * time.Millisecond, End: endsNever,
		Spread: time.Duration(s.streams) * time.Millisecond,
	})
	if err != nil {
		return l, err
	}
	err = load.opened()
	load.in.Close()
	r, ferr := load.finish()
	if err = errors.Join(err, ferr, r.failed()); err != nil {
		return l, err
	}
	return s.settled(a, b, func(l looked) bool { return l.goroutines < s.streams/10+100 })
}

// siege has the client keep the streams open, and reloads.
func (s *soak) siege(p *proxyProcess, a adminOf) (r report, err error) {
	l, err := startRole(roleSoaker, siege{p.target, s.streams, s.length, s.chunks})
	if err != nil {
		return r, err
	}
	if err := l.opened(); err != nil {
		kill(l.cmd)
		return r, err
	}
	type said struct {
		report
		err error
	}
	ended := make(chan said, 1)
	go func() {
		r, err := l.finish()
		ended <- said{r, err}
	}()
	every := time.NewTicker(s.reload)
	defer every.Stop()
	for n := 1; ; n++ {
		select {
		case said := <-ended:
			return said.report, said.err
		case <-every.C:
		}
		now, err := a.look()
		if err == nil {
			err = a.reload(n)
		}
		if err != nil {
			kill(l.cmd)
			return r, err
		}
		fmt.Printf("%-8s %s\n", time.Duration(n)*s.reload, now)
	}
}

// after waits until goroutines and memory are where they were.
func (s *soak) after(a adminOf, b *backend, before looked) error {
	now, err := s.settled(a, b, func(now looked) bool {
		return now.goroutines <= before.goroutines+10 && now.heap <= before.heap*1.1
	})
	fmt.Printf("%-8s %s\n", "after", now)
	if err != nil {
		return fmt.Errorf("goroutines or memory are not back where they were: %w", err)
	}
	return nil
}

// settled waits until no stream is open, the heap gets no smaller (what pools have
// goes with the second collection), and what the process has is enough.
func (s *soak) settled(a adminOf, b *backend, enough func(looked) bool) (l looked, err error) {
	for deadline := time.Now().Add(s.settle); ; time.Sleep(5 * time.Second) {
		before := l.heap
		if l, err = a.look(); err != nil {
			return l, err
		}
		still := before > 0 && l.heap > before*0.98
		state, err := b.state()
		if err != nil {
			return l, err
		}
		if still && state.Open == 0 && l.active == 0 && enough(l) {
			return l, nil
		}
		if time.Now().After(deadline) {
			return l, fmt.Errorf("after %s there are %s, and %d streams at the backend", s.settle, l, state.Open)
		}
	}
}
