package splice

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// DefaultResumeFor is the default of Transport.ResumeFor.
const DefaultResumeFor = time.Minute

// Transport is an http.RoundTripper for a site with hermes_resume. It is safe for concurrent use.
type Transport struct {
	// Next sends the requests. Nil means http.DefaultTransport.
	Next http.RoundTripper
	// ResumeFor is how long it tries to return to a stream. Zero means DefaultResumeFor.
	ResumeFor time.Duration
	// Detach lets the run of a client that has left go on for as long as the site's own detach
	// says. Otherwise the run is ended.
	Detach bool
	// MaxRequest returns the size in bytes above which a request passes untouched. It is called for
	// each request that is read. Nil means proxy.DefaultMaxRequest.
	MaxRequest func() int64
}

// Failed is the error of a request for a stream that got no answer. The body of the request has
// been read: RoundTripAgain sends it to another site.
type Failed struct {
	// Err is the cause. If the site may have heard of the request, Err wraps nothing, so that it does
	// not look like an error of a dial.
	Err  error
	key  string // made for the request; "" if the client sent its own
	body []byte
}

func (f *Failed) Error() string { return f.Err.Error() }

func (f *Failed) Unwrap() error { return f.Err }

// RoundTrip implements http.RoundTripper. The error is a *Failed, the error of Next for a request
// that passes untouched, or the cause for which the client has left.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Header[resume.LastEventHeader] != nil {
		return t.next().RoundTrip(r)
	}
	r = r.Clone(r.Context())
	limit := int64(0)
	if t.MaxRequest != nil {
		limit = t.MaxRequest()
	}
	body, ok := resume.ReadStreamRequest(r, limit)
	if !ok {
		return t.next().RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return t.begin(r, body, "")
}

// RoundTripAgain sends a request whose RoundTrip has failed, with the body and the key that it had.
func (t *Transport) RoundTripAgain(r *http.Request, f *Failed) (*http.Response, error) {
	return t.begin(r.Clone(r.Context()), f.body, f.key)
}

// begin asks for a stream with body and the request r, which it may change. key is the one that an
// earlier attempt made, or "".
func (t *Transport) begin(r *http.Request, body []byte, key string) (*http.Response, error) {
	s := &stream{requests: requests{
		next: t.next(), original: r, body: body, detach: t.Detach,
		resumeFor: cmp.Or(t.ResumeFor, DefaultResumeFor),
		repeats: rewrite.SessionOfPath(r.URL.Path) != "" ||
			(rewrite.IsChatPath(r.URL.Path) || rewrite.IsResponsesPath(r.URL.Path)) && rewrite.AnswerFormOf(body) == rewrite.AnswerStream,
	}}
	ownKey := strings.Join(r.Header[resume.KeyHeader], "") != "" // an empty one counts as none
	switch {
	case ownKey || r.Header[resume.DetachHeader] != nil:
		s.detach = true // the client decides by itself how long the run goes on
	case !t.Detach: // so that the run ends even if this process does
		r.Header.Set(resume.DetachHeader, s.resumeFor.String())
	}
	if !ownKey {
		key = cmp.Or(key, rand.Text())
		r.Header.Set(resume.KeyHeader, key)
	}
	// Compressed bytes cannot be continued. Next may compress by itself, as net/http does.
	r.Header.Del("Accept-Encoding")
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	res, err := s.begin()
	if err != nil && r.Context().Err() == nil {
		err = &Failed{err, key, body}
	}
	return res, err
}

func (t *Transport) next() http.RoundTripper {
	if t.Next == nil {
		return http.DefaultTransport
	}
	return t.Next
}
