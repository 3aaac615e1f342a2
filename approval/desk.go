// Package approval keeps the questions of agents that wait for an answer: each is a ticket,
// which a page or a reply in the chat answers once. It knows no Caddy and no HTTP client: who
// makes a ticket says how its answer reaches the agent.
//
// A ticket exists in memory only. After a restart there is none, and the command does not run.
package approval

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Invariants, with Desk.mu held. A ticket waits, is being answered, or has ended; it never
// comes back from an answer that upstream has accepted. A ticket that waits or is being
// answered is in tickets, in requests, in owners and in each of its streams; one that has
// ended is in no stream and has no command. asked is the sum of all that have ended and those
// that have not. No lock is held while Send runs.

// Bounds. A ticket that has ended counts for maxTickets only, and is the first to go.
const (
	maxOfStream    = 4        // tickets that wait, of a stream
	maxOfOwner     = 20       // tickets that wait, of a client
	maxTickets     = 1000     // tickets of all clients, with those that are remembered
	maxCommand     = 64 << 10 // bytes of a command that are kept
	maxDescription = 4 << 10  // bytes of a description that are kept
	maxName        = 256      // bytes of the ids of a run and a request, and of a tool's name
)

// Times that no option sets.
const (
	// sendTimeout is how long upstream may take for an answer.
	sendTimeout = 30 * time.Second
	// lateReply is how long after its timeout a reply still finds a ticket whose stream is
	// held, so that it gets the rest: as long as hermes_resume keeps that by default.
	lateReply = 15 * time.Minute
)

// Request is what an agent asks.
type Request struct {
	// RunID and ID say which question it is: without both there is no ticket, as upstream
	// would take an answer for the oldest question that waits. At most 256 bytes each.
	RunID, ID string
	// Command is what would run. Of one of more than 64 KiB the beginning is kept, and it can
	// only be denied.
	Command string
	// Description is why upstream asks. The first 4 KiB are kept.
	Description string
	// Tool is the name of the tool; "" if it is not known. The first 256 bytes are kept.
	Tool string
	// Choices are the answers that upstream offers. Deny is always one.
	Choices []Choice
}

// Choice is an answer, by its name in upstream's API.
type Choice string

// The choices, in the order in which they are shown.
const (
	Once    Choice = "once"    // this command runs
	Session Choice = "session" // and all like it in this session, in a chat in this answer
	Always  Choice = "always"  // and all like it, for ever
	Deny    Choice = "deny"    // it does not run
)

// Way is how an answer came.
type Way string

// The ways.
const (
	Page  Way = "page"  // by the page of the ticket
	Reply Way = "reply" // by a message of the chat
)

// Result is what became of an answer.
type Result int

// The results.
const (
	// Refused: upstream did not take the answer, or it is not known whether it did. The
	// ticket still waits.
	Refused Result = iota
	// Accepted: upstream has taken the answer.
	Accepted
	// AlreadyAnswered: there was an answer before, by this desk or elsewhere.
	AlreadyAnswered
	// TooLate: upstream does not wait for it any more.
	TooLate
)

// Asker is who is asked, for a stream.
type Asker struct {
	// Owner tells clients apart: a digest of the upstream, the credentials and By.
	Owner [32]byte
	// By is the user, where several share credentials; "" if that is not told.
	By string
	// Timeout is how long a ticket waits.
	Timeout time.Duration
	// Send tells upstream the answer. It is called for a ticket again only after an error or
	// Refused. It runs in the goroutine of Answer, and ctx ends after 30 s, not before.
	Send func(ctx context.Context, q Request, c Choice) (Result, error)
	// Rest answers a request with the rest of the stream that is held for a reply. If it is
	// nil, only a ticket with a Rest of its own (Ticket.Hold) takes replies.
	Rest func(w http.ResponseWriter, r *http.Request) error
}

// Desk has all tickets of a process. Its methods, and those of what it returns, may be called
// at the same time.
type Desk struct {
	mu       sync.Mutex
	tickets  map[string]*Ticket     // by id
	requests map[request]*Ticket    // by what is asked
	owners   map[[32]byte][]*Ticket // by who is asked, the oldest first
	ended    []*Ticket              // those that have ended and are remembered, the oldest end first
	stats    Stats
}

// request is what makes two requests the same.
type request struct {
	owner   [32]byte
	run, id string
}

// NewDesk returns a Desk without tickets.
func NewDesk() *Desk {
	return &Desk{
		tickets: map[string]*Ticket{}, requests: map[request]*Ticket{}, owners: map[[32]byte][]*Ticket{},
		stats: Stats{Answered: map[Answer]uint64{}},
	}
}

// Stream is a stream of an agent that may ask.
type Stream struct {
	desk    *Desk
	asker   Asker
	tickets []*Ticket // that have not ended
}

// Stream returns a stream whose questions a asks.
func (d *Desk) Stream(a Asker) *Stream {
	return &Stream{desk: d, asker: a}
}

// Ask returns the ticket of q. The same request again, of this stream or of another one of
// the same client, has the same ticket. It is nil if a bound is reached, if q does not say
// which request it is, or if the ticket is that of another command.
func (s *Stream) Ask(q Request) *Ticket {
	d := s.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.RunID == "" || q.ID == "" || len(q.RunID) > maxName || len(q.ID) > maxName {
		d.stats.Omitted++
		return nil
	}
	t := d.requests[request{s.asker.Owner, q.RunID, q.ID}]
	switch {
	case t != nil && t.asked != sha256.Sum256([]byte(q.Command)): // a page may show the other
		d.stats.Omitted++
		return nil
	case t != nil && (t.hasEnded() && !t.left || slices.Contains(s.tickets, t)):
		return t
	case len(s.tickets) >= maxOfStream,
		(t == nil || t.left) && d.waitingOf(s.asker.Owner) >= maxOfOwner,
		t == nil && !d.makeRoom():
		d.stats.Omitted++
		return nil
	case t == nil:
		t = d.add(s.asker, q)
	case t.left:
		d.revive(t, s.asker, q)
	}
	t.streams = append(t.streams, s)
	s.tickets = append(s.tickets, t)
	return t
}

// Done says that upstream does not wait for the answer to a request any more: its tool has
// ended. With "" the stream has ended, and with it each of its tickets that no other stream
// has. Such a ticket waits again if another stream asks the same before its timeout, as the
// events of a run can be read again.
func (s *Stream) Done(requestID string) {
	d := s.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range slices.Clone(s.tickets) {
		switch {
		case requestID == t.request.ID:
			d.leave(t)
		case requestID != "":
		case len(t.streams) > 1:
			t.streams = slices.DeleteFunc(t.streams, func(o *Stream) bool { return o == s })
			s.tickets = without(s.tickets, t)
		default:
			d.leave(t)
			t.left = t.state == Over
		}
	}
}

// Waiting returns how many tickets of the stream wait for an answer.
func (s *Stream) Waiting() int {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	return len(s.tickets)
}

// Find returns the ticket with an id. One that has ended is known until its timeout.
func (d *Desk) Find(id string) (*Ticket, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tickets[id]
	return t, t != nil && (time.Now().Before(t.until) || t.state == Sending)
}

// add makes a ticket.
func (d *Desk) add(a Asker, q Request) *Ticket {
	t := &Ticket{desk: d, id: newID(), asker: a, until: time.Now().Add(a.Timeout), rest: a.Rest}
	t.keep(q)
	for t.code = newCode(); slices.ContainsFunc(d.owners[a.Owner], func(o *Ticket) bool { return o.code == t.code }); {
		t.code = newCode()
	}
	d.tickets[t.id] = t
	d.requests[t.key()] = t
	d.owners[a.Owner] = append(d.owners[a.Owner], t)
	t.timer = time.AfterFunc(a.Timeout, func() { d.expire(t) })
	d.stats.Asked++
	d.stats.Waiting++
	return t
}

// revive lets a ticket wait again whose streams have gone without an answer.
func (d *Desk) revive(t *Ticket, a Asker, q Request) {
	d.ended = without(d.ended, t)
	t.state, t.left, t.asker = Waiting, false, a
	t.keep(q)
	d.stats.Asked++
	d.stats.Waiting++
}

// leave ends a ticket without an answer. One whose answer is under way ends with that.
func (d *Desk) leave(t *Ticket) {
	if t.state == Sending {
		t.gone = true
		t.dropStreams()
		return
	}
	d.stats.Ended++
	d.end(t, Over)
}

// end ends a ticket that has not ended, and forgets what was asked.
func (d *Desk) end(t *Ticket, as State) {
	t.state = as
	t.request.Command, t.request.Description, t.request.Tool, t.request.Choices = "", "", "", nil
	t.asker.Send = nil
	t.dropStreams()
	d.stats.Waiting--
	d.ended = append(d.ended, t)
	if !time.Now().Before(t.knownUntil()) {
		d.forget(t)
	}
}

// expire ends a ticket at its timeout, and later forgets it.
func (d *Desk) expire(t *Ticket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.state == Waiting && d.tickets[t.id] == t {
		d.stats.Expired++
		d.end(t, Over)
	}
	switch left := time.Until(t.knownUntil()); {
	case left > 0:
		t.timer.Reset(left)
	case t.hasEnded():
		d.forget(t)
	}
}

// forget removes a ticket that has ended.
func (d *Desk) forget(t *Ticket) {
	t.timer.Stop()
	delete(d.tickets, t.id)
	delete(d.requests, t.key())
	d.ended = without(d.ended, t)
	owner := t.asker.Owner
	if d.owners[owner] = without(d.owners[owner], t); len(d.owners[owner]) == 0 {
		delete(d.owners, owner)
	}
}

// makeRoom reports whether one more ticket has room. The oldest end goes for it.
func (d *Desk) makeRoom() bool {
	if len(d.tickets) < maxTickets {
		return true
	}
	if len(d.ended) == 0 {
		return false
	}
	d.forget(d.ended[0])
	return true
}

// waitingOf returns how many tickets of a client have not ended.
func (d *Desk) waitingOf(owner [32]byte) (n int) {
	for _, t := range d.owners[owner] {
		if !t.hasEnded() {
			n++
		}
	}
	return n
}

// newID returns 128 random bits as 22 characters.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// cut returns the first n bytes of a text, at the most, as a text of its own.
func cut(text string, n int) string {
	return strings.Clone(text[:min(n, len(text))])
}

// without returns tickets without t.
func without(tickets []*Ticket, t *Ticket) []*Ticket {
	if i := slices.Index(tickets, t); i >= 0 {
		return slices.Delete(tickets, i, i+1)
	}
	return tickets
}
