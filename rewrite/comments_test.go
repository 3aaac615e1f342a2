package rewrite

import (
	"strings"
	"testing"
)

// In a stream that is not known yet a comment line stands for itself, however long it
// is: the frame right after it is looked at. In one that is known it is a part of
// that frame, which is then too large.
func TestLongCommentRightBeforeAFrame(t *testing.T) {
	long := ": " + strings.Repeat("c", 1000)
	o := Options{MaxFrame: 400}
	for _, eol := range []string{"\n", "\r", "\r\n"} {
		in := strings.ReplaceAll(long+"\n"+role()+text("a\n`💻 ls`\nb")+stop(), "\n", eol)
		want := strings.ReplaceAll(long+"\n"+role()+text("a\nb")+stop(), "\n", eol)
		for _, cut := range []cutter{inOne, oneByte, atRandom(1, 50), atRandom(2, 700)} {
			out, sum := run(in, o, Params{}, cut, CauseEOF)
			same(t, out, want, "a comment before the stream is known")
			if sum.Chunks != 3 || sum.Imitations != 1 {
				t.Errorf("%+v", sum)
			}
			// The frame with the comment passes unexamined, the next one does not.
			out, sum = run(in, o, chatParams, cut, CauseEOF)
			same(t, out, want, "a comment within a stream of chat completions")
			if sum.Unexamined != 1 || sum.Chunks != 2 {
				t.Errorf("%+v", sum)
			}
			// Nothing after a comment that never ends is a frame.
			out, sum = run(strings.Replace(in, eol, " ", 1), o, Params{}, cut, CauseEOF)
			if !strings.Contains(out, "a"+`\n`+"b") || sum.Chunks != 2 || sum.Imitations != 1 {
				t.Errorf("%+v\n%s", sum, out)
			}
		}
	}
}

// Comments between and within frames keep their places, and decide nothing.
func TestCommentsAnywhere(t *testing.T) {
	for _, c := range []string{": c\n", ":\n", ": data: {\"a\": 1}\n", ": hermes.tool.progress nothing\n", ": hermes.tool.progress {\"tool\": 1}\n"} {
		for _, p := range []Params{chatParams, {}} {
			before := c + role()
			within := strings.Replace(text("a"), "\n\n", "\n"+c+"\n", 1)
			behind := c + "\n" + c + c + "\n" + text("b") + stop() + c + "\n"
			in := before + within + behind
			for _, cut := range []cutter{inOne, oneByte} {
				out, _ := run(in, Options{}, p, cut, CauseEOF)
				same(t, out, in, "bytes")
			}
		}
	}
}
