package approval

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"strings"
)

// maxWrong is the number of wrong codes after which a ticket that waits for a reply is denied.
const maxWrong = 5

// alphabet has 32 characters that are hard to confuse.
const alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"

// Replied is the result of Desk.Reply.
type Replied struct {
	// Ticket is the ticket that the message answers. If it is nil, the message is an ordinary
	// request.
	Ticket *Ticket
	// Choice is the answer: Once or Deny.
	Choice Choice
	// Result and Err are what Ticket.Answer returned.
	Result Result
	Err    error
}

// Reply answers the ticket that text names. Apart from white space around it, text must be exactly
// "approve CODE" or "deny CODE", with the code of a ticket of owner whose stream is held. A ticket
// is found until 15 minutes after its timeout.
//
// The fifth wrong code denies all tickets of owner that wait for a reply. If there are none, codes
// are not counted.
func (d *Desk) Reply(ctx context.Context, owner [32]byte, text string) Replied {
	c, code, ok := parseReply(text)
	if !ok {
		return Replied{}
	}
	t, denied := d.match(owner, code)
	for _, t := range denied {
		// If this fails, upstream denies the request at the end of its own timeout.
		_, _ = t.send(ctx, Deny, Reply)
	}
	if t == nil {
		return Replied{}
	}
	result, err := t.Answer(ctx, c, Reply)
	return Replied{t, c, result, err}
}

// match returns the ticket of owner with the code. If there is none, it counts a wrong code, and
// returns the tickets that are denied for it, in the state Sending.
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
