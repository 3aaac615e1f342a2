package encode

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// The bound on open tools counts what the end of a card takes: no end takes more.
func TestEndsOfCardsTakeWhatIsCounted(t *testing.T) {
	o := contract.Options{NoStatusLine: true}
	for _, fields := range []string{"x", "💻", `\"`, `\\`, `\u0001`, `\n`, `\t`, `\u0022`, "\x7f", "é ", "\u2028", "\xff", "\xffx"} {
		long := `"` + strings.Repeat(fields, 3000) + `"`
		for _, id := range []string{`"i"`, `"` + strings.Repeat("i", MaxCardID-2) + `"`} {
			var out sse.Writer
			w := NewWriter(&out, &o, &contract.Params{})
			c := Transition{Tool: Tool{Name: long, Emoji: long, Label: long, ID: id, Card: true}, Completed: true, Interrupted: true}
			w.Transition(&c)
			card := len(out.Take())
			c.Card = false
			w.Transition(&c)
			plain, counted := len(out.Take()), w.EndSize(&c.Tool)
			c.Card = true
			if most := w.EndSize(&c.Tool); card-plain > most-counted || plain > counted {
				t.Errorf("%q: the end takes %d and %d bytes, want at most %d and %d", fields, plain, card, counted, most)
			}
		}
	}
}
