package rewrite

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// long is a request of about n bytes with nothing to heal, most of it prose and
// code of the assistant's.
func long(n int) string {
	const turn = `{"role": "user", "content": "and then?"}, {"role": "assistant", "content": "Run ` + "`go test ./...`" + `:\n\n` +
		"```" + `go\nfunc f() string { return \"x\\n\" }\n` + "```" + `\n\n` + "`x`" + ` is \u00e9, and here is more text to read than that.\n"}, `
	return `{"model": "hermes-agent", "messages": [` + strings.Repeat(turn, n/len(turn)+1) + `{}], "stream": true}`
}

func TestNothingToHealCostsNoAllocation(t *testing.T) {
	for name, body := range map[string]string{
		"prose": long(1 << 16),
		"code":  `{"messages":[{"role":"assistant","content":"` + "\\n`x`\n```\n`git status`" + `"}]}`,
	} {
		in := []byte(body)
		if n := testing.AllocsPerRun(10, func() { Heal(in, nil) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// hostile are bodies of about n bytes that are made to cost time or memory.
func hostile(n int) map[string]string {
	fill := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, n/len(unit)) + tail
	}
	const open, shut = `{"messages":[{"role":"assistant","content":"`, `"}]}`
	return map[string]string{
		"markers":              fill(open, "`💻 a`\\n", shut),
		"markers and text":     fill(open, "`💻 a`\\nb\\n", shut),
		"newlines and markers": fill(open, "\\n`💻 a`\\n", shut),
		"beginnings":           fill(open, "`💻 ", shut),
		"lines that begin":     fill(open, "`💻 a\\n", shut),
		"one long label":       fill(open+"`💻 ", "a", "`"+shut),
		"label of backticks":   fill(open+"`💻 ", "`", shut),
		"backticks":            fill(open, "`", shut),
		"lines of backticks":   fill(open, "`\\n", shut),
		"escaped backticks":    fill(open, `\u0060`, shut),
		"backslashes":          fill(open, `\\`, shut),
		"escaped quotes":       fill(open, `\"`, shut),
		"half an escape":       fill(open, `\`, ``),
		"quotes":               fill(``, `"`, ``),
		"open brackets":        fill(`{"messages":`, `[`, ``),
		"open messages":        fill(`{"messages":[`, `{"content":[{"text":"`+"`💻 a`"+`",`, ``),
		"contents":             fill(`{"messages":[{`, `"content":"`+"`💻 a`"+`",`, `"role":"assistant"}]}`),
		"parts":                fill(`{"messages":[{"content":[`, `{"text":"`+"`💻 a`"+`","type":"text"},`, `{}],"role":"assistant"}]}`),
		"messages":             fill(`{"messages":[`, `{"role":"assistant","content":"`+"`💻 a`"+`"},`, `{}]}`),
		"messages many times":  fill(`{`, `"messages":[{"role":"assistant","content":"`+"`💻 a`"+`"}],`, `"a":1}`),
		"cards":                fill(`{"messages":[`, carded(1, "a", "x")+",", `{}]}`),
		"empty cards":          fill(`{"messages":[`, carded(1, "", "x")+","+assistant("")+",", `{}]}`),
		"answers with cards":   fill(`{"messages":[`, carded(1, "a", "x")+","+assistant("b")+","+askOfTests+",", `{}]}`),
		"cards of parts":       fill(`{"messages":[`, `{"role":"assistant","content":[{"type":"text","text":"a"}],`+cardCalls(1, "x")+`},`+cardOutputs(1, "x")+`,`, `{}]}`),
		"a card of parts":      fill(`{"messages":[{"role":"assistant","content":[`, `{"type":"text","text":""},`, `{}],`+cardCalls(1, "x")+`},`+cardOutputs(1, "x")+`]}`),
		"calls":                fill(`{"messages":[{"role":"assistant","tool_calls":[`, `{"id":"i","function":{"arguments":"{\"label\":\"\"}"}},`, `{}]}]}`),
		"calls of many":        fill(`{"messages":[`, `{"role":"assistant",`+cardCalls(1, strings.Split(strings.Repeat("x", 200), "")...)+`},`+cardOutputs(1, strings.Split(strings.Repeat("x", 200), "")...)+`,`, `{}]}`),
		"calls without an end": fill(`{"messages":[`, `{"role":"assistant",`+cardCalls(1, "x")+`},`, `{}]}`),
		"outputs":              fill(`{"messages":[{"role":"assistant",`+cardCalls(1, strings.Split(strings.Repeat("x", 200), "")...)+`},`, cardOutputs(1, "x")+`,`, `{}]}`),
		"a long card":          fill(`{"messages":[{"role":"assistant","content":"a",`+strings.TrimSuffix(cardCalls(1, "x"), `\"}"}}]`), `\n`, `\"}"}}]},`+cardOutputs(1, "x")+`]}`),
		"ids with escapes": func() string {
			out, head := "", strings.Repeat(`\n`, n/1024)
			for i := range 256 {
				out = fmt.Sprintf(`,{"role":"tool","tool_call_id":"%s%d","content":"completed"}`, head, i) + out
			}
			return `{"messages":[{"role":"assistant",` + strings.ReplaceAll(cardCalls(1, strings.Split(strings.Repeat("x", 256), "")...), `"id": "call_1`, `"id": "`+head) + `}` + out + `]}`
		}(),
		"answers in answers":  `{"messages":[` + strings.Repeat(`{"role":"assistant",`+cardCalls(1, "x")+`},`, n/500) + strings.Repeat(cardOutputs(1, "x")+`,`+assistant("")+`,`, n/500) + `{}]}`,
		"brackets":            fill(`{"stream":true,"messages":[{"content":"`, `]   }`, `"}]}`),
		"brackets and spaces": fill(`{"stream":true,"messages":[{"content":"`, `]  ]`+strings.Repeat(" ", 500), `"}]}`),
		"a card and newlines": fill(`{"messages":[`+carded(1, "a", "x")+`,{"role":"assistant","content":"b `, `\n`, `"}]}`),
		"a card and spaces":   fill(`{"messages":[`+carded(1, "a", "x")+`,{"role":"assistant","content":"b `, ` \n`, `"}]}`),
		"members":             fill(`{`, `"a":1,`, `"b":1}`),
		"commas":              fill(`{`, `,`, `}`),
	}
}

// Sixteen times the bytes cost about sixteen times the time.
func TestHostileBodiesCostLinearTime(t *testing.T) {
	const small, times = 256 << 10, 16
	bodies := map[int]map[string]string{small: hostile(small), times * small: hostile(times * small)}
	for name := range bodies[small] {
		checkLinear(t, name, small, times, func(n int) time.Duration {
			in := []byte(bodies[n][name])
			begun := cpuTime()
			Heal(in, nil)
			return cpuTime() - begun
		})
	}
}

// A body is copied once at most; beside that little is kept.
func TestHealingTakesBoundedMemory(t *testing.T) {
	const n = 1 << 20
	for name, body := range hostile(n) {
		in := []byte(body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Heal(in, nil)
		runtime.ReadMemStats(&after)
		// Places of texts take 16 bytes each, and lists grow by copying.
		if got := after.TotalAlloc - before.TotalAlloc; got > 6*uint64(len(in)) {
			t.Errorf("%s: %d bytes for a body of %d", name, got, len(in))
		}
	}
}

// The healed body of a history is the only copy of it, with cards and markers, too. There is
// none if nothing is healed.
func TestHealingCopiesAHistoryOnceAtMost(t *testing.T) {
	for _, markers := range []int{0, 200} {
		for _, cards := range []int{0, 1, 20} {
			in := chatHistory(5e6, true, markers)
			answer := `{"role": "assistant", ` + cardCalls(1, "ls") + `}, ` + cardOutputs(1, "ls") + `, {"role": "assistant"`
			for from := len(in); from > 0 && bytes.Count(in, []byte("tool_call_id")) < cards; { // from the end, after markers
				from = bytes.LastIndex(in[:from], []byte(`{"role": "assistant"`))
				in = slices.Concat(in[:from], []byte(answer), in[from+len(`{"role": "assistant"`):])
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, req := Heal(in, nil)
			runtime.ReadMemStats(&after)
			if req.Markers != markers || req.Cards != cards {
				t.Fatalf("%+v", req)
			}
			most := uint64(64 << 10)
			if req.Changed() {
				most += uint64(len(in))
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > most {
				t.Errorf("%d markers, %d cards: %d bytes for a body of %d", markers, cards, got, len(in))
			}
		}
	}
}

func BenchmarkHealNothing(b *testing.B) {
	for name, body := range map[string]string{
		"prose": long(1 << 20),
		"image": `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:` + strings.Repeat("A", 1<<20) + `"}}]}],"stream":true}`,
		"small": long(2000),
	} {
		b.Run(name, func(b *testing.B) {
			in := []byte(body)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, req := Heal(in, nil); req.Markers != 0 || req.Asked != AskedStream {
					b.Fatal(req)
				}
			}
		})
	}
}

func BenchmarkHealMarkers(b *testing.B) {
	in := []byte(strings.Replace(long(1<<20), `here is`, `\n`+"`💻 ls`"+`\nhere is`, 1))
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, req := Heal(in, nil); req.Markers != 1 {
			b.Fatal(req)
		}
	}
}
