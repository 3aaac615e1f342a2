package proxy

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// ProgressHeader is the request header that overrides the form of tool events
// for one request (contract section 2).
const ProgressHeader = "X-Hermes-Tool-Progress"

// sessionHeader is the request header that names a session of Hermes'. Only a request with
// it may be muted (contract section 3, second rule of "false stop").
const sessionHeader = "X-Hermes-Session-Id"

// isChat reports whether r is a request for chat completions.
func isChat(r *http.Request) bool { return rewrite.IsChatPath(r.URL.Path) }

// upstreamRequest returns r as the next handler gets it: with ctx, and asking
// for a body that is not compressed. The client's own header stays as it is,
// for what comes after us looks at it (Caddy's encode, handle_errors).
func upstreamRequest(ctx context.Context, r *http.Request) *http.Request {
	up := r.WithContext(ctx)
	if up.Header = maps.Clone(r.Header); up.Header == nil {
		up.Header = make(http.Header)
	}
	up.Header["Accept-Encoding"] = []string{"identity"}
	// With GetBody, net/http would repeat what it has written, and the agent would
	// run twice: over HTTP/1 with an Idempotency-Key, which a handler behind may
	// still add, over HTTP/2 without one (contract section 7). No server's request
	// has it, so that nothing is lost.
	up.GetBody = nil
	return up
}

// bodyPlan returns what becomes of the body of r. While the client still sends it,
// upstream is not silent, it waits as well: the client is timed if there is a
// deadline that this moves.
func (p *Proxy) bodyPlan(r *http.Request) reqbody.Plan {
	plan := reqbody.Plan{Heal: p.heals(r), Limit: p.o.MaxRequest, Tools: p.o.Rewrite.Tools}
	if isChat(r) && max(p.o.FirstByteTimeout, p.o.IdleTimeout, p.o.StallTimeout) > 0 {
		plan.Now = p.now
	}
	return plan
}

// heals reports whether the body of r may be a request with a history, and may be
// read before it goes on.
func (p *Proxy) heals(r *http.Request) bool {
	if p.o.History == HistoryKeep || r.Method != http.MethodPost {
		return false
	}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 || r.ContentLength > p.o.MaxRequest {
		return false
	}
	if head.IsEncoded(r.Header) {
		return false
	}
	// The client says that the body is to go on while it comes (the HTTP
	// working group's draft "Incremental HTTP Messages"; Caddy heeds it too).
	if strings.HasPrefix(head.First(r.Header, "Incremental"), "?1") {
		return false
	}
	media := head.MediaType(r.Header)
	if isChat(r) {
		return !strings.HasPrefix(media, "multipart/")
	}
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
