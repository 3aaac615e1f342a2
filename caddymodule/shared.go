package caddymodule

import (
	"encoding/json"
	"slices"
	"sync/atomic"
	"weak"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/runs"
	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/internal/httpapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// process is the state that all configurations of the process share. A reload builds every
// handler anew and cleans the old ones up while their streams go on, so state that must
// reach those streams or outlive the handlers is here. It is a variable of the package
// because Caddy has no value that lives as long: an app, and a value in a UsagePool, go
// with the last configuration that uses them. Only tests replace it.
var process = new(shared)

// shared is the state of a process; see process.
type shared struct {
	streams    proxy.Streams         // the open streams, for the end of the process
	origins    proxy.Origins         // what upstreams say to pages of other origins
	handlers   atomic.Int64          // number of handlers between Provision and Cleanup
	usage      usage.Memory          // which upstreams and models have reported usage
	recordings recording.Directories // in which streams are recorded
	runs       runs.Runs             // that keep their places in line
	checked    atomic.Value          // a weak.Pointer to the http app whose sites were checked last
}

// checkSites checks all sites of the configuration that ctx belongs to, because no handler sees
// them all. An upstream with a path, which would answer every request with 502, is an error. It
// runs for the first handler only: then the handlers after it are still JSON, which Caddy drops as
// it provisions them. Matchers have been provisioned already, and only their number is known.
func (s *shared) checkSites(ctx caddy.Context, logger *zap.Logger) error {
	app := httpapp.Of(ctx)
	if app == nil || s.checked.Swap(weak.Make(app)) == weak.Make(app) {
		return nil
	}
	servers := make(map[string]*caddyhttp.Server)
	for name, server := range app.Servers {
		routes := slices.Clone(server.Routes)
		for i := range routes {
			if n := len(routes[i].MatcherSets); n > 0 {
				routes[i].MatcherSetsRaw = make(caddyhttp.RawMatcherSets, n)
			}
		}
		servers[name] = &caddyhttp.Server{Routes: routes}
	}
	config, err := json.Marshal(caddyhttp.App{Servers: servers})
	if err != nil {
		return nil //nolint:nilerr // nothing is wrong with the configuration
	}
	_, twice, err := site.Sites(config)
	if twice {
		logger.Warn("some requests go through hermes twice; remove one, or give them matchers that exclude each other")
	}
	return err
}
