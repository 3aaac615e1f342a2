package rewrite

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// streamsByLength are streams whose length grows with n, and how they are cut.
// Whatever is under way in them for long, each byte has to cost the same.
var streamsByLength = map[string]struct {
	in  func(n int) string
	cut func() cutter
}{
	"frames in one read":            {many(text("so\n")), one(inOne)},
	"frames in reads of their own":  {many(text("so\n")), one(oneFrame)},
	"frames byte by byte":           {many(text("so\n")), one(oneByte)},
	"a frame of text byte by byte":  {after(texts("a", "b"), func(n int) string { return text(strings.Repeat("x", 100*n)) }), one(oneByte)},
	"a frame of lines byte by byte": {after(texts("a", "b"), func(n int) string { return text(strings.Repeat("so\n", 40*n)) }), one(oneByte)},
	"a frame of code byte by byte":  {after(texts("a", "b"), func(n int) string { return text(strings.Repeat("`so`\n<b>\n", 15*n)) }), one(oneByte)},
	"a frame of backslashes":        {func(n int) string { return delta(`"content": "` + strings.Repeat(`\\\"`, 25*n) + `"`) }, one(inOne)},
	"a frame of many members":       {func(n int) string { return delta(strings.Repeat(`"x": "y", `, 10*n) + `"content": "a"`) }, one(inOne)},
	"a frame that never ends":       {func(n int) string { return text("a") + "data: " + strings.Repeat("x", 1000*n) }, fixed(100)},
	"a line of data per byte":       {func(n int) string { return strings.Repeat("data:x\n", 15*n) + "\n" }, one(oneByte)},
	"a held line, letter by letter": {after(text("\n`💻 "), many(text("x"))), one(oneFrame)},
	"held lines, one after another": {many(texts("\n`💻 ", "ls", " -la\n")), one(oneFrame)},
	"a held line and comments":      {after(text("\n`💻 "), many(strings.Repeat(keepalive, 10))), fixed(len(keepalive))},
	"a held line and empty deltas":  {after(text("\n`💻 "), many(delta(""))), one(oneFrame)},
	"a held line and blank lines":   {after(text("\n`💻 "), func(n int) string { return strings.Repeat("\n", 100*n) }), one(oneByte)},
	"imitations":                    {many(texts("\n`💻 ls", " -la`\n")), one(oneFrame)},
	"markers":                       {many(markerChunk("💻", "ls -la")), one(oneFrame)},
	"tool events":                   {counted(func(i int) string { return g2Start("t", "💻", "l", fmt.Sprint("call_", i)) }), one(oneFrame)},
	"tools that end": {counted(func(i int) string {
		return g2Start("t", "💻", "l", fmt.Sprint("call_", i)) + g2End("t", fmt.Sprint("call_", i))
	}), one(oneFrame)},
	"reasoning":                     {many(texts("\n\n<think>so", "</think>\n\n")), one(oneFrame)},
	"reasoning that looks like end": {after(text("<think>"), many(texts("</thin", "</"))), one(oneFrame)},
	"newlines behind reasoning":     {after(text("<think>a</think>"), many(text("\n\n"))), one(oneFrame)},
	"frames that are never alike": {counted(func(i int) string {
		return strings.Replace(text("a"), `"finish`, fmt.Sprintf(`"n": %d, "finish`, i), 1)
	}), one(oneFrame)},
}

func one(c cutter) func() cutter { return func() cutter { return c } }

// oneFrame reads frames of tests, which are all shorter than 300 bytes, in about
// two reads each.
func oneFrame(n int) int { return min(n, 150) }

func fixed(size int) func() cutter {
	return one(func(n int) int { return min(n, size) })
}

func many(frames string) func(n int) string {
	return func(n int) string { return strings.Repeat(frames, n) }
}

func counted(frame func(i int) string) func(n int) string {
	return func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(frame(i))
		}
		return b.String()
	}
}

func after(first string, then func(n int) string) func(n int) string {
	return func(n int) string { return first + then(n) }
}

// checkLinear fails when times the size costs more than five times as much as it
// should, where took returns the CPU time of a size. A quadratic cost of sixteen times
// the size is sixteen times as much as it should be; what differs otherwise, and what
// a busy machine adds, is less.
func checkLinear(t *testing.T, name string, small, times int, took func(n int) time.Duration) {
	t.Helper()
	took(small)
	least, most := min(took(small), took(small), took(small)), took(times*small)
	least = max(least, 200*time.Microsecond) // of less the clock tells too little
	bound := 5 * time.Duration(times) * least
	for try := 0; most > bound && try < 20; try++ {
		most = min(most, took(times*small))
	}
	if most > bound {
		t.Errorf("%s: %d times the size costs %v instead of %v, which is %.0f times as much", name, times, most, least, float64(most)/float64(least))
	}
}

// TestStreamsCostLinearTime: sixteen times the stream costs about sixteen times
// the time, where a quadratic one would cost 256 times. In between is room for
// what differs otherwise.
func TestStreamsCostLinearTime(t *testing.T) {
	const times, small = 16, 100
	for name, c := range streamsByLength {
		t.Run(name, func(t *testing.T) {
			took := func(n int) time.Duration {
				in := c.in(n)
				s, cut := New(&Options{}, chatParams), c.cut()
				out := make([]byte, 0, 4*len(in)+1<<20)
				begun := cpuTime()
				for len(in) > 0 {
					n := cut(len(in))
					out = s.Feed(out, []byte(in[:n]), epoch)
					in = in[n:]
				}
				s.Finish(out, CauseEOF)
				return cpuTime() - begun
			}
			checkLinear(t, "a stream", small, times, took)
		})
	}
}
