package rewrite

import (
	"strings"
	"testing"
)

// Frames are held back while they are no larger than max_frame together, to the byte.
func TestHeldFramesOfMaxFrame(t *testing.T) {
	first, last := text("`💻 ls"), text("`\n")
	o := Options{MaxFrame: len(first)}
	v := look(t, repairWith(first+last+text("x")+stop(), o))
	if v.content != "x" {
		t.Errorf("with max_frame %d a line of that many bytes is no imitation: %q", o.MaxFrame, v.content)
	}
	out := repairWith(first+": c\n\n"+last+text("x")+stop(), o)
	if want := first + ": c\n\n" + last; !strings.HasPrefix(out, want) {
		t.Errorf("a comment more, and the frames are held still:\n%s", out)
	}
}
