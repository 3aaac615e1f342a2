package desk_test

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

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestATicketIsAnsweredOnce by each choice, and then says which.
func TestATicketIsAnsweredOnce(t *testing.T) {
	for _, c := range all {
		synctest.Test(t, func(t *testing.T) {
			var h hermes
			d := desk.New()
			began := time.Now()
			ticket := d.Tickets(h.asker(1)).Ask(ask("run", 1))
			if raw, err := base64.RawURLEncoding.Strict().DecodeString(ticket.ID()); err != nil || len(raw) != 16 {
				t.Errorf("the id %q", ticket.ID())
			}
			if !regexp.MustCompile(`^[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}$`).MatchString(ticket.Code()) {
				t.Errorf("the code %q", ticket.Code())
			}
			v := ticket.View()
			if v.State != desk.Waiting || v.Request.Command != "rm -rf victim" || !v.Until.Equal(began.Add(timeout)) || !slices.Equal(v.Request.Choices, all) {
				t.Errorf("%+v", v)
			}
			wantAnswer(t, ticket, c, desk.Accepted)
			h.want(t, "run", "request1", c)
			for _, again := range all {
				wantAnswer(t, ticket, again, desk.AlreadyAnswered)
			}
			if h.asked != 1 {
				t.Errorf("upstream was asked %d times", h.asked)
			}
			v = ticket.View()
			if v.State != desk.Answered || v.Answer != c || v.Request.Command != "" || v.Request.Description != "" {
				t.Errorf("after the answer %+v", v)
			}
			if s := d.Stats(); s.Answered[desk.AnswerKind{Choice: c, Way: desk.Page}] != 1 {
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
		d := desk.New()
		a, b, other := d.Tickets(h.asker(1)), d.Tickets(h.asker(1)), d.Tickets(h.asker(2))
		ticket := a.Ask(ask("run", 1))
		for name, same := range map[string]*desk.Ticket{"again": a.Ask(ask("run", 1)), "another stream": b.Ask(ask("run", 1))} {
			if same != ticket {
				t.Errorf("%s: another ticket", name)
			}
		}
		for name, another := range map[string]*desk.Ticket{
			"request": a.Ask(ask("run", 2)), "run": a.Ask(ask("run2", 1)), "client": other.Ask(ask("run", 1)),
		} {
			if another == ticket || another.ID() == ticket.ID() || another.Code() == ticket.Code() {
				t.Errorf("another %s has the same ticket", name)
			}
		}
		wantStats(t, d, 4, 0, 0, 4, 0)
		wantAnswer(t, ticket, desk.Deny, desk.Accepted)
		if a.Ask(ask("run", 1)) != ticket || a.Waiting() != 2 || b.Waiting() != 0 {
			t.Errorf("after the answer %d and %d wait", a.Waiting(), b.Waiting())
		}
		wantStats(t, d, 4, 0, 0, 3, 0)
	})
}

// TestTheEndOfATicket: its tool's, its stream's, its timeout.
func TestTheEndOfATicket(t *testing.T) {
	for name, test := range map[string]struct {
		end                   func(s *desk.Tickets)
		found                 bool
		ended, expired, waits uint64
	}{
		"its tool has ended":      {func(s *desk.Tickets) { s.Done("request1") }, true, 1, 0, 1},
		"its stream has ended":    {func(s *desk.Tickets) { s.Done("") }, true, 2, 0, 0},
		"just before its timeout": {func(*desk.Tickets) { time.Sleep(timeout - 1) }, true, 0, 0, 2},
		"its timeout":             {func(*desk.Tickets) { time.Sleep(timeout) }, true, 0, 2, 0},
		"a day after its timeout": {func(*desk.Tickets) { time.Sleep(timeout + 24*time.Hour - 1) }, true, 0, 2, 0},
		"more than a day":         {func(*desk.Tickets) { time.Sleep(timeout + 24*time.Hour) }, false, 0, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h hermes
				d := desk.New()
				s := d.Tickets(h.asker(1))
				ticket := s.Ask(ask("run", 1))
				s.Ask(ask("run", 2))
				test.end(s)
				synctest.Wait()
				if _, ok := d.Find(ticket.ID()); ok != test.found {
					t.Errorf("it is known: %v", ok)
				}
				wantStats(t, d, 2, test.expired, test.ended, test.waits, 0)
				if test.waits == 2 {
					wantAnswer(t, ticket, desk.Once, desk.Accepted)
					return
				}
				wantAnswer(t, ticket, desk.Once, desk.TooLate)
				if v := ticket.View(); v.State != desk.Over || v.Request.Command != "" || h.asked != 0 {
					t.Errorf("%+v, upstream was asked %d times", v, h.asked)
				}
			})
		})
	}
}

// TestATicketOfTwoStreams ends with the last of them, and waits again as one.
func TestATicketOfTwoStreams(t *testing.T) {
	var h hermes
	d := desk.New()
	a, b := d.Tickets(h.asker(1)), d.Tickets(h.asker(1))
	ticket := a.Ask(ask("run", 1))
	b.Ask(ask("run", 1))
	a.Done("")
	if v := ticket.View(); v.State != desk.Waiting || a.Waiting() != 0 || b.Waiting() != 1 {
		t.Errorf("after one has left: %+v", v)
	}
	b.Done("")
	wantAnswer(t, ticket, desk.Once, desk.TooLate)
	if a.Ask(ask("run", 1)) != ticket || b.Ask(ask("run", 1)) != ticket {
		t.Error("read again, it is another ticket")
	}
	wantStats(t, d, 2, 0, 1, 1, 0)
}

// TestWhatUpstreamSaysOfAnAnswer.
func TestWhatUpstreamSaysOfAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		result desk.Result
		err    error
		want   desk.Result
		state  desk.State
	}{
		"accepted":          {desk.Accepted, nil, desk.Accepted, desk.Answered},
		"answered":          {desk.AlreadyAnswered, nil, desk.AlreadyAnswered, desk.Answered},
		"too late":          {desk.TooLate, nil, desk.TooLate, desk.Over},
		"refused":           {desk.Refused, nil, desk.Refused, desk.Waiting},
		"it is away":        {desk.Accepted, errAway, desk.Refused, desk.Waiting},
		"it cannot be told": {desk.TooLate, errAway, desk.Refused, desk.Waiting},
	} {
		d := desk.New()
		ticket := d.Tickets(desk.Asker{Timeout: timeout, Send: func(context.Context, rewrite.ApprovalRequest, rewrite.ApprovalChoice) (desk.Result, error) {
			return test.result, test.err
		}}).Ask(ask("run", 1))
		got, err := ticket.Answer(t.Context(), desk.Once, desk.Page)
		if v := ticket.View(); got != test.want || err != test.err || v.State != test.state || (v.Answer == desk.Once) != (test.want == desk.Accepted) {
			t.Errorf("%s: result %d, %v, and then %+v", name, got, err, v)
		}
		checkSum(t, d.Stats())
	}
}

// TestAFailedAnswerCanBeRepeated, after an error and after a panic, until the timeout.
func TestAFailedAnswerCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hermes{away: true}
		d := desk.New()
		ticket := d.Tickets(h.asker(1)).Ask(ask("run", 1))
		if got, err := ticket.Answer(t.Context(), desk.Once, desk.Page); got != desk.Refused || err != errAway {
			t.Errorf("result %d, %v", got, err)
		}
		func() {
			h.during = func() { panic("reverse proxy") }
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_, _ = ticket.Answer(t.Context(), desk.Once, desk.Page)
		}()
		h.away, h.during = false, nil
		wantAnswer(t, ticket, desk.Once, desk.Accepted)

		h.away = true
		late := d.Tickets(h.asker(1)).Ask(ask("run", 2))
		h.during = func() { time.Sleep(timeout) }
		if got, err := late.Answer(t.Context(), desk.Once, desk.Page); got != desk.Refused || err != errAway {
			t.Errorf("result %d, %v", got, err)
		}
		wantStats(t, d, 2, 1, 0, 0, 0)
	})
}

// TestAnAnswerUnderWay: nothing ends it, neither its client nor its tool, its stream or its
// timeout, and no second one is sent. Upstream has 30 seconds for it.
func TestAnAnswerUnderWay(t *testing.T) {
	for name, end := range map[string]func(*desk.Tickets){
		"its tool ends":   func(s *desk.Tickets) { s.Done("request1") },
		"its stream ends": func(s *desk.Tickets) { s.Done("") },
		"its timeout":     func(*desk.Tickets) { time.Sleep(timeout + time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h hermes
				begun := time.Now()
				d := desk.New()
				a := h.asker(1)
				var s *desk.Tickets
				var ticket *desk.Ticket
				a.Send = func(ctx context.Context, q rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
					if until, ok := ctx.Deadline(); !ok || time.Until(until) != 30*time.Second || ctx.Err() != nil {
						t.Errorf("its context ends at %v: %v", until, ctx.Err())
					}
					end(s)
					synctest.Wait()
					if n := s.Waiting(); n != 0 && time.Now().Before(begun.Add(timeout)) {
						t.Errorf("%d wait", n)
					}
					if _, ok := d.Find(ticket.ID()); !ok || ticket.View().State != desk.Sending {
						t.Errorf("meanwhile it is %+v", ticket.View())
					}
					wantAnswer(t, ticket, desk.Deny, desk.AlreadyAnswered)
					return h.send(ctx, q, c)
				}
				s = d.Tickets(a)
				ticket = s.Ask(ask("run", 1))
				ctx, leave := context.WithCancel(t.Context())
				leave()
				if got, err := ticket.Answer(ctx, desk.Once, desk.Page); got != desk.Accepted || err != nil || s.Waiting() != 0 {
					t.Errorf("result %d, %v", got, err)
				}
				h.want(t, "run", "request1", desk.Once)
				wantStats(t, d, 1, 0, 0, 0, 0)
			})
		})
	}
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
		ticket := desk.New().Tickets(h.asker(1)).Ask(q)
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
			if result, err := ticket.Answer(t.Context(), c, desk.Page); result != desk.Refused || !errors.Is(err, desk.ErrNotOffered) || h.asked != 0 {
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
		d := desk.New()
		s := d.Tickets(h.asker(1))
		done, late := s.Ask(ask("run", 1)), s.Ask(ask("run", 2))
		h.during = func() { s.Done("request1") }
		_, _ = done.Answer(t.Context(), desk.Once, desk.Page)
		if v := done.View(); v.State != desk.Over {
			t.Errorf("%+v", v)
		}
		h.during = func() { time.Sleep(timeout) }
		_, _ = late.Answer(t.Context(), desk.Once, desk.Page)
		if s.Ask(ask("run", 2)) != late || late.View().State != desk.Over {
			t.Error("it waits again")
		}
		wantStats(t, d, 2, 1, 1, 0, 0)
	})
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

// TestATicketStaysThatOfItsCommand: who has seen one command on the page does not approve another
// that upstream asks with the same ids, while the first waits or after its stream.
func TestATicketStaysThatOfItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hermes
		d := desk.New()
		first := d.Tickets(h.asker(1))
		shown := first.Ask(ask("run", 1))
		other := ask("run", 1)
		other.Command += "; rm -rf victim"
		if first.Ask(other) != nil || d.Tickets(h.asker(1)).Ask(other) != nil {
			t.Error("another command has the ticket of one that waits")
		}
		first.Done("")
		if d.Tickets(h.asker(1)).Ask(other) != nil {
			t.Error("another command has the ticket of one whose stream has ended")
		}
		wantAnswer(t, shown, desk.Once, desk.TooLate)
		if again := d.Tickets(h.asker(1)); again.Ask(ask("run", 1)) != shown {
			t.Error("the same command has another ticket")
		}
	})
}
