package proxy_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	chatPath      = proxytest.ChatPath
	otherPath     = "/v1/events"
	sessionPath   = proxytest.SessionPath
	responsesPath = proxytest.ResponsesPath
	asksForStream = proxytest.AsksForStream

	envelope = proxytest.Envelope
	role     = proxytest.Role
	stop     = `data: {` + envelope + `[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	fullStop = proxytest.FullStop
	zeroStop = `data: {` + envelope + `[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}` + "\n\n"
	done     = proxytest.Done
	beat     = proxytest.Beat
	page     = proxytest.Page
	beatForm = `data: {` + envelope + `[{"index":0,"delta":{},"finish_reason":null}]}` + "\n\n"
	foreign  = "event: ping\ndata: {\"a\":1}\n\n"
)

type (
	recorder    = proxytest.Recorder
	ending      = proxytest.Ending
	statusError = proxytest.StatusError
)

var (
	text, bubble, advance = proxytest.Text, proxytest.Bubble, proxytest.Advance
	newRecorder           = proxytest.NewRecorder
	errTest               = proxytest.ErrTest
	says                  = proxytest.Says
)

func equal[T comparable](t testing.TB, got, want T, what any) {
	t.Helper()
	proxytest.Equal(t, got, want, what)
}

// errorFinish returns what a stream that began with role is ended with.
func errorFinish(code string, partial bool) string {
	message := rewrite.Message(code)
	if code == rewrite.CodeShutdown { // no tool has been shown
		message = rewrite.ShutdownBeforeTools
	}
	return fmt.Sprintf(`data: {"error":{"message":%q,"type":"upstream_error","param":null,"code":%q}}`+"\n\n", message, code) +
		fmt.Sprintf(`data: {`+envelope+`[{"index":0,"delta":{},"finish_reason":"error"}],"hermes":{"completed":false,"partial":%v,"failed":true,"error":%q,"error_code":"agent_error"}}`+"\n\n", partial, message) +
		done
}

// exchange is one of a Proxy.
type exchange struct {
	*proxytest.Exchange
	words map[string]string // of a scene, beside those of written
	left  bool              // the client has
}

// setting changes what an exchange begins with.
type setting func(*proxy.Options, *http.Request, *recorder)

// body gives the request a body of JSON.
func body(s string) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(s)), int64(len(s))
		r.Header.Set("Content-Type", "application/json")
	}
}

func path(p string) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) { r.URL.Path = p }
}

func method(m string) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) { r.Method = m }
}

func header(name, value string) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) { r.Header.Set(name, value) }
}

func option(f func(*proxy.Options)) setting {
	return func(o *proxy.Options, _ *http.Request, _ *recorder) { f(o) }
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
	x := &exchange{Exchange: proxytest.New(t)}
	o := proxy.Options{Rewrite: rewrite.Options{NoCards: true, NoStatusLine: true}} // package rewrite tests those
	for _, set := range settings {
		set(&o, x.R, x.Rec)
	}
	x.Launch(&o, func(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request) error) error {
		return proxy.New(o).Serve(cmp.Or(x.Rec.Wrapped, w), r, next)
	})
	return x
}

// timedOut is an error of a handler that is a timeout.
type timedOut struct{}

func (timedOut) Error() string { return "timed out" }
func (timedOut) Timeout() bool { return true }
