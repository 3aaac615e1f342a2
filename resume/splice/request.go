package splice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

const (
	// headerWithin is how long the header may take of an answer that is there, and how long an
	// answer is awaited that its client has left.
	headerWithin = 15 * time.Second
	// deleteFor is how long the request that ends a run may take.
	deleteFor = 10 * time.Second
	// firstPause and longestPause bound the pause before a request is sent again.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// begin sends the request until there is an answer. If the client leaves before, the answer to what
// the site has heard of is awaited nevertheless: only its header has the id by which to end the run.
func (s *stream) begin() (*http.Response, error) {
	client := s.asked.Context()
	answers := make(chan answer)
	go func() {
		a := s.retry(s.ask, nil)
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
		context.AfterFunc(client, func() { s.leave(context.Cause(client)) })
		return a.res, a.err
	case <-client.Done():
		if !s.heard.Load() {
			s.cancel(context.Cause(client))
		}
		time.AfterFunc(headerWithin, func() { s.cancel(context.Cause(client)) })
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

// retry calls try until it succeeds, or its error is final, or there is no time left, or the client
// has left. The error is that of the call before, if there was one: the time and the pauses go on
// unless forgive was called.
func (s *stream) retry(try func(context.Context) (*http.Response, error), err error) answer {
	if s.until.IsZero() {
		s.until = time.Now().Add(s.resumeFor)
	}
	for {
		wait := time.Duration((0.5 + rand.Float64()) * float64(s.pause))
		s.pause = min(max(2*s.pause, firstPause), longestPause)
		if wait > 0 && time.Now().Add(wait).After(s.until) {
			return answer{err: err}
		}
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return answer{err: context.Cause(s.ctx)}
		case <-s.asked.Context().Done():
			return answer{err: context.Cause(s.asked.Context())}
		}
		ctx, abort := context.WithCancelCause(s.ctx)
		var res *http.Response
		if res, err = try(ctx); err == nil {
			return answer{res, nil, abort}
		}
		abort(err)
		if f, ok := errors.AsType[final](err); ok {
			return answer{err: f.error}
		}
	}
}

// forgive has the next retry begin anew, with all of the time and no pause.
func (s *stream) forgive() { s.until, s.pause = time.Time{}, 0 }

// ask sends the client's request.
func (s *stream) ask(ctx context.Context) (*http.Response, error) {
	again := s.heard.Load()
	if again {
		if err := s.probe(ctx); err != nil {
			return nil, err
		}
	}
	trace := &httptrace.ClientTrace{WroteHeaders: func() { s.heard.Store(true) }}
	up := s.asked.Clone(httptrace.WithClientTrace(ctx, trace))
	up.Body, up.GetBody, up.ContentLength = reqbody.Again(s.body), nil, int64(len(s.body))
	res, err := s.next.RoundTrip(up)
	switch {
	case err != nil && !s.heard.Load():
		return nil, final{err} // another site may be asked
	case err != nil && !s.repeats:
		return nil, final{sentError(err)}
	case err != nil:
		return nil, sentError(err)
	case again && isTransient(res):
		_ = res.Body.Close()
		return nil, errors.New("the site answered " + res.Status)
	}
	return res, nil
}

// sentError returns the error of a request that the site may have heard of, without what it wraps.
func sentError(err error) error { return errors.New(err.Error()) }

// probe returns nil if the site knows keys, and so may be sent the request again: it says that it
// knows no stream with an id that none has. A site without hermes_resume would run the agent twice.
func (s *stream) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, headerWithin)
	defer cancel()
	res, err := s.next.RoundTrip(s.ofStream(ctx, http.MethodGet, resume.NewID()))
	if err != nil {
		return sentError(err)
	}
	_ = res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound && isProblem(res):
		return nil
	case isTransient(res):
		return errors.New("the site answered " + res.Status)
	}
	return final{errors.New("the connection broke before the answer, and the site does not know keys: the request is not sent again")}
}

// comeBack asks for what follows the last event.
func (s *stream) comeBack(ctx context.Context) (*http.Response, error) {
	up := s.ofStream(ctx, http.MethodGet, s.id)
	up.Header.Set(resume.LastEventHeader, cmp.Or(s.at.last, s.id+"/0"))
	ctx, cancel := context.WithCancelCause(ctx)
	defer time.AfterFunc(headerWithin, func() { cancel(errQuiet) }).Stop()
	res, err := s.next.RoundTrip(up.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusNoContent || streamOf(res) == s.id {
		return res, nil
	}
	_ = res.Body.Close()
	err = fmt.Errorf("the site answered %s instead of the rest of the stream", res.Status)
	switch {
	case res.StatusCode == http.StatusGone && isProblem(res):
		err = final{errTrimmed}
	case isRefusal(res):
		err = final{err}
	}
	return nil, err
}

// ofStream returns a request to the address of the stream with the id, with the client's
// credentials.
func (s *stream) ofStream(ctx context.Context, method, id string) *http.Request {
	r := s.asked.Clone(ctx)
	r.Method, r.Body, r.GetBody, r.ContentLength, r.TransferEncoding, r.Trailer = method, nil, nil, 0, nil, nil
	r.URL = r.URL.JoinPath(id)
	for _, name := range []string{
		resume.KeyHeader, resume.DetachHeader, "Content-Type", "Content-Length", "Content-Encoding", "Expect", "Trailer",
	} {
		r.Header.Del(name)
	}
	return r
}

// streamOf returns the id of the stream that an answer is, "" if it is none that can be continued.
func streamOf(res *http.Response) string {
	if res.StatusCode != http.StatusOK || head.MediaType(res.Header) != "text/event-stream" || head.IsEncoded(res.Header) {
		return ""
	}
	return res.Header.Get(resume.StreamHeader)
}

// isProblem reports whether an answer is what hermes_resume says instead of a stream.
func isProblem(res *http.Response) bool {
	return head.MediaType(res.Header) == "application/problem+json" && res.Header.Get(head.Retry) == "false"
}

// isRefusal reports whether there is no use in asking for the rest of a stream again. A network
// that wants a login, and a load balancer without a site, may answer anything else for a while.
func isRefusal(res *http.Response) bool {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return true
	}
	return isProblem(res) && res.StatusCode != http.StatusServiceUnavailable
}

// isTransient reports whether an answer comes of a failure between here and the agent that may
// pass. Some load balancers have statuses of their own from 520 on.
func isTransient(res *http.Response) bool {
	switch res.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return res.StatusCode >= http.StatusBadGateway
}
