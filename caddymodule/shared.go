package caddymodule

import (
	"sync"
	"sync/atomic"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/telemetry"
	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// shared is what all configurations of the process have in common. A reload
// builds every handler anew and cleans the old ones up while their streams go
// on, so what must reach those streams or outlive the handlers is here.
type shared struct {
	streams    proxy.Streams         // that are open, for the end of the process
	handlers   atomic.Int64          // between Provision and Cleanup
	usage      usage.Memory          // which upstreams and models have reported usage
	emitters   telemetry.Emitters    // of the configurations that events can be emitted by
	recordings recording.Directories // that streams are recorded in
	checked    atomic.Value          // a weak.Pointer to the http app whose sites were checked last
}

// inUse is the shared state as long as somebody uses it: a handler from Provision to
// Cleanup, and every request while it runs. Caddy provisions the new configuration before
// it cleans the old one up, so a reload never brings the count to zero. It does what a
// caddy.UsagePool with one key does, and costs each request less.
var inUse struct {
	mu     sync.Mutex
	shared *shared // nil without users
	users  int
}

// use counts one more user of the shared state, which is s if there is no other user, and
// returns it.
func use(s *shared) *shared {
	inUse.mu.Lock()
	defer inUse.mu.Unlock()
	if inUse.users++; inUse.shared == nil {
		inUse.shared = s
	}
	return inUse.shared
}

// join returns the shared state, counts one more user of it, and reports whether that is
// the first one.
func join() (s *shared, first bool) {
	fresh := new(shared)
	s = use(fresh)
	return s, s == fresh
}

// hold counts one more user of s, for the time of a request. If s has no user any more,
// because its handler was cleaned up before the request came to it, it is in use again, so
// that a later configuration finds the stream.
func (s *shared) hold() { use(s) }

// leave takes back one join or hold, and reports whether it was the last one.
func leave() (last bool) {
	inUse.mu.Lock()
	defer inUse.mu.Unlock()
	if inUse.users--; inUse.users > 0 {
		return false
	}
	inUse.shared = nil
	return true
}
