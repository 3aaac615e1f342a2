package desk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// timeout is that of the tickets in tests.
const timeout = 5 * time.Minute

// all are the choices that Hermes offers.
var all = []rewrite.ApprovalChoice{desk.Once, desk.Session, desk.Always, desk.Deny}

// hermes is upstream: it runs a command once, if the first answer to its request allows that.
type hermes struct {
	mu      sync.Mutex
	asked   int                               // how many times
	answers map[string]rewrite.ApprovalChoice // by run and request
	over    map[string]bool                   // runs that have ended
	away    bool                              // it fails
	during  func()                            // what happens while it is asked
}

var errAway = errors.New("connection refused")

// send is Asker.Send.
func (h *hermes) send(_ context.Context, q rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
	if h.during != nil {
		h.during()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	id := q.RunID + "/" + q.RequestID
	switch {
	case h.away:
		return desk.Accepted, errAway // what is returned with an error counts for nothing
	case h.over[q.RunID]:
		return desk.TooLate, nil
	case h.answers[id] != "":
		return desk.AlreadyAnswered, nil
	case h.answers == nil:
		h.answers = map[string]rewrite.ApprovalChoice{}
	}
	h.answers[id] = c
	return desk.Accepted, nil
}

// want checks what a request was answered.
func (h *hermes) want(t *testing.T, run, id string, c rewrite.ApprovalChoice) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := h.answers[run+"/"+id]; got != c {
		t.Errorf("%s/%s was answered %q, want %q", run, id, got, c)
	}
}

// asker is client n.
func (h *hermes) asker(n byte) desk.Asker {
	return desk.Asker{Owner: [32]byte{n}, Timeout: timeout, Send: h.send}
}

// held asks for an answer for which the stream is held, so that it may be a reply.
func held(s *desk.Tickets, q rewrite.ApprovalRequest) *desk.Ticket {
	ticket := s.Ask(q)
	if ticket != nil {
		ticket.Hold(func(http.ResponseWriter, *http.Request) error { return nil })
	}
	return ticket
}

// ask is a request.
func ask(run string, n int) rewrite.ApprovalRequest {
	return rewrite.ApprovalRequest{RunID: run, RequestID: fmt.Sprint("request", n), Command: "rm -rf victim", Description: "recursive delete", Tool: "terminal", Choices: all}
}

// wantAnswer answers and checks the result.
func wantAnswer(t *testing.T, ticket *desk.Ticket, c rewrite.ApprovalChoice, want desk.Result) {
	t.Helper()
	if got, err := ticket.Answer(t.Context(), c, desk.Page); got != want || err != nil {
		t.Errorf("%s: result %d, %v, want %d", c, got, err, want)
	}
}

// wantStats checks the numbers but for those of answers, and that they add up.
func wantStats(t *testing.T, d *desk.Desk, asked, expired, ended, waiting, omitted uint64) {
	t.Helper()
	s := d.Stats()
	got := [...]uint64{s.Asked, s.Expired, s.Ended, s.Waiting, s.Omitted}
	if want := [...]uint64{asked, expired, ended, waiting, omitted}; got != want {
		t.Errorf("asked, expired, ended, waiting, omitted are %v, want %v", got, want)
	}
	checkSum(t, s)
}

// checkSum wants that each ticket that was asked is counted where it is now.
func checkSum(t *testing.T, s desk.Stats) {
	t.Helper()
	sum := s.Expired + s.Ended + s.Waiting
	for _, n := range s.Answered {
		sum += n
	}
	if sum != s.Asked {
		t.Errorf("the numbers do not add up: %+v", s)
	}
}
