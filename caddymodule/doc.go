// Package caddymodule is the Caddy adapter: the HTTP handlers http.handlers.hermes,
// http.handlers.hermes_resume and http.handlers.hermes_streams, the Caddyfile directives
// hermes, hermes_proxy, hermes_resume and hermes_streams, the admin endpoint
// /hermes/streams, and the handlers' life from Provision to Cleanup. Importing it
// registers all of that and the commands hermes-proxy, hermes-repair, hermes-health and
// hermes-doctor. It is thin on purpose:
// how a stream is repaired is in package rewrite, how a response is guarded in package
// proxy, how an answer outlives its connection in package resume.
//
// Below it, none of which knows the Handler:
//
//	internal/options    the table of options
//	internal/command    the commands
//	internal/telemetry  metrics, spans, logs, events, lists of streams
//	internal/usage      which upstreams and models report usage
//	internal/record     recordings of streams, and internal/repair, which reads them
//	internal/doctor     examines agents
//	internal/site       configurations that the directive and the commands share
//	internal/bounded    cuts what upstream has said
//
// Package demo, which imports this one, has the command hermes-demo.
//
// What all configurations of a process have in common, such as the open streams, is one
// value, shared, that handlers and running requests hold together (shared.go). A reload
// provisions the new handlers before it cleans the old ones up, so it stays.
package caddymodule

// The plugin has both handlers.
import _ "github.com/hermes-sidecar/hermes-sidecar/resume/resumecaddy"
