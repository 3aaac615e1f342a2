package queue_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// TestRandomSequences has requests come, wait, leave, time out, be refused by upstream, answered and
// done at random, while the limits change. Against a model: never more than the runs are
// let through, each in its order and at its time, and at last nothing is left. While a client
// waits that has no place, no other gets two. HERMES_QUEUE_SEQUENCES has another number of them.
func TestRandomSequences(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	if s := os.Getenv("HERMES_QUEUE_SEQUENCES"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	did := map[string]int{}
	for round := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		inScene(t, queue.Options{}, func(s *scene) {
			q := &sequence{t: s.t, r: r, s: s, did: did, passed: map[string]int{},
				m: model{runs: 1 + r.IntN(4), clients: map[byte]*modelClient{}}}
			q.o = queue.Options{Runs: q.m.runs, Waiting: r.IntN(8)}
			q.run(10 + round%100)
		})
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	t.Log(did)
	for _, what := range []string{"placed", "at once", "full", "made room", "timed out", "left", "done", "done in line", "refused", "refused for good", "answered", "paused out", "told", "left as it came", "opened", "lowered", "raised", "brought an old limit", "scouted", "over"} {
		if rounds >= 300 && did[what] == 0 {
			t.Errorf("nothing was ever %s", what)
		}
	}
}

// sequence is a round of TestRandomSequences.
type sequence struct {
	t      *testing.T
	r      *rand.Rand
	s      *scene
	o      queue.Options
	ends   []func() // of configurations, the last of which has set the limit
	m      model
	all    []*modelTurn
	passed map[string]int // how many places a client got while another waited that has none, by both
	did    map[string]int
}

// model says what should be. It keeps no order: it looks for what is next.
type model struct {
	runs     int
	clients  map[byte]*modelClient
	stamp    int
	waiting  []*modelTurn
	held     []*modelTurn
	refused  int // stamp
	settled  int // stamp
	rounds   int
	timed    bool
	after    time.Duration
	pause    time.Time // until then
	changed  time.Time // its last change
	requests [4]uint64
	refusals uint64
	waits    []time.Duration // of those that were counted and have waited
}

// modelClient is a client. Its stamp does not include the places that are tried.
type modelClient struct{ held, stamp int }

type modelTurn struct {
	name     string
	since    time.Time
	until    time.Time
	queued   time.Time
	waited   time.Duration
	order    int // among those of its client
	stamp    int
	timed    bool // it was let through at the end of a pause
	tried    bool // upstream may still refuse it
	passes   []string
	refusals int
	err      error
	counted  bool
	lined    bool // it has waited
	least    int  // how few were before it
}

func (u *modelTurn) client() byte { return u.name[0] }

// client returns that with the name, which comes if it is not there.
func (q *sequence) client(name byte) *modelClient {
	if q.m.clients[name] == nil {
		q.m.stamp++
		q.m.clients[name] = &modelClient{stamp: q.m.stamp}
	}
	return q.m.clients[name]
}

// stamp returns when a client changed.
func (q *sequence) stamp(name byte) int {
	stamp := q.m.clients[name].stamp
	for _, u := range q.m.held {
		if u.client() == name && u.tried {
			stamp = max(stamp, u.stamp)
		}
	}
	return stamp
}

// release takes the place of u, which is over if it is not refused.
func (q *sequence) release(u *modelTurn, refused bool) {
	c := q.m.clients[u.client()]
	c.held--
	q.m.held = slices.DeleteFunc(q.m.held, func(o *modelTurn) bool { return o == u })
	if refused { // as if it had not had the place
		for _, pair := range u.passes {
			q.passed[pair]--
		}
		return
	}
	q.m.stamp++
	c.stamp = q.m.stamp
	for pair := range q.passed {
		if pair[0] == u.client() {
			delete(q.passed, pair)
		}
	}
}

// taken records that upstream has taken u, or refused it for good.
func (q *sequence) taken(u *modelTurn) {
	if u.tried {
		c := q.m.clients[u.client()]
		c.stamp = max(c.stamp, u.stamp)
	}
	u.tried = false
}

// trying returns how many are before those that wait because they may come back.
func (q *sequence) trying() (n int) {
	for _, u := range q.m.held {
		if u.tried && q.m.refused != 0 && u.stamp > q.m.settled {
			n++
		}
	}
	return n
}

// gone forgets a client that neither runs nor waits.
func (q *sequence) gone(name byte) {
	waits := q.waitingOf(name) > 0
	if !waits {
		for pair := range q.passed {
			if pair[0] == name {
				delete(q.passed, pair)
			}
		}
	}
	if c := q.m.clients[name]; c != nil && c.held == 0 && !waits {
		delete(q.m.clients, name)
	}
}

func (q *sequence) waitingOf(name byte) int {
	n := 0
	for _, o := range q.m.waiting {
		if o.client() == name {
			n++
		}
	}
	return n
}

// next returns whose turn it is.
func next(waiting []*modelTurn, clients map[byte]*modelClient) *modelTurn {
	return slices.MinFunc(waiting, func(a, b *modelTurn) int {
		ca, cb := clients[a.client()], clients[b.client()]
		return cmp.Or(cmp.Compare(ca.held, cb.held), cmp.Compare(ca.stamp, cb.stamp), cmp.Compare(a.order, b.order))
	})
}

// order returns those that wait in the order in which they would be let through.
func (q *sequence) order() []*modelTurn {
	clients := map[byte]*modelClient{}
	for name, c := range q.m.clients {
		clients[name] = &modelClient{c.held, q.stamp(name)}
	}
	stamp := q.m.stamp
	waiting := slices.Clone(q.m.waiting)
	var order []*modelTurn
	for len(waiting) > 0 {
		u := next(waiting, clients)
		waiting = slices.DeleteFunc(waiting, func(o *modelTurn) bool { return o == u })
		order = append(order, u)
		stamp++
		clients[u.client()].held++
		clients[u.client()].stamp = stamp
	}
	return order
}

// place gives u a place.
func (q *sequence) place(u *modelTurn) {
	q.stopWaiting(u)
	q.client(u.client()).held++
	q.m.stamp++
	u.stamp, u.tried, u.timed, u.passes = q.m.stamp, true, q.m.timed, nil
	q.m.held = append(q.m.held, u)
	q.did["placed"]++
	for name, c := range q.m.clients {
		if name != u.client() && c.held == 0 && q.waitingOf(name) > 0 {
			pair := string([]byte{name, u.client()})
			u.passes = append(u.passes, pair)
			q.passed[pair]++
		}
	}
	if q.m.refused != 0 {
		q.m.pause = time.Now().Add(q.m.after)
	}
}

func (q *sequence) stopWaiting(u *modelTurn) {
	if i := slices.Index(q.m.waiting, u); i >= 0 {
		q.m.waiting = slices.Delete(q.m.waiting, i, i+1)
		u.waited += time.Since(u.queued)
	}
}

func (q *sequence) open() bool { return len(q.m.held) < q.m.runs && q.m.pause.IsZero() }

func (q *sequence) admit() {
	for len(q.m.waiting) > 0 && q.open() {
		if u := q.order()[0]; u.until.After(time.Now()) {
			q.place(u)
		} else {
			q.timeOut(u)
		}
	}
}

func (q *sequence) timeOut(u *modelTurn) {
	q.end(u, queue.TimedOut, queue.ErrTimeout)
	q.did["timed out"]++
}

func (q *sequence) count(u *modelTurn, o queue.Outcome) {
	if u.counted {
		return
	}
	u.counted = true
	q.m.requests[o]++
	if u.lined {
		q.m.waits = append(q.m.waits, u.waited)
	}
}

// end ends a turn that waits or holds a place, with the error of its Wait.
func (q *sequence) end(u *modelTurn, o queue.Outcome, err error) {
	u.err = err
	if slices.Contains(q.m.held, u) {
		q.release(u, false)
		q.m.pause = time.Time{}
	} else {
		q.stopWaiting(u)
	}
	q.count(u, o)
	q.gone(u.client())
	q.admit()
	q.forget()
}

// forget forgets a refusal if nothing runs, waits or pauses.
func (q *sequence) forget() {
	if len(q.m.held)+len(q.m.waiting) == 0 && q.m.pause.IsZero() {
		q.m.refused, q.m.rounds = 0, 0
	}
}

func (q *sequence) run(steps int) {
	for range steps {
		q.step()
		q.settle()
	}
	for len(q.m.held)+len(q.m.waiting) > 0 {
		q.sleep(time.Duration(q.r.Int64N(int64(2 * time.Second))))
		for _, u := range slices.Clone(q.m.held) {
			q.s.done(u.name)
			q.end(u, queue.Admitted, nil)
		}
		q.settle()
	}
	q.s.wantNothing()
}

// settle compares all with the model after a change.
func (q *sequence) settle() {
	q.m.changed = time.Now()
	synctest.Wait()
	q.check()
}

func (q *sequence) step() {
	pick := func(from []*modelTurn) *modelTurn {
		if len(from) == 0 {
			return nil
		}
		return from[q.r.IntN(len(from))]
	}
	held, waits := pick(q.m.held), pick(q.m.waiting)
	switch n := q.r.IntN(21); {
	case n < 7:
		q.come()
	case n < 9:
		q.sleep(time.Duration(q.r.Int64N(int64(3 * time.Second))))
	case n < 10:
		q.sleep(time.Duration(q.r.Int64N(int64(time.Minute))))
	case n < 13 && held != nil:
		q.s.requests[held.name].turn.Done()
		q.end(held, queue.Admitted, nil)
		q.did["done"]++
	case n < 15 && held != nil:
		q.refuse(held)
	case n < 17 && held != nil:
		q.s.requests[held.name].turn.Answered()
		q.count(held, queue.Admitted)
		q.did["answered"]++
		q.taken(held)
		if held.stamp > q.m.refused {
			if q.m.refused != 0 {
				q.did["opened"]++
			}
			q.m.refused, q.m.pause, q.m.settled, q.m.rounds = 0, time.Time{}, q.m.stamp, 0
			q.admit()
		}
	case n < 18 && waits != nil:
		q.s.requests[waits.name].leave(errLeft)
		q.end(waits, queue.Left, errLeft)
		q.did["left"]++
	case n < 19 && waits != nil:
		go q.s.requests[waits.name].turn.Done()
		q.end(waits, queue.Left, errAny)
		q.did["done in line"]++
	case n == 19:
		q.configure()
	case n == 20:
		if u := pick(q.all); u != nil {
			q.tellAgain(u)
		}
	}
}

// tellAgain says of a turn that is over what was, or could have been, said before.
func (q *sequence) tellAgain(u *modelTurn) {
	if slices.Contains(q.m.held, u) || slices.Contains(q.m.waiting, u) || q.s.requests[u.name] == nil {
		return
	}
	turn := q.s.requests[u.name].turn
	turn.Done()
	turn.Answered()
	if turn.Rejoin(0) {
		q.t.Errorf("%s: it may wait after its end", u.name)
	}
	q.did["over"]++
}

var errLeft, errAny = errors.New("left"), errors.New("any")

func (q *sequence) configure() {
	q.o.Waiting = q.r.IntN(8)
	runs := 1 + q.r.IntN(4)
	q.o.Runs = runs
	if n := len(q.ends); n > 0 && q.r.IntN(3) == 0 {
		i := q.r.IntN(n)
		if q.ends[i](); i == n-1 { // that of an older configuration ends nothing
			q.ends = nil
		}
	}
	if q.r.IntN(2) == 0 || runs == q.m.runs {
		return // the next one to come brings it, unless a configuration has
	}
	q.ends = append(q.ends, q.s.lines.Configure(backend, q.o))
	q.setRuns()
}

func (q *sequence) setRuns() {
	switch {
	case q.o.Runs < len(q.m.held):
		q.did["lowered"]++
	case q.o.Runs > q.m.runs && len(q.m.waiting) > 0:
		q.did["raised"]++
	}
	q.m.runs = q.o.Runs
	q.admit()
}

// come has a request join the line.
func (q *sequence) come() {
	// Random nanoseconds have no two times be the same.
	q.s.o = q.o
	q.s.o.Wait = time.Duration(q.r.Int64N(int64(30 * time.Second)))
	if q.r.IntN(10) == 0 {
		q.s.o.Wait *= 20
	}
	name := fmt.Sprintf("%c%d", 'a'+byte(q.r.IntN(5)), len(q.all))
	now := time.Now()
	u := &modelTurn{name: name, since: now, until: now.Add(q.s.o.Wait), queued: now, order: len(q.all), least: math.MaxInt}
	if q.o.Waiting == 0 {
		u.until = now
	}
	q.all = append(q.all, u)
	// Joins, and waits only then: the model first.
	if len(q.ends) == 0 {
		q.setRuns()
	} else if q.o.Runs != q.m.runs {
		q.did["brought an old limit"]++
	}
	var want error
	var victim *modelTurn
	switch {
	case len(q.m.waiting) == 0 && q.open():
		q.client(u.client())
		q.place(u)
		q.did["at once"]++
	case q.o.Waiting == 0 || len(q.m.waiting) > q.o.Waiting:
		want = queue.ErrFull
	case len(q.m.waiting) == q.o.Waiting:
		if victim = q.victim(u.client()); victim == nil {
			want = queue.ErrFull
			break
		}
		q.did["made room"]++
		q.end(victim, queue.Full, queue.ErrFull)
		fallthrough
	default:
		q.client(u.client())
		q.m.waiting, u.lined = append(q.m.waiting, u), true
	}
	if want != nil {
		q.did["full"]++
		q.count(u, queue.Full)
	}
	u.err = want
	if err := q.s.join(name); err != want {
		q.t.Errorf("%s: %v, not %v", name, err, want)
	}
	if want == nil && q.r.IntN(20) == 0 {
		q.s.requests[name].leave(errLeft)
		q.end(u, queue.Left, errLeft)
		q.did["left as it came"]++
	}
	if want == nil {
		q.s.wait(name)
	}
}

// victim returns who has to leave for a request of the client, if anybody.
func (q *sequence) victim(name byte) *modelTurn {
	mine := q.waitingOf(name)
	var last *modelTurn
	for _, o := range q.m.waiting {
		switch n := q.waitingOf(o.client()); {
		case n < mine+2:
		case last == nil || n > q.waitingOf(last.client()):
			last = o
		case n == q.waitingOf(last.client()):
			if cmp.Or(q.compare(o, last), cmp.Compare(o.order, last.order)) > 0 {
				last = o
			}
		}
	}
	return last
}

// compare says whether the client of a comes before that of b.
func (q *sequence) compare(a, b *modelTurn) int {
	ca, cb := q.m.clients[a.client()], q.m.clients[b.client()]
	return cmp.Or(cmp.Compare(ca.held, cb.held), cmp.Compare(q.stamp(a.client()), q.stamp(b.client())))
}

// refuse has upstream refuse a request.
func (q *sequence) refuse(u *modelTurn) {
	after := time.Duration(q.r.Int64N(int64(6 * time.Second)))
	switch q.r.IntN(6) {
	case 0:
		after = time.Hour
	case 1, 2, 3:
		after = 0
	}
	ok := q.s.requests[u.name].turn.Rejoin(after)
	if !u.tried {
		if ok {
			q.t.Errorf("%s: refused after it was taken", u.name)
		}
		return
	}
	rest := time.Until(u.until)
	q.m.refusals++
	if ok != (rest > 0) {
		q.t.Errorf("%s: refused: %v", u.name, ok)
	}
	if !ok {
		q.taken(u)
		u.stamp = 0
		q.did["refused for good"]++
		return
	}
	q.did["refused"]++
	q.release(u, true)
	u.queued = time.Now()
	u.refusals++
	q.m.waiting, u.lined = append(q.m.waiting, u), true
	if q.m.refused == 0 {
		q.m.settled = q.m.stamp
	}
	after = max(min(after, rest), time.Second)
	q.m.refused, q.m.after, q.m.pause = q.m.stamp, after, time.Now().Add(after)
	if order := q.order(); u.timed && order[0].client() == u.client() {
		if q.m.rounds++; q.m.rounds%3 == 0 && len(q.m.held) < q.m.runs {
			q.scout(u, order)
		}
	}
	q.s.wait(u.name)
}

// scout lets one of those that were refused least often try, after u was refused again.
func (q *sequence) scout(u *modelTurn, order []*modelTurn) {
	var least *modelTurn
	seen := map[byte]bool{u.client(): true}
	for _, o := range order {
		if !seen[o.client()] && (least == nil || cmp.Or(cmp.Compare(o.refusals, least.refusals), q.compare(o, least)) < 0) {
			least = o
		}
		seen[o.client()] = true // the others of this client come after it
	}
	if least == nil {
		return
	}
	passed := maps.Clone(q.passed)
	q.place(least)
	q.passed, least.passes = passed, nil // a scout is no turn
	q.did["scouted"]++
}

// sleep has time pass, and the model do what it brings.
func (q *sequence) sleep(d time.Duration) {
	end := time.Now().Add(d)
	for {
		first := end
		var over *modelTurn
		for _, u := range q.m.waiting {
			if u.until.Before(first) {
				first, over = u.until, u
			}
		}
		if !q.m.pause.IsZero() && q.m.pause.Before(first) {
			first, over = q.m.pause, nil
		}
		time.Sleep(time.Until(first))
		synctest.Wait()
		switch {
		case over != nil:
			q.timeOut(over)
			if q.m.pause.Equal(first) { // which was for this one
				continue
			}
		case first.Before(end):
			q.m.pause, q.m.settled = time.Time{}, q.m.stamp
			q.did["paused out"]++
			q.m.timed = true
			q.admit()
			q.m.timed = false
			q.forget()
			if n := len(q.m.held); n > 0 && q.m.held[n-1].timed && q.m.held[n-1].tried && q.r.IntN(2) == 0 {
				q.settle()
				q.refuse(q.m.held[n-1]) // as a full upstream does
			}
		default:
			q.check()
			return
		}
		q.settle()
	}
}

// check compares all with the model.
func (q *sequence) check() {
	q.t.Helper()
	var line []string
	list := q.s.lines.List(time.Now())
	for i, u := range q.order() {
		line = append(line, u.name)
		u.least = min(u.least, q.trying()+i)
		q.checkTold(u, q.trying()+i)
		if i < len(list) && (list[i].Before != q.trying()+i || list[i].Waited != u.waited+time.Since(u.queued) || !list[i].Since.Equal(u.since)) {
			q.t.Errorf("%s: %+v, not %v", u.name, list[i], u.waited)
		}
	}
	q.s.wantLine(strings.Join(line, " "))
	for pair, n := range q.passed {
		if n > 1 {
			q.t.Errorf("%c got %d places while %c waited that has none", pair[1], n, pair[0])
		}
	}
	for _, u := range q.all {
		if q.s.requests[u.name] == nil {
			continue
		}
		waits, err := q.s.state(u.name)
		if waits != slices.Contains(q.m.waiting, u) || err != u.err && (u.err != errAny || err == nil) {
			q.t.Errorf("%s: waits: %v, %v, not %v", u.name, waits, err, u.err)
		}
		if !waits && q.s.requests[u.name].turn.Waited() != u.waited {
			q.t.Errorf("%s: waited %v, not %v", u.name, q.s.requests[u.name].turn.Waited(), u.waited)
		}
	}
	got := q.s.lines.Stats()
	if got.Running != len(q.m.held) || got.Waiting != len(q.m.waiting) || got.Requests != q.m.requests || got.Refused != q.m.refusals {
		q.t.Errorf("%+v, not %d %d %d", got, len(q.m.waiting), len(q.m.held), q.m.requests)
	}
	q.checkWaits(got.Waits)
	if size := q.s.lines.Size(); len(q.m.held)+len(q.m.waiting) == 0 && q.m.pause.IsZero() && size != 0 ||
		size > 1+len(q.m.clients) {
		q.t.Errorf("%d lines and clients", size)
	}
	if q.t.Failed() {
		q.t.FailNow()
	}
}

// checkTold checks what u is told, before which so many are now: a number only if it is smaller than the one before,
// and within a second of each change.
func (q *sequence) checkTold(u *modelTurn, before int) {
	told := q.s.told(u.name)
	for i, n := range told {
		if n < u.least || i > 0 && n >= told[i-1] {
			q.t.Errorf("%s was told %d; at least %d were before it", u.name, told, u.least)
		}
	}
	// The places are counted a moment after a change at the earliest.
	stands := time.Since(q.m.changed) > 2*time.Second && time.Since(u.queued) > time.Second
	if stands && (len(told) == 0 || told[len(told)-1] > before) {
		q.t.Errorf("%s was told %d; %d are before it", u.name, told, before)
	}
	if time.Since(u.since) < time.Second && len(told) > 0 {
		q.t.Errorf("%s was told %d at once", u.name, told)
	}
	q.did["told"] += len(told)
}

// checkWaits compares the histogram with the waits of the model.
func (q *sequence) checkWaits(got queue.Waits) {
	var sum time.Duration
	for _, w := range q.m.waits {
		sum += w
	}
	if got.Count != uint64(len(q.m.waits)) || got.Sum != sum || len(got.Buckets) != 8 {
		q.t.Errorf("%+v, not %v", got, q.m.waits)
	}
	for _, bound := range []float64{0.1, 1, 5, 15, 30, 60, 120, 300} {
		n := uint64(0)
		for _, w := range q.m.waits {
			if w.Seconds() <= bound {
				n++
			}
		}
		if got.Buckets[bound] != n {
			q.t.Errorf("%d waits of at most %v s, not %d: %v", got.Buckets[bound], bound, n, q.m.waits)
		}
	}
}
