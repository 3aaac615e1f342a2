package resume

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// What the configuration of a site makes of requests whose clients are not changed: which of them
// ask, and which key they have. A client that has a key of its own gets that.

// An API is one of Hermes' ways to begin a stream.
type API string

// The APIs whose requests Options.AlwaysFor may treat as those that ask.
const (
	APIChat      API = "chat"      // POST /v1/chat/completions
	APIResponses API = "responses" // POST /v1/responses
	APISessions  API = "sessions"  // POST /api/sessions/{id}/chat/stream
	APIRuns      API = "runs"      // POST /v1/runs
)

// APIs lists them.
func APIs() []API { return []API{APIChat, APIResponses, APISessions, APIRuns} }

// apiOf returns the API that a POST to the path is of, "" for none.
func apiOf(path string) API {
	switch {
	case rewrite.IsChatPath(path):
		return APIChat
	case rewrite.IsResponsesPath(path):
		return APIResponses
	case rewrite.SessionOfPath(path) != "":
		return APISessions
	case rewrite.IsRunsPath(path):
		return APIRuns
	}
	return ""
}

// configure sets what the options make of a POST that has no key of its own, and reports whether
// it counts as one that asks even if it has no key.
func (a *asked) configure(o *Options, r *http.Request) bool {
	always := (o.Always || len(o.AlwaysFor) > 0) && len(r.Header[DetachHeader]) == 0
	if o.Key == nil && !always || !isJSON(head.MediaType(r.Header)) {
		return false
	}
	if o.Key != nil {
		a.values = o.Key(r)
	}
	d, listed := o.AlwaysFor[apiOf(r.URL.Path)]
	if !listed {
		return o.Always
	}
	a.detach = min(d, o.Detach)
	return a.detach > 0
}

// keyOfValues returns the keyed hash of the values of Options.Key for an entry with an owner and the
// hash of its body. keyOf and sdkKeyOf hash fewer lists, so it is none of theirs.
func keyOfValues(o *Options, e Entry, query string, values []string) Digest {
	var body []string
	if o.KeyBody {
		body = []string{string(e.Body[:])}
	}
	return hash(o.Secret, [][]string{{string(e.Owner[:]), query}, values, body})
}

// freeTimeout is how long the end of an answer waits for a storage to free its key.
const freeTimeout = time.Second

// free deletes the log with the id, whose key is the configuration's, after the client of r has been
// sent all of it, unless that is known to have left. A user who then has the answer made again sends
// the same request, and wants another answer. If the storage does not answer, the log stays for as
// long as others.
func free(o *Options, r *http.Request, id string) {
	if r.Context().Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), freeTimeout)
	defer cancel()
	_ = o.Store.Delete(ctx, id)
}

// location returns the address of the log with the id, of an answer to r, for its client.
func location(o *Options, r *http.Request, id string) string {
	_, path := o.Asked(r)
	l := (&url.URL{Path: path + "/" + id}).EscapedPath()
	if strings.HasPrefix(l, "//") { // what follows would be a host
		l = "/." + l
	}
	return l
}
