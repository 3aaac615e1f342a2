package proxy

import (
	"container/list"
	"net/http"
	"sync"

	clients "github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The header fields with which a server gives a page of another origin leave to read an answer.
const (
	allowOrigin      = "Access-Control-Allow-Origin"
	allowCredentials = "Access-Control-Allow-Credentials"
)

// Origins remembers to which pages of other origins upstream gives leave to read its answers, so that
// a header that leaves without upstream's, because the request waits in line or fails, gives the same:
// otherwise a browser throws the answer away while the agent works. It knows what upstream has said to
// a preflight, or in an answer, of the same address and origin. The zero value knows nothing. It is
// safe for concurrent use.
type Origins struct {
	mu     sync.Mutex
	leaves map[asker]*list.Element
	order  list.List // of *leave, the last one that was used first
}

// asker is who asks what: a page and an address.
type asker struct{ origin, server, host, path string }

// leave is what upstream has given to an asker.
type leave struct {
	asker       asker
	origin      string // the value of allowOrigin: "*" or that of the asker
	credentials bool
}

// maxOrigins is how many pages and addresses are remembered, and maxOriginBytes the length of one.
const (
	maxOrigins     = 1000
	maxOriginBytes = 512
)

// askerOf returns the page that sends r, and what it asks. It returns false if r is not sent by a page
// of another origin, begins no run, or is too long.
func askerOf(r *http.Request) (asker, bool) {
	a := asker{r.Header.Get("Origin"), clients.Server(r), r.Host, r.URL.Path}
	known := a.origin != "" && len(r.Header["Origin"]) == 1 && rewrite.BeginsRun(a.path) && len(a.origin)+len(a.host)+len(a.path) <= maxOriginBytes
	return a, known
}

// learn learns what upstream's answer to r says, which has the status and the header h.
func (o *Origins) learn(r *http.Request, status int, h http.Header) {
	if len(r.Header["Origin"]) == 0 {
		return
	}
	a, ok := askerOf(r)
	if !ok {
		return
	}
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	values := h[allowOrigin]
	gives := len(values) == 1 && (values[0] == "*" || values[0] == a.origin) && (!preflight || status/100 == 2)
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.leaves[a]; e != nil && (gives || preflight) {
		o.order.Remove(e)
		delete(o.leaves, a)
	}
	if !gives { // an answer of another handler than upstream's may say nothing
		return
	}
	if o.order.Len() == maxOrigins {
		delete(o.leaves, o.order.Remove(o.order.Back()).(*leave).asker)
	}
	if o.leaves == nil {
		o.leaves = make(map[asker]*list.Element)
	}
	o.leaves[a] = o.order.PushFront(&leave{a, values[0], h.Get(allowCredentials) == "true"})
}

// of returns what upstream has given to the page that sends r, nil for nothing.
func (o *Origins) of(r *http.Request) *leave {
	a, ok := askerOf(r)
	if !ok {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.leaves[a]
	if e == nil {
		return nil
	}
	o.order.MoveToFront(e)
	return e.Value.(*leave)
}

// give sets the fields of h, the header of an answer to r that is not upstream's, as upstream would.
func (o *Origins) give(r *http.Request, h http.Header) {
	l := o.of(r)
	if l == nil || h[allowOrigin] != nil {
		return
	}
	h.Set(allowOrigin, l.origin)
	if l.credentials {
		h.Set(allowCredentials, "true")
	}
	if l.origin != "*" {
		h.Add("Vary", "Origin")
	}
}

// awaits reports whether an answer to r must not begin without upstream's header: a browser says that
// r is of another origin, and upstream has not been heard to give it leave.
func (o *Origins) awaits(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") != "" && (site == "cross-site" || site == "same-site") && o.of(r) == nil
}
