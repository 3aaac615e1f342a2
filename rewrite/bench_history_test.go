package rewrite

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// chatHistory is a request of about n bytes: questions of two sentences and answers of some
// paragraphs, with quotes and accents. With code there are code blocks and inline code,
// too. The answers begin with markers, as many as are asked for in all.
func chatHistory(n int, code bool, markers int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the tests in this directory need a database of their own which is created by first them and dropped last so you can run go without it é — but “not” on another machine where files are bigger than expected")
	sentence := func() string {
		out := ""
		for range 8 + r.IntN(14) {
			w := words[r.IntN(len(words))]
			switch r.IntN(60) {
			case 0:
				w = `"` + w + `"`
			case 1:
				w = fmt.Sprint(r.IntN(3000))
			case 2:
				if code {
					w = "`" + w + "()`"
				}
			}
			out += w + " "
		}
		return strings.TrimSpace(out) + ". "
	}
	answer := func() string {
		out := ""
		for range 2 + r.IntN(4) {
			for range 1 + r.IntN(4) {
				out += sentence()
			}
			out += "\n\n"
			if code && r.IntN(3) == 0 {
				out += "```go\n"
				for range 4 + r.IntN(12) {
					out += fmt.Sprintf("\tif err := %s.%s(ctx, %d, \"x\"); err != nil {\n", words[r.IntN(20)], words[r.IntN(20)], r.IntN(1000))
				}
				out += "```\n\n"
			}
		}
		return strings.TrimSpace(out)
	}
	var b strings.Builder
	b.WriteString(`{"model": "hermes-agent", "messages": [{"role": "system", "content": "You are a helpful assistant."}`)
	for left := markers; b.Len() < n; {
		text := answer()
		for ; left > 0 && (markers-left)*n < b.Len()*markers; left-- {
			text = "`💻 go test ./...`\n\n" + text
		}
		b.WriteString(`, {"role": "user", "content": ` + rawJSON(sentence()+sentence()) + `}, {"role": "assistant", "content": ` + rawJSON(text) + `}`)
	}
	b.WriteString(`], "stream": true}`)
	return []byte(b.String())
}

// BenchmarkHistory measures what it costs to heal a history. The command bench holds the
// rows against its budgets, in milliseconds a megabyte.
func BenchmarkHistory(b *testing.B) {
	for _, c := range []struct {
		name    string
		n       int
		code    bool
		markers int
	}{
		{"nothing_100kB", 100e3, false, 0}, {"nothing_5MB", 5e6, false, 0},
		{"code_100kB", 100e3, true, 0}, {"code_5MB", 5e6, true, 0},
		{"markers_100kB", 100e3, true, 200}, {"markers_5MB", 5e6, true, 200},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := chatHistory(c.n, c.code, c.markers)
			begun := cpuTime() // other work on the machine does not count
			for b.Loop() {
				if _, req := Heal(in, nil); req.Markers != c.markers || req.Asked != AskedStream {
					b.Fatal(req)
				}
			}
			b.ReportMetric((cpuTime()-begun).Seconds()*1e3/(float64(len(in))/1e6*float64(b.N)), "ms/MB")
		})
	}
}
