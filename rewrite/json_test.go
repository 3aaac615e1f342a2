package rewrite

import (
	"strings"
	"testing"
)

func TestTheLastOfMembersThatStandTwiceCounts(t *testing.T) {
	in := `data: {` + envelopeOfTests + `, "choices": [], "choices": [{"index": 0, "delta": {"content": "x"}, "delta": {"content": "lost", "content": "a\n` + "`💻 ls`" + `\nb"}}]}` + "\n\n"
	out := repair(in + stop())
	if want := strings.Replace(in, "`💻 ls`"+`\n`, "", 1); !strings.HasPrefix(out, want) {
		t.Errorf("%s", out)
	}
}

func TestChunkWithoutTheHeadOfTheOneBefore(t *testing.T) {
	// The beginning of a chunk is remembered; others must not be taken for it.
	for _, second := range []string{
		`data: {` + envelopeOfTests + `, "choices": [{"index": 1, "delta": {"content": "\n` + "`💻 ls`" + `\n"}, "finish_reason": "stop"}]}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": "x"}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": [], "object": "other"}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": ` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "x` + "\n\n",
	} {
		in := role() + text("a") + second + text("b") + stop()
		same(t, repair(in), in, "bytes")
	}
	// An id that changes is followed.
	out := repair(role() + strings.ReplaceAll(text("a"), "chatcmpl-1", "chatcmpl-2"))
	if v := look(t, out); *v.finish.ID != "chatcmpl-2" {
		t.Errorf("the error finish has the id %s", *v.finish.ID)
	}
}
