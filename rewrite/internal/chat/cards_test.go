package chat

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

// The bound on open tools counts what the end of a card takes: no end takes more.
func TestEndsOfCardsTakeWhatIsCounted(t *testing.T) {
	o := contract.Options{Cards: true}
	for _, fields := range []string{"x", "💻", `\"`, `\\`, `\u0001`, `\n`, `\t`, `\u0022`, "\x7f", "é "} {
		long := `"` + strings.Repeat(fields, 3000) + `"`
		for _, id := range []string{`"i"`, `"` + strings.Repeat("i", MaxCardID-2) + `"`} {
			w := writer{o: &o, form: contract.ProgressEnvelope}
			c := tool{name: long, emoji: long, label: long, id: id, card: true}
			w.toolHead()
			plain := c
			plain.card = false
			w.toolEvent(&plain, completed, true)
			without := len(w.Out.Take())
			w.toolEvent(&c, completed, true)
			w.cardOutput(&c, true)
			took, most := len(w.Out.Take())-without, c.cardBytes()+w.head.empty.To-w.head.empty.From
			if took > most {
				t.Errorf("%q: the card takes %d bytes, want at most %d", fields, took, most)
			}
		}
	}
}
