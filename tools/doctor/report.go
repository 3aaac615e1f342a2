package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
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

// A Report is what is known of some agents. docs/doctor.md describes its JSON.
type Report struct {
	Schema int     `json:"schema"`
	Result string  `json:"result"` // ok, or problems if any finding is a Fail
	Agents []Agent `json:"agents"`
}

// An Agent is what is known of one agent, or of one recording.
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
