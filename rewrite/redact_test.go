package rewrite

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestBearerIsFoundWhereverItIs(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200000 {
		b := make([]byte, r.IntN(24))
		for i := range b {
			b[i] = "bearBEAR e"[r.IntN(10)]
		}
		if r.IntN(2) == 0 {
			b = append(append(b, "Bearer"...), b...)
		}
		if got, want := hasBearer(b), strings.Contains(strings.ToLower(string(b)), "bearer"); got != want {
			t.Fatalf("%q: %v", b, got)
		}
	}
}

// A secret is looked for only where mayHoldSecret says so: it must, however the
// text is escaped.
func TestSecretsAreFoundUnderAnyEscape(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, text := range []string{"sk-abcdef", "key sk-a_1*.b!", "Bearer abc1", "bEARER: tok.en", `x "bearer=a1b2" y`, "the task-force", "a bear", "sk", "é"} {
		for range 2000 {
			var raw strings.Builder
			for _, c := range text {
				switch {
				case r.IntN(6) == 0:
					fmt.Fprintf(&raw, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], c)
				case c == '"':
					raw.WriteString(`\"`)
				default:
					raw.WriteRune(c)
				}
			}
			in := `{"message":"` + raw.String() + `","code":"a\\u0061"}`
			out := redact([]byte(in))
			if got, want := unquote([]byte(memberOf(out, span{0, len(out)}, "message").of(out))), redactText(text); got != want {
				t.Fatalf("%s: %q, want %q", in, got, want)
			}
		}
	}
}
