package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// target is where a proxy takes requests.
type target struct {
	Addr, Path, Model string
	Header            map[string]string
}

// job is what a client does: it opens streams, all within the time Spread, and
// reads them to their ends. It is told what on its standard input.
type job struct {
	Target  target
	Streams int
	Kind    kind
	Chunks  int
	First   time.Duration
	Every   time.Duration
	End     ending
	// Flat is for streams that come as fast as the proxy is: they are read first, and
	// looked at when they have ended.
	Flat    bool
	Spread  time.Duration
	History int // bytes, in front of the message
	// Patience is how long a client waits for the end of a stream, 0 for as long
	// as it takes.
	Patience time.Duration
}

// report is what a client says at the end, on its standard output. Before that it
// says "open" when all chunks of streams that do not end have come, and goes on
// when its standard input ends.
type report struct {
	Streams    int
	Chunks     int           // of text and markers that came
	HTTPChunks int           // that the proxy sent
	P50, P90   time.Duration // from a chunk's writing to its reading
	P99        time.Duration
	First      time.Duration // from the request to the first text, at the median
	Verdicts   map[verdict]int
	Kept       int // markers that stayed in the text
	Tools      int // that began and ended
	Errors     []string
	Wrong      int // streams with an error
}

// client is a job being done.
type client struct {
	job
	latency, first sample
	open           atomic.Int64 // streams of which all has come and that do not end
	allOpen        chan struct{}
	leave          chan struct{}

	mu     sync.Mutex
	report report
}

// runClient does the job that standard input asks for.
func runClient() error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	c := newClient()
	if err := json.Unmarshal(line, &c.job); err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	go func() {
		_, _ = in.ReadByte() // until it ends
		close(c.leave)
	}()
	go func() {
		<-c.allOpen
		fmt.Println("open")
	}()
	var wg sync.WaitGroup
	for i := range c.Streams {
		wg.Go(func() { c.stream(i) })
		if gap := c.Spread / time.Duration(c.Streams); gap > 0 {
			time.Sleep(rand.N(2 * gap)) // at random, so that their chunks do not come together
		}
	}
	wg.Wait()
	return c.say()
}

func newClient() *client {
	c := &client{allOpen: make(chan struct{}), leave: make(chan struct{})}
	c.report.Verdicts = make(map[verdict]int)
	return c
}

// say reports the streams on standard output.
func (c *client) say() error {
	r := &c.report
	r.P50, r.P90, r.P99 = c.latency.quantile(0.5), c.latency.quantile(0.9), c.latency.quantile(0.99)
	r.First = c.first.quantile(0.5)
	return json.NewEncoder(os.Stdout).Encode(r)
}

// maxErrors is how many errors a client reports.
const maxErrors = 5

// stream opens the stream i, and reads it to its end.
func (c *client) stream(i int) {
	s := scenario{kind: c.Kind, chunks: c.Chunks, first: c.First, every: c.Every, end: c.End, seed: i, flat: c.Flat, history: c.History}
	k := check{s: s, latency: &c.latency}
	a, v, err := c.read(&k, c.leave)
	c.note(&k, a, v, err)
}

// note takes down what came of a stream.
func (c *client) note(k *check, a *answer, v verdict, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.report
	r.Streams++
	r.Verdicts[v]++
	r.Chunks += k.next
	r.Kept += k.kept
	r.Tools += k.ended
	if a != nil {
		r.HTTPChunks += a.chunks
	}
	if err != nil {
		r.Wrong++
		if len(r.Errors) < maxErrors {
			r.Errors = append(r.Errors, fmt.Sprintf("stream %d: %v", k.s.seed, err))
		}
	}
}

// read reads the stream of k, and says how it ended and what was wrong with it. One
// that does not end is left when leave is closed.
func (c *client) read(k *check, leave <-chan struct{}) (a *answer, v verdict, wrong error) {
	conn, err := net.DialTimeout("tcp", c.Target.Addr, time.Minute)
	if err != nil {
		return nil, isCut, err
	}
	defer conn.Close()
	since := time.Now()
	if c.Patience > 0 {
		if err := conn.SetDeadline(since.Add(c.Patience)); err != nil {
			return nil, isCut, err
		}
	}
	if a, err = get(conn, c.Target, k.s.request(c.Target.Model)); err != nil {
		return nil, isCut, err
	}
	if a.status != 200 {
		return a, saysError, fmt.Errorf("status %d", a.status)
	}
	if k.s.end == endsNever {
		go func() {
			<-leave
			conn.Close()
		}()
	}
	var body io.Reader = a
	if c.Flat {
		all, err := io.ReadAll(a)
		if err != nil {
			return a, isCut, err
		}
		body = bytes.NewReader(all)
	}
	read, open := false, false
	err = eachEvent(body, func(e event) error {
		now := time.Now()
		if wrong = k.event(e, now); wrong != nil {
			return wrong
		}
		if !read && k.next > 0 {
			read = true
			c.first.add(now.Sub(since))
		}
		if k.s.end == endsNever && k.next == k.s.chunks && !open {
			open = true
			c.came()
		}
		return nil
	})
	switch {
	case wrong != nil:
		return a, k.verdict(err), wrong
	case k.s.end == endsNever && isClosed(leave):
		return a, wasLeft, k.complete()
	case k.s.end == endsNever:
		return a, k.verdict(err), fmt.Errorf("a stream that does not end has ended: %w", err)
	case k.s.end != endsWell:
		return a, k.verdict(err), nil // what has to have come is not known
	case !k.done:
		return a, k.verdict(err), fmt.Errorf("the stream ended without [DONE]: %w", err)
	}
	return a, k.verdict(err), k.complete()
}

// came records that a stream that does not end has been read as far as it comes.
func (c *client) came() {
	if int(c.open.Add(1)) == c.Streams {
		close(c.allOpen)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
