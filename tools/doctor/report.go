package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
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

// NewReport returns the report of agents.
func NewReport(agents ...Agent) Report {
	r := Report{Schema: schema, Result: "ok", Agents: agents}
	if slices.ContainsFunc(agents, Agent.failed) {
		r.Result = "problems"
	}
	return r
}

// Problems reports whether anything has to be changed.
func (r Report) Problems() bool { return r.Result != "ok" }

// WriteJSON writes the report as one JSON object.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// newAgent returns an agent of which nothing is known. Its lists are empty, and not
// null in JSON.
func newAgent(address, namedBy string) Agent {
	return Agent{Address: address, NamedBy: namedBy, Findings: []Finding{}, Repairs: []Repair{}, Options: []Option{}}
}

// failed reports whether a finding of the agent is a Fail.
func (a Agent) failed() bool {
	return slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Level == Fail })
}

// The columns of the text form.
const (
	columns    = 100
	levelWidth = 6  // of the column with the level
	checkWidth = 19 // of the column with the check
)

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for i, a := range r.Agents {
		if i > 0 {
			b.WriteString("\n")
		}
		a.text(&b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// text writes the agent for people.
func (a Agent) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s (%s)\n\n", a.Address, a.NamedBy)
	for _, f := range a.Findings {
		head := fmt.Sprintf("%-*s%-*s", levelWidth, f.Level, checkWidth, f.Check)
		wrap(b, head, f.Says)
		if f.Why != "" {
			wrap(b, strings.Repeat(" ", levelWidth+checkWidth), f.Why)
		}
	}
	if len(a.Repairs) > 0 {
		b.WriteString("\nWhat the sidecar repairs there\n\n")
		for _, r := range a.Repairs {
			wrap(b, "  - ", r.Upstream+" ("+r.Releases+")")
			wrap(b, "    ", "→ "+r.Client)
		}
	}
	if len(a.Options) > 0 {
		b.WriteString("\nOptions that may fit\n\n")
		for _, o := range a.Options {
			wrap(b, "  - ", o.Option+": "+o.When)
			wrap(b, "    ", o.Why)
		}
	}
}

// wrap writes words in lines of at most columns, the first one after head and the
// others below it.
func wrap(b *strings.Builder, head, words string) {
	b.WriteString(head)
	at := utf8.RuneCountInString(head)
	indent, begun := strings.Repeat(" ", at), false
	for word := range strings.FieldsSeq(words) {
		n := utf8.RuneCountInString(word)
		switch {
		case begun && at+1+n > columns:
			b.WriteString("\n" + indent)
			at = len(indent)
		case begun:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at, begun = at+n, true
	}
	b.WriteString("\n")
}
