package desk_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestRandomSequences has clients and strangers answer, reply, guess, replay and leave at
// random, one after another and at once, while questions expire and upstream fails. Against a
// model: a command runs only if its own client has approved it, once; and what its client
// approves in time, does run. At last nothing is left. HERMES_APPROVAL_SEQUENCES has another
// number of them.
func TestRandomSequences(t *testing.T) {
	rounds := 10000
	if testing.Short() {
		rounds = 500
	}
	if s := os.Getenv("HERMES_APPROVAL_SEQUENCES"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	total := map[string]int{}
	for round := range rounds {
		synctest.Test(t, func(t *testing.T) {
			s := &sequence{t: t, r: rand.New(rand.NewPCG(seed, uint64(round))), d: desk.New(), approved: map[string]bool{}, did: total}
			s.run(5 + round%40)
		})
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	t.Log(total)
	for _, what := range []string{"ran", "denied", "denied for codes", "expired", "refused", "replayed", "at once", "read again"} {
		if rounds >= 500 && total[what] == 0 {
			t.Errorf("nothing was ever %s", what)
		}
	}
}

// sequence is a round of TestRandomSequences.
type sequence struct {
	t        *testing.T
	r        *rand.Rand
	d        *desk.Desk
	h        hermes
	streams  []*desk.Tickets // of client i/2
	asked    []*question
	approved map[string]bool // by their own client, by run and request
	did      map[string]int
}

// question is what the model knows of a ticket.
type question struct {
	owner  int
	stream int // that asks it
	q      rewrite.ApprovalRequest
	ticket *desk.Ticket
	until  time.Time
	ended  bool // by an answer that upstream has accepted, its tool or its end
	left   bool // by the end of its stream
	wrong  int
}

// waits reports whether an answer now has to be accepted.
func (q *question) waits() bool {
	return !q.ended && !q.left && time.Now().Before(q.until)
}

const clientsOfSequence = 3

func (s *sequence) run(steps int) {
	for i := range 2 * clientsOfSequence {
		s.streams = append(s.streams, s.d.Tickets(s.h.asker(byte(i/2))))
	}
	for range steps {
		s.step()
		s.check()
	}
	time.Sleep(timeout + 24*time.Hour)
	synctest.Wait()
	for _, q := range s.asked {
		if _, ok := s.d.Find(q.ticket.ID()); ok || s.d.Reply(s.t.Context(), [32]byte{byte(q.owner)}, desk.Once, q.ticket.Code()).Ticket != nil {
			s.t.Error("a ticket is left")
		}
	}
	if stats := s.d.Stats(); stats.Waiting != 0 {
		s.t.Errorf("%d still wait", stats.Waiting)
	}
	s.did["expired"] += int(s.d.Stats().Expired)
	s.check()
}

// check compares what has run with what was approved.
func (s *sequence) check() {
	s.t.Helper()
	checkSum(s.t, s.d.Stats())
	for id, c := range s.h.answers {
		if c == desk.Once && !s.approved[id] {
			s.t.Errorf("%s runs, and was not approved by its client", id)
		}
	}
}

func (s *sequence) step() {
	s.h.away = s.r.IntN(10) == 0
	if len(s.asked) == 0 || s.r.IntN(4) == 0 {
		s.ask()
		return
	}
	q := s.asked[s.r.IntN(len(s.asked))]
	switch s.r.IntN(11) {
	case 0, 1:
		s.answer(q, desk.Page)
	case 2, 3:
		s.answer(q, desk.Reply)
	case 4: // a stranger, or another client
		if r := s.d.Reply(s.t.Context(), [32]byte{byte(q.owner + 1)}, desk.Once, q.ticket.Code()); r.Ticket != nil {
			s.t.Error("a stranger's reply is taken")
		}
		s.guessed(q.owner + 1)
	case 5, 6:
		for range 1 + s.r.IntN(3) {
			s.d.Reply(s.t.Context(), [32]byte{byte(q.owner)}, desk.Once, other(q.ticket.Code()))
			s.guessed(q.owner)
		}
	case 7:
		s.streams[q.stream].Done(q.q.RequestID)
		for _, o := range s.asked { // the same number in another run of the stream
			if o.stream == q.stream && o.q.RequestID == q.q.RequestID && !o.left {
				o.ended = true
			}
		}
	case 8:
		s.end(q.stream)
	case 9:
		time.Sleep(time.Duration(s.r.Int64N(int64(timeout))))
		synctest.Wait()
	case 10:
		s.atOnce(q)
	}
}

// ask asks something new, or the same again.
func (s *sequence) ask() {
	stream := s.r.IntN(len(s.streams))
	q := ask("run"+strconv.Itoa(stream), s.r.IntN(6))
	ticket := held(s.streams[stream], q)
	for _, o := range s.asked {
		if o.stream != stream || o.q.RequestID != q.RequestID || !time.Now().Before(o.until.Add(24*time.Hour)) {
			continue
		}
		if ticket != nil && ticket != o.ticket {
			s.t.Error("the same question has another ticket")
		}
		if ticket != nil && o.left && time.Now().Before(o.until) {
			o.left = false
			s.did["read again"]++
		}
		return
	}
	if ticket != nil {
		s.asked = append(s.asked, &question{owner: stream / 2, stream: stream, q: q, ticket: ticket, until: time.Now().Add(timeout)})
	}
}

// end ends a stream.
func (s *sequence) end(stream int) {
	s.streams[stream].Done("")
	for _, o := range s.asked {
		if o.stream == stream && !o.ended {
			o.left = true
		}
	}
}

// guessed notes a wrong code.
func (s *sequence) guessed(owner int) {
	for _, o := range s.asked {
		if o.owner == owner && o.waits() {
			if o.wrong++; o.wrong >= 5 {
				o.ended = true
				s.did["denied for codes"]++
			}
		}
	}
}

// answer answers as its own client.
func (s *sequence) answer(q *question, way desk.Way) {
	c := desk.Once
	if s.r.IntN(2) == 0 {
		c = desk.Deny
	}
	id := q.q.RunID + "/" + q.q.RequestID
	before, waits := s.h.answers[id], q.waits()
	s.approved[id] = s.approved[id] || c == desk.Once && waits
	var result desk.Result
	if way == desk.Page {
		result, _ = q.ticket.Answer(s.t.Context(), c, way)
	} else {
		r := s.d.Reply(s.t.Context(), [32]byte{byte(q.owner)}, c, q.ticket.Code())
		if result = r.Result; r.Ticket == nil {
			s.guessed(q.owner)
		}
	}
	switch {
	case waits && s.h.away:
		if result != desk.Refused {
			s.t.Errorf("while upstream is away: %d", result)
		}
		s.did["refused"]++
	case waits && before == "":
		if result != desk.Accepted || s.h.answers[id] != c {
			s.t.Errorf("%s by %s: %d, upstream has %q", c, way, result, s.h.answers[id])
		}
		q.ended = true
		s.did[map[rewrite.ApprovalChoice]string{desk.Once: "ran", desk.Deny: "denied"}[c]]++
	case waits: // an earlier life of the question was answered
		q.ended = true
	default:
		if result == desk.Accepted || s.h.answers[id] != before {
			s.t.Errorf("%s by %s after the end: %d", c, way, result)
		}
		s.did["replayed"]++
	}
}

// atOnce answers in all ways at once, with the end and the timeout. Afterwards it has ended,
// or waits as before.
func (s *sequence) atOnce(q *question) {
	if !q.waits() {
		return
	}
	s.did["at once"]++
	s.approved[q.q.RunID+"/"+q.q.RequestID] = true
	takes := time.Duration(s.r.IntN(2)) * time.Second
	s.h.during = func() { time.Sleep(takes) }
	at := time.Second
	if s.r.IntN(3) == 0 {
		at = time.Until(q.until)
	}
	accepted := make(chan bool, 8)
	for i := range 8 {
		c := desk.Once
		if i%2 == 0 {
			c = desk.Deny
		}
		go func() {
			time.Sleep(at)
			result := desk.Refused
			if i < 4 {
				result, _ = q.ticket.Answer(context.Background(), c, desk.Page)
			} else {
				result = s.d.Reply(context.Background(), [32]byte{byte(q.owner)}, c, q.ticket.Code()).Result
			}
			accepted <- result == desk.Accepted
		}()
	}
	if s.r.IntN(2) == 0 {
		go func() {
			time.Sleep(at)
			s.streams[q.stream].Done(q.q.RequestID)
		}()
	}
	n := 0
	for range 8 {
		if <-accepted {
			n++
		}
	}
	synctest.Wait()
	time.Sleep(time.Second) // for an end that was last
	s.h.during = nil
	if n > 1 {
		s.t.Errorf("%d answers were accepted", n)
	}
	for _, o := range s.asked {
		if state := o.ticket.View().State; o.stream == q.stream && o.q.RequestID == q.q.RequestID && state != desk.Waiting {
			o.ended = true
		}
	}
}
