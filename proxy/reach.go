package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// reach records how far a request that begins a run has got on its way to the agent. Bytes that
// have been written to a connection may have begun the run: a client that tries again because of an
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

// mayRun reports whether the agent may be running although the next handler has returned an error
// with the status. The agent is not running if no connection could be made, or if there was none to
// make, which 503 stands for. A transport that does not report may have reached the agent.
func (re *reach) mayRun(status int) bool {
	return re.connected.Load() || !re.dialed.Load() && status != http.StatusServiceUnavailable
}
