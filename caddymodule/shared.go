package caddymodule

import (
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/record"
	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/telemetry"
	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// shared is what all configurations of the process have in common. A reload
// builds every handler anew and cleans the old ones up while their streams go
// on, so what must reach those streams or outlive the handlers is here.
type shared struct {
	streams    proxy.Streams      // that are open, for the end of the process
	handlers   atomic.Int64       // between Provision and Cleanup
	usage      usage.Memory       // which upstreams and models have reported usage
	emitters   telemetry.Emitters // of the configurations that events can be emitted by
	recordings record.Directories // that streams are recorded in
}

// Destruct satisfies caddy.Destructor. There is nothing to close.
func (*shared) Destruct() error { return nil }

// sharedKey is the only key of the pool.
const sharedKey = "hermes"

// pool counts who uses the shared state: a handler from Provision to Cleanup,
// and every request while it runs. Caddy provisions the new configuration
// before it cleans the old one up, so a reload never brings the count to zero.
var pool = caddy.NewUsagePool()

// join returns the shared state, counts one more user of it, and reports whether that is
// the first one.
func join() (s *shared, first bool) {
	v, others := pool.LoadOrStore(sharedKey, new(shared))
	return v.(*shared), !others
}

// hold counts one more user of s, for the time of a request. If s has left the
// pool, because its handler was cleaned up before the request came to it, s is
// put back, so that a later configuration finds the stream.
func (s *shared) hold() { pool.LoadOrStore(sharedKey, s) }

// leave takes back one join or hold, and reports whether it was the last one.
func leave() (last bool) {
	last, _ = pool.Delete(sharedKey) // the error is Destruct's, which has none
	return last
}
