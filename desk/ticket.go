package desk

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// ErrNotOffered is the error of an answer that the request does not offer.
var ErrNotOffered = errors.New("the request does not offer this choice")

// Ticket stands for one request of an agent and its answer.
type Ticket struct {
	desk  *Desk
	id    string
	code  string
	until time.Time // its timeout
	timer *time.Timer

	// Desk.mu guards the rest.
	asker   Asker
	request rewrite.ApprovalRequest // cut to the bounds
	command [sha256.Size]byte       // digest of the whole command
	tooLong bool                    // the command is longer than maxCommand
	rest    func(w http.ResponseWriter, r *http.Request) error
	streams []*Tickets // that ask the question
	state   State
	left    bool                   // its streams ended, and it did, or will if the answer under way is refused
	gone    bool                   // upstream waits no more, or no stream asks any more, and an answer is under way
	denied  bool                   // by wrong codes: it does not wait again
	answer  rewrite.ApprovalChoice // that upstream has accepted, or is being sent; "" if none, or if it came by another way
	wrong   int                    // wrong codes
	nonces  []nonce                // of what replicas have asked about it, the oldest first
}

type nonce struct {
	text string
	at   time.Time
}

// State is the state of a ticket.
type State int

// The states. A ticket goes back from Sending to Waiting if the answer was refused, and from Over
// to Waiting if another stream asks the same question.
const (
	Waiting  State = iota // for an answer
	Sending               // an answer is under way
	Answered              // by this desk or elsewhere
	Over                  // without an answer: it came too late, or upstream waits no more
)

// View is a snapshot of a ticket.
type View struct {
	State State
	// Answer is the choice that upstream has accepted or, in the state Sending, may accept; "" if
	// there is none, or if it is not known.
	Answer rewrite.ApprovalChoice
	// Request is what was asked, cut to the bounds of Tickets.Ask, with the choices that it offers; Deny
	// is always one. After the end only its ids are left.
	Request rewrite.ApprovalRequest
	// TooLong reports whether Request has only the beginning of the command.
	TooLong bool
	// By is the user who is asked; "" if unknown.
	By string
	// Until is the timeout.
	Until time.Time
	// Link is Asker.Link.
	Link string
	// Held reports whether the rest of the stream is held for a reply.
	Held bool
}

// ID returns the id by which Desk.Find finds the ticket, characters of base64url. It is a secret.
func (t *Ticket) ID() string { return t.id }

// digest returns the digest by which Desk.FindDigest finds the ticket.
func (t *Ticket) digest() string { return Digest(t.id) }

// Code returns the code that a reply must contain, such as K7QF-2M9D: 40 random bits. It is a
// secret.
func (t *Ticket) Code() string { return t.code }

// View returns a snapshot of the ticket.
func (t *Ticket) View() View {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	v := View{t.state, t.answer, t.request, t.tooLong, t.asker.By, t.until, t.asker.Link, t.rest != nil}
	v.Request.Choices = slices.Clone(v.Request.Choices)
	if v.State == Waiting && t.isLate() {
		v.State = Over // its timer will set this
	}
	return v
}

// Hold makes the ticket take replies from now on. rest answers a reply with the rest of the stream,
// which is held for it.
func (t *Ticket) Hold(rest func(w http.ResponseWriter, r *http.Request) error) {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	t.rest = rest
}

// Rest answers r with the rest of the stream that is held for a reply. It fails if no stream is
// held.
func (t *Ticket) Rest(w http.ResponseWriter, r *http.Request) error {
	t.desk.mu.Lock()
	rest := t.rest
	t.desk.mu.Unlock()
	if rest == nil {
		return errors.New("no stream is held for this approval")
	}
	return rest(w, r)
}

// Answer sends the choice c to upstream. Of several calls at the same time only one sends. After
// Refused or an error, the ticket waits again until its timeout. The error is ErrNotOffered or that
// of Send. The end of ctx does not stop an answer that is being sent.
func (t *Ticket) Answer(ctx context.Context, c rewrite.ApprovalChoice, way Way) (Result, error) {
	t.desk.mu.Lock()
	result, err := t.take(c)
	t.desk.mu.Unlock()
	if result != Accepted {
		return result, err
	}
	return t.send(ctx, c, way)
}

// take sets the state to Sending and returns Accepted, or returns why c cannot be sent. Desk.mu is
// held.
func (t *Ticket) take(c rewrite.ApprovalChoice) (Result, error) {
	switch {
	case t.state == Sending, t.state == Answered:
		return AlreadyAnswered, nil
	case t.state == Over, t.isLate():
		return TooLate, nil
	case !slices.Contains(t.request.Choices, c):
		return Refused, ErrNotOffered
	}
	t.state, t.answer = Sending, c
	return Accepted, nil
}

// send sends the answer that has been taken.
func (t *Ticket) send(ctx context.Context, c rewrite.ApprovalChoice, way Way) (Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	result := Refused
	defer func() { t.settle(c, way, result) }()  // also after a panic, such as http.ErrAbortHandler
	sent, err := t.asker.Send(ctx, t.request, c) // without the lock: nothing changes these fields in the state Sending
	if err == nil {
		result = sent
	}
	return result, err
}

// settle records the result of the answer that was sent.
func (t *Ticket) settle(c rewrite.ApprovalChoice, way Way, result Result) {
	d := t.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if result != Accepted {
		t.answer = ""
	}
	t.left = t.left && result == Refused && !t.denied
	switch {
	case result == Accepted:
		d.stats.Answered[AnswerKind{c, way}]++
		d.end(t, Answered)
	case result == AlreadyAnswered:
		d.stats.Ended++
		d.end(t, Answered)
	case result == TooLate, t.gone, t.denied:
		d.stats.Ended++
		d.end(t, Over)
	case t.isLate():
		d.stats.Expired++
		d.end(t, Over)
	default:
		t.state = Waiting
	}
}

// IsNew reports whether what a replica asks with the nonce is to be answered. It returns false if the nonce
// came before within the time keep, or if 64 others did: then only the users of this link have to wait.
func (t *Ticket) IsNew(text string, keep time.Duration) bool {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	t.nonces = slices.DeleteFunc(t.nonces, func(n nonce) bool { return time.Since(n.at) > keep })
	if len(t.nonces) == maxNonces || slices.ContainsFunc(t.nonces, func(n nonce) bool { return n.text == text }) {
		return false
	}
	t.nonces = append(t.nonces, nonce{text, time.Now()})
	return true
}

// hasEnded reports whether the ticket is answered or over.
func (t *Ticket) hasEnded() bool { return t.state == Answered || t.state == Over }

// isLate reports whether the timeout is over.
func (t *Ticket) isLate() bool { return !time.Now().Before(t.until) }

// key returns the key of the ticket in Desk.requests.
func (t *Ticket) key() key { return key{t.asker.Owner, t.request.RunID, t.request.RequestID} }

// keep stores q, cut to the bounds, with the known choices in the order in which they are shown. A
// command that cannot be shown whole, or not at all, can only be denied.
func (t *Ticket) keep(q rewrite.ApprovalRequest) {
	t.command, t.tooLong = sha256.Sum256([]byte(q.Command)), len(q.Command) > maxCommand
	t.request = rewrite.ApprovalRequest{
		RunID: cut(q.RunID, maxName), RequestID: cut(q.RequestID, maxName),
		Command: cut(q.Command, maxCommand), Description: cut(q.Description, maxDescription), Tool: cut(q.Tool, maxName),
	}
	for _, c := range []rewrite.ApprovalChoice{Once, Session, Always} {
		if !t.tooLong && strings.TrimSpace(q.Command) != "" && slices.Contains(q.Choices, c) {
			t.request.Choices = append(t.request.Choices, c)
		}
	}
	t.request.Choices = append(t.request.Choices, Deny)
}

// dropStreams removes the ticket from its streams.
func (t *Ticket) dropStreams() {
	for _, s := range t.streams {
		s.tickets = without(s.tickets, t)
	}
	t.streams = nil
}
