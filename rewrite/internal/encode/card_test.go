package encode

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// The bound on open tools counts what the end of a card takes: no end takes more.
func TestEndsOfCardsTakeWhatIsCounted(t *testing.T) {
	o := contract.Options{Cards: true}
	for _, fields := range []string{"x", "💻", `\"`, `\\`, `\u0001`, `\n`, `\t`, `\u0022`, "\x7f", "é "} {
		long := `"` + strings.Repeat(fields, 3000) + `"`
		for _, id := range []string{`"i"`, `"` + strings.Repeat("i", MaxCardID-2) + `"`} {
			var out sse.Writer
			w := NewWriter(&out, &o, &contract.Params{}, nil)
			c := Transition{Tool: Tool{Name: long, Emoji: long, Label: long, ID: id}, Completed: true, Interrupted: true}
			w.Transition(&c)
			without, plain := len(out.Take()), c.Size()
			c.Card = true
			w.Transition(&c)
			took, most := len(out.Take())-without, c.Size()-plain+w.EndSize(0).Output
			if took > most {
				t.Errorf("%q: the card takes %d bytes, want at most %d", fields, took, most)
			}
		}
	}
}
