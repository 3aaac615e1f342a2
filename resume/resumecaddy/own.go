package resumecaddy

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// OwnRequest returns r, a clone of a client's request, with placeholders, variables, groups of
// routes and log fields of its own, for an answer to w that may outlive the client's request. It
// must be called in the goroutine that handles the client's request.
func OwnRequest(r *http.Request, w http.ResponseWriter) *http.Request {
	own, _ := ofRun(r, w)
	return own
}

// Apart returns a context for a call of the handlers after a handler whose request has ctx. The
// groups of routes that match in the call are not recorded in ctx, so that the handlers may be
// called again: of a group, such as handle blocks, only the first match handles a request, once.
func Apart(ctx context.Context) context.Context {
	groups, _ := ctx.Value(routeGroups).(map[string]struct{})
	return context.WithValue(ctx, routeGroups, maps.Clone(groups))
}

// Client returns the values that identify the client of r and the API that it asks: the site, the
// part of the path in front of the API's own path, and the credentials.
func Client(r *http.Request) [][]string {
	server, path := asked(r)
	for _, api := range []string{"/v1/", "/api/"} {
		if i := strings.LastIndex(path, api); i >= 0 {
			path = path[:i]
			break
		}
	}
	return append([][]string{{r.Host}, {server, path}}, resume.Credentials(r)...)
}
