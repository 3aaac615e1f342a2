package approval

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"time"
)

// ErrNotOffered is the error of an answer that the request does not offer.
var ErrNotOffered = errors.New("the request does not offer this choice")

// errPanicked is that of an answer whose Send has panicked.
var errPanicked = errors.New("sending the answer panicked")

// Ticket stands for one request of an agent and its answer.
type Ticket struct {
	desk  *Desk
	id    string
	code  string
	until time.Time // its timeout
	timer *time.Timer

	// Desk.mu guards the rest.
	asker   Asker
	request Request           // as it is kept
	asked   [sha256.Size]byte // digest of the whole command
	tooLong bool              // the command is
	rest    func(w http.ResponseWriter, r *http.Request) error
	streams []*Stream // that ask it
	state   State
	left    bool   // ended because its streams have
	gone    bool   // upstream waits no more, and an answer is under way
	denied  bool   // by wrong codes: it does not wait again
	answer  Choice // that upstream has accepted; "" if none, or if it came by another way
	wrong   int    // wrong codes
}

// State is where a ticket is in its life.
type State int

// The states. Waiting may come again after Sending, if the answer was refused, and after
// Over, if another stream asks the same.
const (
	Waiting  State = iota // for an answer
	Sending               // an answer is under way
	Answered              // by this desk or elsewhere
	Over                  // without an answer: it came too late, or upstream waits no more
)

// View is what can be said of a ticket.
type View struct {
	State State
	// Answer is the choice that upstream has accepted; "" if there is none, or if it is not
	// known.
	Answer Choice
	// Request is what is asked, as it is kept. After the end only its ids are left.
	Request Request
	// TooLong reports whether Request has only the beginning of the command.
	TooLong bool
	// By is the user who is asked; "" if that is not told.
	By string
	// Left is the time until the timeout.
	Left time.Duration
	// Held reports whether the rest of the stream is held for a reply.
	Held bool
}

// ID returns what finds the ticket: 128 random bits as 22 characters of base64url. It is a
// secret.
func (t *Ticket) ID() string { return t.id }

// Code returns what a reply has to say, such as K7QF-2M9D: 40 random bits. It is a secret.
func (t *Ticket) Code() string { return t.code }

// View returns what can be said of the ticket now.
func (t *Ticket) View() View {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	v := View{t.state, t.answer, t.request, t.tooLong, t.asker.By, max(time.Until(t.until), 0), t.rest != nil}
	v.Request.Choices = slices.Clone(v.Request.Choices)
	if v.State == Waiting && v.Left == 0 {
		v.State = Over // which its timer will say
	}
	return v
}

// Hold sets what answers a reply with the rest of the stream, instead of Asker.Rest: from now
// on the ticket takes replies.
func (t *Ticket) Hold(rest func(w http.ResponseWriter, r *http.Request) error) {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	t.rest = rest
}

// Rest answers a request with the rest of the stream that is held for a reply, if it is.
func (t *Ticket) Rest(w http.ResponseWriter, r *http.Request) error {
	t.desk.mu.Lock()
	rest := t.rest
	t.desk.mu.Unlock()
	if rest == nil {
		return errors.New("no stream is held for this approval")
	}
	return rest(w, r)
}

// Answer sends an answer to upstream, once: of several at the same time one is sent. After
// Refused, or an error, the ticket waits again until its timeout. The error is ErrNotOffered,
// or that of Send. That ctx is done stops no answer that is under way.
func (t *Ticket) Answer(ctx context.Context, c Choice, way Way) (Result, error) {
	t.desk.mu.Lock()
	result, err := t.take(c)
	t.desk.mu.Unlock()
	if result != Accepted {
		return result, err
	}
	return t.send(ctx, c, way)
}

// take lets an answer be under way and returns Accepted, or says why not.
func (t *Ticket) take(c Choice) (Result, error) {
	switch {
	case t.state == Sending, t.state == Answered:
		return AlreadyAnswered, nil
	case t.state == Over, !time.Now().Before(t.until):
		return TooLate, nil
	case !slices.Contains(t.request.Choices, c):
		return Refused, ErrNotOffered
	}
	t.state = Sending
	return Accepted, nil
}

// send sends the answer that has been taken.
func (t *Ticket) send(ctx context.Context, c Choice, way Way) (result Result, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	result, err = Refused, errPanicked
	defer func() { // also of a panic, such as http.ErrAbortHandler
		t.settle(c, way, result)
	}()
	result, err = t.asker.Send(ctx, t.request, c) // nobody else changes them meanwhile
	if err != nil {
		result = Refused
	}
	return result, err
}

// settle notes what became of the answer that was under way.
func (t *Ticket) settle(c Choice, way Way, result Result) {
	d := t.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case result == Accepted:
		t.answer = c
		d.stats.Answered[Answer{c, way}]++
		d.end(t, Answered)
	case result == AlreadyAnswered:
		d.stats.Ended++
		d.end(t, Answered)
	case result == TooLate, t.gone, t.denied:
		d.stats.Ended++
		d.end(t, Over)
	case !time.Now().Before(t.until):
		d.stats.Expired++
		d.end(t, Over)
	default:
		t.state = Waiting
	}
}

// hasEnded reports whether the ticket is answered or over.
func (t *Ticket) hasEnded() bool { return t.state == Answered || t.state == Over }

// knownUntil returns when the ticket is forgotten.
func (t *Ticket) knownUntil() time.Time {
	if t.rest != nil {
		return t.until.Add(lateReply)
	}
	return t.until
}

// key returns what the ticket's request is known by.
func (t *Ticket) key() request {
	return request{t.asker.Owner, t.request.RunID, t.request.ID}
}

// keep keeps what is asked, up to the bounds, and the choices that are known, in their order.
// What cannot be shown whole can only be denied.
func (t *Ticket) keep(q Request) {
	t.asked, t.tooLong = sha256.Sum256([]byte(q.Command)), len(q.Command) > maxCommand
	t.request = Request{
		RunID: cut(q.RunID, maxName), ID: cut(q.ID, maxName),
		Command: cut(q.Command, maxCommand), Description: cut(q.Description, maxDescription), Tool: cut(q.Tool, maxName),
	}
	for _, c := range []Choice{Once, Session, Always} {
		if !t.tooLong && slices.Contains(q.Choices, c) {
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
