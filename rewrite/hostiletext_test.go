package rewrite

import (
	"strings"
	"testing"
	"time"
)

// Whatever a model writes again and again, after whatever it began with: a line
// that may be an imitation, a tag that may open, one that may close.
func TestEndlessTextIsNotHeld(t *testing.T) {
	o := Options{MaxFrame: 16 << 10}
	for _, start := range []string{"", "\n", "<", "<think>", "<think>`</think>", "<think>```\n</think>", "<think>```\n</think>\n", "<think>x</think>", "```\n", "`💻 ", "`💻 x`"} {
		for _, unit := range []string{"\r", "\n", "\r\n", " ", "\t", "<", "</", "<t", "`", "x", "💻", "`💻 "} {
			s := New(&o, chatParams)
			feedAll(s, role()+text(start), inOne)
			frame := text(strings.Repeat(unit, 1000))
			got := held(s, 200/min(cutStride, 2), func(int) string { return frame }, nil)
			if got > 128<<10 {
				t.Errorf("behind %q, %d bytes of %q are held", start, got, unit)
			}
		}
	}
}

// A frame that comes byte by byte is not copied with each of them.
func TestFrameInSmallReadsCostsLinearTime(t *testing.T) {
	const times = 16
	checkLinear(t, "a frame", (DefaultMaxFrame-1000)/times, times, func(size int) time.Duration {
		s := New(&Options{}, chatParams)
		in := []byte(text(strings.Repeat("x", size)))
		begun := cpuTime()
		n := 0
		for i := range in {
			n += len(s.Feed(nil, in[i:i+1], epoch))
		}
		took := cpuTime() - begun
		if n != len(in) {
			t.Errorf("%d of %d bytes have left", n, len(in))
		}
		return took
	})
}

// Of frames that are alike, and large but for their text, nothing is remembered.
func TestHugeFramesAreNotRemembered(t *testing.T) {
	for _, at := range []string{`"id": "chatcmpl-1"`, `"finish_reason"`} {
		s := New(&Options{}, chatParams)
		in := strings.Replace(text("x"), at, `"y": "`+strings.Repeat("y", maxTemplate)+`", `+at, 1)
		for range 20 {
			same(t, string(s.Feed(nil, []byte(in), epoch)), in, "bytes")
			if n := inside(s, "chat", "template", "around").Len(); n > maxTemplate {
				t.Fatalf("%d bytes are remembered", n)
			}
		}
	}
}
