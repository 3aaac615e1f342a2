package rewrite

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// flatGoal is the goal in ns for one of many frames in a read.
const flatGoal = 60

// flatReads returns the middle of a stream as a proxy reads it if upstream is faster: reads
// of 32 KiB with about 120 frames each. Every twentieth is a tool marker, if markers is
// true.
func flatReads(t testing.TB, reads int, markers bool) (all [][]byte, frames int) {
	const size = 32 << 10
	var in strings.Builder
	words := strings.Fields("the agent reads a file and writes what it has found there into the answer of the user who asked for it")
	for in.Len() < reads*size {
		text := fmt.Sprintf("w%06d ", frames)
		for k := frames; len(text) < 50+frames*13%28; k++ {
			text += words[k%len(words)] + " "
		}
		switch {
		case markers && frames%20 == 19:
			text = fmt.Sprintf("\n`\U0001f4bb ls -la /tmp/%d`\n", frames)
		case markers && frames%20 == 0:
			text = "\n\n" + text
		}
		in.WriteString(recordedFrame(t, text))
		frames++
	}
	for rest := in.String(); len(rest) > 0; {
		n := min(size, len(rest))
		all, rest = append(all, []byte(rest[:n])), rest[n:]
	}
	return all, frames
}

// BenchmarkGoalFlat measures frames that come in reads of 32 KiB, beside copying the same
// reads.
func BenchmarkGoalFlat(b *testing.B) {
	const reads = 16
	for _, c := range []struct {
		name    string
		markers bool
	}{{"prose", false}, {"markers", true}} {
		in, frames := flatReads(b, reads, c.markers)
		out := make([]byte, 0, 64<<10)
		b.Run(c.name, func(b *testing.B) {
			s := New(&Options{}, Params{Active: true, OnTool: func(ToolEvent) {}})
			out = s.Feed(out[:0], []byte(role()+text("x\n")), epoch)
			now := epoch
			measure(b, flatGoal, frames, func() {}, func() {
				for _, read := range in {
					now = now.Add(time.Second)
					out = s.Feed(out[:0], read, now)
				}
			})
		})
		b.Run(c.name+" copied", func(b *testing.B) {
			measure(b, flatGoal, frames, func() {}, func() {
				for _, read := range in {
					out = append(out[:0], read...)
				}
			})
		})
	}
}
