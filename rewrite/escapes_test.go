package rewrite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// spellings are ways to write the same in a JSON string.
var spellings = [][]string{
	{`\n`, `\u000a`, `\u000A`}, {"`", `\u0060`}, {"💻", `\ud83d\udcbb`, `\uD83D\uDCBB`}, {"⚙\ufe0f", `\u2699\ufe0f`, `\u2699` + "\ufe0f"}, {" ", `\u0020`}, {"l", `\u006c`, `\u006C`},
	{"<", `\u003c`, `\u003C`}, {"think", `t\u0068ink`, `\u0074hin\u006B`}, {"/", `\/`, `\u002f`}, {">", `\u003e`}, {`\t`, `\u0009`}, {`\\`, `\u005c`}, {`\"`, `\u0022`}, {"é", `\u00e9`}, {"🦄", `\ud83e\udd84`},
	{"~", `\u007e`}, {`\r`, `\u000d`},
}

// spelt returns a text in two spellings: the first of each, and others. What it has
// is mostly the beginnings of markers, tags and fences.
func spelt(r *rand.Rand) (plain, escaped string) {
	var a, b strings.Builder
	phrases := []string{"n`CsX`n", "n`CsX`X`n", "n`CsX`", "`CsX`n", "n`UsX`n", "n```nX", "nn<T>X<Q/T>", "<T>", "<Q/T>", "X", "n", "s", "`", "nnX", "n`GsX`nn", "~~~n", "tX", "n`Cs`n", "n`Cs``n", "r"}
	names := map[rune]int{'n': 0, '`': 1, 'C': 2, 'G': 3, 's': 4, '<': 6, 'T': 7, 'Q': 8, '>': 9, 't': 10, 'U': 14, '~': 15, 'r': 16}
	letters := []int{5, 5, 11, 12, 13}
	for range 1 + r.IntN(6) {
		for _, c := range phrases[r.IntN(len(phrases))] {
			n, ok := names[c]
			if !ok {
				n = letters[r.IntN(len(letters))]
			}
			ways := spellings[n]
			a.WriteString(ways[0])
			b.WriteString(ways[r.IntN(len(ways))])
		}
	}
	return a.String(), b.String()
}

// What a text says does not depend on how it is escaped, whole or in deltas.
func TestEscapesDecideNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		ways := [2]string{role(), role()}
		answers := [2]string{}
		for range 1 + r.IntN(4) {
			plain, escaped := spelt(r)
			for i, s := range []string{plain, escaped} {
				ways[i] += delta(`"content": "` + s + `"`)
				answers[i] += s
			}
		}
		o := allOptions()[r.IntN(len(allOptions()))]
		var saw [2]string
		for i, in := range ways {
			out, sum := run(in+stop(), o, chatParams, inOne, CauseEOF)
			v := look(t, out)
			a := RepairAnswer([]byte(completion(`, "content": "`+answers[i]+`"`, "stop", realUsage)), &o, nil)
			m := messageOf(t, a.Body)
			h, healed := Heal([]byte(`{"messages": [{"role": "assistant", "content": "`+answers[i]+`"}]}`), nil)
			history := unquote(jsonspan.MemberOf(h, jsonspan.Span{From: 0, To: len(h)}, "messages").Of(h))
			saw[i] = fmt.Sprintf("%q %q %q %v %+v\n%+v\n%d %q", v.content, v.reasoning, v.story(), v.starts(), sum, m, healed.Markers, unescaped(history))
		}
		same(t, saw[1], saw[0], fmt.Sprintf("%+v: what is seen of %s", o, ways[1]))
		if t.Failed() {
			return
		}
	}
}

// unescaped returns the text of a JSON array's messages, without escapes.
func unescaped(s string) string { return string(jsonspan.AppendText(nil, []byte(s))) }

// A text that is one escape is no more than that.
func TestContentOfOneEscape(t *testing.T) {
	for _, ways := range spellings {
		for _, s := range ways {
			in := role() + text("a") + delta(`"content": "`+s+`"`) + text("b") + stop()
			same(t, repair(in), in, "bytes")
			in = delta(`"content": "`+s+`"`) + text("b") + stop()
			if v := look(t, repair(in)); v.content != look(t, in).content {
				t.Errorf("%s becomes %q", s, v.content)
			}
		}
	}
}

// Text is unescaped as the standard library does it, lone surrogates included.
func TestTextIsUnescapedAsTheStandardSays(t *testing.T) {
	pieces := []string{`\ud83d`, `\uDCBB`, `\udcbb`, "u", "x", `\n`, "dcbb", "udcbb", `\\`, `\"`, `\/`, `\b`, `\f`, `\r`, `\t`, `\u0041`, `\u00E9`, `\uffff`, `\ue000`, `\ud7ff`, `\udbff`, `\udfff`, "é", "💻", `\u0000`, "\ufffd"}
	r := rand.New(rand.NewPCG(7, 8))
	for range 20000 {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		var want string
		if err := json.Unmarshal([]byte(`"`+b.String()+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if got := unescaped(b.String()); got != want {
			t.Fatalf("%s is %+q, want %+q", b.String(), got, want)
		}
	}
}
