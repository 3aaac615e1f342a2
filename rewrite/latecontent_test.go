package rewrite

import (
	"strings"
	"testing"
)

// The newest Hermes may send text just before the finish chunk: an answer that its provider
// did not stream, what a plugin appends, or an answer that a plugin has rewritten. That is
// an answer like any other: it passes byte for byte, and the end is good.
func TestLateContentIsAnAnswer(t *testing.T) {
	tool := g2Start("terminal", "💻", "ls", "call_1") + g2End("terminal", "call_1")
	const transformed = "\n\n[Response transformed after streaming]\nThere are **3** files.\n`💻 is no tool` here."
	for name, body := range map[string]string{
		"an answer that was not streamed":            role() + text("There are 3 files."),
		"the same after a tool":                      role() + tool + text("There are 3 files."),
		"after text and a tool":                      role() + text("Let me see.") + tool + text("\n\nThere are 3 files."),
		"after two tools":                            role() + tool + text("\n\nMore.") + g2Start("todo", "📋", "plan", "call_2") + g2End("todo", "call_2") + text("Done."),
		"a summary at the limit of iterations":       role() + tool + text("I reached the maximum iterations (90) but here is what I found."),
		"an answer that says that it is empty":       role() + tool + text("(empty)"),
		"a plugin's tail":                            role() + text("There are") + text(" 3 files.") + text("\n\n-- checked"),
		"a transformed answer":                       role() + text("There are") + text(" 3 files.") + text(transformed),
		"a transformed answer after a tool":          role() + text("Let me see.") + tool + text("\n\n3 files.") + text(transformed),
		"a transformed answer right behind a tool":   role() + text("Let me see.") + tool + text(transformed),
		"an answer behind reasoning":                 role() + reasoning("hm") + text("There are 3 files."),
		"an answer behind a keepalive":               role() + tool + ": keepalive\n\n" + text("There are 3 files."),
		"an answer that was not streamed, in pieces": role() + tool + texts("There ", "are ", "3 files."),
	} {
		in := body + stop()
		for _, cut := range []cutter{inOne, oneByte, atRandom(5, 40)} {
			out, sum := run(in, Options{Progress: ProgressBare}, chatParams, cut, CauseEOF)
			same(t, out, in, name+": bytes")
			if sum.Code != "" {
				t.Errorf("%s: the code is %s", name, sum.Code)
			}
			out, sum = run(in, Options{}, chatParams, cut, CauseEOF)
			if sum.Code != "" || strings.Contains(out, `"error"`) {
				t.Errorf("%s: the code is %s\n%s", name, sum.Code, out)
			}
			for frame := range strings.SplitAfterSeq(in, "\n\n") {
				if !strings.HasPrefix(frame, "event: ") && !strings.Contains(out, frame) {
					t.Errorf("%s: %q does not pass", name, frame)
				}
			}
			same(t, look(t, out).content, look(t, in).content, name+": contents")
		}
	}
}

// Without it, an end after a tool is no answer.
func TestEndBehindAToolWithoutLateContentIsNoAnswer(t *testing.T) {
	tool := g2Start("terminal", "💻", "ls", "call_1") + g2End("terminal", "call_1")
	for _, late := range []string{"", " \n\n"} {
		_, sum := run(role()+text("Let me see.")+tool+text(late)+stop(), Options{}, chatParams, inOne, CauseEOF)
		if sum.Code != CodeEmpty {
			t.Errorf("%q: the code is %q", late, sum.Code)
		}
	}
}
