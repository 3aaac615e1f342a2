package proxy

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// ProgressHeader is the request header that overrides the form of tool events
// for one request (contract section 2).
const ProgressHeader = "X-Hermes-Tool-Progress"

// upstreamRequest returns r as the next handler gets it: with ctx, and asking
// for a body that is not compressed. The client's own header stays as it is,
// for handlers before this one look at it (Caddy's encode, handle_errors).
func upstreamRequest(ctx context.Context, r *http.Request) *http.Request {
	up := r.WithContext(ctx)
	if up.Header = maps.Clone(r.Header); up.Header == nil {
		up.Header = make(http.Header)
	}
	up.Header["Accept-Encoding"] = []string{"identity"}
	// With GetBody, net/http would repeat a body that it has written, and the agent would run
	// twice: over HTTP/1 with an Idempotency-Key, which a later handler may still add, over HTTP/2
	// without one (contract section 7). Requests from a server have no GetBody, so nothing is lost.
	up.GetBody = nil
	return up
}

// mayHeal reports whether the body of r may carry a history, and may be read before r goes on,
// judging by method, length and header. queued says that r may have to wait in line, so that its
// body is read to know what it asks for.
func mayHeal(o *Options, r *http.Request, queued bool) bool {
	if o.History == HistoryKeep && !o.readsReplies(r) && !o.Identity.reads(r) && !queued || r.Method != http.MethodPost || head.IsEncoded(r.Header) {
		return false
	}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 || r.ContentLength > o.MaxRequest {
		return false
	}
	// The client says that the body is to go on while it comes (the HTTP
	// working group's draft "Incremental HTTP Messages"; Caddy heeds it too).
	if strings.HasPrefix(r.Header.Get("Incremental"), "?1") {
		return false
	}
	media := head.MediaType(r.Header)
	if rewrite.BeginsRun(r.URL.Path) { // Hermes asks for no type
		return !strings.HasPrefix(media, "multipart/")
	}
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// markersStay returns a function that reports whether what looks like a marker stays in the history
// that r carries (contract section 5), nil for one that returns false.
func (p *Proxy) markersStay(r *http.Request) func() bool {
	if i := p.o.Rewrite.Imitations; p.o.Site == nil || i != "" && i != rewrite.ImitationsAuto {
		return nil
	}
	return func() bool { return p.o.Site(r).SendsEvents() }
}

// usage returns the memory of the usage of the upstream with the name, nil for none. What its streams
// show of tool events is known of the site, too.
func (x *exchange) usage(upstream string) rewrite.UsageMemory {
	usage := x.o.Usage(upstream)
	if usage == nil || x.o.Site == nil {
		return usage
	}
	return sitedUsage{usage, x.o.Site(x.r)}
}

// sitedUsage is a memory of an upstream's usage, and that of its site.
type sitedUsage struct {
	rewrite.UsageMemory
	site rewrite.EventMemory
}

// ShowedEvents implements rewrite.EventMemory.
func (u sitedUsage) ShowedEvents(does bool) {
	u.UsageMemory.ShowedEvents(does)
	u.site.ShowedEvents(does)
}

// readsReplies reports whether the body of r is read for a reply, whatever the option History says.
func (o *Options) readsReplies(r *http.Request) bool {
	return o.Reply != nil && rewrite.IsChatPath(r.URL.Path)
}

// reach records how far a request for chat completions has come on its way to the agent. Bytes that
// have been written to a connection may have begun a run: a client that tries again because of an
// error would begin a second one (contract section 3, "Again").
type reach struct {
	dialed    atomic.Bool // a transport has looked for a connection
	connected atomic.Bool // and has got one
}

// traced returns ctx for a request whose transport reports to re, as those of net/http and quic-go
// do for all the tries of a proxy.
func (re *reach) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { re.dialed.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { re.connected.Store(true) },
	})
}

// failed reports whether the agent may be running although the next handler has returned an error
// with the status. The agent is not running if no connection could be made, or if there was none to
// make, which 503 stands for. A transport that does not report may have reached the agent.
func (re *reach) failed(status int) bool {
	return re.connected.Load() || !re.dialed.Load() && status != http.StatusServiceUnavailable
}
