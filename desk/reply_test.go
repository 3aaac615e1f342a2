package desk_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
)

// other returns a code that is not code.
func other(code string) string {
	if code[0] == 'A' {
		return "B" + code[1:]
	}
	return "A" + code[1:]
}

// TestWhatIsNoCode is an ordinary request, and counts as no try.
func TestWhatIsNoCode(t *testing.T) {
	var h hermes
	d := desk.New()
	ticket := held(d.Tickets(h.asker(1)), ask("run", 1))
	code := ticket.Code()
	for _, text := range []string{
		"", "approve", code + ".", code[:8], code + code, ticket.ID(), strings.ToLower(code), strings.ReplaceAll(code, "-", ""), strings.ReplaceAll(code, "-", "–"),
		strings.Repeat("Ü", 4) + "-", "ÜÄÖß-ÜÄÖß", "---------", "AAAA-AAA0", "OAAA-AAAA",
	} {
		for range 5 {
			if r := d.Reply(t.Context(), [32]byte{1}, desk.Once, text); r.Ticket != nil {
				t.Errorf("%q is a code", text)
			}
		}
	}
	if h.asked != 0 || ticket.View().State != desk.Waiting {
		t.Errorf("upstream was asked %d times", h.asked)
	}
	r := d.Reply(t.Context(), [32]byte{1}, desk.Once, code)
	if r.Ticket != ticket || r.Result != desk.Accepted || r.Err != nil {
		t.Errorf("the reply: %+v", r)
	}
	h.want(t, "run", "request1", desk.Once)
	if s := d.Stats(); s.Answered[desk.AnswerKind{Choice: desk.Once, Way: desk.Reply}] != 1 {
		t.Errorf("%+v", s)
	}
}

// TestSecretsOfAClient are its own codes and tickets, as long as they are known. Codes wait until
// they are answered, or too late.
func TestSecretsOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hermes{}
		d := desk.New()
		s := d.Tickets(h.asker(1))
		waits, answered, link := held(s, ask("run", 1)), held(s, ask("run", 2)), s.Ask(ask("run", 3))
		d.Tickets(h.asker(2)).Ask(ask("run", 1))
		wantAnswer(t, answered, desk.Deny, desk.Accepted)
		want := map[string]bool{waits.ID(): false, waits.Code(): true, answered.ID(): false, answered.Code(): false, link.ID(): false}
		if got := d.Secrets([32]byte{1}); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		time.Sleep(timeout)
		if got := d.Secrets([32]byte{1}); got[waits.Code()] || len(got) < 4 {
			t.Errorf("too late: %v", got)
		}
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if got := d.Secrets([32]byte{1}); len(got) != 3 || got[waits.ID()] {
			t.Errorf("when no reply comes any more: %v", got)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := d.Secrets([32]byte{1}); got != nil || d.Secrets([32]byte{3}) != nil {
			t.Errorf("forgotten: %v", got)
		}
	})
}

// TestRepliesOfOthersCountNothing: neither with the right code nor with wrong ones.
func TestRepliesOfOthersCountNothing(t *testing.T) {
	var h hermes
	d := desk.New()
	ticket := held(d.Tickets(h.asker(1)), ask("run", 1))
	theirs := held(d.Tickets(h.asker(2)), ask("run", 1))
	for owner := range byte(10) {
		if owner == 1 {
			continue
		}
		for range 10 {
			if r := d.Reply(t.Context(), [32]byte{owner}, desk.Once, ticket.Code()); r.Ticket != nil {
				t.Errorf("client %d answers for another", owner)
			}
		}
	}
	h.want(t, "run", "request1", desk.Deny) // theirs: they were wrong ten times
	if theirs.View().State != desk.Answered || ticket.View().State != desk.Waiting {
		t.Errorf("the tickets are %+v and %+v", ticket.View(), theirs.View())
	}
}

// TestFiveWrongCodesDeny all tickets of the client that wait for a reply, for good; four do
// not, and right codes are not counted.
func TestFiveWrongCodesDeny(t *testing.T) {
	for name, away := range map[string]bool{"upstream is there": false, "upstream is away": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := hermes{away: away}
				d := desk.New()
				s := d.Tickets(h.asker(1))
				early, right, noReply := held(s, ask("run", 1)), held(s, ask("run", 2)), d.Tickets(h.asker(1)).Ask(ask("run", 3))
				wrong := other(early.Code())
				for range 4 {
					d.Reply(t.Context(), [32]byte{1}, desk.Deny, wrong)
				}
				if r := d.Reply(t.Context(), [32]byte{1}, desk.Deny, right.Code()); r.Ticket != right {
					t.Errorf("after four: %+v", r)
				}
				late := held(s, ask("run", 4))
				if early.View().State != desk.Waiting {
					t.Fatalf("after four: %+v", early.View())
				}
				h.during = func() { // one that comes meanwhile
					if r := d.Reply(t.Context(), [32]byte{1}, desk.Once, early.Code()); r.Result != desk.AlreadyAnswered && r.Result != desk.TooLate {
						t.Errorf("while it is denied: %+v", r)
					}
				}
				d.Reply(t.Context(), [32]byte{1}, desk.Deny, wrong)
				h.during, h.away = nil, false
				r := d.Reply(t.Context(), [32]byte{1}, desk.Once, early.Code())
				if r.Ticket != early || r.Result == desk.Accepted || r.Result == desk.Refused {
					t.Errorf("after five: %+v", r)
				}
				if !away {
					h.want(t, "run", "request1", desk.Deny)
				}
				s.Done("")
				if s.Ask(ask("run", 1)) != early || early.View().State == desk.Waiting {
					t.Error("it waits again")
				}
				if late.View().State != desk.Over || noReply.View().State != desk.Waiting {
					t.Errorf("others: %+v, %+v", late.View(), noReply.View())
				}
				checkSum(t, d.Stats())
			})
		})
	}
}

// TestWhatHasNoStreamHeldTakesNoReply, until it has one of its own.
func TestWhatHasNoStreamHeldTakesNoReply(t *testing.T) {
	var h hermes
	d := desk.New()
	ticket := d.Tickets(h.asker(1)).Ask(ask("run", 1))
	if r := d.Reply(t.Context(), [32]byte{1}, desk.Once, ticket.Code()); r.Ticket != nil || h.asked != 0 {
		t.Errorf("%+v", r)
	}
	if ticket.Rest(nil, nil) == nil {
		t.Error("it has a rest")
	}
	rests := 0
	ticket.Hold(func(http.ResponseWriter, *http.Request) error { rests++; return nil })
	if r := d.Reply(t.Context(), [32]byte{1}, desk.Once, ticket.Code()); r.Ticket != ticket || r.Result != desk.Accepted {
		t.Errorf("%+v", r)
	}
	if err := ticket.Rest(nil, nil); err != nil || rests != 1 {
		t.Errorf("the rest: %v, %d times", err, rests)
	}
}

// TestLateReplies find their ticket until 15 minutes after its timeout, whatever became of it,
// and send nothing. The page says the same.
func TestLateReplies(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*testing.T, *desk.Ticket)
		want   desk.Result
	}{
		"expired":  {func(*testing.T, *desk.Ticket) {}, desk.TooLate},
		"answered": {func(t *testing.T, ticket *desk.Ticket) { wantAnswer(t, ticket, desk.Deny, desk.Accepted) }, desk.AlreadyAnswered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h hermes
				d := desk.New()
				ticket := held(d.Tickets(h.asker(1)), ask("run", 1))
				test.before(t, ticket)
				asked := h.asked
				reply := func() desk.Replied { return d.Reply(t.Context(), [32]byte{1}, desk.Once, ticket.Code()) }
				for _, after := range []time.Duration{timeout, 15*time.Minute - 1} {
					time.Sleep(after)
					if r := reply(); r.Ticket != ticket || r.Result != test.want {
						t.Errorf("%v later: %+v", after, r)
					}
					if found, ok := d.Find(ticket.ID()); !ok || found != ticket {
						t.Error("the page does not find it")
					}
				}
				time.Sleep(1)
				synctest.Wait()
				if r := reply(); r.Ticket != nil || h.asked != asked {
					t.Errorf("at last: %+v", r)
				}
			})
		})
	}
}

// TestCodesAreRandom: each character, and those of a client differ.
func TestCodesAreRandom(t *testing.T) {
	var h hermes
	d := desk.New()
	seen, chars := map[string]bool{}, map[rune]bool{}
	for i := range 1000 {
		s := d.Tickets(h.asker(1))
		ticket := s.Ask(ask(fmt.Sprint("run", i), 1))
		for _, secret := range []string{ticket.ID(), ticket.Code()} {
			if seen[secret] {
				t.Errorf("%s is there twice", secret)
			}
			seen[secret] = true
		}
		for _, c := range ticket.Code() {
			chars[c] = true
		}
		s.Done("")
	}
	if len(chars) != 33 {
		t.Errorf("%d characters", len(chars))
	}
}
