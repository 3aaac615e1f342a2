package resume

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The configuration of a site can make requests ask for a log, and give them a key, without a
// change to their clients. A key that the client sends wins.

// An API is one of Hermes' ways to begin a stream.
type API string

// The APIs that Options.AlwaysFor may name.
const (
	APIChat      API = "chat"      // POST /v1/chat/completions
	APIResponses API = "responses" // POST /v1/responses
	APISessions  API = "sessions"  // POST /api/sessions/{id}/chat/stream
	APIRuns      API = "runs"      // POST /v1/runs
)

// APIs returns all APIs.
func APIs() []API { return []API{APIChat, APIResponses, APISessions, APIRuns} }

// apiOf returns the API that a POST to path uses, "" for none.
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

// configure sets the key and the time without a client that o gives r, a POST without a key of its
// own. It reports whether r asks for a log even without a key.
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

// keyOfValues returns the keyed hash of values, which Options.Key has returned, for e, whose Owner
// and Body are set. keyOf and sdkKeyOf hash other numbers of lists, so their hashes differ.
func keyOfValues(o *Options, e entry, query string, values []string) log.Digest {
	var body []string
	if o.KeyBody {
		body = []string{string(e.Body[:])}
	}
	return hash(o.Secret, [][]string{{string(e.Owner[:]), query}, values, body})
}

// freeTimeout is how long the end of an answer waits for a storage to free its key.
const freeTimeout = time.Second

// free deletes the log with the id, whose key comes from Options.Key, after all of it was sent to
// the client of r. It does nothing if that client is known to have left. A user who regenerates the
// answer sends the same request, and wants another answer. If the storage does not answer, the log
// stays for Entry.Keep.
func free(o *Options, r *http.Request, id string) {
	if r.Context().Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), freeTimeout)
	defer cancel()
	_ = o.Store.Delete(ctx, id)
}

// location returns the address at which the client of r finds the log with the id.
func location(o *Options, r *http.Request, id string) string {
	_, path := o.Asked(r)
	l := (&url.URL{Path: path + "/" + id}).EscapedPath()
	if strings.HasPrefix(l, "//") { // a client would take the first segment for a host
		l = "/." + l
	}
	return l
}
