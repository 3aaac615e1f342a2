package desk

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
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
	// Result and Err are what Ticket.Answer returned.
	Result Result
	Err    error
}

// Reply answers the ticket of owner with the code, if its stream is held: c is Once or Deny. A
// ticket is found until 15 minutes after its timeout.
//
// The fifth wrong code denies all tickets of owner that wait for a reply. If there are none, codes
// are not counted, and what cannot be a code is never.
func (d *Desk) Reply(ctx context.Context, owner [32]byte, c rewrite.ApprovalChoice, code string) Replied {
	if !isCode(code) {
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
	return Replied{t, result, err}
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

// Secrets returns the codes and the ids of the tickets of owner, nil for none. The value says that
// a ticket waits for a reply with the code.
func (d *Desk) Secrets(owner [32]byte) map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var secrets map[string]bool
	for _, t := range d.owners[owner] {
		if secrets == nil {
			secrets = map[string]bool{}
		}
		secrets[t.id] = false
		if t.rest != nil {
			secrets[t.code] = t.state == Waiting && time.Now().Before(t.until)
		}
	}
	return secrets
}

// isCode reports whether newCode may return code.
func isCode(code string) bool {
	return len(code) == 9 && code[4] == '-' && strings.Trim(code[:4]+code[5:], alphabet) == ""
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
