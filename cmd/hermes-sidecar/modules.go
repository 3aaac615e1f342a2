package main

// Modules of modules/standard that are not imported here:
//
//   - fileserver, templates, fastcgi, push, caddyfs, encode/brotli: they serve
//     files, of which a sidecar has none, and are a tenth of Caddy's size.
//   - acmeserver: a certificate authority for other machines.
//   - eventsconfig: the events option, whose handlers are all plugins. The
//     events themselves are emitted, and logged at debug.
//   - distributedstek: session tickets that several machines share. Each
//     sidecar has its own clients.
//
// Caddy cannot be built without some more: caddytls with ACME and the internal CA, the matchers,
// static responses, HTTP/3.
import (
	// The sidecar itself, and with it reverse_proxy, its http transport, all
	// selection policies, health checks and dynamic upstreams.
	_ "github.com/hermes-sidecar/hermes-sidecar"

	// The core: the Caddyfile, handle, route, respond, redir, bind, tls, vars,
	// matchers, header, rewrite, uri, method.
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"

	// Certificates (own, internal or by ACME) and their storage, which also keeps the state of
	// the usage of models. TLS does not start without standardstek.
	_ "github.com/caddyserver/caddy/v2/modules/caddypki"
	_ "github.com/caddyserver/caddy/v2/modules/caddytls"
	_ "github.com/caddyserver/caddy/v2/modules/caddytls/standardstek"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"

	// Access: basic_auth, forward_auth, and the PROXY protocol of load balancers, without which
	// all clients have the same address.
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/proxyprotocol"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy/forwardauth"

	// Handlers around reverse_proxy in a site: limits of bodies and times, map for choosing
	// upstreams, encode, intercept for error pages. encode without arguments needs both encoders.
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/gzip"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/zstd"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/map"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/timeouts"

	// Observability: logs with filters, /metrics, spans.
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/logging"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/tracing"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	_ "github.com/caddyserver/caddy/v2/modules/metrics"
)
