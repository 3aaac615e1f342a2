package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// reach is how far a request for chat completions has come on its way to the agent.
// What has been written to a connection may have begun a run: an error that a
// client takes for a reason to try again would begin a second one (contract section
// 3, "Again").
type reach struct {
	dialed    atomic.Bool // a transport has looked for a connection
	connected atomic.Bool // and has got one
}

// traced returns ctx for a request whose transport tells how far it comes. Those of
// net/http and of quic-go do, of all the tries that a proxy makes.
func (re *reach) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { re.dialed.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { re.connected.Store(true) },
	})
}

// failed reports whether the agent may be running although the next handler has
// returned an error with the status. It is not where no connection could be made,
// nor where there is none to make: that is what 503 stands for. Of a transport that
// tells nothing, nothing is known, and the agent may run.
func (re *reach) failed(status int) bool {
	if re.connected.Load() {
		return true
	}
	return !re.dialed.Load() && status != http.StatusServiceUnavailable
}
