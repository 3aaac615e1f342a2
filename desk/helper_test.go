package desk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// timeout is that of the tickets in tests.
const timeout = 5 * time.Minute

// all are the choices that Hermes offers.
var all = []rewrite.ApprovalChoice{desk.Once, desk.Session, desk.Always, desk.Deny}

// hermes is upstream, which accepts each answer.
type hermes struct {
	asked  int    // how many times
	during func() // what happens while it is asked
}

var errAway = errors.New("connection refused")

// send is Asker.Send.
func (h *hermes) send(context.Context, rewrite.ApprovalRequest, rewrite.ApprovalChoice) (desk.Result, error) {
	h.asked++
	if h.during != nil {
		h.during()
	}
	return desk.Accepted, nil
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
