package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A job is what a client does: it opens streams, all within the time Spread, and reads them to
// their ends.
type job struct {
	Target   target
	Streams  int
	Scenario scenario
	Spread   time.Duration
	History  int // bytes of history in each request
	// Patience is how long a client waits for the end of a stream, 0 for as long as it takes.
	Patience time.Duration
}

// chunks returns how many chunks the streams of the job have, with their roles and ends.
func (j job) chunks() int { return j.Streams * (j.Scenario.Chunks + 2) }

// run does a job that ends by itself.
func (j job) run() report { return j.start().done() }

// A report says what came of a job.
type report struct {
	Streams    int
	Chunks     int           // of text that came
	HTTPChunks int           // that the proxy sent
	P50, P90   time.Duration // from a chunk's writing to its reading
	First      time.Duration // from the request to the first text, at the median
	Verdicts   map[verdict]int
	Kept       int // markers that stayed in the text
	Tools      int // that began and ended
	Errors     []string
	Wrong      int // streams with an error
}

// failed returns the error of a job in which a stream was wrong.
func (r report) failed() error {
	if r.Wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d streams are wrong, such as: %v", r.Wrong, r.Streams, r.Errors)
}

// A client is a job being done.
type client struct {
	job
	leave   chan struct{} // closed when streams that do not end are to be left
	settled chan bool     // gets true when all of these have come, or false when one is wrong
	wg      sync.WaitGroup

	mu             sync.Mutex
	latency, first []time.Duration
	open           int // streams of which all has come and that do not end
	report         report
}

func newClient(j job) *client {
	c := &client{job: j, leave: make(chan struct{}), settled: make(chan bool, 1)}
	c.report.Verdicts = make(map[verdict]int)
	return c
}

// settle sends to settled, unless it has already.
func (c *client) settle(come bool) {
	select {
	case c.settled <- come:
	default:
	}
}

// start begins a job.
func (j job) start() *client {
	c := newClient(j)
	c.wg.Go(func() {
		for i := range j.Streams {
			s := j.Scenario
			s.Seed = i
			c.wg.Go(func() {
				k := check{scenario: s}
				c.note(&k, c.read(&k, c.leave))
			})
			if gap := j.Spread / time.Duration(j.Streams); gap > 0 {
				time.Sleep(rand.N(2 * gap)) // at random, so that their chunks do not come together
			}
		}
	})
	return c
}

// done waits for all streams and returns the report.
func (c *client) done() report {
	c.wg.Wait()
	c.report.P50, c.report.P90 = quantile(c.latency, 0.5), quantile(c.latency, 0.9)
	c.report.First = quantile(c.first, 0.5)
	return c.report
}

// whileOpen opens streams that do not end, calls look when all of them have come, and leaves them.
func whileOpen(j job, look func() error) (err error) {
	const patience = 10 * time.Minute
	j.Scenario.End = endsNever
	c := j.start()
	select {
	case come := <-c.settled:
		if come {
			err = look()
		}
	case <-time.After(patience):
		err = fmt.Errorf("not all of %d streams have come in %v", j.Streams, patience)
	}
	close(c.leave)
	return errors.Join(err, c.done().failed())
}

// An outcome is how a stream ended.
type outcome struct {
	verdict
	chunks int // of HTTP
	first  time.Duration
	wrong  error
}

// note adds a stream to the report.
func (c *client) note(k *check, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.report
	r.Streams++
	r.Verdicts[o.verdict]++
	r.Chunks += len(k.latency)
	r.Kept += k.kept
	r.Tools += k.ended
	r.HTTPChunks += o.chunks
	c.latency = append(c.latency, k.latency...)
	if o.first > 0 {
		c.first = append(c.first, o.first)
	}
	if o.wrong == nil {
		return
	}
	c.settle(false)
	if r.Wrong++; r.Wrong <= 5 {
		r.Errors = append(r.Errors, fmt.Sprintf("stream %d: %v", k.Seed, o.wrong))
	}
}

// read reads the stream of k. One that does not end is left when leave is closed.
func (c *client) read(k *check, leave <-chan struct{}) (o outcome) {
	a, err := ask(c.Target, k.scenario, c.History, c.Patience)
	if err != nil {
		return outcome{verdict: isCut, wrong: err}
	}
	defer a.Close()
	var left atomic.Bool
	if k.End == endsNever {
		go func() {
			<-leave
			left.Store(true)
			a.Close()
		}()
	}
	body := a.body
	if k.Flat { // it is compared when it has ended
		all, err := io.ReadAll(body)
		if err != nil {
			return outcome{verdict: isCut, wrong: err}
		}
		body = bytes.NewReader(all)
	}
	err = eachEvent(body, func(data string) error {
		now := time.Now()
		if o.wrong = k.event(data, now); o.wrong != nil {
			return o.wrong
		}
		if o.first == 0 && len(k.latency) > 0 {
			o.first = now.Sub(a.asked)
		}
		if k.End == endsNever && k.came() && !k.open {
			k.open = true
			c.opened()
		}
		return nil
	})
	o.verdict, o.chunks = k.verdict(err), a.chunks()
	switch {
	case o.wrong != nil:
	case left.Load():
		o.verdict, o.wrong = wasLeft, k.complete()
	case k.End == endsNever:
		o.wrong = errors.Join(errors.New("a stream that does not end has ended"), err)
	case k.End != endsWell: // how much has to have come is not known
	case !k.done:
		o.wrong = errors.Join(errors.New("the stream ended without [DONE]"), err)
	default:
		o.wrong = k.complete()
	}
	return o
}

// opened counts a stream that has been read as far as it comes.
func (c *client) opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open++; c.open == c.Streams {
		c.settle(true)
	}
}

// firstBytes opens pairs of streams of one chunk, at both targets in turns, and returns the median
// of the times from a request at base to the header of its answer, and that of the differences.
// Which target comes first is the other way round in every other pair.
func firstBytes(base, beside target, pairs int) (to, added time.Duration, err error) {
	const rest = 2 * time.Millisecond // for what proxies do after a stream's end
	var tos, differences []time.Duration
	for i := range pairs {
		var took [2]time.Duration // of base and beside
		for k := range took {
			which := (i + k) % 2
			if took[which], err = firstByte([...]target{base, beside}[which], i); err != nil {
				return 0, 0, err
			}
			time.Sleep(rest)
		}
		tos, differences = append(tos, took[0]), append(differences, took[1]-took[0])
	}
	return quantile(tos, 0.5), quantile(differences, 0.5), nil
}

// firstByte reads a stream of one chunk to its end, and returns when its header came.
func firstByte(at target, seed int) (time.Duration, error) {
	k := check{scenario: scenario{Kind: clean, Chunks: 1, End: endsWell, Seed: seed}}
	a, err := ask(at, k.scenario, 0, 10*time.Second)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	if err := eachEvent(a.body, func(data string) error { return k.event(data, time.Now()) }); err != nil {
		return 0, err
	}
	return a.took, k.complete()
}

// quantile returns the q-th quantile of the values, which it sorts, 0 of none.
func quantile[T float64 | time.Duration](v []T, q float64) T {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[int(q*float64(len(v)-1)+0.5)]
}

// median returns the middle of the values, and half the distance between the quartiles, which is
// how far they scatter.
func median(v []float64) (middle, scatter float64) {
	v = slices.Clone(v)
	middle = quantile(v, 0.5)
	if n := len(v); n > 0 && n%2 == 0 {
		middle = (v[n/2-1] + v[n/2]) / 2
	}
	return middle, (quantile(v, 0.75) - quantile(v, 0.25)) / 2
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
