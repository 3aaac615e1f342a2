// Package doctor registers the command hermes-doctor, which examines a Hermes agent from the
// outside: whether it can be reached, which releases of Hermes answer like that, what the
// sidecar repairs there, which options fit, and who else can connect.
//
// Examine asks a running agent. It sends a few GET requests and, only if it is told to
// ask, one short chat request, none of them twice. Recording reads a recorded answer
// instead. Both return an Agent, of which a Report has any number.
//
// The engine (package rewrite) says which releases send such a stream, and what it repairs
// there; only the names of the newest events are looked for here.
package doctor

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Options say how an agent is examined. Dial, OwnAddresses and Now may be nil, for those
// of the system.
type Options struct {
	Key        string        // Hermes' API_SERVER_KEY, "" for none; only Hermes gets it
	Ask        bool          // send one short chat request, which runs the agent
	Timeout    time.Duration // for each GET request
	AskTimeout time.Duration // for the chat request
	Insecure   bool          // do not verify certificates

	Through *Through        // the sidecar in front of the agent, nil if none is known
	Set     map[string]bool // the options of hermes that are configured

	Dial         func(ctx context.Context, network, addr string) (net.Conn, error)
	OwnAddresses func() ([]netip.Addr, error) // of this machine, without loopback
	Now          func() time.Time
}

// Through is a sidecar in front of an agent.
type Through struct {
	Target
	Configured bool // a configuration names it: it may not run
}

// withDefaults returns the options with the system's functions where there are none.
func (o Options) withDefaults() Options {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.OwnAddresses == nil {
		o.OwnAddresses = ownAddresses
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// An examination is under way. It belongs to one agent.
type examination struct {
	Agent
	editor
	o       Options
	known   evidence // what /health says of the release
	reading *reading // of the agent's own answer, nil without one
}

// Examine examines the agent at t, which namedBy says where it was found.
func Examine(ctx context.Context, t Target, namedBy string, o Options) Agent {
	e := &examination{Agent: newAgent(t.String(), namedBy), editor: editor{o.Key}, o: o.withDefaults()}
	s := newServer(t, e.o)
	if e.agent(ctx, s) {
		e.ignored(e.conclude())
	}
	if e.o.Through != nil {
		e.Through = e.o.Through.String()
		e.through(ctx, newServer(e.o.Through.Target, e.o))
	}
	return e.Agent
}

// agent examines the agent itself. It reports whether it is one that answers: what it
// needs is of no use to those whom it refuses.
func (e *examination) agent(ctx context.Context, s *server) bool {
	health := e.reach(ctx, s)
	if health == nil {
		return false
	}
	models, err := s.get(ctx, "/v1/models", false)
	if err != nil {
		says, why := e.unreachable(ctx, s, err)
		e.find("models", Fail, "/v1/models: "+says, why)
		return false
	}
	if !e.identify(health, models) {
		return false
	}
	access := e.access(ctx, s, models)
	e.network(ctx, s, access, "network")
	if access == accessRefused {
		e.releases()
		return false
	}
	if e.o.Ask {
		if r := e.answer(ctx, s); r != nil {
			e.shows(r)
		}
	}
	return true
}

// conclude says which releases the agent may be, and what follows from it.
func (e *examination) conclude() span {
	releases := e.releases()
	e.Repairs, e.Options = repairsOf(releases), options(releases, e.reading, e.o.Set)
	return releases
}

// ignored says what the releases ignore of a request. It is known of those that have been
// read, and costs a run of the agent to find out.
func (e *examination) ignored(releases span) {
	if releases.meets(span{oldest, lastRead}) {
		e.find("ignored", Info, "Hermes ignores tools, tool_choice, functions, n above 1 and response_format in a chat request, and background in one to /v1/responses",
			"It answers with status 200 all the same. docs/limitations.md has a table, and the access log names those that a client sends (hermes_ignored).")
	}
}
