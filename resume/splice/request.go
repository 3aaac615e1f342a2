package splice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

const (
	// headerWithin is how long the header of an answer that exists may take, and how long an answer
	// is awaited after its client has left.
	headerWithin = 15 * time.Second
	// deleteFor is how long the request that ends a run may take.
	deleteFor = 10 * time.Second
	// firstPause and longestPause bound the pause before a request is sent again.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// requests are those for one stream.
type requests struct {
	next      http.RoundTripper
	original  *http.Request
	body      []byte // of the request, nil once there is an answer
	detach    bool   // the run goes on without the client
	repeats   bool   // the request may be sent again with its key, which a stream does not free
	resumeFor time.Duration

	ctx    context.Context // of all requests
	cancel context.CancelCauseFunc
	heard  atomic.Bool // the site may have heard of the request
	id     string      // of the stream, "" before there is one

	until time.Time     // when retry gives up; zero before it begins
	pause time.Duration // before the next request

	over sync.Once
}

// begin sends the request until there is an answer. If the client leaves first, it still awaits the
// answer if the site may have heard of the request: only its header has the id that ends the run.
func (s *stream) begin() (*http.Response, error) {
	client := s.original.Context()
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

// answer is the result of a request. abort ends its connection.
type answer struct {
	res   *http.Response
	err   error
	abort context.CancelCauseFunc
}

// final is an error after which no other request is sent.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// retry calls try until it succeeds, its error is final, the time is up, or the client has left.
// err is the error of an earlier call: retry returns it if the time is up before it calls try. The
// time and the pauses continue those of the last retry unless forgive was called.
func (q *requests) retry(try func(context.Context) (*http.Response, error), err error) answer {
	if q.until.IsZero() {
		q.until = time.Now().Add(q.resumeFor)
	}
	for {
		wait := time.Duration((0.5 + rand.Float64()) * float64(q.pause))
		q.pause = min(max(2*q.pause, firstPause), longestPause)
		if wait > 0 && time.Now().Add(wait).After(q.until) {
			return answer{err: err}
		}
		select {
		case <-time.After(wait):
		case <-q.ctx.Done():
			return answer{err: context.Cause(q.ctx)}
		case <-q.original.Context().Done():
			return answer{err: context.Cause(q.original.Context())}
		}
		ctx, abort := context.WithCancelCause(q.ctx)
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

// forgive makes the next retry begin anew, with all of its time, after a pause.
func (q *requests) forgive(pause time.Duration) { q.until, q.pause = time.Time{}, pause }

// ask sends the client'q request.
func (q *requests) ask(ctx context.Context) (*http.Response, error) {
	again := q.heard.Load()
	if again {
		if err := q.probe(ctx); err != nil {
			return nil, err
		}
	}
	trace := &httptrace.ClientTrace{WroteHeaders: func() { q.heard.Store(true) }}
	up := q.original.Clone(httptrace.WithClientTrace(ctx, trace))
	up.Body, up.ContentLength = reqbody.Again(q.body), int64(len(q.body))
	// If the site has closed an idle connection, net/http takes another one. But what the site may
	// have heard of is only sent again after a probe (TestIdleConnectionThatIsClosed).
	up.GetBody = func() (io.ReadCloser, error) {
		if q.heard.Load() {
			return nil, errBeforeAnswer
		}
		return reqbody.Again(q.body), nil
	}
	res, err := q.next.RoundTrip(up)
	switch {
	case err != nil && !q.heard.Load():
		return nil, final{err} // another site may be asked
	case err != nil && !q.repeats:
		return nil, final{sentError(err)}
	case err != nil:
		return nil, sentError(err)
	case again && isTransient(res):
		_ = res.Body.Close()
		return nil, answeredError(res)
	}
	return res, nil
}

// answeredError returns an error for res. The text of its status, which may be of any length, is not
// in it.
func answeredError(res *http.Response) error {
	return fmt.Errorf("the site answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
}

// errBeforeAnswer means that the site may have heard of a request that got no answer.
var errBeforeAnswer = errors.New("the connection broke before the answer")

// sentError returns err, of a request that the site may have heard of, without what it wraps.
func sentError(err error) error { return errors.New(err.Error()) }

// probe returns nil if the site knows keys, so that the request may be sent again: a site without
// hermes_resume would run the agent twice. It asks for a stream with an unused id, and a site that
// knows keys answers that there is no such stream.
func (q *requests) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, headerWithin)
	defer cancel()
	res, err := q.next.RoundTrip(q.ofStream(ctx, http.MethodGet, log.NewID(log.Digest{})))
	if err != nil {
		return sentError(err)
	}
	_ = res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound && isProblem(res):
		return nil
	case isTransient(res):
		return answeredError(res)
	}
	return final{fmt.Errorf("%w, and the site does not support keys, so the request is not sent again", errBeforeAnswer)}
}

// askAfter asks for what follows the event with the number last.
func (q *requests) askAfter(ctx context.Context, last uint64) (*http.Response, error) {
	up := q.ofStream(ctx, http.MethodGet, q.id)
	up.Header.Set(resume.LastEventHeader, q.id+"/"+strconv.FormatUint(last, 10))
	ctx, cancel := context.WithCancelCause(ctx)
	defer time.AfterFunc(headerWithin, func() { cancel(errQuiet) }).Stop()
	res, err := q.next.RoundTrip(up.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusNoContent || streamOf(res) == q.id {
		return res, nil
	}
	_ = res.Body.Close()
	err = fmt.Errorf("%w instead of the rest of the stream", answeredError(res))
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
func (q *requests) ofStream(ctx context.Context, method, id string) *http.Request {
	r := q.original.Clone(ctx)
	r.Method, r.Body, r.GetBody, r.ContentLength, r.TransferEncoding, r.Trailer = method, nil, nil, 0, nil, nil
	r.URL = r.URL.JoinPath(id)
	for _, name := range []string{
		resume.KeyHeader, resume.DetachHeader, "Content-Type", "Content-Length", "Content-Encoding", "Expect", "Trailer",
	} {
		r.Header.Del(name)
	}
	return r
}

// leave ends the connection, and the run if the stream is not over.
func (q *requests) leave(why error) {
	q.finish(true)
	q.cancel(why)
}

// finish records that the stream is over. The first call may end the run.
func (q *requests) finish(endRun bool) {
	q.over.Do(func() {
		if endRun && !q.detach && q.id != "" {
			go q.endRun()
		}
	})
}

// endRun asks the site to end the run.
func (q *requests) endRun() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(q.original.Context()), deleteFor)
	defer cancel()
	if res, err := q.next.RoundTrip(q.ofStream(ctx, http.MethodDelete, q.id)); err == nil {
		_ = res.Body.Close()
	}
}

// streamOf returns the id of the stream in res, or "" if res is not a stream that can be continued.
// The id becomes a part of a path, so any text that has another form is no id.
func streamOf(res *http.Response) string {
	if res.StatusCode != http.StatusOK || head.MediaType(res.Header) != "text/event-stream" || head.IsEncoded(res.Header) {
		return ""
	}
	id := res.Header[resume.StreamHeader]
	if len(id) != 1 || !log.IsID(id[0]) {
		return ""
	}
	return id[0]
}

// isProblem reports whether res is an error of hermes_resume, sent instead of a stream.
func isProblem(res *http.Response) bool {
	return head.MediaType(res.Header) == "application/problem+json" && res.Header.Get(head.Retry) == "false"
}

// isRefusal reports whether it is useless to ask for the rest of a stream again. Any other answer
// may be temporary: a network may require a login, or a load balancer have no site.
func isRefusal(res *http.Response) bool {
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return true
	}
	return isProblem(res) && res.StatusCode != http.StatusServiceUnavailable
}

// isTransient reports whether res results from a failure between here and the agent that may pass.
// Some load balancers have statuses of their own from 520 on.
func isTransient(res *http.Response) bool {
	switch res.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return res.StatusCode >= http.StatusBadGateway
}
