package approval_test

import (
	"context"
	"encoding/base64"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/approval"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestATicketIsAnsweredOnce by each choice, and then says which.
func TestATicketIsAnsweredOnce(t *testing.T) {
	for _, c := range all {
		synctest.Test(t, func(t *testing.T) {
			var h hermes
			d := approval.NewDesk()
			began := time.Now()
			ticket := d.Stream(h.asker(1)).Ask(ask("run", 1))
			if raw, err := base64.RawURLEncoding.Strict().DecodeString(ticket.ID()); err != nil || len(raw) != 16 {
				t.Errorf("the id %q", ticket.ID())
			}
			if !regexp.MustCompile(`^[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}$`).MatchString(ticket.Code()) {
				t.Errorf("the code %q", ticket.Code())
			}
			v := ticket.View()
			if v.State != approval.Waiting || v.Request.Command != "rm -rf victim" || !v.Until.Equal(began.Add(timeout)) || !slices.Equal(v.Request.Choices, all) {
				t.Errorf("%+v", v)
			}
			wantAnswer(t, ticket, c, approval.Accepted)
			h.want(t, "run", "request1", c)
			for _, again := range all {
				wantAnswer(t, ticket, again, approval.AlreadyAnswered)
			}
			if h.asked != 1 {
				t.Errorf("upstream was asked %d times", h.asked)
			}
			v = ticket.View()
			if v.State != approval.Answered || v.Answer != c || v.Request.Command != "" || v.Request.Description != "" {
				t.Errorf("after the answer %+v", v)
			}
			if s := d.Stats(); s.Answered[approval.Answer{Choice: c, Way: approval.Page}] != 1 {
				t.Errorf("%+v", s)
			}
			if found, ok := d.Find(ticket.ID()); !ok || found != ticket {
				t.Error("it is not known any more")
			}
			wantStats(t, d, 1, 0, 0, 0, 0)
		})
	}
}

// TestTheSameRequestHasTheSameTicket, of any stream of the same client, before and after its
// end; that of another client, another run or another request has another.
func TestTheSameRequestHasTheSameTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hermes
		d := approval.NewDesk()
		a, b, other := d.Stream(h.asker(1)), d.Stream(h.asker(1)), d.Stream(h.asker(2))
		ticket := a.Ask(ask("run", 1))
		for name, same := range map[string]*approval.Ticket{"again": a.Ask(ask("run", 1)), "another stream": b.Ask(ask("run", 1))} {
			if same != ticket {
				t.Errorf("%s: another ticket", name)
			}
		}
		for name, another := range map[string]*approval.Ticket{
			"request": a.Ask(ask("run", 2)), "run": a.Ask(ask("run2", 1)), "client": other.Ask(ask("run", 1)),
		} {
			if another == ticket || another.ID() == ticket.ID() || another.Code() == ticket.Code() {
				t.Errorf("another %s has the same ticket", name)
			}
		}
		wantStats(t, d, 4, 0, 0, 4, 0)
		wantAnswer(t, ticket, approval.Deny, approval.Accepted)
		if a.Ask(ask("run", 1)) != ticket || a.Waiting() != 2 || b.Waiting() != 0 {
			t.Errorf("after the answer %d and %d wait", a.Waiting(), b.Waiting())
		}
		wantStats(t, d, 4, 0, 0, 3, 0)
	})
}

// TestTheEndOfATicket: its tool's, its stream's, its timeout.
func TestTheEndOfATicket(t *testing.T) {
	for name, test := range map[string]struct {
		end                   func(s *approval.Stream)
		found                 bool
		ended, expired, waits uint64
	}{
		"its tool has ended":      {func(s *approval.Stream) { s.Done("request1") }, true, 1, 0, 1},
		"its stream has ended":    {func(s *approval.Stream) { s.Done("") }, true, 2, 0, 0},
		"just before its timeout": {func(*approval.Stream) { time.Sleep(timeout - 1) }, true, 0, 0, 2},
		"its timeout":             {func(*approval.Stream) { time.Sleep(timeout) }, true, 0, 2, 0},
		"a day after its timeout": {func(*approval.Stream) { time.Sleep(timeout + 24*time.Hour - 1) }, true, 0, 2, 0},
		"more than a day":         {func(*approval.Stream) { time.Sleep(timeout + 24*time.Hour) }, false, 0, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h hermes
				d := approval.NewDesk()
				s := d.Stream(h.asker(1))
				ticket := s.Ask(ask("run", 1))
				s.Ask(ask("run", 2))
				test.end(s)
				synctest.Wait()
				if _, ok := d.Find(ticket.ID()); ok != test.found {
					t.Errorf("it is known: %v", ok)
				}
				wantStats(t, d, 2, test.expired, test.ended, test.waits, 0)
				if test.waits == 2 {
					wantAnswer(t, ticket, approval.Once, approval.Accepted)
					return
				}
				wantAnswer(t, ticket, approval.Once, approval.TooLate)
				if v := ticket.View(); v.State != approval.Over || v.Request.Command != "" || h.asked != 0 {
					t.Errorf("%+v, upstream was asked %d times", v, h.asked)
				}
			})
		})
	}
}

// TestAStreamThatIsReadAgain: the ticket waits again with the same link, until its first
// timeout; not if its tool has ended, or if it was answered.
func TestAStreamThatIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hermes
		d := approval.NewDesk()
		s := d.Stream(h.asker(1))
		left, done, answered := s.Ask(ask("run", 1)), s.Ask(ask("run", 2)), s.Ask(ask("run", 3))
		s.Done("request2")
		wantAnswer(t, answered, approval.Deny, approval.Accepted)
		s.Done("")
		time.Sleep(timeout / 2)
		s = d.Stream(h.asker(1))
		if s.Ask(ask("run", 1)) != left || s.Ask(ask("run", 2)) != done || s.Ask(ask("run", 3)) != answered || s.Waiting() != 1 {
			t.Errorf("%d wait again", s.Waiting())
		}
		wantStats(t, d, 4, 0, 2, 1, 0)
		if v := left.View(); v.State != approval.Waiting || !v.Until.Equal(time.Now().Add(timeout/2)) || v.Request.Command == "" {
			t.Errorf("%+v", v)
		}
		wantAnswer(t, done, approval.Once, approval.TooLate)
		wantAnswer(t, left, approval.Once, approval.Accepted)
	})
}

// TestATicketOfTwoStreams ends with the last of them.
func TestATicketOfTwoStreams(t *testing.T) {
	var h hermes
	d := approval.NewDesk()
	a, b := d.Stream(h.asker(1)), d.Stream(h.asker(1))
	ticket := a.Ask(ask("run", 1))
	b.Ask(ask("run", 1))
	a.Done("")
	if v := ticket.View(); v.State != approval.Waiting || a.Waiting() != 0 || b.Waiting() != 1 {
		t.Errorf("after one has left: %+v", v)
	}
	b.Done("")
	wantAnswer(t, ticket, approval.Once, approval.TooLate)
}

// TestWhatUpstreamSaysOfAnAnswer.
func TestWhatUpstreamSaysOfAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		result approval.Result
		err    error
		want   approval.Result
		state  approval.State
	}{
		"accepted":          {approval.Accepted, nil, approval.Accepted, approval.Answered},
		"answered":          {approval.AlreadyAnswered, nil, approval.AlreadyAnswered, approval.Answered},
		"too late":          {approval.TooLate, nil, approval.TooLate, approval.Over},
		"refused":           {approval.Refused, nil, approval.Refused, approval.Waiting},
		"it is away":        {approval.Accepted, errAway, approval.Refused, approval.Waiting},
		"it cannot be told": {approval.TooLate, errAway, approval.Refused, approval.Waiting},
	} {
		d := approval.NewDesk()
		ticket := d.Stream(approval.Asker{Timeout: timeout, Send: func(context.Context, rewrite.ApprovalRequest, rewrite.ApprovalChoice) (approval.Result, error) {
			return test.result, test.err
		}}).Ask(ask("run", 1))
		got, err := ticket.Answer(t.Context(), approval.Once, approval.Page)
		if v := ticket.View(); got != test.want || err != test.err || v.State != test.state || (v.Answer == approval.Once) != (test.want == approval.Accepted) {
			t.Errorf("%s: result %d, %v, and then %+v", name, got, err, v)
		}
		checkSum(t, d.Stats())
	}
}

// TestAFailedAnswerCanBeRepeated, after an error and after a panic, until the timeout.
func TestAFailedAnswerCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hermes{away: true}
		d := approval.NewDesk()
		ticket := d.Stream(h.asker(1)).Ask(ask("run", 1))
		if got, err := ticket.Answer(t.Context(), approval.Once, approval.Page); got != approval.Refused || err != errAway {
			t.Errorf("result %d, %v", got, err)
		}
		func() {
			h.during = func() { panic("reverse proxy") }
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_, _ = ticket.Answer(t.Context(), approval.Once, approval.Page)
		}()
		h.away, h.during = false, nil
		wantAnswer(t, ticket, approval.Once, approval.Accepted)

		h.away = true
		late := d.Stream(h.asker(1)).Ask(ask("run", 2))
		h.during = func() { time.Sleep(timeout) }
		if got, err := late.Answer(t.Context(), approval.Once, approval.Page); got != approval.Refused || err != errAway {
			t.Errorf("result %d, %v", got, err)
		}
		wantStats(t, d, 2, 1, 0, 0, 0)
	})
}

// TestAnAnswerUnderWay: nothing ends it, neither its client nor its tool, its stream or its
// timeout, and no second one is sent. Upstream has 30 seconds for it.
func TestAnAnswerUnderWay(t *testing.T) {
	for name, end := range map[string]func(*approval.Stream){
		"its tool ends":   func(s *approval.Stream) { s.Done("request1") },
		"its stream ends": func(s *approval.Stream) { s.Done("") },
		"its timeout":     func(*approval.Stream) { time.Sleep(timeout + time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h hermes
				begun := time.Now()
				d := approval.NewDesk()
				a := h.asker(1)
				var s *approval.Stream
				var ticket *approval.Ticket
				a.Send = func(ctx context.Context, q rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (approval.Result, error) {
					if until, ok := ctx.Deadline(); !ok || time.Until(until) != 30*time.Second || ctx.Err() != nil {
						t.Errorf("its context ends at %v: %v", until, ctx.Err())
					}
					end(s)
					synctest.Wait()
					if n := s.Waiting(); n != 0 && time.Now().Before(begun.Add(timeout)) {
						t.Errorf("%d wait", n)
					}
					if _, ok := d.Find(ticket.ID()); !ok || ticket.View().State != approval.Sending {
						t.Errorf("meanwhile it is %+v", ticket.View())
					}
					wantAnswer(t, ticket, approval.Deny, approval.AlreadyAnswered)
					return h.send(ctx, q, c)
				}
				s = d.Stream(a)
				ticket = s.Ask(ask("run", 1))
				ctx, leave := context.WithCancel(t.Context())
				leave()
				if got, err := ticket.Answer(ctx, approval.Once, approval.Page); got != approval.Accepted || err != nil || s.Waiting() != 0 {
					t.Errorf("result %d, %v", got, err)
				}
				h.want(t, "run", "request1", approval.Once)
				wantStats(t, d, 1, 0, 0, 0, 0)
			})
		})
	}
}

// TestAnswersAtTheSameTime: one is sent.
func TestAnswersAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hermes{during: func() { time.Sleep(time.Second) }}
		ticket := approval.NewDesk().Stream(h.asker(1)).Ask(ask("run", 1))
		results := make(chan approval.Result)
		for range 50 {
			go func() {
				result, _ := ticket.Answer(context.Background(), approval.Once, approval.Page)
				results <- result
			}()
		}
		count := map[approval.Result]int{}
		for range 50 {
			count[<-results]++
		}
		if count[approval.Accepted] != 1 || count[approval.AlreadyAnswered] != 49 || h.asked != 1 {
			t.Errorf("results %v, upstream was asked %d times", count, h.asked)
		}
	})
}

// TestChoices: only those that upstream offers, in one order, and deny always.
func TestChoices(t *testing.T) {
	for offered, want := range map[string]string{
		"once session always deny":   "once session always deny",
		"deny session once":          "once session deny",
		"once once approve_all deny": "once deny",
		"":                           "deny",
	} {
		q := ask("run", 1)
		q.Choices = nil
		for c := range strings.FieldsSeq(offered) {
			q.Choices = append(q.Choices, rewrite.ApprovalChoice(c))
		}
		var h hermes
		ticket := approval.NewDesk().Stream(h.asker(1)).Ask(q)
		var got []string
		for _, c := range ticket.View().Request.Choices {
			got = append(got, string(c))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("offered %q, it is %q", offered, got)
		}
		for _, c := range append([]rewrite.ApprovalChoice{"approve_all", "", "ONCE"}, all...) {
			if strings.Contains(" "+want+" ", " "+string(c)+" ") {
				continue
			}
			if result, err := ticket.Answer(t.Context(), c, approval.Page); result != approval.Refused || !errors.Is(err, approval.ErrNotOffered) || h.asked != 0 {
				t.Errorf("offered %q, answered %q: %d, %v", offered, c, result, err)
			}
		}
	}
}

// TestAnAnswerThatFailsAfterTheEnd of its tool leaves nothing that waits; one that fails after
// the timeout is too late.
func TestAnAnswerThatFailsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hermes{away: true}
		d := approval.NewDesk()
		a := h.asker(1)
		a.Rest = nil
		s := d.Stream(a)
		done, late := s.Ask(ask("run", 1)), s.Ask(ask("run", 2))
		h.during = func() { s.Done("request1") }
		_, _ = done.Answer(t.Context(), approval.Once, approval.Page)
		if v := done.View(); v.State != approval.Over {
			t.Errorf("%+v", v)
		}
		h.during = func() { time.Sleep(timeout) }
		_, _ = late.Answer(t.Context(), approval.Once, approval.Page)
		if s.Ask(ask("run", 2)) != late || late.View().State != approval.Over {
			t.Error("it waits again")
		}
		wantStats(t, d, 2, 1, 1, 0, 0)
	})
}

// TestWhatIsSaidIsACopy: who changes it changes nothing of the desk.
func TestWhatIsSaidIsACopy(t *testing.T) {
	var h hermes
	d := approval.NewDesk()
	ticket := d.Stream(h.asker(1)).Ask(ask("run", 1))
	ticket.View().Request.Choices[0] = approval.Always
	d.Stats().Answered[approval.Answer{}]++
	if v, s := ticket.View(), d.Stats(); v.Request.Choices[0] != approval.Once || len(s.Answered) != 0 {
		t.Errorf("%+v, %+v", v, s)
	}
}

// TestATicketStaysThatOfItsCommand: who has seen one command on the page does not approve another
// that upstream asks with the same ids, while the first waits or after its stream.
func TestATicketStaysThatOfItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hermes
		d := approval.NewDesk()
		first := d.Stream(h.asker(1))
		shown := first.Ask(ask("run", 1))
		other := ask("run", 1)
		other.Command += "; rm -rf victim"
		if first.Ask(other) != nil || d.Stream(h.asker(1)).Ask(other) != nil {
			t.Error("another command has the ticket of one that waits")
		}
		first.Done("")
		if d.Stream(h.asker(1)).Ask(other) != nil {
			t.Error("another command has the ticket of one whose stream has ended")
		}
		wantAnswer(t, shown, approval.Once, approval.TooLate)
		if again := d.Stream(h.asker(1)); again.Ask(ask("run", 1)) != shown {
			t.Error("the same command has another ticket")
		}
	})
}
