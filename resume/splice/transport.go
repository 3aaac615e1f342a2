package splice

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// DefaultResumeFor is the default of Transport.ResumeFor.
const DefaultResumeFor = time.Minute

const (
	// quietFor is how long a stream may send nothing before its connection counts as broken: a
	// network that a machine has left tells nobody. Hermes sends a comment every 30 seconds.
	quietFor = 45 * time.Second
	// keepaliveEvery is how often a client that waits for the site gets a comment.
	keepaliveEvery = 5 * time.Second
	// headerWithin is how long the header may take of an answer that is there.
	headerWithin = 15 * time.Second
	// deleteFor is how long the request that ends a run may take.
	deleteFor = 10 * time.Second
	// firstPause and longestPause bound the pause before a request is sent again.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// Transport is an http.RoundTripper for a site with hermes_resume. It is safe for concurrent use.
type Transport struct {
	// Next sends the requests. Nil means http.DefaultTransport.
	Next http.RoundTripper
	// ResumeFor is how long it tries to come back to a stream. Zero means DefaultResumeFor.
	ResumeFor time.Duration
	// Detach leaves the run of a client that has left to the site, which lets it go on for its
	// own detach. Otherwise the run is ended.
	Detach bool
	// MaxRequest is the size in bytes above which a request passes untouched. Zero means
	// proxy.DefaultMaxRequest.
	MaxRequest int64
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Header["Last-Event-Id"] != nil {
		return t.next().RoundTrip(r)
	}
	r = r.Clone(r.Context())
	body, ok := resume.ReadStreamRequest(r, t.MaxRequest)
	if !ok {
		return t.next().RoundTrip(r)
	}
	s := &stream{
		next: t.next(), asked: r, body: body, detach: t.Detach,
		resumeFor: cmp.Or(t.ResumeFor, DefaultResumeFor),
	}
	switch {
	case r.Header[resume.KeyHeader] != nil || r.Header[resume.DetachHeader] != nil:
		s.detach = true // the client decides by itself how long the run goes on
	case !t.Detach: // also if this process ends
		r.Header.Set(resume.DetachHeader, s.resumeFor.String())
	}
	if r.Header[resume.KeyHeader] == nil {
		r.Header.Set(resume.KeyHeader, rand.Text())
	}
	return s.begin()
}

func (t *Transport) next() http.RoundTripper {
	if t.Next == nil {
		return http.DefaultTransport
	}
	return t.Next
}

// begin sends the request until there is an answer. If the client leaves before, the answer is
// awaited nevertheless: only its header has the id by which to end the run.
func (s *stream) begin() (*http.Response, error) {
	client := s.asked.Context()
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(client))
	answers := make(chan answer)
	go func() {
		a := s.retry(s.ask)
		select {
		case answers <- a:
		case <-client.Done():
			if a.err == nil && s.take(a) {
				_ = s.Close()
			}
			s.cancel(context.Cause(client))
		}
	}()
	select {
	case a := <-answers:
		if a.err == nil && s.take(a) {
			a.res.Body = s
		}
		context.AfterFunc(client, func() { _ = s.leave(context.Cause(client)) })
		return a.res, a.err
	case <-client.Done():
		return nil, context.Cause(client)
	}
}

// answer is what became of a request. abort ends its connection.
type answer struct {
	res   *http.Response
	err   error
	abort context.CancelCauseFunc
}

// final is an error after which no other request is sent.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// retry calls try until it succeeds, or its error is final, or there is no time left.
func (s *stream) retry(try func(ctx context.Context, again bool) (*http.Response, error)) answer {
	until := time.Now().Add(s.resumeFor)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		ctx, abort := context.WithCancelCause(s.ctx)
		res, err := try(ctx, pause > firstPause)
		if err == nil {
			return answer{res, nil, abort}
		}
		abort(err)
		if f, ok := errors.AsType[final](err); ok {
			return answer{err: f.error}
		}
		wait := time.Duration((0.5 + mathrand.Float64()) * float64(pause))
		if s.ctx.Err() != nil || time.Now().Add(wait).After(until) {
			return answer{err: err}
		}
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
		}
	}
}

// ask sends the client's request.
func (s *stream) ask(ctx context.Context, again bool) (*http.Response, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	up := s.asked.Clone(httptrace.WithClientTrace(ctx, trace))
	up.Body, up.GetBody, up.ContentLength = io.NopCloser(bytes.NewReader(s.body)), nil, int64(len(s.body))
	res, err := s.next.RoundTrip(up)
	switch {
	case err != nil && !again && !sent.Load():
		return nil, final{err} // the site has not heard of it: another one may be asked
	case err == nil && again && isTransient(res):
		_ = res.Body.Close()
		return nil, errors.New("the site answered " + res.Status)
	}
	return res, err
}

// comeBack asks for what follows the last event.
func (s *stream) comeBack(ctx context.Context, _ bool) (*http.Response, error) {
	up := s.ofStream(ctx, http.MethodGet)
	up.Header.Set("Last-Event-Id", cmp.Or(s.at.last, s.id+"/0"))
	ctx, cancel := context.WithCancelCause(ctx)
	defer time.AfterFunc(headerWithin, func() { cancel(errQuiet) }).Stop()
	res, err := s.next.RoundTrip(up.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode == http.StatusNoContent:
		return res, nil
	case res.StatusCode == http.StatusOK && res.Header.Get(resume.StreamHeader) == s.id:
		return res, nil
	}
	_ = res.Body.Close()
	err = fmt.Errorf("the site answered %s instead of the rest of the stream", res.Status)
	if !isTransient(res) {
		err = final{err}
	}
	return nil, err
}

// ofStream returns a request to the address of the stream, with the client's credentials.
func (s *stream) ofStream(ctx context.Context, method string) *http.Request {
	r := s.asked.Clone(ctx)
	r.Method, r.Body, r.GetBody, r.ContentLength, r.TransferEncoding = method, nil, nil, 0, nil
	r.URL = r.URL.JoinPath(s.id)
	for _, name := range []string{resume.KeyHeader, resume.DetachHeader, "Content-Type", "Content-Length", "Content-Encoding", "Expect"} {
		r.Header.Del(name)
	}
	return r
}

// isTransient reports whether an answer comes of a failure that may pass.
func isTransient(res *http.Response) bool {
	switch res.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return res.StatusCode >= http.StatusInternalServerError
}
