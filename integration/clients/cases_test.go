package clients

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// The generations of recordings that clients are shown, by their short names.
var generations = []struct{ short, dir string }{
	{"G0", "g0-v0.8.0"}, {"G1", "g1-v0.9.0"}, {"G2", "g2-v0.13.0"}, {"G3", "g3-v0.20.3"},
}

// modern is the generation whose text every client must get.
const modern = "g3-v0.20.3"

// A scenario is a column of the table.
type scenario struct {
	title string
	kinds []string // of the playbook's answers
	recs  []string // recordings of each generation
	good  bool     // the answer is a success
	tools bool     // it has tool events: options change it
	asks  bool     // it has other events of the newest Hermes: likewise
}

var scenarios = []scenario{
	{title: "plain", kinds: []string{playWhole}, recs: []string{"plain"}, good: true},
	{title: "one tool", kinds: []string{playWhole}, recs: []string{"one_tool"}, good: true, tools: true},
	{title: "parallel tools", kinds: []string{playWhole}, recs: []string{"parallel_tools"}, good: true, tools: true},
	{title: "approval", kinds: []string{playAsked}, recs: []string{"plain"}, good: true, asks: true},
	{title: "reasoning", kinds: []string{playWhole}, recs: []string{"reasoning", "think_tags"}, good: true},
	{title: "crash at once", kinds: []string{playWhole}, recs: []string{"crash_immediate"}},
	{title: "crash after text", kinds: []string{playWhole}, recs: []string{"crash_after_text"}},
	{title: "crash in a tool", kinds: []string{playWhole}, recs: []string{"crash_in_tool"}, tools: true},
	{title: "killed", kinds: []string{playTorn, playReset}, recs: []string{"one_tool"}, tools: true},
}

// silences are the scenarios of the variants with keepalives: upstream says
// nothing for a while. They have no tools, on which strict clients break anyway.
var silences = []scenario{
	{title: "silence before the first chunk", kinds: []string{playEarly}, recs: []string{"plain"}, good: true},
	{title: "silence later", kinds: []string{playSlow}, recs: []string{"plain"}, good: true},
}

// An expected is what a modern Hermes has answered, read from its recording, and
// what the sidecar says of a failure.
type expected struct {
	text      string
	reasoning string
	err       strict.APIError // what comes on the wire, of a failure
	direct    bool            // no sidecar: an error may be any
}

// thought is reasoning between tags.
var thought = regexp.MustCompile(`(?s)<think>(.*?)</think>`)

// expect reads what is to be seen of a scenario.
func expect(t testing.TB, generation, rec string) expected {
	t.Helper()
	e := expected{text: strict.Decode(t, string(hermes.Recorded(t, modern+"/"+rec).Body)).Content}
	raw := strict.Decode(t, string(hermes.Recorded(t, generation+"/"+rec).Body)).Content
	if m := thought.FindStringSubmatch(raw); m != nil {
		e.reasoning = m[1]
	}
	return e
}

// An outcome is what became of one case, in the words of the table.
type outcome struct {
	ok   bool   // as the contract wants it
	cell string // such as "ok", "error" or what is wrong
	how  string // of an error: the way in which the program sees it
	why  string // details, for the log
	seen seen
}

// soon is how long after a failure a program must have seen it: far less than a
// timeout of its own would take, and far more than a busy machine does.
const soon = 20 * time.Second

// judge looks at what a program has seen of an answer of a kind.
func (s scenario) judge(got seen, want expected, kind string) outcome {
	o := judgeGood(got, want)
	if !s.good {
		o = judgeBad(got, want, kind != playWhole)
	}
	o.seen = got
	return o
}

// judgeGood looks at an answer that is a success.
func judgeGood(got seen, want expected) outcome {
	switch {
	case got.hung:
		return outcome{cell: "hangs"}
	case got.Error != nil:
		return outcome{cell: "breaks", why: fmt.Sprintf("%+v", *got.Error)}
	case got.Finish != "" && got.Finish != "stop":
		return outcome{cell: "finish reason " + got.Finish}
	case got.Text == want.text && (got.Reasoning == want.reasoning || got.Reasoning == ""):
		return outcome{ok: true, cell: "ok"}
	case strings.Contains(got.Text, "\n`"):
		return outcome{cell: "markers in the text"}
	case strings.Contains(got.Text, "<think>"):
		return outcome{cell: "tags in the text"}
	}
	return outcome{cell: "wrong text", why: fmt.Sprintf("%q and reasoning %q, want %q and %q", got.Text, got.Reasoning, want.text, want.reasoning)}
}

// judgeBad looks at an answer that is a failure. partial says that its text may
// end early.
func judgeBad(got seen, want expected, partial bool) outcome {
	switch {
	case got.hung:
		return outcome{cell: "hangs"}
	case got.Error == nil && got.Finish == "error":
		return outcome{cell: "finish reason alone"}
	case got.Error == nil:
		return outcome{cell: "taken for a success", why: fmt.Sprintf("text %q, finish %q", got.Text, got.Finish)}
	case got.Error.How == "panic" || got.Error.How == "crash":
		return outcome{cell: "the program ends", why: got.Error.Message}
	case want.direct:
		return outcome{ok: true, cell: "error"}
	case got.Text != want.text && !(partial && strings.HasPrefix(want.text, got.Text)):
		return outcome{cell: "wrong text", why: fmt.Sprintf("%q, want %q", got.Text, want.text)}
	}
	said := got.Error.Message + " " + got.Error.Code
	message, code := strings.Contains(said, want.err.Message), strings.Contains(said, want.err.Code)
	o := outcome{ok: true, cell: "error", how: got.Error.How + " `" + got.Error.Type + "`", why: fmt.Sprintf("%+v", *got.Error)}
	switch {
	case message && code:
		o.how += " with message and code"
	case message:
		o.how += " with the message"
	case code:
		o.how += " with the code"
	default:
		o.ok, o.cell = false, "another error"
	}
	return o
}
