package rewrite

import (
	"strings"
	"testing"
	"time"
)

// perFrame reports time and allocations for each frame.
func perFrame(b *testing.B, frames int, allocs float64) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(frames), "ns/frame")
	b.ReportMetric(allocs, "allocs/frame")
}

// steady measures frames in the middle of a stream that has begun with open.
func steady(b *testing.B, o Options, open, frame string) {
	b.Helper()
	s := New(&o, chatParams)
	out := make([]byte, 0, 1<<20)
	in := []byte(frame)
	n := len(frames(frame))
	now := epoch
	out = s.Feed(out[:0], []byte(open), now)
	feed := func() {
		now = now.Add(time.Second)
		out = s.Feed(out[:0], in, now)
	}
	for range 100 {
		feed()
	}
	allocs := testing.AllocsPerRun(100, feed) / float64(n)
	b.SetBytes(int64(len(frame)))
	b.ResetTimer()
	rounds := 0
	for b.Loop() {
		feed()
		rounds++
	}
	perFrame(b, rounds*n, allocs)
}

func BenchmarkUntouchedFrame(b *testing.B) { steady(b, Options{}, role(), text("token ")) }

func BenchmarkUntouchedFrameWithCode(b *testing.B) {
	steady(b, Options{}, role(), text("see `git status`\n"))
}

func BenchmarkReasoningFrame(b *testing.B) { steady(b, Options{}, role(), reasoning("token ")) }

func BenchmarkKeepaliveComment(b *testing.B) { steady(b, Options{}, role(), keepalive) }

// A thousand frames of a clean stream in one read.
func BenchmarkLongCleanStream(b *testing.B) {
	steady(b, Options{}, role(), strings.Repeat(text("some "), 1000))
}

func BenchmarkMarkerFrame(b *testing.B) {
	steady(b, Options{}, role(), markerChunk("💻", "ls -la /tmp"))
}

func BenchmarkToolEvent(b *testing.B) {
	steady(b, Options{}, role(), g1("terminal", "💻", "ls -la /tmp"))
}

// A line that is held for its whole length and is no marker.
func BenchmarkHeldText(b *testing.B) {
	steady(b, Options{}, role(), texts("a\n`💻", " ls", " -la", "` is", " it\n"))
}

// A line that is held and stripped.
func BenchmarkStrippedText(b *testing.B) {
	steady(b, Options{}, role(), texts("a\n`💻", " ls", " -la", "`\n", "it\n"))
}

func BenchmarkFinalFrames(b *testing.B) {
	for name, end := range map[string]string{
		"stop":  finishChunk("stop", realUsage) + doneFrame,
		"error": finishChunk("error", g3Error) + doneFrame,
		"crash": finishChunk("stop", zeroUsage) + doneFrame,
	} {
		b.Run(name, func(b *testing.B) { finals(b, end, len(frames(end))) })
	}
	b.Run("incomplete", func(b *testing.B) { finals(b, "", 1) })
}

// finals measures the end of a stream, New and a role chunk included.
func finals(b *testing.B, end string, n int) {
	o := Options{}
	out := make([]byte, 0, 1<<20)
	open, in := []byte(role()), []byte(end)
	whole := func() {
		s := New(&o, chatParams)
		out = s.Feed(out[:0], open, epoch)
		out = s.Feed(out[:0], in, epoch)
		out = s.Finish(out[:0], CauseEOF)
	}
	beginning := testing.AllocsPerRun(100, func() {
		s := New(&o, chatParams)
		out = s.Feed(out[:0], open, epoch)
	})
	allocs := (testing.AllocsPerRun(100, whole) - beginning) / float64(n)
	b.ResetTimer()
	rounds := 0
	for b.Loop() {
		whole()
		rounds++
	}
	perFrame(b, rounds*n, allocs)
}

func BenchmarkRecordings(b *testing.B) {
	for _, generation := range []string{"g0-v0.8.0", "g1-v0.9.0", "g2-v0.13.0", "g3-v0.20.3", "g4-transcribed"} {
		b.Run(generation, func(b *testing.B) {
			rs := chats(b, generation)
			var bodies [][]byte
			n, size := 0, 0
			for _, r := range rs {
				bodies = append(bodies, []byte(r.body))
				n += len(frames(r.body))
				size += len(r.body)
			}
			o := Options{}
			out := make([]byte, 0, 1<<20)
			all := func() {
				for _, body := range bodies {
					s := New(&o, chatParams)
					out = s.Feed(out[:0], body, epoch)
					out = s.Finish(out[:0], CauseEOF)
				}
			}
			allocs := testing.AllocsPerRun(10, all) / float64(n)
			b.SetBytes(int64(size))
			b.ResetTimer()
			rounds := 0
			for b.Loop() {
				all()
				rounds++
			}
			perFrame(b, rounds*n, allocs)
		})
	}
}

func TestUntouchedFramesAllocateNothing(t *testing.T) {
	for name, in := range map[string]string{
		"text":                text("token "),
		"white space":         text("\n\n"),
		"inline code":         text("see `git status` and\n"),
		"code at a line":      text("`git status`\n"),
		"escapes":             text("héllo 💻 \"x\"\n"),
		"reasoning":           reasoning("token "),
		"role":                role(),
		"empty delta":         delta(""),
		"tool calls":          delta(`"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{}"}}]`),
		"usage in each chunk": strings.Replace(text("x"), "}\n\n", realUsage+"}\n\n", 1),
		"comment":             keepalive,
		"unknown event":       named("x", "y"),
		"several choices":     `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]}` + "\n\n",
		"CRLF":                strings.ReplaceAll(text("token "), "\n", "\r\n"),
		"several frames":      texts("a", "b", "c") + keepalive + reasoning("d"),
		"a fence":             text("```\n`💻 ls`\n```\n"),
	} {
		s := New(&Options{}, chatParams)
		out := make([]byte, 0, 64<<10)
		frame := []byte(in)
		feed := func() { out = s.Feed(out[:0], frame, epoch) }
		s.Feed(nil, []byte(role()), epoch)
		for range 20 {
			feed()
		}
		same(t, string(out), in, name+": bytes")
		if n := testing.AllocsPerRun(200, feed); n != 0 {
			t.Errorf("%s: %v allocations for a frame", name, n)
		}
		half := func() {
			out = s.Feed(out[:0], frame[:len(frame)/2], epoch)
			out = s.Feed(out, frame[len(frame)/2:], epoch)
		}
		half()
		if n := testing.AllocsPerRun(200, half); n != 0 {
			t.Errorf("%s: %v allocations for a frame in two reads", name, n)
		}
	}
}

// Reads of nothing but line ends, which are cut into the most units.
func BenchmarkLineEnds(b *testing.B) {
	for name, line := range map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n", "comments": ":\r"} {
		b.Run(name, func(b *testing.B) {
			s := New(&Options{}, chatParams)
			block := []byte(strings.Repeat(line, (32<<10)/len(line)))
			var out []byte
			b.SetBytes(int64(len(block)))
			for b.Loop() {
				out = s.Feed(out[:0], block, epoch)
			}
		})
	}
}
