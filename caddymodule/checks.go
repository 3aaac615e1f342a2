package caddymodule

import (
	"encoding/json"
	"slices"
	"weak"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/site"
	"github.com/hermes-sidecar/hermes-sidecar/internal/httpapp"
)

// checkSites looks at all sites of the configuration that a handler is provisioned for: at
// what no handler sees alone. An upstream with a path, which would answer every request with
// 502, is an error. It does so for the first handler only. Then all that comes behind a hermes
// is still there as JSON, but for matchers, which Caddy provisions first: it drops the JSON of
// what has been provisioned.
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
