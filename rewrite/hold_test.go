package rewrite

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

func TestWholeFramesAreHeldAndLeaveByteForByte(t *testing.T) {
	parts := []string{"Sure.\n`", "💻", " ls", "`", " is a command\n"}
	s := New(&Options{}, chatParams)
	var held string
	for i, p := range parts {
		f := text(p)
		held += f
		out := string(s.Feed(nil, []byte(f), epoch))
		switch {
		case i < len(parts)-1 && out != "":
			t.Errorf("delta %d leaves %q although the line is open", i, out)
		case i == len(parts)-1:
			same(t, out, held, "held frames")
		}
	}
}

// heldAfter tells whether the content is held back when it comes in a stream.
func heldAfter(content string) bool {
	s := New(&Options{}, chatParams)
	s.Feed(nil, []byte(role()), epoch)
	return len(s.Feed(nil, []byte(text(content)), epoch)) == 0
}

func TestTextIsHeldOnlyWhileItAgreesWithAMarker(t *testing.T) {
	for content, want := range map[string]bool{
		"`":             true,
		"a\n`":          true,
		"a\n`💻":         true,
		"a\n`💻 ":        true,
		"a\n`💻 ls":      true,
		"a\n`💻 ls`":     true,
		"a\n`⚙\ufe0f":   true,
		"a\n":           false,
		"\n":            false,
		"\n\n":          false,
		"a":             false,
		"a `":           false,
		"a `💻 ls":       false,
		"\n`g":          false,
		"\n`🦄":          false,
		"\n`💻x":         false,
		"\n``":          false,
		"\n`💻`":         false,
		"```\n`💻 ls":    false,
		"~~~\n`💻 ls":    false,
		"\n`💻 ls` and ": true, // to the end of the line: the label may go on
		"\n`💻 ls\n":     false,
		"\n`💻 ls`\n":    false,
		"\n💻":           false,
	} {
		if content == "\n`💻 ls`\n" {
			continue // a real marker, which leaves as an event
		}
		if got := heldAfter(content); got != want {
			t.Errorf("held after %q: %v, want %v", content, got, want)
		}
	}
}

func TestHeldLineIsBoundedTo4KiB(t *testing.T) {
	for size, stripped := range map[int]bool{4095: true, 4096: true, 4097: false, 10000: false} {
		line := "`💻 " + strings.Repeat("x", size-len("`💻 `")) + "`"
		in := "a\n" + line + "\nb"
		want := "a\nb"
		if !stripped {
			want = in
		}
		for _, n := range []int{1, 100, 20000} {
			v := look(t, repair(role()+deltasOf(in, n)+stop()))
			if v.content != want {
				t.Errorf("line of %d bytes in deltas of %d: stripped = %v, want %v", size, n, len(v.content) < size, stripped)
			}
		}
	}
	if marker.MaxHeldLine != 4096 {
		t.Errorf("maxHeldLine = %d, want 4 KiB", marker.MaxHeldLine)
	}
}

// deltasOf cuts content into deltas of n runes.
func deltasOf(content string, n int) string {
	var b strings.Builder
	for rs := []rune(content); len(rs) > 0; {
		k := min(n, len(rs))
		b.WriteString(text(string(rs[:k])))
		rs = rs[k:]
	}
	return b.String()
}

func TestLineLongerThan4KiBLeavesWithoutItsEnd(t *testing.T) {
	s := New(&Options{}, chatParams)
	fed, left := 0, 0
	feed := func(f string) {
		fed += len(f)
		left += len(s.Feed(nil, []byte(f), epoch))
	}
	feed(text("`💻 "))
	if left > 0 {
		t.Fatal("the beginning of a marker is not held")
	}
	for range 50 {
		feed(text(strings.Repeat("x", 100)))
	}
	if left != fed {
		t.Errorf("%d of %d bytes have left", left, fed)
	}
}

func TestHeldFramesKeepTheirOrderWithComments(t *testing.T) {
	in := text("a\n`💻") + keepalive + text(" ls") + delta("") + text("` no\n") + stop()
	same(t, repair(role()+in), role()+in, "bytes")
}

func TestCommentsLeaveWhenTheHeldTextIsStripped(t *testing.T) {
	a, b, c, d := text("a\n`💻"), text(" ls"), text("`\n"), text("z")
	out := repair(role() + a + keepalive + b + delta("") + c + d + stop())
	want := role() + text("a\n") + keepalive + delta("") + d + stop()
	same(t, out, want, "bytes")
}

func TestHeldTextLeavesBeforeAToolEvent(t *testing.T) {
	in := role() + text("a\n`💻 l") + g2Start("terminal", "💻", "x", "call_1") + g2End("terminal", "call_1") + text("\n\nb") + stop()
	same(t, repairWith(in, Options{Progress: ProgressBare}), in, "bytes")
}

func TestHeldTextLeavesBeforeAFinish(t *testing.T) {
	in := role() + text("a\n`💻 l") + stop()
	same(t, repair(in), in, "bytes")
}

func TestHeldTextLeavesBeforeAnErrorFinish(t *testing.T) {
	in := role() + text("a\n`💻 l")
	for _, cause := range []Cause{CauseEOF, CauseAborted, CauseTimeout, CauseShutdown} {
		out, _ := run(in, Options{}, chatParams, inOne, cause)
		if !strings.HasPrefix(out, in) {
			t.Errorf("%s", out)
		}
		look(t, out).checkErrorFinish(t, cause.Code())
	}
}

func TestHeldTextLeavesBeforeDone(t *testing.T) {
	in := role() + text("a\n`💻 l") + finishChunk("stop", realUsage)
	same(t, repair(in+doneFrame), in+doneFrame, "bytes")
	out := repair(role() + text("a\n`💻 l") + doneFrame)
	if !strings.HasPrefix(out, role()+text("a\n`💻 l")) {
		t.Errorf("%s", out)
	}
}

func TestNewlineIsNeverHeld(t *testing.T) {
	for _, content := range []string{"\n", "a\n", "\n\n", "a\n\n"} {
		if heldAfter(content) {
			t.Errorf("%q is held", content)
		}
	}
}

func TestDroppedEventDoesNotDecideALine(t *testing.T) {
	for _, dropped := range []string{g2End("t", "orphan"), g1("_thinking", "💭", "hm")} {
		once := repair(text("a\n`💻 c`x") + dropped + text("`\nb") + stop())
		same(t, repair(once), once, "twice and once")
	}
}
