// Package desk keeps the questions of agents that wait for an answer. Each question is a
// ticket, which a page or a reply in the chat answers once. The package knows no Caddy and no HTTP
// client: the caller that makes a ticket says how its answer reaches the agent.
//
// A ticket exists in memory only. A restart loses it, and its command does not run.
package desk

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Invariants, with Desk.mu held. A ticket waits, is being answered, or has ended; it never waits
// again after an answer that upstream has accepted. A ticket that waits or is being answered is in
// tickets, in requests, in owners and in each of its streams; one that has ended is in no stream
// and has no command. In stats, Asked is the sum of Answered, Expired, Ended and Waiting. No lock
// is held while Send runs.

// Bounds. A ticket that has ended counts for maxTickets only, and is removed first to make room.
const (
	maxOfStream    = 4        // tickets of a stream that wait
	maxOfOwner     = 20       // tickets of a client that wait
	maxTickets     = 1000     // tickets of all clients, including those that have ended
	maxCommand     = 64 << 10 // bytes of a command that are kept
	maxDescription = 4 << 10  // bytes of a description that are kept
	maxName        = 256      // bytes of the ids of a run and a request, and of a tool's name
	maxNonces      = 64       // nonces of a ticket that are remembered
)

// Times that no option sets.
const (
	// sendTimeout is how long upstream may take for an answer.
	sendTimeout = 30 * time.Second
	// lateReply is how long a reply still finds a ticket after its timeout, if its stream is held,
	// so that the client gets the rest of the stream. hermes_resume keeps the rest that long by
	// default.
	lateReply = 15 * time.Minute
	// lateLink is how long a ticket is known after its timeout, so that its link says that it is
	// too late.
	lateLink = 24 * time.Hour
)

// The choices, in the order in which they are shown.
const (
	Once    rewrite.ApprovalChoice = "once"    // this command runs
	Session rewrite.ApprovalChoice = "session" // so do commands like it in this session; in a chat, in this answer
	Always  rewrite.ApprovalChoice = "always"  // so do commands like it, for ever
	Deny    rewrite.ApprovalChoice = "deny"    // it does not run
)

// Way is how an answer came.
type Way string

// The ways.
const (
	Page  Way = "page"  // by the page of the ticket
	Reply Way = "reply" // by a message of the chat
)

// Result is the outcome of an answer.
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
	// TooLate: upstream does not wait for an answer any more.
	TooLate
)

// Asker says whom a stream asks, and how the answer reaches upstream.
type Asker struct {
	// Owner identifies the client: a digest of the API that it uses, its credentials and By.
	Owner [32]byte
	// By is the user, if several share credentials; "" if unknown.
	By string
	// Link is the address to which links to the tickets lead; "" if there are none. An answer of a
	// page has to be from there.
	Link string
	// NewID returns the id of a ticket: at least 128 random bits, as characters of base64url. If it is
	// nil, an id is 128 random bits.
	NewID func() string
	// Timeout is how long a ticket waits.
	Timeout time.Duration
	// Send sends the answer to upstream. It is called again for a ticket only after an error or
	// Refused. It runs in the goroutine of Ticket.Answer or Desk.Reply. ctx ends after 30 s, not
	// before.
	Send func(ctx context.Context, q rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (Result, error)
}

// Desk has all tickets of a process. It is safe for concurrent use, and so are its streams and
// tickets.
type Desk struct {
	mu       sync.Mutex
	tickets  map[string]*Ticket     // by the digest of the id
	requests map[key]*Ticket        // by what identifies the request
	owners   map[[32]byte][]*Ticket // by client, the oldest first
	ended    []*Ticket              // tickets that have ended and are still known, the oldest end first
	stats    Stats
}

// key identifies a request.
type key struct {
	owner   [32]byte
	run, id string
}

// New returns a Desk without tickets.
func New() *Desk {
	return &Desk{
		tickets: map[string]*Ticket{}, requests: map[key]*Ticket{}, owners: map[[32]byte][]*Ticket{},
		stats: Stats{Answered: map[AnswerKind]uint64{}},
	}
}

// Tickets are the tickets of a stream of an agent, which may ask questions.
type Tickets struct {
	desk    *Desk
	asker   Asker
	tickets []*Ticket // that have not ended
}

// Tickets returns the Tickets of a stream whose questions go to the client that a describes.
func (d *Desk) Tickets(a Asker) *Tickets {
	return &Tickets{desk: d, asker: a}
}

// Ask returns the ticket of q. A repeated request has the same ticket, also in another stream of
// the same client. The ticket is nil if a bound is reached, if the request with the ids of q had another
// command, or if an id of q is longer than 256 bytes or missing: upstream would then apply the answer to
// the oldest request that waits.
//
// The ticket keeps the first 64 KiB of the command, 4 KiB of the description and 256 bytes of the
// tool's name. A longer command, and one that has nothing to show but white space, can only be
// denied.
func (s *Tickets) Ask(q rewrite.ApprovalRequest) *Ticket {
	d := s.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.RunID == "" || q.RequestID == "" || len(q.RunID) > maxName || len(q.RequestID) > maxName {
		d.stats.Omitted++
		return nil
	}
	t := d.requests[key{s.asker.Owner, q.RunID, q.RequestID}]
	switch {
	case t != nil && t.command != sha256.Sum256([]byte(q.Command)): // a page may show the other command
		d.stats.Omitted++
		return nil
	case t != nil && (t.hasEnded() && (!t.left || t.isLate()) || slices.Contains(s.tickets, t)):
		return t
	case len(s.tickets) >= maxOfStream,
		(t == nil || t.hasEnded()) && d.waitingOf(s.asker.Owner) >= maxOfOwner,
		t == nil && !d.makeRoom():
		d.stats.Omitted++
		return nil
	case t == nil:
		t = d.add(s.asker, q)
	case t.hasEnded():
		d.revive(t, s.asker, q)
	}
	t.left, t.gone = false, false // also while an answer is being sent, which upstream may refuse
	t.streams = append(t.streams, s)
	s.tickets = append(s.tickets, t)
	return t
}

// Done ends the ticket with the request id requestID, whose tool has ended: upstream does not wait
// for the answer any more. With "" the stream has ended, and Done ends each of its tickets that no
// other stream has. Such a ticket waits again if another stream asks the same question before its
// timeout, because the events of a run can be read again; and so does one whose answer was under way, if
// upstream refuses that.
func (s *Tickets) Done(requestID string) {
	d := s.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range slices.Clone(s.tickets) {
		switch {
		case requestID == t.request.RequestID:
			d.leave(t)
		case requestID != "":
		case len(t.streams) > 1:
			t.streams = slices.DeleteFunc(t.streams, func(o *Tickets) bool { return o == s })
			s.tickets = without(s.tickets, t)
		default:
			d.leave(t)
			t.left = true
		}
	}
}

// Waiting returns how many tickets of the stream wait for an answer.
func (s *Tickets) Waiting() int {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	return len(s.tickets)
}

// Find returns the ticket with the id, and reports whether it is known. A ticket is known until a
// day after its timeout, unless others that wait need its place.
func (d *Desk) Find(id string) (*Ticket, bool) { return d.FindDigest(Digest(id)) }

// FindDigest is Find for the Digest of an id.
func (d *Desk) FindDigest(digest string) (*Ticket, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tickets[digest]
	return t, t != nil
}

// Digest returns what stands for the id of a ticket where the id itself, which is a secret, should not be.
func Digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// add makes a ticket.
func (d *Desk) add(a Asker, q rewrite.ApprovalRequest) *Ticket {
	id := newID
	if a.NewID != nil {
		id = a.NewID
	}
	t := &Ticket{desk: d, id: id(), asker: a, until: time.Now().Add(a.Timeout)}
	t.keep(q)
	for t.code = newCode(); slices.ContainsFunc(d.owners[a.Owner], func(o *Ticket) bool { return o.code == t.code }); {
		t.code = newCode()
	}
	d.tickets[t.digest()] = t
	d.requests[t.key()] = t
	d.owners[a.Owner] = append(d.owners[a.Owner], t)
	t.timer = time.AfterFunc(a.Timeout, func() { d.expire(t) })
	d.stats.Asked++
	d.stats.Waiting++
	return t
}

// revive makes t wait again after its streams have ended without an answer.
func (d *Desk) revive(t *Ticket, a Asker, q rewrite.ApprovalRequest) {
	d.ended = without(d.ended, t)
	t.state, t.asker = Waiting, a
	t.keep(q)
	d.stats.Asked++
	d.stats.Waiting++
}

// leave ends t without an answer. If an answer is being sent, t ends when that is done.
func (d *Desk) leave(t *Ticket) {
	if t.state == Sending {
		t.gone = true
		t.dropStreams()
		return
	}
	d.stats.Ended++
	d.end(t, Over)
}

// end ends t, which has not ended, with the state as, and deletes the text of the question.
func (d *Desk) end(t *Ticket, as State) {
	t.state = as
	t.request.Command, t.request.Description, t.request.Tool, t.request.Choices = "", "", "", nil
	t.asker.Send = nil
	t.dropStreams()
	d.stats.Waiting--
	d.ended = append(d.ended, t)
}

// expire ends a ticket at its timeout, later lets it take no replies any more, and at last forgets
// it.
func (d *Desk) expire(t *Ticket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tickets[t.digest()] != t {
		return
	}
	if t.state == Waiting {
		d.stats.Expired++
		d.end(t, Over)
	}
	late := time.Since(t.until)
	switch {
	case late < lateReply:
		t.timer.Reset(lateReply - late)
	case late < lateLink:
		t.rest = nil // which may keep much
		t.timer.Reset(lateLink - late)
	case !t.hasEnded(): // upstream takes very long for an answer
		t.timer.Reset(sendTimeout)
	default:
		d.forget(t)
	}
}

// forget removes a ticket that has ended.
func (d *Desk) forget(t *Ticket) {
	t.timer.Stop()
	delete(d.tickets, t.digest())
	delete(d.requests, t.key())
	d.ended = without(d.ended, t)
	owner := t.asker.Owner
	if d.owners[owner] = without(d.owners[owner], t); len(d.owners[owner]) == 0 {
		delete(d.owners, owner)
	}
}

// makeRoom makes room for one more ticket: if there are maxTickets, it forgets the one that ended
// first. It returns false if all of them wait.
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

// cut returns a copy of text, cut to n bytes.
func cut(text string, n int) string {
	return strings.Clone(text[:min(n, len(text))])
}

// without removes t from tickets, in place, and returns the result.
func without(tickets []*Ticket, t *Ticket) []*Ticket {
	if i := slices.Index(tickets, t); i >= 0 {
		return slices.Delete(tickets, i, i+1)
	}
	return tickets
}
