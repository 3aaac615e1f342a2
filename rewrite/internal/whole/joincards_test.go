package whole

import (
	"math/rand/v2"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// The ends of a text are found from its end. Read from its beginning, they are the same.
func TestEndsOfATextWithCards(t *testing.T) {
	parts := []string{" ", " ", `\n`, `\n`, `\t`, `\u0020`, `\u00a0`, `\\`, `\"`, "n", "a", "é", "\u2003", "\u3000", "日本", `\ud83d\udcbb`, "long words "}
	r := rand.New(rand.NewPCG(7, 8))
	for range 100000 {
		var in []byte
		for range r.IntN(12) {
			part := parts[r.IntN(len(parts))]
			for range 1 + r.IntN(3) {
				in = append(in, part...)
			}
		}
		last, from, to := rune(0), len(in), 0
		for i := 0; i < len(in); {
			var next int
			last, next = jsonspan.NextRune(in, i)
			if !jsonspan.IsSpace(last) {
				from, to = min(from, i), next
			}
			i = next
		}
		if got, want := string(trimSpace(in)), string(in[min(from, to):to]); got != want {
			t.Fatalf("%q: %q, want %q", in, got, want)
		}
		if got := endsWithNewline(in); got != (last == '\n') {
			t.Fatalf("%q: %v", in, got)
		}
	}
}
