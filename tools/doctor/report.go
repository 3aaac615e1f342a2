package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A Level says how much a finding matters.
type Level string

const (
	OK   Level = "ok"   // as it should be
	Info Level = "info" // good to know
	Warn Level = "warn" // works, but has a risk or a cost
	Fail Level = "fail" // has to be changed
)

// schema is the version of the JSON of a Report. It changes when a member changes its
// meaning or goes, not when one is added.
const schema = 1

// A Report has the findings about some agents. docs/doctor.md describes its JSON.
type Report struct {
	Schema int     `json:"schema"`
	Result string  `json:"result"` // ok, or problems if any finding is a Fail
	Agents []Agent `json:"agents"`
}

// An Agent has the findings about one agent, or one recording.
type Agent struct {
	Address     string    `json:"address"`               // a URL, unix//path, or the name of a recording
	NamedBy     string    `json:"named_by"`              // what names the address
	Through     string    `json:"through,omitempty"`     // the URL of the sidecar in front of it
	Version     string    `json:"version,omitempty"`     // as the agent itself says
	Releases    string    `json:"releases,omitempty"`    // of Hermes, that the agent may be
	Generations []string  `json:"generations,omitempty"` // of these releases
	Findings    []Finding `json:"findings"`
	Repairs     []Repair  `json:"repairs"`
	Options     []Option  `json:"options"`
}

// A Finding is the result of one check.
type Finding struct {
	Check string `json:"check"` // its name, which is stable
	Level Level  `json:"level"`
	Says  string `json:"says"`          // what was found
	Why   string `json:"why,omitempty"` // what it means, and what to do
}

// An Option is one of the hermes directive that may fit.
type Option struct {
	Option string `json:"option"` // as a line of the Caddyfile
	When   string `json:"when"`   // the condition under which it fits
	Why    string `json:"why"`
}

// The results of a report.
const (
	resultOK       = "ok"
	resultProblems = "problems" // a finding is a Fail
)

// newReport returns the report of agents.
func newReport(agents ...Agent) Report {
	r := Report{Schema: schema, Result: resultOK, Agents: agents}
	for _, a := range agents {
		if slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Level == Fail }) {
			r.Result = resultProblems
		}
	}
	return r
}

// json returns the report as one JSON object.
func (r Report) json() string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(r) // cannot fail: all of a report can be JSON, and a strings.Builder takes all
	return b.String()
}

// text returns the report for people.
func (r Report) text() string {
	var b strings.Builder
	for i, a := range r.Agents {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s (%s)\n\n", a.Address, a.NamedBy)
		for _, f := range a.Findings {
			wrap(&b, fmt.Sprintf("%-6s%-19s", f.Level, f.Check), f.Says)
			wrap(&b, strings.Repeat(" ", 6+19), f.Why)
		}
		if len(a.Repairs) > 0 {
			b.WriteString("\nWhat the sidecar repairs there\n\n")
		}
		for _, r := range a.Repairs {
			wrap(&b, "  - ", r.Upstream+" ("+r.Releases+")")
			wrap(&b, "    ", "→ "+r.Client)
		}
		if len(a.Options) > 0 {
			b.WriteString("\nOptions that may fit\n\n")
		}
		for _, o := range a.Options {
			wrap(&b, "  - ", o.Option+": "+o.When)
			wrap(&b, "    ", o.Why)
		}
	}
	return b.String()
}

// columns is the width of the text form.
const columns = 100

// wrap writes text in lines of at most columns characters, the first one after head and the others
// indented like it. It writes nothing if text is empty.
func wrap(b *strings.Builder, head, text string) {
	line := head
	for word := range strings.FieldsSeq(text) {
		if line != head && utf8.RuneCountInString(line+word) > columns {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			head = strings.Repeat(" ", utf8.RuneCountInString(head))
			line = head
		}
		line += word + " "
	}
	if line != head {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// words are the text of a finding: constants of this package, or results of say. A text from an
// agent is a string, which the compiler does not accept as words, so it cannot get into a report
// unchanged.
type words string

// find adds a finding.
func (e *examination) find(check string, level Level, says, why words) {
	e.Findings = append(e.Findings, Finding{Check: e.checks + check, Level: level, Says: string(says), Why: string(why)})
}

// say formats args. An argument that is neither a number nor words is from outside, and is
// replaced by the result of fit.
func (d *doctor) say(format words, args ...any) words {
	for i, a := range args {
		switch a.(type) {
		case words, int, int64:
		default:
			args[i] = d.fit(fmt.Sprint(a))
		}
	}
	return words(fmt.Sprintf(string(format), args...))
}

// quoted returns the text in quotes, after a colon and a space, or "" for nothing.
func (d *doctor) quoted(text string) words {
	if text == "" {
		return ""
	}
	return d.say(": “%s”", text)
}

// maxSaid is the number of bytes of a text from outside that a finding repeats.
const maxSaid = 200

// fit returns text, which is from upstream or an error about it, in a form that is safe in a
// report: without the keys and other secrets, short and printable.
func (d *doctor) fit(text string) string {
	_, client := schemeOf(d.clientKey)
	for _, key := range []string{d.key, client} {
		if key != "" {
			text = strings.ReplaceAll(text, key, "[redacted]")
		}
	}
	return printable(bounded.Text(rewrite.Redact(bounded.Text(text, maxProbe)), maxSaid))
}

// printable replaces what a terminal would act upon.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}
