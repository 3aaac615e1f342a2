package desk_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

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
}

// TestCodesAreRandom: each character, and those of a client differ.
func TestCodesAreRandom(t *testing.T) {
	var h hermes
	d := desk.New()
	seen, chars := map[string]bool{}, map[rune]bool{}
	for i := range 1000 {
		s := d.Tickets(h.asker(1))
		ticket := s.Ask(ask(fmt.Sprint("run", i), 1))
		if raw, err := base64.RawURLEncoding.Strict().DecodeString(ticket.ID()); err != nil || len(raw) != 16 {
			t.Errorf("the id %q", ticket.ID())
		}
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
