package desk_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
)

// TestAnswersAtOnce, by the page and by replies, with the end of the tool or the timeout: one is sent at most, and one
// if nothing else has ended the ticket. TestRandomSequences has what happens one after another.
func TestAnswersAtOnce(t *testing.T) {
	for round := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, round))
			at, takes := []time.Duration{time.Second, timeout}[r.IntN(2)], time.Duration(r.IntN(2))*time.Second
			h := hermes{during: func() { time.Sleep(takes) }} // the race detector sees two of them
			d := desk.New()
			s := d.Tickets(h.asker(1))
			ticket := held(s, ask("run", 1))
			var accepted atomic.Int64
			for i := range 8 {
				c := all[3*(i%2)]
				go func() {
					time.Sleep(at)
					result := desk.Refused
					if i < 4 {
						result, _ = ticket.Answer(t.Context(), c, desk.Page)
					} else {
						result = d.Reply(t.Context(), [32]byte{1}, c, ticket.Code()).Result
					}
					if result == desk.Accepted {
						accepted.Add(1)
					}
				}()
			}
			ends := r.IntN(2) == 0
			if ends {
				go func() {
					time.Sleep(at)
					s.Done("request1")
				}()
			}
			time.Sleep(at + 2*time.Second)
			synctest.Wait()
			if n := accepted.Load(); n > 1 || n == 0 && !ends && at < timeout || h.asked != int(n) {
				t.Errorf("%d answers were sent, and %d accepted", h.asked, n)
			}
			if st := ticket.View().State; (st == desk.Answered) != (accepted.Load() == 1) || st == desk.Waiting || s.Waiting() != 0 {
				t.Errorf("the ticket is %d", st)
			}
			checkSum(t, d.Stats())
		})
	}
}

// TestWhatIsSaidIsACopy: who changes it changes nothing of the desk.
func TestWhatIsSaidIsACopy(t *testing.T) {
	var h hermes
	d := desk.New()
	ticket := d.Tickets(h.asker(1)).Ask(ask("run", 1))
	ticket.View().Request.Choices[0] = desk.Always
	d.Stats().Answered[desk.AnswerKind{}]++
	if v, s := ticket.View(), d.Stats(); v.Request.Choices[0] != desk.Once || len(s.Answered) != 0 {
		t.Errorf("%+v, %+v", v, s)
	}
}
