// Package proxytest has what the tests of proxy, and of what stands in front of it, share: an exchange whose
// handler and client do what a test says, step by step, and what upstream and the client are sent.
package proxytest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// Paths of Hermes, and a body.
const (
	ChatPath      = "/v1/chat/completions"
	SessionPath   = "/api/sessions/s1/chat/stream"
	ResponsesPath = "/v1/responses"
	AsksForStream = `{"stream":true,"messages":[{"role":"user","content":"Hi"}]}`
)

// Frames, with Envelope in them, and a comment.
const (
	Envelope = `"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795164799,"model":"hermes-agent","choices":`
	Role     = `data: {` + Envelope + `[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}` + "\n\n"
	FullStop = `data: {` + Envelope + `[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\n"
	Done     = "data: [DONE]\n\n"
	Beat     = ": keepalive\n\n"
)

// Text returns a chunk with the content s, the inside of a JSON string.
func Text(s string) string {
	return `data: {` + Envelope + `[{"index":0,"delta":{"content":"` + s + `"},"finish_reason":null}]}` + "\n\n"
}

// Bubble runs f as a test of its own, with a clock of its own.
func Bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// moves counts the calls of Advance.
var moves atomic.Int64

// Moved orders what follows after what a test has done before it called Advance, which package synctest does not.
func Moved() { moves.Load() }

// Advance lets d pass, and all happen that becomes due.
func Advance(d time.Duration) {
	moves.Add(1)
	time.Sleep(max(d, 1))
	synctest.Wait()
}

// Equal fails if got is not want.
func Equal[T comparable](t testing.TB, got, want T, what any) {
	t.Helper()
	if got != want {
		t.Errorf("%v: got %v, want %v", what, got, want)
	}
}

// ErrTest is some error of a handler.
var ErrTest = errors.New("some error")

// StatusError is an error of a handler that stands for a status.
type StatusError int

func (StatusError) Error() string { return "status" }

// StatusOf returns the status that err stands for, 0 for none.
func StatusOf(err error) int {
	var s StatusError
	errors.As(err, &s)
	return int(s)
}

// SetLimits sets the options that look at a clock, such as "idle=1m keepalive=10s".
func SetLimits(o *proxy.Options, all string) {
	for one := range strings.FieldsSeq(all) {
		name, value, _ := strings.Cut(one, "=")
		d, err := time.ParseDuration(value)
		if err != nil {
			panic(fmt.Errorf("the limit %s: %w", one, err))
		}
		*map[string]*time.Duration{
			"first": &o.FirstByteTimeout, "idle": &o.IdleTimeout, "stall": &o.StallTimeout,
			"grace": &o.DoneGrace, "keepalive": &o.Keepalive, "drain": &o.DrainTimeout,
		}[name] = d
	}
}

// Page is the origin of a page.
const Page = "https://chat.example"

// Says has upstream answer a request of a page with the status and fields, as o sees it; for a preflight the
// method is OPTIONS.
func Says(o *proxy.Origins, method, origin string, change func(*http.Request), status int, fields ...string) {
	r := httptest.NewRequest(method, "http://agent"+ChatPath, strings.NewReader("{}"))
	r.Header.Set("Origin", origin)
	if method == http.MethodOptions {
		r.Header.Set("Access-Control-Request-Method", "POST")
	}
	if change != nil {
		change(r)
	}
	proxy.New(proxy.Options{Origins: o}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
	})).ServeHTTP(httptest.NewRecorder(), r)
}
