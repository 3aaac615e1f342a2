package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/record"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/tooltext"
)

// remembered is what Params.Remember is told of the answer (contract section 8): its text, as the client
// has it, without the paragraphs that ask for approvals, and the tools that ran during it. Nil is that of
// a stream that nobody remembers.
type remembered struct {
	remember func(contract.Text, []contract.ToolRun)
	results  bool // Params.Results

	said    contract.TextSum // what has left as content
	held    contract.TextSum // and what is held back, if that is content
	holds   bool             // there is any
	unknown bool             // content has left that was not examined
	tools   *record.Tools    // nil until one starts
	told    bool             // nothing has come since
}

// say records that k leaves as content.
func (m *remembered) say(k *prose.Kept) {
	if m == nil || k.Len() == 0 {
		return
	}
	m.told = false
	m.said.Add(k.Front)
	m.said.Add(k.Text)
}

// sayText records that a text leaves as content, the inside of a JSON string.
func (m *remembered) sayText(text []byte) {
	if m != nil {
		m.told = false
		m.said.Add(text)
	}
}

// hold records that k is held back: it may be content, or only what is before the suspected text.
func (m *remembered) hold(before, k *prose.Kept) {
	if m == nil {
		return
	}
	if !m.holds {
		m.held, m.holds = m.said, true
	}
	m.held.Add(k.Front)
	m.held.Add(k.Text)
	m.say(before)
}

// decide records what becomes of what is held.
func (m *remembered) decide(fate prose.HeldFate) {
	if m == nil || !m.holds || fate == prose.StaysHeld {
		return
	}
	m.told, m.holds = false, false
	if fate == prose.Leaves {
		m.said = m.held
	}
}

// pass records that content leaves that is not examined.
func (m *remembered) pass() {
	if m != nil {
		m.unknown = true
	}
}

// transition records that a tool starts or ends. Imitated markers prove nothing.
func (m *remembered) transition(c *encode.Transition) {
	if m == nil {
		return
	}
	m.told = false
	id, args := jsonspan.Unquote(c.ID), tooltext.Of(c.Details.Args)
	switch {
	case c.Completed:
		e := record.Ended{Status: c.Outcome(), Args: args}
		if m.results && c.Details.Result != nil {
			e.Result = new(tooltext.Of(c.Details.Result))
		}
		m.tools.End(id, e)
	case c.Source != contract.SourceImitation:
		if m.tools == nil {
			m.tools = new(record.Tools)
		}
		m.tools.Start(record.Call{ID: id, Name: jsonspan.Unquote(c.Name), Label: jsonspan.Unquote(c.Label), Args: args})
	}
}

// split tells of the answer that ends for a reply to a request for approval. What follows is another
// one, in which the open tools go on. waits is the tool that waits, nil if that is not certain.
func (m *remembered) split(open []encode.Tool, waits *encode.Tool) {
	if m == nil {
		return
	}
	for i := range open {
		if waits == nil || waits.ID == open[i].ID {
			m.tools.End(jsonspan.Unquote(open[i].ID), record.Ended{Status: contract.WaitsForApproval})
		}
	}
	m.told = false
	m.tell()
	*m = remembered{remember: m.remember, results: m.results}
	for i := range open {
		m.transition(&encode.Transition{Tool: open[i]})
	}
}

// tell tells what has come so far, unless it is told already.
func (m *remembered) tell() {
	if m == nil || m.told {
		return
	}
	if m.told = true; !m.unknown {
		m.remember(m.said.Text(), m.tools.Runs())
	}
}
