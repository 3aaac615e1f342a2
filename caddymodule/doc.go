// Package caddymodule is the Caddy adapter: the HTTP handlers http.handlers.hermes,
// http.handlers.hermes_resume, http.handlers.hermes_queue, http.handlers.hermes_approvals and
// http.handlers.hermes_streams, the Caddyfile directives hermes, hermes_proxy,
// hermes_resume, hermes_queue, hermes_approvals and hermes_streams, the command hermes-proxy, and the
// admin endpoint /hermes/streams.
// Importing it registers all of them. It is thin on purpose: package rewrite repairs streams,
// package proxy guards responses, and package resume makes answers outlive their connections.
//
// Packages internal/telemetry (metrics, spans, logs, events, lists of streams),
// internal/ask (who is asked for approvals, and how answers reach upstream) and
// internal/usage (which upstreams and models report usage) do not know the Handler. All
// configurations of a process share one value, hermesapp.Process, which has the open streams and
// other state. hermesapp.App ends them with the process.
package caddymodule

// The plugin has all handlers.
import (
	_ "github.com/hermes-sidecar/hermes-sidecar/desk/deskcaddy"
	_ "github.com/hermes-sidecar/hermes-sidecar/queue/queuecaddy"
	_ "github.com/hermes-sidecar/hermes-sidecar/resume/resumecaddy"
)
