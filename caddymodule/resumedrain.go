package caddymodule

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// provisioned are the options of the hermes handlers between Provision and Cleanup, a
// proxy.Options by the *Handler: hermes_resume goes by some of them.
var provisioned sync.Map

// maxRequest returns the size in bytes above which a request passes hermes_resume untouched:
// the largest max_request of the hermes handlers.
func maxRequest() int64 {
	size := int64(0)
	provisioned.Range(func(_, o any) bool {
		size = max(size, o.(*proxy.Options).MaxRequest)
		return true
	})
	return cmp.Or(size, proxy.DefaultMaxRequest)
}

// resumeReserve is how long a run may go on after hermes has had the time to end its
// stream, and how long it may take to end after it is cancelled.
const resumeReserve = time.Second

// resumeDrain ends runs when the process ends. Those that have hermes in them end as
// other streams do, and what hermes writes is in their logs: they are given the time for
// that.
type resumeDrain struct {
	all          *resumed
	grace, delay time.Duration // of the http app
	exiting      func() bool   // caddy.Exiting: the event also comes at every reload
}

// Handle does not block: Caddy waits for it before it shuts the servers down.
func (d *resumeDrain) Handle(context.Context, caddy.Event) error {
	if !d.exiting() {
		return nil
	}
	after := resumeLimit(d.grace, d.delay)
	d.all.drained.CompareAndSwap(0, time.Now().Add(after+resumeReserve).UnixNano())
	d.all.runs.Shutdown(after)
	return nil
}

// resumeLimit returns when, after the event, the last run is cancelled: behind the drain
// of hermes, and before the grace period ends.
func resumeLimit(grace, delay time.Duration) time.Duration {
	timeout, known := time.Duration(0), false
	provisioned.Range(func(_, o any) bool {
		timeout, known = max(timeout, o.(*proxy.Options).DrainTimeout), true
		return true
	})
	if !known {
		timeout = proxy.DefaultOptions().DrainTimeout
	}
	timeout += resumeReserve
	if limit := drainLimit(grace, delay); limit > 0 {
		timeout = min(timeout, limit+(max(delay, 0)+grace-limit)/2)
	}
	return timeout
}
