// Package behalf sends requests of the sidecar's own in the name of a client: to the handlers that
// answered the client, with its credentials, placeholders and address, and to the same upstream.
package behalf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// Next is the type of the next handler, which answers requests.
type Next = func(w http.ResponseWriter, r *http.Request) error

// Bounds of a request.
const (
	// maxTries is how often a request is sent as long as upstreams other than the client's answer
	// with 404. Such a request changes nothing there.
	maxTries = 10
	// maxReport is how many bytes of upstream's answer are read. Hermes' answer to an approval has
	// 200, and its status of a run begins with the state.
	maxReport = 16 << 10
)

// ErrElsewhere says that a request has reached only other upstreams than the client's.
var ErrElsewhere = errors.New("the client's upstream was not reached: send each client to the same upstream, for example with lb_policy client_ip_hash")

// Sender sends requests in the name of a client. It is safe for concurrent use.
type Sender struct {
	r        *http.Request // a copy of the client's request, which shares nothing with it
	next     Next
	upstream string // that answers the client; "" if it has no name
	name     func(*http.Request) string
}

// begun is the request of a client as its next handler gets it.
type begun struct {
	next Next
	url  url.URL // later handlers may change that of the request in place
}

// begunKey is the key of begun in the context of a request.
type begunKey struct{}

// Begin returns the context of r for Path and New. next will answer r.
func Begin(r *http.Request, next Next) context.Context {
	return context.WithValue(r.Context(), begunKey{}, begun{next, *r.URL})
}

// Path returns the path of r as it was for Begin, from which the context of r is.
func Path(r *http.Request) string { return of(r).url.Path }

func of(r *http.Request) begun { return r.Context().Value(begunKey{}).(begun) }

// New returns a Sender for the client of r, which upstream is answering. The context of r is from
// Begin. name returns the name of the upstream that answers a request. New is called in the
// goroutine that handles r.
func New(r *http.Request, name func(*http.Request) string) *Sender {
	b := of(r)
	own := r.Clone(context.WithoutCancel(r.Context()))
	own.URL = &b.url
	own.Body, own.ContentLength = http.NoBody, 0
	for _, field := range ofTheBody {
		own.Header.Del(field)
	}
	for _, field := range []string{proxy.SessionKeyHeader, proxy.SessionIDHeader} {
		head.Withhold(own.Header, field)
	}
	own, _ = OwnRequest(own, new(report))
	return &Sender{own, b.next, name(r), name}
}

// ofTheBody are the header fields that describe the body of a client's request, or the answer that
// the client wants. Any other field may be a credential.
var ofTheBody = []string{
	"Accept", "Accept-Encoding", "Content-Digest", "Content-Encoding", "Content-Length", "Content-Md5", "Content-Type",
	"Digest", "Expect", "Idempotency-Key", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since",
	"Incremental", "Last-Event-Id", "Prefer", "Range", "Repr-Digest", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"X-Hermes-Detach", "X-Stainless-Retry-Count",
}

// Path returns the path of the client's request.
func (s *Sender) Path() string { return s.r.URL.Path }

// Upstream returns the name of the upstream that answers the client, "" if it has none.
func (s *Sender) Upstream() string { return s.upstream }

// Response is upstream's answer to a request.
type Response struct {
	Status int    // 0 if there is no answer
	Body   []byte // its first 16 KiB
}

// Send sends a request with the method, path and body, which is JSON, nil for none. It sends the
// request again after a 404 of an upstream other than the client's. The error is that of the
// handlers, ErrElsewhere, or the cause of the end of ctx.
func (s *Sender) Send(ctx context.Context, method, path string, body []byte) (Response, error) {
	for range maxTries {
		said := new(report)
		upstream, err := s.try(ctx, method, &url.URL{Path: path, RawQuery: s.r.URL.RawQuery}, body, said)
		if err != nil || said.Status != http.StatusNotFound || upstream == s.upstream {
			return said.Response, err
		}
	}
	return Response{}, ErrElsewhere
}

// Get sends a GET request with the path and with the query in front of the client's own. The body of an
// answer with status 200 goes to what begin returns, whose error ends the transfer. Get sends the request again, and begins another body,
// if an upstream other than the client's has answered, or has failed to. It returns the status of the last
// answer, 0 for none; the error is as for Send.
func (s *Sender) Get(ctx context.Context, path, query string, begin func() io.Writer) (status int, err error) {
	if own := s.r.URL.RawQuery; own != "" {
		query += "&" + own
	}
	for range maxTries {
		said := &report{to: begin()}
		upstream, err := s.try(ctx, http.MethodGet, &url.URL{Path: path, RawQuery: query}, nil, said)
		failed := err != nil || said.Status == 0
		if upstream == s.upstream || failed && upstream == "" || ctx.Err() != nil {
			return said.Status, err
		}
	}
	return 0, ErrElsewhere
}

// try sends a request to the path and query of u once. said gets upstream's answer. It returns the name of
// upstream.
func (s *Sender) try(ctx context.Context, method string, u *url.URL, body []byte, said *report) (upstream string, err error) {
	base, cancel := context.WithCancelCause(s.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	r := s.r.Clone(base)
	r.Method = method
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = u.Path, "", u.RawQuery
	r.RequestURI = u.RequestURI()
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Accept-Encoding", "identity")
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	r, _ = OwnRequest(r, said)
	if v := panics.Catch(func() { err = s.next(said, r) }); v != nil {
		err = fmt.Errorf("the handler of the request panicked: %v", v)
	}
	if ctx.Err() != nil && err == nil && said.Status == 0 {
		err = context.Cause(ctx)
	}
	return s.name(r), err
}

// report is an http.ResponseWriter that keeps the answer as a Response, or passes its body on.
type report struct {
	header http.Header
	to     io.Writer // nil to keep it
	Response
}

func (p *report) Header() http.Header {
	if p.header == nil {
		p.header = make(http.Header)
	}
	return p.header
}

func (p *report) WriteHeader(status int) {
	if p.Status == 0 && status >= 200 {
		p.Status = status
	}
}

func (p *report) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.to != nil && p.Status == http.StatusOK {
		return p.to.Write(b)
	}
	p.Body = append(p.Body, b[:min(len(b), maxReport-len(p.Body))]...)
	return len(b), nil
}

// Flush does nothing, because the Response is used only when it is complete.
func (p *report) Flush() {}
