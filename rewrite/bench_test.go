package rewrite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// perFrame measures feed, which feeds frames of size bytes in all.
func perFrame(b *testing.B, frames, size int, feed func()) {
	b.Helper()
	for range 100 {
		feed()
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		feed()
	}
	b.ReportMetric(testing.AllocsPerRun(100, feed)/float64(frames), "allocs/frame")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(frames*b.N), "ns/frame")
}

// BenchmarkFrames measures frames in the middle of a stream.
func BenchmarkFrames(b *testing.B) {
	for name, in := range map[string]string{
		"untouched": text("token "), "code": text("see `git status`\n"), "reasoning": reasoning("token "),
		"keepalive": keepalive,
		"thousand":  strings.Repeat(text("some "), 1000), // in one read
		"marker":    markerChunk("💻", "ls -la /tmp"), "tool": g1("terminal", "💻", "ls -la /tmp"),
		"held":      texts("a\n`💻", " ls", " -la", "` is", " it\n"), // for its whole length, and no marker
		"stripped":  texts("a\n`💻", " ls", " -la", "`\n", "it\n"),
		"line ends": strings.Repeat("\r\n", 16<<10), "comments": strings.Repeat(":\r", 16<<10), // are cut into the most units
	} {
		b.Run(name, func(b *testing.B) {
			s, out, now := New(&Options{}, chatParams), make([]byte, 0, 1<<20), epoch
			s.Feed(nil, []byte(role()), now)
			perFrame(b, len(frames(in)), len(in), func() {
				now = now.Add(time.Second)
				out = s.Feed(out[:0], []byte(in), now)
			})
		})
	}
}

// BenchmarkStreams measures whole streams: each end after a role chunk, and recordings.
func BenchmarkStreams(b *testing.B) {
	streams := map[string][]string{
		"stop":  {role() + stop()},
		"error": {role() + finishChunk("error", g3Error) + doneFrame},
		"crash": {role() + finishChunk("stop", zeroUsage) + doneFrame}, "incomplete": {role()},
	}
	for _, r := range chats(b, "g0-v0.8.0", "g1-v0.9.0", "g2-v0.13.0", "g3-v0.20.3", "g4-transcribed") {
		streams[r.generation] = append(streams[r.generation], r.body)
	}
	for name, bodies := range streams {
		b.Run(name, func(b *testing.B) {
			all, out := strings.Join(bodies, ""), make([]byte, 0, 1<<20)
			perFrame(b, len(frames(all)), len(all), func() {
				for _, body := range bodies {
					s := New(&Options{}, chatParams)
					out = s.Finish(s.Feed(out[:0], []byte(body), epoch), CauseEOF)
				}
			})
		})
	}
}

// chatHistory is a request of about n bytes: questions of two sentences and answers of some
// paragraphs, with quotes and accents. With code there are also code blocks and inline
// code. The answers begin with markers, as many as are asked for in all.
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

// BenchmarkHistory measures what it costs to heal a history, with a Memory, which is empty but in the rows
// of records: there it knows every fourth answer. The command bench holds the rows against its budgets, in
// milliseconds a megabyte.
func BenchmarkHistory(b *testing.B) {
	for _, c := range []struct {
		name    string
		n       int
		code    bool
		markers int
		records bool
	}{
		{"nothing_100kB", 100e3, false, 0, false}, {"nothing_5MB", 5e6, false, 0, false},
		{"code_100kB", 100e3, true, 0, false}, {"code_5MB", 5e6, true, 0, false},
		{"markers_100kB", 100e3, true, 200, false}, {"markers_5MB", 5e6, true, 200, false},
		{"records_100kB", 100e3, true, 0, true}, {"records_5MB", 5e6, true, 0, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := chatHistory(c.n, c.code, c.markers)
			memory := fakeMemory{}
			if c.records {
				memory = knowing(in)
			}
			healing := Healing{Memory: memory}
			begun := cpuTime() // other work on the machine does not count
			for b.Loop() {
				if _, req := healing.Heal(in); req.Markers != c.markers || req.Form != AnswerStream || req.FromMemory > 0 != c.records {
					b.Fatal(req)
				}
			}
			b.ReportMetric((cpuTime()-begun).Seconds()*1e3/(float64(len(in))/1e6*float64(b.N)), "ms/MB")
		})
	}
}

// knowing returns a memory of every fourth answer in the history in.
func knowing(in []byte) fakeMemory {
	var body struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(in, &body); err != nil {
		panic(err)
	}
	m, t := fakeMemory{}, Turn{}
	for i, said := range body.Messages {
		text := TextOf(said.Content)
		switch said.Role {
		case "user":
			t = Turn{Before: t.Answer, Question: text}
		case "assistant":
			if t.Answer = text; i%8 == 2 {
				m[t] = []ToolRun{{Name: "terminal", Args: `{"command":"go test ./..."}`, Ended: "completed"}}
			}
		}
	}
	return m
}
