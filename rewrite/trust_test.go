package rewrite

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

func TestTextBehindATrustedMarkerInTheSameDeltaIsAnAnswer(t *testing.T) {
	o := Options{Imitations: ImitationsTrust}
	for _, in := range []string{
		texts("Sure\n`💻 ls`\n\ndone"),
		texts("Sure\n`💻 ", "ls`\n\ndone"),
		texts("Sure\n`💻 ls`\n\ndone\n`", "x"),
	} {
		if v := look(t, repairWith(role()+in+stop(), o)); v.finishes[0] != "stop" {
			t.Errorf("finish reason %q, want stop: %s", v.finishes, v.story())
		}
	}
	if v := look(t, repairWith(role()+text("Sure\n`💻 ls`\n")+stop(), o)); v.finishes[0] != "error" {
		t.Errorf("finish reason %q of an answer that ends on a tool, want error", v.finishes)
	}
}

// Behind the finish chunk no tool starts, whatever the form and the option
// (contract section 2), nor where the text is only what a client does not see.
func TestWhatStartsNoTool(t *testing.T) {
	finished := role() + text("Sure") + finishChunk("stop", realUsage)
	for name, in := range map[string]string{
		"a marker in one chunk":           finished + markerChunk("💻", "ls") + doneFrame,
		"a marker merged with text":       finished + text("a\n`💻 ls`\nb") + doneFrame,
		"a marker at the end":             finished + text("a\n`💻 ls`") + doneFrame,
		"a marker in many chunks":         finished + texts("a\n`💻 ", "ls", "`\n") + doneFrame,
		"a marker that reasoning ends":    finished + text("a\n`💻 ls`") + reasoning("hm") + doneFrame,
		"a marker behind [DONE]":          finished + doneFrame + markerChunk("💻", "ls"),
		"a content of which null counts":  role() + text("Sure") + delta(`"content": "\n`+"`💻 ls`"+`\n", "content": null`) + stop(),
		"a delta of which another counts": role() + text("Sure") + strings.Replace(delta(""), `"delta": {}`, `"delta": {"content": "\n`+"`💻 ls`"+`\n"}, "delta": {}`, 1) + stop(),
	} {
		for _, o := range allOptions() {
			out, sum := run(in, o, chatParams, inOne, CauseEOF)
			if v := look(t, out); len(v.tools) > 0 || sum.Tools > 0 || v.finishes[0] != "stop" {
				t.Errorf("%s: %d tools, finish %q with %+v:\n%s", name, sum.Tools, v.finishes, o, out)
			}
		}
	}
}

// A trusted marker that is at the end of its chunk starts its tool when something
// else says that the line has ended.
func TestTrustedMarkerThatIsEndedByAnother(t *testing.T) {
	o := Options{Imitations: ImitationsTrust}
	for _, between := range []string{reasoning("hm"), g2Start("t", "📖", "l", "call_1") + g2End("t", "call_1"), delta(`"tool_calls": [{"id": "c"}]`)} {
		v := look(t, repairWith(role()+text("Sure\n`💻 ls`")+between+text("\ndone")+stop(), o))
		if s := v.starts(); len(s) == 0 || s[0].tool != "terminal" || s[0].label != "ls" || v.content != "Sure\ndone" {
			t.Errorf("starts %+v, content %q", v.starts(), v.content)
		}
		v.checkLifecycle(t)
	}
}

// An info string with a backtick in it opens no fence (CommonMark 4.5).
func TestBackticksBehindThreeOpenNoFence(t *testing.T) {
	for _, line := range []string{"```⚙ `", "```⚙ x`", "```⚙`", "``` `", "````⚙ ```"} {
		in := line + "\n`💻 ls`\nb"
		for n := 1; n < len(in); n++ {
			for _, before := range []string{"", text("a\n"), text("a\n") + markerChunk("💻", "ls"), text("a") + markerChunk("💻", "ls"), text("a\n`📖 x`\n")} {
				for _, o := range []Options{{}, {Imitations: ImitationsTrust}} {
					if v := look(t, repairWith(role()+before+deltasOf(in, n)+stop(), o)); !strings.HasSuffix(v.content, line+"\nb") {
						t.Fatalf("%q in deltas of %d: content %q", in, n, v.content)
					}
				}
			}
		}
		if healed, n := whole.StripMarkers(jsonspan.Inside(jsonspan.Quote(in)), marker.Hermes); n != 1 {
			t.Errorf("%q: healed %q", in, healed)
		}
	}
}
