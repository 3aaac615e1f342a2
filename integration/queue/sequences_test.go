package queue

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// TestRandomSequences lets hundreds of requests of all kinds come, be typed, wait, leave, be refused by
// upstream, fail, run too long and be reloaded at any time, and wants of upstream's own records: never more
// than runs at once, of those whose clients are there; the answer or the error of its kind for each that stays;
// nothing heard of those that were refused; and at the end all places are free. HERMES_QUEUE_SEQUENCES says how
// many requests, and HERMES_QUEUE_SEED repeats what they do.
func TestRandomSequences(t *testing.T) {
	t.Parallel()
	sequences(t, 200)
}

// TestNoRaces does the same in a binary that is built with the race detector.
func TestNoRaces(t *testing.T) {
	t.Setenv(sidecar.BinaryVariable, sidecar.RaceBinary(t))
	sequences(t, 300)
}

func sequences(t *testing.T, n int) {
	if given, err := strconv.Atoi(os.Getenv("HERMES_QUEUE_SEQUENCES")); err == nil {
		n = given
	}
	seed := harness.Seed(t, "HERMES_QUEUE_SEED")
	for i, s := range []site{
		{queue: []string{"runs 3", "wait 1h", "waiting 10000"}},
		{queue: []string{"runs 2", "wait 1500ms", "waiting 30"}, hermes: []string{"status_line on", "keepalive 50ms"}},
		{queue: []string{"runs 4", "wait 1h", "waiting 10000"}, resume: "detach 10m\n\t\tmax_detached 1000"}, // above it, one ends with its client
	} {
		s.grace = "10m"
		s.hermes = append(s.hermes, "drain_timeout 10m")
		t.Run(strings.Join(append(s.queue, strings.Fields(s.resume)...), ", "), func(t *testing.T) {
			t.Parallel()
			q := &sequence{place: newPlaceOf(t, hermes.New(t, 10), s), seed: seed + uint64(i), outcomes: map[string]int{}}
			q.works = map[bool]int{true: 80, false: 300}[slices.Contains(s.queue, "wait 1h")]
			q.play(t, n)
			for _, what := range []string{"full", "timeout", "told"} {
				if q.works == 300 && q.outcomes[what] == 0 {
					t.Errorf("no request was %s", what)
				}
			}
		})
	}
}

// A sequence is what many clients do at a place.
type sequence struct {
	*place
	seed  uint64
	works int // how many milliseconds the agent works at most

	mu       sync.Mutex
	outcomes map[string]int
}

// play plays n requests of forty workers.
func (q *sequence) play(t *testing.T, n int) {
	runs, _ := strconv.Atoi(strings.TrimPrefix(q.lines.queue[0], "runs "))
	q.Lingers = 100 * time.Millisecond
	numbers := make(chan int)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for i := range numbers {
				q.one(t, i)
			}
		})
	}
	for i := range n {
		if t.Failed() {
			break
		}
		if i%50 == 49 {
			q.load(q.lines)
		}
		numbers <- i
	}
	close(numbers)
	all.Wait()
	t.Logf("outcomes of %d requests: %v; %d refused by upstream, %d at once", n, q.outcomes, q.Refusals(), q.MostAtOnce())
	if q.MostAtOnce() > runs {
		t.Errorf("%d at once, want %d at most", q.MostAtOnce(), runs)
	}
	if n := q.metric("waiting"); n > 0 {
		t.Errorf("%v still wait", n)
	}
	harness.Until(t, "all places are free", func() bool { return q.metric("running") <= 0 })
	q.free(runs)
}

// one is a request with all that happens to it.
func (q *sequence) one(t *testing.T, i int) {
	r := rand.New(rand.NewPCG(q.seed, uint64(i)))
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most)) * time.Millisecond }
	k := []kind{chat, chat, chat, whole, responses, response, session, runs}[r.IntN(8)]
	key := fmt.Sprintf("key-%d", r.IntN(6))
	prompt := fmt.Sprintf("slow-%d", i)
	quits, fate := r.IntN(5) == 0, r.IntN(12)
	quitsAfter, works := ms(300), ms(q.works)
	header := []string{}
	keyed := r.IntN(3) == 0
	if keyed {
		header = []string{"Idempotency-Key", prompt}
	}
	typed := !keyed && r.IntN(5) == 0
	if typed {
		header = []string{"Content-Encoding", []string{"gzip", "identity"}[r.IntN(2)]}
	}
	refusals := 0
	switch fate {
	case 0:
		refusals = 1 + r.IntN(2)
	case 1:
		prompt = fmt.Sprintf("error-%d", i)
		q.Answer(prompt, hermes.Replies(500, "application/json", `{"error": {"message": "failed", "type": "server_error"}}`))
	case 2:
		prompt = fmt.Sprintf("dies-%d", i)
		q.Answer(prompt, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}
	if refusals > 0 {
		q.Refuse(prompt, refusals)
	}
	ends := make(chan struct{})
	defer close(ends)
	go func() { // the agent's own time
		for !q.Has(prompt) {
			select {
			case <-ends:
				q.End(prompt)
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		time.Sleep(works)
		q.End(prompt)
	}()
	p := q.ask(k, key, prompt, header...)
	if quits {
		select {
		case <-p.done:
		case <-time.After(quitsAfter):
			// Only a stream with a key goes on without its client. Of another answer the sidecar gives the
			// place away as the client leaves, and the agent may see that later.
			if q.lines.resume == "" || !keyed || !k.stream {
				q.Leaving(prompt)
			}
			p.leave()
		}
	}
	<-p.done
	outcome := "left"
	body := p.body.String()
	switch {
	case p.err != nil && quits:
	case p.err != nil && fate == 2:
		outcome = "broken"
	case p.err != nil:
		outcome = "bad"
		t.Errorf("%s %s: %v after %q", k.path, prompt, p.err, harness.Clip(body))
	case strings.Contains(body, "queue_full"), strings.Contains(body, messages["queue_full"]):
		outcome = "full"
		p.refused(k, "queue_full")
		began := len(q.Heard())
		harness.Until(t, "another has begun", func() bool { return len(q.Heard()) > began || q.Running() == 0 })
	case strings.Contains(body, "queue_timeout"), strings.Contains(body, messages["queue_timeout"]):
		outcome = "timeout"
		p.refused(k, "queue_timeout")
	case strings.Contains(body, "rate_limit_exceeded") && (typed || !strings.Contains(q.lines.queue[1], "1h")):
		outcome = "refused" // upstream wants it to wait for longer than it may, or it cannot be sent again
	case fate == 1 || fate == 2:
		outcome = "failed"
		if p.reply.StatusCode == 200 && !strings.Contains(body, `error`) {
			t.Errorf("%s %s: %s", k.path, prompt, harness.Clip(body))
		}
	case k != runs && strings.Contains(body, "bye"), k == runs && p.reply.StatusCode == 202, k == responses && strings.Contains(body, "response.completed"), k == response && strings.Contains(body, `"completed"`):
		outcome = "served"
		if q.lines.resume == "" { // whose events have ids
			p.good(k)
		}
	default:
		t.Errorf("%s %s: %s %q", k.path, prompt, p.reply.Status, harness.Clip(body))
		outcome = "bad"
	}
	if (outcome == "full" || outcome == "timeout") && (q.Has(prompt) || strings.Contains(q.lines.queue[1], "1h")) {
		t.Errorf("%s: %s, and yet upstream has heard of it, or it had time and room", prompt, outcome)
	}
	if outcome == "served" && k == runs {
		state, over := q.get("/v1/runs/"+p.runID(), key), func() bool { return q.IsOver(prompt) }
		switch r.IntN(8) {
		case 0: // the sidecar asks, after five seconds
			state.leave()
			q.get("/v1/runs/"+p.runID()+"/events", key).leave()
		case 1, 2, 3:
			harness.Until(t, "the run is over", over)
			state = q.get("/v1/runs/"+p.runID(), key)
		default:
			<-q.get("/v1/runs/"+p.runID()+"/events", key).done
		}
		<-state.done
		harness.Until(t, "the run is over", over)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.outcomes[outcome]++
	if strings.Contains(body, "Waiting in line") {
		q.outcomes["told"]++
	}
}
