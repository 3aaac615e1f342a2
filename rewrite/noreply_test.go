package rewrite

import (
	"os"
	"strings"
	"testing"
)

// A model that stays silent, live: Hermes 0.22.2 says so in one chunk, and stops.
func TestNoReplyOfHermes(t *testing.T) {
	body, err := os.ReadFile("testdata/live-v0.22.2/empty.sse")
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []cutter{inOne, oneByte, atRandom(1, 300)} {
		out, sum := run(string(body), Options{}, chatParams, cut, CauseEOF)
		v := look(t, out)
		if sum.Code != CodeEmpty || len(v.finishes) != 1 || v.finishes[0] != "error" || len(v.errors) != 1 || v.errors[0].code() != CodeEmpty || !strings.HasPrefix(v.content, "⚠️ No reply: scripted") {
			t.Errorf("%+v, finishes %q, errors %+v, content %q", sum, v.finishes, v.errors, v.content)
		}
		same(t, repair(out), out, "twice and once")
	}
}

// statusOf is a status as Hermes sends it.
func statusOf(s string) string {
	return named("hermes.status", `{"kind": "lifecycle", "text": `+asciiJSON(s)+`}`)
}

// What Hermes says in place of an answer is none, if it has said before that the model
// stays silent (contract section 3, rule 2). A model that writes the same has answered.
func TestNoReplyIsAnEmptyAnswer(t *testing.T) {
	const (
		silent  = "❌ Model returned no content after all retries. No fallback providers configured."
		noReply = "⚠️ No reply: scripted didn't produce a reply this time, even after retries. Send `continue` to try again, or switch models with /model."
	)
	retries := statusOf("⚠️ Empty response from model — retrying (1/3) in 7s") + statusOf("⚠️ Empty response from model — retrying (3/3) in 26s")
	tool := g2Start("terminal", "💻", "ls", "c") + g2End("terminal", "c")
	for name, c := range map[string]struct {
		in    string
		empty bool
	}{
		"as Hermes sends it":            {retries + statusOf(silent) + text(noReply), true},
		"with fallbacks":                {statusOf("❌ Model returned no content after all retries and fallback attempts.") + text(noReply), true},
		"after reasoning":               {reasoning("hm") + statusOf("⚠️ Model produced reasoning but no visible response after all retries. Returning empty.") + text(noReply), true},
		"after a tool":                  {tool + statusOf(silent) + text(noReply), true},
		"in another language":           {statusOf(silent) + text("⚠️ Keine Antwort: scripted hat diesmal nicht geantwortet."), true},
		"without the explanation":       {statusOf(silent) + text("(empty)"), true},
		"with keepalives, white space":  {text("\n\n") + statusOf(silent) + keepalive + text(noReply) + keepalive + text("\n"), true},
		"after statuses out of order":   {statusOf(silent) + retries + text(noReply), true},
		"after what is stripped":        {tool + text("`💻 ls`\n") + statusOf(silent) + text(noReply), true},
		"with the status wrapped":       {strings.Replace(statusOf(silent), `{`, `{`+envelopeWritten+`,`, 1) + text(noReply), true},
		"between tags":                  {statusOf(silent) + text("<think>hm</think>"+noReply), true},
		"the model writes it":           {text(noReply), false},
		"after retries that helped":     {retries + text(noReply), false},
		"the status comes too late":     {text(noReply) + statusOf(silent), false},
		"after other text":              {text("Let me see.") + tool + statusOf(silent) + text(noReply), false},
		"after a fragment":              {statusOf(silent) + text("The answer is\n\n"+noReply), false},
		"with more text":                {statusOf(silent) + text(noReply) + text("But here is one."), false},
		"with much more text":           {statusOf(silent) + text(noReply) + text("But") + text(" here") + text(" is") + text(" one."), false},
		"in several deltas":             {statusOf(silent) + text("⚠️ No ") + text("reply: scripted"), false},
		"in quotes":                     {statusOf(silent) + text("Hermes said: "+noReply), false},
		"an answer after that status":   {statusOf(silent) + text("Here you are."), false},
		"with a tool call":              {statusOf(silent) + delta(`"tool_calls": [{"index": 0}]`) + text(noReply), false},
		"in an event of another name":   {named("other", `{"kind": "lifecycle", "text": `+asciiJSON(silent)+`}`) + text(noReply), false},
		"after text between two tags":   {statusOf(silent) + text("Well.\n\n<think>hm</think>"+noReply), false},
		"after text that has been held": {statusOf(silent) + text("`💻 l") + text("s\n"+noReply), false},
		"the text in a line of its own": {statusOf(silent) + text("\n"+noReply), false},
		"a status without text":         {named("hermes.status", `{"kind": "lifecycle", "text": 7}`) + text(noReply), false},
		"a status that says it in kind": {named("hermes.status", `{"kind": `+asciiJSON(silent)+`, "text": "x"}`) + text(noReply), false},
	} {
		for _, usage := range []string{realUsage, zeroUsage, ""} {
			for _, o := range []Options{{}, {Progress: ProgressBare}, {Progress: ProgressUnnamed}, {ErrorFinish: ErrorFinishInline}, {Imitations: ImitationsKeep}, {Reasoning: ReasoningDrop}, {EmptyAnswer: EmptyAnswerPass}} {
				in := role() + c.in + finishChunk("stop", usage) + doneFrame
				once, sum := run(in, o, chatParams, inOne, CauseEOF)
				bytewise, _ := run(in, o, chatParams, oneByte, CauseEOF)
				same(t, bytewise, once, name+": one byte at a time")
				want := ""
				if c.empty && usage != "" && o.EmptyAnswer == "" && (o.Imitations == "" || name != "after what is stripped") {
					want = CodeEmpty
				}
				v := look(t, once)
				if sum.Code != want || len(v.finishes) != 1 || (v.finishes[0] == "error") != (want != "") {
					t.Errorf("%s, %+v, usage %q: code %q, finishes %q\n%s", name, o, usage, sum.Code, v.finishes, once)
				}
				if o.Imitations == "" && o.Reasoning == "" {
					plain := look(t, repairWith(in, Options{EmptyAnswer: EmptyAnswerPass}))
					same(t, v.content, plain.content, name+": the text stays")
				}
				if again := repairWith(once, o); o.Reasoning != ReasoningDrop {
					same(t, again, once, name+": twice and once")
				}
			}
		}
	}
}
