package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The generations of recordings that clients are shown, by their short names.
var generations = []struct{ short, dir string }{
	{"G0", "g0-v0.8.0"}, {"G1", "g1-v0.9.0"}, {"G2", "g2-v0.13.0"}, {"G3", "g3-v0.20.3"},
}

const modern = "g3-v0.20.3"

// A scenario is a column of the table.
type scenario struct {
	title string
	kinds []string // of the playbook's answers
	recs  []string // recordings of each generation
	good  bool     // the answer is a success
	tools bool     // it has tool events
}

var scenarios = []scenario{
	{title: "plain", kinds: []string{playWhole}, recs: []string{"plain"}, good: true},
	{title: "one tool", kinds: []string{playWhole}, recs: []string{"one_tool"}, good: true, tools: true},
	{title: "parallel tools", kinds: []string{playWhole}, recs: []string{"parallel_tools"}, good: true, tools: true},
	{title: "reasoning", kinds: []string{playWhole}, recs: []string{"reasoning", "think_tags"}, good: true},
	{title: "crash at once", kinds: []string{playWhole}, recs: []string{"crash_immediate"}},
	{title: "crash after text", kinds: []string{playWhole}, recs: []string{"crash_after_text"}},
	{title: "crash in a tool", kinds: []string{playWhole}, recs: []string{"crash_in_tool"}, tools: true},
	{title: "killed", kinds: []string{playTorn, playReset}, recs: []string{"one_tool"}, tools: true},
}

// An expected is what a modern Hermes has answered, read from its recording, and
// what the sidecar says of a failure.
type expected struct {
	text      string
	reasoning string
	err       apiError // what comes on the wire, of a failure
}

// thought is reasoning between tags.
var thought = regexp.MustCompile(`(?s)<think>(.*?)</think>`)

// expect reads what is to be seen of a scenario.
func expect(t testing.TB, generation, rec string) expected {
	t.Helper()
	e := expected{text: decode(t, string(recorded(t, modern+"/"+rec).body)).content}
	raw := decode(t, string(recorded(t, generation+"/"+rec).body)).content
	if m := thought.FindStringSubmatch(raw); m != nil {
		e.reasoning = m[1]
	}
	return e
}

// An outcome is what became of one case, in the words of the table.
type outcome struct {
	ok   bool   // as the contract wants it
	cell string // such as "ok", "error" or what is wrong
	why  string // details, for the log
}

// soon is how long after a failure a program must have seen it.
const soon = time.Second

// judgeGood looks at an answer that is a success.
func judgeGood(s seen, want expected) outcome {
	switch {
	case s.hung:
		return outcome{cell: "hangs"}
	case s.Error != nil:
		return outcome{cell: "breaks", why: fmt.Sprintf("%+v", *s.Error)}
	case s.Text != want.text:
		return outcome{cell: "wrong text", why: fmt.Sprintf("text %q, want %q", s.Text, want.text)}
	case s.Reasoning != "" && s.Reasoning != want.reasoning:
		return outcome{cell: "wrong reasoning", why: fmt.Sprintf("reasoning %q, want %q", s.Reasoning, want.reasoning)}
	}
	return outcome{ok: true, cell: "ok"}
}

// judgeBad looks at an answer that is a failure. partial says that its text may
// end early.
func judgeBad(s seen, want expected, partial bool) outcome {
	switch {
	case s.hung:
		return outcome{cell: "hangs"}
	case s.Text != want.text && !(partial && strings.HasPrefix(want.text, s.Text)):
		return outcome{cell: "wrong text", why: fmt.Sprintf("text %q, want %q; error %+v", s.Text, want.text, s.Error)}
	case s.Error == nil && s.Finish == "error":
		return outcome{cell: "finish reason alone"}
	case s.Error == nil:
		return outcome{cell: "silent success", why: fmt.Sprintf("text %q, finish %q", s.Text, s.Finish)}
	case s.Error.How == "panic" || s.Error.How == "crash":
		return outcome{cell: "panics", why: s.Error.Message}
	}
	said := s.Error.Message + " " + s.Error.Code
	o := outcome{ok: true, cell: "error", why: fmt.Sprintf("%+v", *s.Error)}
	switch {
	case strings.Contains(said, want.err.Message) && strings.Contains(said, want.err.Code):
	case strings.Contains(said, want.err.Message):
		o.cell = "error, message alone"
	case strings.Contains(said, want.err.Code):
		o.cell = "error, code alone"
	default:
		o.ok, o.cell = false, "another error"
	}
	return o
}
