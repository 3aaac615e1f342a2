package doctor

import (
	"context"
	"errors"
	"net/http"
	"syscall"
)

// through examines the sidecar in front of the agent. Its checks have names of their own.
func (e *examination) through(ctx context.Context, s *server) {
	direct := e.Findings
	e.Findings = nil
	e.sidecar(ctx, s)
	for i := range e.Findings {
		e.Findings[i].Check = "through." + e.Findings[i].Check
	}
	e.Findings = append(direct, e.Findings...)
}

// sidecar examines the sidecar as a client of it.
func (e *examination) sidecar(ctx context.Context, s *server) {
	r, err := s.get(ctx, "/health", false)
	if err != nil {
		says, why := e.unreachable(ctx, s, err)
		level := Fail
		if e.o.Through.Configured {
			level = Warn // a check before the first start
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			why = "The sidecar does not run, or listens elsewhere. Start it, and examine again."
		}
		e.find("reachable", level, says, why)
		return
	}
	var is struct {
		Platform string `json:"platform"`
	}
	message, _ := errorOf(r.body)
	switch {
	case r.status == http.StatusOK && r.json(&is) && is.Platform == "hermes-agent":
		e.find("reachable", OK, e.say("it answers with %s, and reaches a Hermes", r.proto), "")
	case r.refuses():
		e.find("reachable", Info, e.say("it asks for credentials (status %d)", r.status), "It checks them before Hermes does, so no more is asked of it.")
		return
	case r.status >= http.StatusInternalServerError:
		e.find("reachable", Fail, e.say("it answers with status %d%s", r.status, e.quoted(message)), "It does not reach Hermes: check the address behind hermes_proxy or reverse_proxy.")
		return
	default:
		e.find("reachable", Fail, e.say("what answers there does not pass /health on to Hermes (status %d)", r.status), "Check the address, and that the route with hermes matches every path.")
		return
	}
	a := accessUnknown
	if models, err := s.get(ctx, "/v1/models", false); err == nil && models.status == http.StatusOK {
		a = accessAnyone
	} else if err == nil && models.refuses() {
		a = accessKey
	}
	e.network(ctx, s, a, "network")
	if e.o.Ask && (a == accessAnyone || s.key != "") {
		e.compare(ctx, s)
	}
}

// compare asks the same through the sidecar.
func (e *examination) compare(ctx context.Context, s *server) {
	r := e.answer(ctx, s)
	switch {
	case r == nil || !r.ended:
	case r.changed:
		e.find("repaired", Warn, "this answer still needs a repair: "+e.told(r),
			"There is no hermes in that route, or its options say that this stays.")
	case e.reading != nil && e.reading.changed:
		e.find("repaired", OK, "what was to be repaired is repaired", "")
	default:
		e.find("repaired", Info, "the answer needs no repair, with the sidecar or without", "So it does not show whether hermes is in that route.")
	}
}
