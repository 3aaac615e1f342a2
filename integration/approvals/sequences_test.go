package approvals

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// TestRandomSequences lets clients, strangers, clocks and failures do anything at any time, some of
// it at once, and wants of the agent's own records: a command runs exactly once if its client has
// approved it and upstream has accepted that, and otherwise never. HERMES_APPROVAL_SEQUENCES says
// how many, and HERMES_APPROVAL_SEED repeats them.
func TestRandomSequences(t *testing.T) {
	n := 60
	if given, err := strconv.Atoi(os.Getenv("HERMES_APPROVAL_SEQUENCES")); err == nil {
		n = given
	}
	seed := harness.Seed(t, "HERMES_APPROVAL_SEED")
	places := []*place{newPlace(t, byLink, byReply, byUser), newPlace(t, byLink, byUser), newPlace(t, byReply, byUser)}
	numbers := make(chan int)
	var all sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for range 8 {
		all.Go(func() {
			for i := range numbers {
				q := newSequence(t, places[i%len(places)], rand.New(rand.NewPCG(seed, uint64(i))), i)
				q.play()
				mu.Lock()
				outcomes[q.check()]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		if t.Failed() {
			break
		}
		numbers <- i
	}
	close(numbers)
	all.Wait()
	t.Logf("outcomes of %d sequences: %v", n, outcomes)
}

// A sequence is a run of an agent with all that happens to it.
type sequence struct {
	t       testing.TB
	at      *place
	random  *rand.Rand
	name    string
	me      person
	others  []person
	expires chan struct{}
	dies    chan struct{}
	busy    sync.WaitGroup

	mu      sync.Mutex
	asked   []asked // by the sidecar, in order
	wrong   int     // codes that the client itself has sent
	stopped bool    // expires is closed, or dies
	log     []string
}

// asked is what the client knows of a question, and what it has done.
type asked struct {
	url, code string
	sent      []string // choices
	accepted  []string // of which the page says that upstream has taken them
}

func newSequence(t testing.TB, at *place, random *rand.Rand, i int) *sequence {
	q := &sequence{t: t, at: at, random: random, name: fmt.Sprintf("s%d", i), expires: make(chan struct{}), dies: make(chan struct{})}
	key := "key-" + q.name
	q.me = person{t: t, at: at, key: key, user: "ann"}
	q.others = []person{{t, at, key, "bob"}, {t, at, key + "x", "ann"}}
	var commands []hermes.Command
	for c := range 1 + random.IntN(2) {
		commands = append(commands, hermes.Command{Text: fmt.Sprintf("rm -rf %s-%d", q.name, c), Expires: q.expires, Dies: q.dies})
	}
	at.On(q.name, asks(commands...)...)
	return q
}

// play asks, and lets things happen.
func (q *sequence) play() {
	if !q.read(q.me.tries(said{q.name}.body(true))) {
		return
	}
	for range 2 + q.random.IntN(9) {
		act := q.act()
		if q.random.IntN(2) == 0 {
			act()
			continue
		}
		q.busy.Go(act)
	}
	q.stop(q.expires)
	q.busy.Wait()
	harness.Until(q.t, q.name+" is over", func() bool { return q.at.IsOver(q.name) })
}

// note adds to what is told of a failure.
func (q *sequence) note(format string, args ...any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.log = append(q.log, fmt.Sprintf(format, args...))
}

// read reads an answer to its first question, and goes on in the background. It reports whether
// there was one.
func (q *sequence) read(r *held, err error) bool {
	if err != nil {
		q.t.Errorf("%s: %v", q.name, err)
		return false
	}
	first, once := make(chan bool, 1), sync.Once{}
	is := func(b bool) { once.Do(func() { first <- b }) }
	q.busy.Go(func() {
		defer is(false)
		for {
			e, err := r.next()
			if err != nil {
				return
			}
			if e.Name == "approval.request" {
				url, code := offered(e.Data)
				q.mu.Lock()
				if !slices.ContainsFunc(q.asked, func(a asked) bool { return a.url == url && a.code == code }) {
					q.asked = append(q.asked, asked{url: url, code: code})
					q.log = append(q.log, "asked")
				}
				q.mu.Unlock()
				is(true)
			}
		}
	})
	return <-first
}

// stop closes one of the channels that end the waiting, if none is closed.
func (q *sequence) stop(c chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.stopped {
		q.stopped = true
		close(c)
	}
}

// act returns one of the things that may happen.
func (q *sequence) act() func() {
	q.mu.Lock()
	n := len(q.asked) - 1
	now := q.asked[n]
	q.mu.Unlock()
	choice := []string{"once", "session", "deny"}[q.random.IntN(3)]
	other := q.others[q.random.IntN(len(q.others))]
	code := now.code
	if code == "" {
		code = "ABCD-EFGH"
	}
	guess := wrong(code, q.random.IntN(31))
	verb := []string{"approve", "deny"}[q.random.IntN(2)]
	meant := map[string]string{"approve": "once", "deny": "deny"}[verb]
	chat := func(last string) string { return said{q.name + "?", "Let me see.", last}.body(q.random.IntN(4) > 0) }
	drain := func(who person, body string) {
		if r, err := who.tries(body); err == nil {
			for err == nil {
				_, err = r.next()
			}
			r.Leave()
		}
	}
	switch q.random.IntN(10) {
	case 0, 1:
		if now.url == "" {
			return func() {}
		}
		return func() { q.press(n, now.url, choice) }
	case 2, 3, 4:
		if now.code == "" {
			return func() {}
		}
		body := said{q.name + "?", "Let me see.", verb + " " + now.code}.body(true)
		return func() {
			q.mu.Lock()
			q.asked[n].sent = append(q.asked[n].sent, meant)
			q.log = append(q.log, "reply "+verb)
			q.mu.Unlock()
			q.read(q.me.tries(body))
		}
	case 5:
		body := chat(verb + " " + code)
		return func() { q.note("stranger %s", verb); drain(other, body) }
	case 6:
		body := chat(verb + " " + guess)
		return func() {
			q.mu.Lock()
			q.wrong++
			q.log = append(q.log, "wrong code")
			q.mu.Unlock()
			drain(q.me, body)
		}
	case 7:
		body := chat("I may say " + verb + " " + code)
		return func() { drain(q.me, body) }
	case 8:
		if now.url == "" {
			return func() {}
		}
		return func() { _, _ = q.me.browse("GET", now.url, "") }
	}
	if q.random.IntN(2) == 0 {
		return func() { q.note("dies"); q.stop(q.dies) }
	}
	return func() { q.note("expires"); q.stop(q.expires) }
}

// wrong is a code that is not that one, the i-th.
func wrong(code string, i int) string {
	const alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
	at := strings.IndexByte(alphabet, code[0])
	return alphabet[(at+1+i)%32:][:1] + code[1:]
}

// press presses a button of the n-th question's page.
func (q *sequence) press(n int, page, choice string) {
	q.mu.Lock()
	q.asked[n].sent = append(q.asked[n].sent, choice)
	q.mu.Unlock()
	s, err := q.me.browse("POST", page, "choice="+choice, "Content-Type", "application/x-www-form-urlencoded", "Origin", q.at.page)
	if err != nil {
		q.t.Errorf("%s: %v", q.name, err)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.log = append(q.log, fmt.Sprintf("page %s: %d", choice, s.status))
	if s.status == 200 {
		q.asked[n].accepted = append(q.asked[n].accepted, choice)
	}
}

// check compares the agent's records with what the client has done, and says in short how it ended.
func (q *sequence) check() string {
	var got []hermes.Question
	for _, r := range q.at.Questions() {
		if r.Prompt == q.name {
			got = append(got, r)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	bad := func(format string, args ...any) {
		q.t.Errorf("%s: %s\nrecords %+v\nasked %+v, %d wrong codes\n%q", q.name, fmt.Sprintf(format, args...), got, q.asked, q.wrong, q.log)
	}
	if len(got) < len(q.asked) {
		bad("more questions than the agent has asked")
		return "bad"
	}
	end := ""
	for i, r := range got {
		var mine asked
		if i < len(q.asked) {
			mine = q.asked[i]
		}
		switch {
		case len(r.Choices) > 1:
			bad("question %d is answered %d times", i, len(r.Choices))
		case len(r.Choices) == 0 && (r.Ran > 0 || len(mine.accepted) > 0):
			bad("question %d: unanswered, and yet it ran or the page says so", i)
		case len(r.Choices) == 0:
			end += "-"
			continue
		case r.Choices[0] == "deny" && r.Ran != 0, r.Choices[0] != "deny" && r.Ran != 1 && !r.Died:
			bad("question %d ran %d times", i, r.Ran)
		case !slices.Contains(mine.sent, r.Choices[0]) && (r.Choices[0] != "deny" || q.wrong < 5):
			bad("question %d: %s is not its client's answer", i, r.Choices[0])
		case len(mine.accepted) > 1, len(mine.accepted) == 1 && mine.accepted[0] != r.Choices[0]:
			bad("question %d: the page has accepted %q", i, mine.accepted)
		}
		if len(r.Choices) > 0 {
			end += r.Choices[0][:1]
		}
	}
	return end
}
