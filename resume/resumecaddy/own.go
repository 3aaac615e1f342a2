package resumecaddy

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// OwnRequest returns r, a clone of a client's request, with everything of its own, for an answer
// to w that does not end with the client's. It is called in the goroutine that handles the client's.
func OwnRequest(r *http.Request, w http.ResponseWriter) *http.Request {
	own, _ := ofRun(r, w)
	return own
}

// Apart returns a context for the handlers after one whose request has ctx, in which they handle it
// as if they had not before: of a group of routes, such as handle blocks, only the first that matches
// handles a request, and after that none would.
func Apart(ctx context.Context) context.Context {
	groups, _ := ctx.Value(routeGroups).(map[string]struct{})
	return context.WithValue(ctx, routeGroups, maps.Clone(groups))
}

// Client returns what tells the client of r, and the API that it asks, from others: the site, the
// path in front of the API's own, and the credentials.
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
