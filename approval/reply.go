package approval

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"strings"
)

// maxWrong is how many wrong codes end the tickets of a client with deny.
const maxWrong = 5

// alphabet has 32 characters that are not taken for one another.
const alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"

// Replied is what became of a message that may be a reply.
type Replied struct {
	// Ticket is the one that the message answers; nil if it answers none, and is a request
	// like any other.
	Ticket *Ticket
	// Choice is the answer: Once or Deny.
	Choice Choice
	// Result is what Ticket.Answer returned, with Err.
	Result Result
	Err    error
}

// Reply answers the ticket that a message means: without white space around it, it is exactly
// "approve CODE" or "deny CODE", with the code of a ticket of that owner whose stream is held.
// A ticket is found until 15 minutes after its timeout.
//
// The fifth wrong code denies all tickets of the owner that wait for a reply. With no such
// ticket, nothing is counted.
func (d *Desk) Reply(ctx context.Context, owner [32]byte, text string) Replied {
	c, code, ok := parseReply(text)
	if !ok {
		return Replied{}
	}
	t, denied := d.match(owner, code)
	for _, t := range denied {
		// Upstream that does not learn it denies at the end of its own timeout.
		_, _ = t.send(ctx, Deny, Reply)
	}
	if t == nil {
		return Replied{}
	}
	result, err := t.Answer(ctx, c, Reply)
	return Replied{t, c, result, err}
}

// match returns the ticket of a code. If there is none, that counts, and it returns those
// that are denied for it; their answer is under way.
func (d *Desk) match(owner [32]byte, code string) (found *Ticket, denied []*Ticket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var asked []*Ticket
	for _, t := range d.owners[owner] {
		if t.rest == nil {
			continue
		}
		if subtle.ConstantTimeCompare([]byte(t.code), []byte(code)) == 1 {
			found = t
		}
		if t.state == Waiting {
			asked = append(asked, t)
		}
	}
	if found != nil {
		return found, nil
	}
	for _, t := range asked {
		if t.wrong++; t.wrong < maxWrong {
			continue
		}
		if result, _ := t.take(Deny); result == Accepted {
			t.denied = true
			denied = append(denied, t)
		}
	}
	return nil, denied
}

// parseReply returns the answer and the code of a message that has the form of a reply.
func parseReply(text string) (c Choice, code string, ok bool) {
	verb, code, ok := strings.Cut(strings.TrimSpace(text), " ")
	switch {
	case !ok, len(code) != 9, code[4] != '-':
		return "", "", false
	case strings.Trim(code[:4]+code[5:], alphabet) != "":
		return "", "", false
	case verb == "approve":
		return Once, code, true
	case verb == "deny":
		return Deny, code, true
	}
	return "", "", false
}

// newCode returns a code of 40 random bits.
func newCode() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	for i := range b {
		b[i] = alphabet[b[i]%32]
	}
	return string(b[:4]) + "-" + string(b[4:])
}
