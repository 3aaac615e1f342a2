package caddymodule

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// upstreams knows whether the upstreams of a handler send tool events, as far as its streams have
// shown. It decides about the histories of requests, which are healed before it is known which upstream
// gets them (contract section 5).
//
// Nothing names a handler across reloads and restarts. So the handler that has seen nothing yet believes
// what the streams of its server have shown, of any handler there, which the usage memory keeps.
type upstreams struct {
	usage *usage.Store
	shown atomic.Int32 // 1 for tool events, -1 for a marker, 0 for nothing; the last one counts
}

// of returns the memory for the client's request r.
func (u *upstreams) of(r *http.Request) rewrite.EventMemory {
	name := "server"
	if server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && server != nil {
		name += " " + strings.Join(server.Listen, " ")
	}
	return ofServer{u, u.usage.Of(name)}
}

// ofServer is an upstreams on a server.
type ofServer struct {
	*upstreams
	server rewrite.EventMemory
}

// SendsEvents implements rewrite.EventMemory.
func (s ofServer) SendsEvents() bool {
	if shown := s.shown.Load(); shown != 0 {
		return shown > 0
	}
	return s.server.SendsEvents()
}

// ShowedEvents implements rewrite.EventMemory.
func (s ofServer) ShowedEvents(does bool) {
	shown := int32(-1)
	if does {
		shown = 1
	}
	s.shown.Store(shown)
	s.server.ShowedEvents(does)
}
