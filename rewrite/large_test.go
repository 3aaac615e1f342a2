package rewrite

import (
	"strings"
	"testing"
)

func TestLargeFrameBehindAFailedEvent(t *testing.T) {
	began := created(0, responseOfTests)
	want, _ := run(began+doneFrame, Options{MaxFrame: 400}, Params{}, inOne, CauseEOF)
	out, _ := run(began+doneFrame+named("x", strings.Repeat("x", 1000)), Options{MaxFrame: 400}, Params{}, oneByte, CauseEOF)
	same(t, out, want, "bytes")
}

// The last event repeats the whole answer: it counts although it is too large
// to be examined.
func TestLargeEventOfAnotherStream(t *testing.T) {
	o := Options{MaxFrame: 400}
	big := strings.Repeat("x", 1000)
	began := created(0, responseOfTests)
	ran := runEvent("message.delta", ``)
	completed := strings.ReplaceAll(created(1, `"id":"resp_1","output":"`+big+`"`), "response.created", "response.completed")
	typeLast := `data: {"response":{"x":"` + big + `"},"type":"response.completed"}` + "\n\n"
	for name, c := range map[string]struct {
		in, failed string // what the failed event ends with, empty for none
		cause      Cause
	}{
		"completed":                       {began + completed, "", CauseAborted},
		"completed, unnamed":              {unnamed(began + completed), "", CauseAborted},
		"completed, with CRLF":            {strings.ReplaceAll(began+completed, "\n", "\r\n"), "", CauseAborted},
		"a run's":                         {ran + runEvent("run.completed", `, "output": "`+big+`"`), "", CauseAborted},
		"another":                         {began + strings.ReplaceAll(completed, "response.completed", "response.output_text.done"), `,"sequence_number":2}`, CauseEOF},
		"the first":                       {created(0, `"x":"`+big+`"`) + outputDelta(1), `,"sequence_number":2}`, CauseEOF},
		"the first, and no other":         {created(0, `"x":"`+big+`"`), `"}}}`, CauseEOF},
		"a run's that does not end it":    {ran + runEvent("tool.started", `, "preview": "`+big+`"`), `"}`, CauseEOF},
		"completed, cut":                  {began + completed[:800], `,"sequence_number":1}`, CauseAborted},
		"unknown and last":                {began + typeLast, "", CauseEOF},
		"unknown and last, then [DONE]":   {began + typeLast + doneFrame, "", CauseEOF},
		"unknown and last, then a reset":  {began + typeLast, `,"sequence_number":2}`, CauseAborted},
		"unknown and not last":            {began + typeLast + outputDelta(2), `,"sequence_number":3}`, CauseEOF},
		"unknown, and another unexamined": {began + typeLast + strings.ReplaceAll(completed, "response.completed", "response.x"), `,"sequence_number":3}`, CauseEOF},
		"of something else":               {began + named("x", `{"a":"`+big+`"}`), `,"sequence_number":1}`, CauseEOF},
		"a comment":                       {began + ": " + big + "\n\n", `,"sequence_number":1}`, CauseEOF},
		"of an unknown stream":            {named("x", `{"a":"`+big+`"}`), "", CauseAborted},
	} {
		for _, cut := range []cutter{inOne, oneByte, atRandom(1, 700)} {
			out, sum := run(c.in, o, otherParams(c.in), cut, c.cause)
			if c.failed == "" {
				same(t, out, c.in, name+": bytes")
				continue
			}
			in := c.in
			if name == "completed, cut" {
				in += "\n\n"
			}
			rest, ok := strings.CutPrefix(out, in)
			if !ok || strings.Count(rest, `.failed"`) != 1 || !strings.HasSuffix(rest, c.failed+"\n\n") || sum.Code != c.cause.Code() {
				t.Errorf("%s: %+v, %q", name, sum, rest)
			}
		}
	}
}

func TestLargeEventTellsWhetherUpstreamNamesItsEvents(t *testing.T) {
	began := created(0, responseOfTests)
	large := unnamed(strings.ReplaceAll(created(1, `"x":"`+strings.Repeat("x", 1000)+`"`), "response.created", "response.x"))
	out, _ := run(began+large, Options{MaxFrame: 400}, Params{}, oneByte, CauseEOF)
	if !strings.HasPrefix(strings.TrimPrefix(out, began+large), "data: ") {
		t.Errorf("got %q", out[len(began+large):])
	}
}
