package rewrite

import (
	"strings"
	"testing"
)

// Frames that are alike are read no more, but each text is looked at: for lines that
// begin like a marker, in whatever bytes, and for markers.
func TestTextsOfLikeFramesAreLookedAt(t *testing.T) {
	raw := func(s string) string { // bytes as they are, not escaped
		return `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "` + s + `"}, "finish_reason": null}]}` + "\n\n"
	}
	alike := raw("One") + raw(" two") + raw(" three.")
	for _, c := range []struct{ in, want string }{
		{raw("x\\n`💻 ls`\\ny"), "x\ny"},
		{raw("x\\n`⚙ ls`\\ny"), "x\ny"},
		{raw("x\\n`\\u2699 ls`\\ny"), "x\ny"},
		{raw("x\\n`") + raw("💻 ls`\\ny"), "x\ny"},
		{raw("x\\n`💻 ls") + raw("`\\ny"), "x\ny"},
		{raw("x\\n\\n<think>a</think>y"), "x\n\ny"},
	} {
		for _, cut := range []cutter{inOne, oneByte, byFrame(role() + alike + c.in + stop())} {
			out, sum := run(role()+alike+c.in+stop(), Options{}, chatParams, cut, CauseEOF)
			if v := look(t, out); v.content != "One two three."+c.want || sum.Imitations+sum.Reasoning != 1 {
				t.Errorf("%q: content %q", c.in, v.content)
			}
		}
	}
	marker := raw("\\n`💻 ls`\\n")
	for name, in := range map[string]string{
		"finish chunk": role() + alike + finishChunk("stop", realUsage) + marker + doneFrame,
		"[DONE]":       role() + alike + finishChunk("stop", realUsage) + doneFrame + marker,
		"tool event":   role() + alike + g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + marker + stop(),
	} {
		for _, cut := range []cutter{inOne, oneByte, byFrame(in)} {
			out, sum := run(in, Options{}, chatParams, cut, CauseEOF)
			if v := look(t, out); sum.Markers > 0 || len(v.starts()) > 1 {
				t.Errorf("a marker behind the %s starts a tool: %s", name, v.story())
			}
		}
	}
}

// What ends with a CR whose LF never came ends as a stream does.
func TestStreamThatEndsBetweenCRAndLF(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n\n", "\r\n\r\n") }
	for _, in := range []string{
		role() + text("a"),
		role() + text("a\n`💻 l"),
		role() + text("a\n`💻 l") + keepalive,
		role() + text("a") + finishChunk("stop", realUsage),
		role() + text("a") + g2Start("t", "💻", "l", "call_1"),
	} {
		want := repair(crlf(in))
		for _, cut := range []cutter{inOne, oneByte} {
			in := strings.TrimSuffix(crlf(in), "\n")
			got, _ := run(in, Options{}, chatParams, cut, CauseEOF)
			same(t, got, want, "outputs without the last LF")
		}
		if strings.Contains(strings.ReplaceAll(want, "\r\n", ""), "\r") {
			t.Errorf("a CR without its LF in %q", want)
		}
	}
}
