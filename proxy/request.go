package proxy

import (
	"context"
	"maps"
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// ProgressHeader is the request header that overrides the form of tool events
// for one request (contract section 2).
const ProgressHeader = "X-Hermes-Tool-Progress"

// isChat tells whether r is a request for chat completions.
func isChat(r *http.Request) bool { return rewrite.IsChatPath(r.URL.Path) }

// upstreamRequest returns r as the next handler gets it: with ctx, and asking
// for a body that is not compressed. The client's own header stays as it is,
// for what comes after us looks at it (Caddy's encode, handle_errors).
func upstreamRequest(ctx context.Context, r *http.Request) *http.Request {
	up := r.WithContext(ctx)
	if up.Header = maps.Clone(r.Header); up.Header == nil {
		up.Header = make(http.Header)
	}
	up.Header.Set("Accept-Encoding", "identity")
	// With GetBody, net/http would repeat what it has written, and the agent would
	// run twice: over HTTP/1 with an Idempotency-Key, which a handler behind may
	// still add, over HTTP/2 without one (contract section 7). No server's request
	// has it, so that nothing is lost.
	up.GetBody = nil
	return up
}
