package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// endedOtherwise are the statuses of tools that have ended, but not as they should.
var endedOtherwise = []string{
	"failed", "error", "cancelled", "canceled", "denied", "interrupted", "rejected", "aborted", "timeout", "timed_out", "expired",
}

// A status that says that a tool has ended otherwise ends it: the event passes with it, the card is red, and nothing
// ends twice (contract section 2).
func TestToolsThatEndOtherwise(t *testing.T) {
	start, end := g2Start("terminal", "💻", "a", "c1"), g2End("terminal", "c1")
	for _, status := range endedOtherwise {
		failed := named(progressEvent, `{"tool":"terminal","toolCallId":"c1","status":"`+status+`","error":"boom"}`)
		escaped := strings.Replace(failed, `"`+status+`"`, fmt.Sprintf(`"\u%04x%s"`, status[0], status[1:]), 1)
		for in, story := range map[string]string{
			start + failed + text("ok") + stop():                "running end text finish",
			start + escaped + text("ok") + stop():               "running end text finish",
			start + failed + end + failed + text("ok") + stop(): "running end text finish",
			failed + start + end + text("ok") + stop():          "running completed text finish",
			start + failed: "running end error finish",
			start + text("ok") + failed + finishChunk("error", ""):           "running text end error finish",
			start + failed + stop():                                          "running end error finish",
			start + failed + start + failed + text("ok") + stop():            "running end running end text finish",
			text("ok") + finishChunk("stop", realUsage) + failed + doneFrame: "text finish",
			g1("terminal", "💻", "a") + named(progressEvent, `{"tool":"terminal","status":"`+status+`"}`) + text("ok") + stop(): "running end text finish",
		} {
			story = "other " + strings.ReplaceAll(story, "end", status) + " done"
			underAll(t, role()+in, func(o Options, out string, v *view) {
				begins := strings.HasPrefix(in, start+failed)
				want := story
				if o.ErrorFinish == ErrorFinishInline && len(v.errors) == 0 {
					want = strings.Replace(want, " error finish", " finish", 1)
				}
				if o.Progress != ProgressOff && o.NoCards {
					equal(t, v.story(), want, "the story")
				}
				if o.Progress == ProgressBare && begins {
					contains(t, out, start+failed)
				}
				if o.Progress == ProgressEnvelope && begins && !strings.Contains(out, `"error":"boom"`) {
					t.Error("a member is lost")
				}
				if o.NoCards && !o.NoStatusLine && o.Progress == ProgressEnvelope && begins {
					contains(t, out, `"done":true`)
				}
			})
			for _, o := range cardOptions() {
				out := repairWith(role()+in, o)
				equal(t, len(cardsOf(t, out)), strings.Count(story, "running"), "cards")
				o.NoCards = true
				same(t, repairWith(out, o), out, "a sidecar without cards after it")
			}
		}
	}
	// Secrets leave what the event says of the failure.
	out := repair(turn(start, named(progressEvent, `{"tool":"terminal","toolCallId":"c1","status":"failed","error":{"message":"key sk-abcdefghijklmnop"}}`), text("x")))
	contains(t, out, `"error":{"message":"key `+redacted+`"}`)
	// A large one also counts, and one that is an orphan does not leave.
	large := named(progressEvent, `{"tool": "terminal", "toolCallId": "c1", "status": "failed", "error": "`+overLimit+`"}`)
	for _, in := range []string{start + large + text("x") + stop(), large + start + large + text("x") + stop()} {
		out, _, _ := largeLife(t, role()+in, Options{}, CauseEOF)
		equal(t, strings.Count(out, overLimit), 1, "large events")
		equal(t, strings.Count(out, `"completed"`), 0, "ends of the sidecar's")
	}
}
