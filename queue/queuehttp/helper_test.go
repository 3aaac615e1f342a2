package queuehttp_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue/queuehttp"
)

const (
	chatPath      = proxytest.ChatPath
	sessionPath   = proxytest.SessionPath
	responsesPath = proxytest.ResponsesPath
	asksForStream = proxytest.AsksForStream

	role     = proxytest.Role
	fullStop = proxytest.FullStop
	done     = proxytest.Done
	beat     = proxytest.Beat
	page     = proxytest.Page
)

type (
	recorder    = proxytest.Recorder
	ending      = proxytest.Ending
	statusError = proxytest.StatusError
)

var (
	text, bubble, advance = proxytest.Text, proxytest.Bubble, proxytest.Advance
	errTest               = proxytest.ErrTest
	says                  = proxytest.Says
)

func equal[T comparable](t testing.TB, got, want T, what any) {
	t.Helper()
	proxytest.Equal(t, got, want, what)
}

// exchange is one of a Queue.
type exchange struct{ *proxytest.Exchange }

// options are those of the Proxy and of the Queue.
type options struct {
	proxy.Options
	queue queuehttp.Queue
}

// setting changes what an exchange begins with.
type setting func(*options, *http.Request, *recorder)

func path(p string) setting {
	return func(_ *options, r *http.Request, _ *recorder) { r.URL.Path = p }
}

func method(m string) setting {
	return func(_ *options, r *http.Request, _ *recorder) { r.Method = m }
}

func header(name, value string) setting {
	return func(_ *options, r *http.Request, _ *recorder) { r.Header.Set(name, value) }
}

func option(f func(*options)) setting {
	return func(o *options, _ *http.Request, _ *recorder) { f(o) }
}

// body gives the request a body of JSON.
func body(s string) setting {
	return func(_ *options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(s)), int64(len(s))
		r.Header.Set("Content-Type", "application/json")
	}
}

// begin begins an exchange with options that are all off, and returns when its
// handler runs.
func begin(t *testing.T, settings ...setting) *exchange {
	t.Helper()
	x := launch(t, settings...)
	<-x.Ack
	return x
}

// launch is begin for an exchange whose handler may not run yet: x.Ack tells.
func launch(t *testing.T, settings ...setting) *exchange {
	t.Helper()
	x := &exchange{proxytest.New(t)}
	t.Cleanup(func() { equal(t, x.Streams.Open(), 0, "requests under way") })
	var o options
	for _, set := range settings {
		set(&o, x.R, x.Rec)
	}
	x.Launch(&o.Options, func(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error) error {
		o.queue.Proxy = proxy.New(o.Options)
		return o.queue.Serve(cmp.Or(x.Rec.Wrapped, w), r, next)
	})
	return x
}

// limits sets the options that look at a clock.
func limits(all string) setting {
	return option(func(o *options) { proxytest.SetLimits(&o.Options, all) })
}

// statusOf says that errors stand for a status.
func statusOf(status int) setting {
	return option(func(o *options) { o.ErrorStatus = func(error) int { return status } })
}

func withStatuses() setting {
	return option(func(o *options) { o.ErrorStatus = proxytest.StatusOf })
}

// try has the handler send its request as a proxy does, to an agent that answers or cannot be reached.
func (x *exchange) try(answers bool) {
	x.T.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer srv.Close()
	if !answers {
		srv.Close()
	}
	tr := new(http.Transport)
	defer tr.CloseIdleConnections()
	r, err := http.NewRequestWithContext(x.Up.Context(), http.MethodPost, srv.URL, io.NopCloser(x.Up.Body))
	if err != nil {
		x.T.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	equal(x.T, err == nil, answers, "it answers")
	if err == nil {
		res.Body.Close()
	}
}
