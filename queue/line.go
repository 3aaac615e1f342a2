// Package queue lets the runs of an agent wait for each other: at most so many at once are let
// through, and the others wait in line. It knows clients and backends by values that its
// caller chooses, and nothing of HTTP.
//
// What always holds:
//
//   - A turn waits, has a place, or is over. The places that are held are the turns that have one.
//   - Nobody waits who could be let through: what frees a place, raises a limit or ends a pause
//     calls admit before it lets go of the lock.
//   - A turn is counted once, as one Outcome.
//   - A line in which nothing runs, waits or pauses leaves no memory, and neither does a client.
//
// Nobody starves. Next is the client with the fewest places. Once its own runs have ended, a
// client that waits has none, so that only clients without a place come before it. Among these it
// is the one for which nothing has changed for longest: since it came, got a place or gave one
// back. Each that is before it gets a place and is after it from then on, as is whoever comes
// later, so that it waits for one turn of each at most. Its own requests keep their order.
package queue

import (
	"cmp"
	"errors"
	"sync"
	"time"
)

// Options say how many runs a Line admits, and who may wait.
type Options struct {
	// Runs is the number of runs that are under way at once, at least 1.
	Runs int
	// Wait is how long a request may wait. With 0 none waits.
	Wait time.Duration
	// Waiting is the number of requests that may wait at once. With 0 none waits.
	Waiting int
	// Label is the request's in List, such as its path. It may be empty.
	Label string
}

// Client is what tells a client from others, such as a digest of its credentials.
type Client [32]byte

// The errors of requests that get no place.
var (
	ErrFull    = errors.New("too many requests wait for the agent")
	ErrTimeout = errors.New("the request has waited too long for the agent")
)

// errOver is that of a turn that another goroutine has ended while it waited.
var errOver = errors.New("the request has left the line")

// minPause is how long nobody is let through after upstream has refused a request, at least. Hermes
// says one second.
const minPause = time.Second

// Lines are the lines of all backends. The zero value has none. It is safe for concurrent use.
type Lines struct {
	mu    sync.Mutex
	lines map[string]*line // by backend; only those in which requests run, wait or pause
	total totals
}

// line is that of one backend. Its fields are guarded by the mutex of its Lines.
type line struct {
	lines   *Lines
	backend string
	runs    int // of the Options of the last Join or Configure
	held    int
	waiting int
	clients map[Client]*client // only those that hold places or wait
	next    clientHeap         // those that wait, the next one first
	stamp   uint64             // of the last change of a client

	// After a refusal of upstream: its stamp, 0 once upstream has taken a request that was let
	// through later. Until then one request is let through at a time: the line pauses after each.
	refused uint64
	after   time.Duration // how long it pauses
	paused  bool
	until   time.Time // while it pauses
	timer   *time.Timer

	changed bool // since the places in line were counted
	counted time.Time
}

// Join puts a request of the client in line for the backend. The error is ErrFull if there is no
// place and no room to wait. Where there is no room, a client that waits with fewer requests than
// another has that one's last leave: its Wait returns ErrFull.
//
// Runs and Waiting are those of the line from now on. If Runs is less than before, nobody is
// ended, and nobody admitted until fewer are under way.
func (l *Lines) Join(backend string, o Options, id Client) (*Turn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	n := l.line(backend)
	n.runs = o.Runs
	n.admit(now)
	if o.Waiting <= 0 {
		o.Wait = 0
	}
	t := &Turn{line: n, label: o.Label, since: now, until: now.Add(o.Wait)}
	if n.waiting == 0 && n.open() {
		t.client = n.client(id)
		n.place(t, now)
		return t, nil
	}
	if o.Wait <= 0 || n.waiting >= o.Waiting && !n.makeRoom(id, o.Waiting, now) {
		l.total.requests[Full]++
		return nil, ErrFull
	}
	t.client = n.client(id)
	n.enqueue(t, false, now)
	return t, nil
}

// Configure sets the number of runs of the backend's line if there is one, as Join does, and
// admits at once whom it now has places for.
func (l *Lines) Configure(backend string, o Options) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.lines[backend]; n != nil {
		n.runs = o.Runs
		n.admit(time.Now())
	}
}

// line returns the line of the backend.
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
	if n.held == 0 && n.waiting == 0 && !n.paused {
		delete(n.lines.lines, n.backend)
	}
}

// open reports whether another request may be let through.
func (n *line) open() bool { return n.held < n.runs && !n.paused }

// admit gives places to those that wait, as long as there are any.
func (n *line) admit(now time.Time) {
	for n.waiting > 0 && n.open() {
		n.place(n.next[0].waiting.Front().Value.(*Turn), now)
	}
}

// place gives t a place.
func (n *line) place(t *Turn, now time.Time) {
	waits := t.waits != nil
	if waits {
		n.dequeue(t, now)
	}
	n.held++
	n.hold(t.client, 1)
	t.placed, t.stamp = true, n.stamp
	if waits {
		close(t.ready)
	}
	if n.refused != 0 {
		n.pause(now)
	}
}

// release takes t's place from it.
func (n *line) release(t *Turn) {
	n.held--
	n.hold(t.client, -1)
	t.placed = false
}

// makeRoom has another client's last request leave if that client waits with more requests than
// the client would then, and only one has to leave.
func (n *line) makeRoom(id Client, room int, now time.Time) bool {
	if n.waiting > room {
		return false
	}
	mine := 0
	if c := n.clients[id]; c != nil {
		mine = c.waiting.Len()
	}
	var most *client
	for _, c := range n.next {
		if most == nil || cmp.Or(cmp.Compare(c.waiting.Len(), most.waiting.Len()), c.compare(most)) > 0 {
			most = c
		}
	}
	if most.waiting.Len() <= mine+1 {
		return false
	}
	most.waiting.Back().Value.(*Turn).end(Full, ErrFull, now)
	return true
}

// refuse has the line pause, because upstream has refused a request for the time after.
func (n *line) refuse(after time.Duration, now time.Time) {
	n.refused, n.after = n.stamp, after
	n.pause(now)
}

// pause lets nobody through until the time of the last refusal has passed. Then it is the turn of
// one: if that one hears nothing of upstream for as long, of another.
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
	n.admit(now)
	n.forget()
}
