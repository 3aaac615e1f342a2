package rewrite

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// The goals, for one frame in a read of its own.
const (
	untouchedGoal = 120  // ns and no allocation for a frame that leaves as it came
	editedGoal    = 600  // ns and one allocation for a frame that is changed
	streamGoal    = 1100 // bytes that an open and idle stream keeps
)

// recordedFrame is a chunk as Hermes v0.8 has sent it, with the text s.
func recordedFrame(t testing.TB, s string) string {
	t.Helper()
	frame := frames(readFile(t, captures+"/g0-v0.8.0/crash_after_text.sse"))[1]
	if !strings.Contains(frame, `"Partial "`) {
		t.Fatalf("another recording: %q", frame)
	}
	return strings.Replace(frame, `"Partial "`, asciiJSON(s), 1)
}

func recordedFrames(t testing.TB, ss ...string) (all [][]byte) {
	for _, s := range ss {
		all = append(all, []byte(recordedFrame(t, s)))
	}
	return all
}

// Texts that make a recorded frame 250 to 300 bytes long, and such that tell
// more of what models write.
var (
	proseTexts = []string{"The tests in this directory need a database of their own "}
	variedText = []string{
		"The tests need a database", " of their own, which", " is", " `created` by the first of them", " and\n", "dropped", " by the last.\n\n",
		"- `go test ./...` runs", " all\n", "- \"short\" ones", " are h\u00e9re: 4 < 5", "\n\n", "## Next", "\n", "if x <", " y && z > 1", " {\n\treturn", " nil\n", "}\n", "Done. \U0001f389",
	}
	newlineTexts = []string{"The tests in this directory need a database of their own\n"}
	codeTexts    = []string{"run `go test ./...` in it, and `go vet ./...` behind that\n"}
	lineTexts    = []string{"\nThe tests in this directory need a database of their own"}
)

func BenchmarkGoalUntouched(b *testing.B) {
	for _, c := range []struct {
		name  string
		texts []string
	}{
		{"prose", proseTexts}, {"varied", variedText}, {"newline", newlineTexts}, {"code", codeTexts}, {"line", lineTexts},
	} {
		b.Run(c.name, func(b *testing.B) {
			goalFrames(b, untouchedGoal, Params{Active: true, OnTool: func(ToolEvent) {}}, recordedFrames(b, c.texts...))
		})
	}
	b.Run("reasoning", func(b *testing.B) {
		frame := strings.Replace(recordedFrame(b, proseTexts[0]), `"content"`, `"reasoning_content"`, 1)
		goalFrames(b, untouchedGoal, chatParams, [][]byte{[]byte(frame)})
	})
	b.Run("pieces", func(b *testing.B) { // a frame that comes in two reads
		frame := []byte(recordedFrame(b, proseTexts[0]))
		goalFrames(b, 2*untouchedGoal, chatParams, [][]byte{frame[:150], frame[150:]})
	})
}

func BenchmarkGoalEdited(b *testing.B) {
	told := Params{Active: true, OnTool: func(ToolEvent) {}}
	for _, c := range []struct {
		name   string
		frames []string
	}{
		{"marker", []string{recordedFrame(b, "\n`\U0001f4bb go test ./... -run TestDatabase`\n")}},
		{"marker behind text", []string{recordedFrame(b, "\n`\U0001f4bb go test ./... -run TestDatabase`\n"), recordedFrame(b, proseTexts[0])}},
		{"stripped", frames(texts("a\n`\U0001f4bb", " ls", " -la", "`\n", "it\n"))},
		{"event", []string{g1("terminal", "\U0001f4bb", "go test ./... -run TestDatabase")}},
		{"reasoning", []string{recordedFrame(b, "\n\n<think>"), recordedFrame(b, "the tests need"), recordedFrame(b, " a database"), recordedFrame(b, "</think>\n\n"), recordedFrame(b, "So:")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var all [][]byte
			for _, f := range c.frames {
				all = append(all, []byte(f))
			}
			goalFrames(b, editedGoal, told, all)
		})
	}
}

// Tool events that have an id, the start and the end, of fifty tools.
func BenchmarkGoalEvent(b *testing.B) {
	var in [][]byte
	for i := range 50 {
		id := fmt.Sprintf("call_6f1ab0c2d9e84f5b93a7%04d", i)
		in = append(in, []byte(g2Start("terminal", "\U0001f4bb", "go test ./... -run TestDatabase", id)), []byte(g2End("terminal", id)))
	}
	var s *Stream
	out := make([]byte, 0, 64<<10)
	measure(b, editedGoal, len(in), func() {
		s = New(&Options{}, Params{Active: true, OnTool: func(ToolEvent) {}})
		out = s.Feed(out[:0], []byte(role()), epoch)
	}, func() {
		for _, f := range in {
			out = s.Feed(out[:0], f, epoch)
		}
	})
}

// goalFrames measures frames in the middle of a stream, each in a read of its
// own.
func goalFrames(b *testing.B, goal float64, p Params, all [][]byte) {
	b.Helper()
	s := New(&Options{}, p)
	out := s.Feed(make([]byte, 0, 64<<10), []byte(role()+text("x\n")), epoch)
	now := epoch
	feed := func() {
		for _, f := range all {
			now = now.Add(time.Second)
			out = s.Feed(out[:0], f, now)
		}
	}
	for range 50 {
		feed()
	}
	const rounds = 100
	measure(b, goal, rounds*len(all), func() {}, func() {
		for range rounds {
			feed()
		}
	})
}

// The last frames of a stream and its end, without what came before.
func BenchmarkGoalLast(b *testing.B) {
	for name, end := range map[string]string{
		"stop":       finishChunk("stop", realUsage) + doneFrame,
		"error":      finishChunk("error", g3Error) + doneFrame,
		"crash":      finishChunk("stop", zeroUsage) + doneFrame,
		"incomplete": "",
	} {
		b.Run(name, func(b *testing.B) {
			var streams [100]*Stream
			open, in := []byte(role()), []byte(end)
			out := make([]byte, 0, 64<<10)
			n := max(len(frames(end)), 2) // of an incomplete one the error and the finish
			measure(b, editedGoal, n*len(streams), func() {
				for i := range streams {
					streams[i] = New(&Options{}, chatParams)
					out = streams[i].Feed(out[:0], open, epoch)
				}
			}, func() {
				for _, s := range streams {
					if len(in) > 0 {
						out = s.Feed(out[:0], in, epoch)
					}
					out = s.Finish(out[:0], CauseEOF)
				}
			})
		})
	}
}

// measure reports what one of the frames of run costs: the median of many
// rounds, and the best of them, for the machine may be busy. What prepare does
// is not counted.
func measure(b *testing.B, goal float64, frames int, prepare, run func()) {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // a server's heap is not as small as this one
	var took []float64
	allocs := uint64(1 << 62)
	for b.Loop() {
		prepare()
		begun := time.Now()
		run()
		took = append(took, float64(time.Since(begun).Nanoseconds())/float64(frames))
	}
	for range 5 { // apart, for it stops the world
		prepare()
		before := mallocs()
		run()
		allocs = min(allocs, mallocs()-before)
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2], "ns/frame")
	b.ReportMetric(took[0], "best-ns/frame")
	b.ReportMetric(goal, "goal-ns")
	b.ReportMetric(float64(allocs)/float64(frames), "allocs/frame")
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// BenchmarkStreamMemory reports what open streams keep, each of which has
// seen the role and twenty frames of text and waits for more.
func BenchmarkStreamMemory(b *testing.B) {
	for _, n := range []int{10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(idleStreams(b, n), "B/stream")
			}
			b.ReportMetric(streamGoal, "goal-B")
		})
	}
}

// idleStreams returns the bytes of the heap that each of n idle streams takes.
func idleStreams(t testing.TB, n int) float64 {
	o := &Options{}
	in := recordedFrames(t, variedText...)
	first := []byte(role())
	all := make([]*Stream, n)
	var out []byte
	before := heap()
	for i := range all {
		all[i] = New(o, Params{Active: true, ID: always("chatcmpl-8ca4abcb511c417fbc7d6471ce168"), OnTool: func(ToolEvent) {}})
		out = all[i].Feed(out[:0], first, epoch)
		for _, f := range in {
			out = all[i].Feed(out[:0], f, epoch)
		}
	}
	grown := heap() - before
	runtime.KeepAlive(all)
	return float64(grown) / float64(n)
}

// TestIdleStreamsAreSmall: ten thousand of them wait most of the time. The
// allocator gives a Stream 704 bytes; one field too many would make that 768.
func TestIdleStreamsAreSmall(t *testing.T) {
	if poolForgets {
		t.Skip("the race detector's sync.Pool forgets what streams share")
	}
	if got := idleStreams(t, 2000); got > streamGoal {
		t.Errorf("an idle stream takes %.0f bytes, want at most %d", got, streamGoal)
	}
}

// What a stream costs that is made and has its first chunk.
func BenchmarkNew(b *testing.B) {
	o, open := &Options{}, []byte(role())
	out := make([]byte, 0, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		out = New(o, chatParams).Feed(out[:0], open, epoch)
	}
}
