// Package queue limits how many requests an agent works on at once, and serves clients fairly. A
// request joins the line of a backend, waits for its place there, and gives the place back:
//
//	turn, err := lines.Join("agent", queue.Options{Runs: 4, Wait: time.Minute, Waiting: 100}, client)
//	if err != nil {
//		return err // ErrFull
//	}
//	defer turn.Done()
//	if err := turn.Wait(ctx, nil); err != nil {
//		return err // ErrTimeout, ErrFull, or why ctx has ended
//	}
//
// The zero [Lines] is ready for use, and safe for concurrent use; a [Turn] belongs to the goroutine
// that handles its request. [Options] has no defaults: with a Wait or a Waiting of 0, no request
// waits. The caller chooses the values that identify clients and backends. The package knows
// nothing of HTTP: package queue/queuehttp queues HTTP requests as [the contract] describes.
//
// # Fairness
//
// No client starves. The next place goes to the client that holds the fewest. A client that waits
// holds none once its own runs have ended, so only clients without a place can precede it. Among
// these, the first is the one whose last change is the oldest: its arrival, or the last time that it
// got a place or gave one back. Each client before it gets a place and then follows it, as does every
// client that arrives later, so it waits for at most one turn of each. The requests of one client
// keep their order. A turn that upstream refuses returns to its old position, as if it had not held
// a place.
//
// # Invariants
//
//   - A turn waits, has a place, or is over. line.held is the number of turns that have a place.
//   - No turn waits that could be admitted: code that frees a place, raises a limit or ends a
//     pause calls admit before it releases the lock.
//   - A turn is counted once, as one Outcome.
//   - A line in which nothing runs, waits or pauses takes no memory. Nor does a client without a turn.
//
// [the contract]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#waiting-in-line
package queue

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"
)

// Options limit the runs of a line, and the requests that may wait in it.
type Options struct {
	// Runs is the number of runs that are under way at once, at least 1.
	Runs int
	// Wait is how long a request may wait. With 0 none waits.
	Wait time.Duration
	// Waiting is the number of requests that may wait at once. With 0 none waits.
	Waiting int
	// Label describes the request in List, for example by its path. It may be empty.
	Label string
}

// Client identifies a client, for example by a digest of its credentials.
type Client [32]byte

// The errors of requests that get no place.
var (
	ErrFull    = errors.New("too many requests are waiting for the agent")
	ErrTimeout = errors.New("the request waited too long for the agent")
)

// errOver is the error of a turn that was given up or ended by Done, maybe in another goroutine.
var errOver = errors.New("the request has left the line")

// minPause is the minimum time for which no request is let through after upstream has refused one.
// Hermes says one second.
const minPause = time.Second

// Lines are the lines of all backends. The zero value has none. It is safe for concurrent use.
type Lines struct {
	mu    sync.Mutex
	lines map[string]*line // by backend; only those in which requests run, wait or pause
	runs  map[string]*int  // by backend, as the last Configure has set it
	total Stats            // without Waiting and Running
}

// line is that of one backend. Its fields are guarded by the mutex of its Lines.
type line struct {
	lines   *Lines
	backend string
	runs    int // of the last Configure or, without one, of the last Join
	held    int
	waiting []*Turn            // in the order in which they joined the line
	clients map[Client]*client // only clients that hold places or wait
	stamp   uint64             // of the last change of a client
	joined  uint64             // how many turns there have been

	// refused is the stamp of upstream's last refusal, or 0 once upstream has taken a request that
	// was let through later. Until then the line pauses after each request that is let through.
	refused uint64
	after   time.Duration // how long the line pauses
	trying  int           // how many have been let through since then, of which upstream has said nothing
	settled uint64        // a stamp: those that were let through before do not count as trying
	rounds  int           // how often the next turn in line was refused at the end of a pause
	paused  bool
	timed   bool      // a pause ends just now
	until   time.Time // when the pause ends
	timer   *time.Timer

	changed bool // since the places in line were counted
	counted time.Time
}

// Join puts a request of the client in line for the backend. The error is ErrFull if there is no
// place and no room to wait. If there is no room, but another client waits with more requests than
// this one would, the last request of the one with the most leaves: its Wait returns ErrFull.
//
// o.Runs applies to the line from now on, unless Configure has set another number. If it is less than
// before, no run is ended, and no request is admitted until fewer runs are under way. o.Waiting applies
// to this request only.
func (l *Lines) Join(backend string, o Options, id Client) (*Turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	n := l.line(backend)
	if n.runs = o.Runs; l.runs[backend] != nil {
		n.runs = *l.runs[backend]
	}
	n.admit(now)
	if o.Waiting <= 0 {
		o.Wait = 0
	}
	n.joined++
	t := &Turn{line: n, label: o.Label, joined: n.joined, since: now, until: now.Add(o.Wait), told: -1}
	if len(n.waiting) == 0 && n.open() {
		t.client = n.client(id)
		n.place(t, now)
		return t, nil
	}
	if o.Wait <= 0 || len(n.waiting) >= o.Waiting && !n.makeRoom(id, o.Waiting, now) {
		l.total.Requests[Full]++
		return nil, ErrFull
	}
	t.client = n.client(id)
	n.enqueue(t, now)
	return t, nil
}

// Configure sets the number of runs of the backend's line to o.Runs, whatever requests bring that join
// it, until the next Configure, or until end is called. It admits the requests that the line now has
// places for.
func (l *Lines) Configure(backend string, o Options) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = make(map[string]*int)
	}
	runs := &o.Runs
	l.runs[backend] = runs
	if n := l.lines[backend]; n != nil {
		n.runs = o.Runs
		n.admit(time.Now())
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.runs[backend] == runs {
			delete(l.runs, backend)
		}
	}
}

// line returns the line of the backend, which it creates if there is none.
func (l *Lines) line(backend string) *line {
	n := l.lines[backend]
	if n == nil {
		if l.lines == nil {
			l.lines = make(map[string]*line)
		}
		n = &line{lines: l, backend: backend, clients: make(map[Client]*client)}
		l.lines[backend] = n
	}
	return n
}

// forget removes the line if it is not needed.
func (n *line) forget() {
	if n.held == 0 && len(n.waiting) == 0 && !n.paused {
		delete(n.lines.lines, n.backend)
	}
}

// open reports whether another request may be let through.
func (n *line) open() bool { return n.held < n.runs && !n.paused }

// admit gives the free places to the turns that wait, in their order.
func (n *line) admit(now time.Time) {
	for len(n.waiting) > 0 && n.open() {
		t := n.next()
		if now.Before(t.until) {
			n.place(t, now)
		} else { // a pause may end with the wait of the turn that it is for
			t.end(TimedOut, ErrTimeout, now)
		}
	}
}

// place gives t a place.
func (n *line) place(t *Turn, now time.Time) {
	if t.waits {
		n.dequeue(t, now)
		close(t.ready)
	}
	n.hold(t.client, 1)
	n.stamp++
	t.placed, t.tried, t.stamp, t.timed = true, true, n.stamp, n.timed
	t.client.tried = append(t.client.tried, t)
	if n.refused != 0 {
		n.trying++
		n.pause(now)
	}
}

// hold adds places, which may be negative, to those that c holds.
func (n *line) hold(c *client, places int) {
	n.held += places
	c.held += places
	n.changed = true
}

// decided records that upstream says no more about whether it takes t.
func (n *line) decided(t *Turn) {
	if !t.tried {
		return
	}
	t.client.tried = slices.DeleteFunc(t.client.tried, func(o *Turn) bool { return o == t })
	t.tried = false
	if n.refused != 0 && t.stamp > n.settled {
		n.trying--
		n.changed = true
	}
}

// taken records that t keeps its place.
func (n *line) taken(t *Turn) {
	if t.tried {
		n.decided(t)
		t.client.changed = max(t.client.changed, t.stamp)
	}
}

// settle makes those that have been let through count as taken.
func (n *line) settle() {
	n.trying, n.settled, n.changed = 0, n.stamp, true
}

// release takes back the place of t.
func (n *line) release(t *Turn) {
	n.decided(t)
	n.hold(t.client, -1)
	n.stamp++
	t.placed = false
	t.client.changed = n.stamp
	n.forgetClient(t.client)
}

// makeRoom ends the last turn of the client that waits with the most turns, if these are more than
// the client id would then have and the line is not longer than room. It reports whether it did.
func (n *line) makeRoom(id Client, room int, now time.Time) bool {
	if len(n.waiting) > room {
		return false
	}
	mine := 0
	if c := n.clients[id]; c != nil {
		mine = c.waiting
	}
	last := slices.MaxFunc(n.waiting, func(a, b *Turn) int {
		return cmp.Or(cmp.Compare(a.client.waiting, b.client.waiting), a.client.compare(b.client), cmp.Compare(a.joined, b.joined))
	})
	if last.client.waiting <= mine+1 {
		return false
	}
	last.end(Full, ErrFull, now)
	return true
}

// refuse makes the line pause for the time after, because upstream has refused t, which waits again.
func (n *line) refuse(t *Turn, after time.Duration, now time.Time) {
	if n.refused == 0 {
		n.settle()
	}
	n.refused, n.after = n.stamp, after
	n.pause(now)
	if !t.timed || n.next().client != t.client {
		return
	}
	if n.rounds++; n.rounds%scoutEvery == 0 && n.held < n.runs {
		n.scout(t, now)
	}
}

// scoutEvery is how often upstream must have refused the next request in line at the end of a pause
// for another one to try directly after it. A refusal at the end of a run does not count: upstream
// may count that run a moment longer, and the scout would get the place.
const scoutEvery = 3

// scout lets the next request of another client than t's try, of those the one that was refused
// least often. If t is refused for a reason of its own, because of several agents its own is full
// or this API alone has a limit, t holds up nobody for good. Otherwise the scout is also refused.
func (n *line) scout(t *Turn, now time.Time) {
	var least *Turn
	seen := map[*client]bool{t.client: true}
	for _, o := range n.waiting {
		if !seen[o.client] && (least == nil || cmp.Or(cmp.Compare(o.refusals, least.refusals), o.client.compare(least.client)) < 0) {
			least = o
		}
		seen[o.client] = true
	}
	if least != nil {
		n.place(least, now)
	}
}

// pause lets no request through until n.after has passed. Then one request is let through, and
// another one after the same time if upstream has not answered.
func (n *line) pause(now time.Time) {
	n.paused, n.until = true, now.Add(n.after)
	if n.timer == nil {
		n.timer = time.AfterFunc(n.after, n.pauseOver)
		return
	}
	n.timer.Reset(n.after)
}

// pauseOver is called when a pause should be over.
func (n *line) pauseOver() {
	n.lines.mu.Lock()
	defer n.lines.mu.Unlock()
	now := time.Now()
	if !n.paused || now.Before(n.until) { // it was over before, or another has begun
		return
	}
	n.paused = false
	n.settle()
	n.timed = true
	n.admit(now)
	n.timed = false
	n.forget()
}
