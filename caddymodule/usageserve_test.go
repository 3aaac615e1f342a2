package caddymodule

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Answers of an upstream that reports its failures itself, and of one that is too
// old for that.
const (
	failedStop = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"message":"quota"},"hermes":{"completed":false}}` + "\n\ndata: [DONE]\n\n"
	oldMarker  = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"\n` + "`💻 ls`" + `\n"},"finish_reason":null}]}` + "\n\n"
)

// ended is how an answer of the upstream's ended: pass, byte for byte, or crash.
func ended(t *testing.T, h *Handler, upstream, body string) string {
	t.Helper()
	switch got := serve(t, h, answer(upstream, body)).Body.String(); {
	case got == body:
		return "pass"
	case strings.Contains(got, `"code":"agent_crashed"`) && strings.HasSuffix(got, "data: [DONE]\n\n"):
		return "crash"
	default:
		t.Fatalf("neither passed nor crashed:\n%s", got)
		return ""
	}
}

// TestProviderThatReportsNoUsageAnyMore: the operator has changed it, and the
// fourth answer passes, through reloads and restarts.
func TestProviderThatReportsNoUsageAnyMore(t *testing.T) {
	const upstream, used, unused = "127.0.0.1:8642", textFrame + usedStop, textFrame + zeroStop
	dir := t.TempDir()
	h, cleanup := provision(t, "", dir)
	core, logs := observer.New(zap.WarnLevel)
	h.usage.Logger = zap.New(core)
	want := func(when, body, end string) {
		t.Helper()
		if got := ended(t, h, upstream, body); got != end {
			t.Errorf("%s: %s, want %s", when, got, end)
		}
	}
	want("before usage", unused, "pass")
	want("usage", used, "pass")
	if got := ended(t, h, "127.0.0.1:8643", unused); got != "pass" {
		t.Errorf("another upstream: %s", got)
	}
	for _, when := range []string{"first", "second", "third"} {
		want(when, unused, "crash")
	}
	if told := logs.FilterMessageSnippet("zero_usage").All(); len(told) != 1 {
		t.Errorf("logged %v, want one warning that names zero_usage", logs.All())
	}
	want("fourth", unused, "pass")

	reload := func() {
		old := cleanup
		h, cleanup = provision(t, "", dir)
		old()
	}
	restart := func() {
		cleanup()
		h, cleanup = provision(t, "", dir)
	}
	reload()
	want("after a reload", unused, "pass")
	restart()
	want("after a restart", unused, "pass")

	want("usage again", used, "pass")
	want("after usage", unused, "crash")
	reload()
	want("after usage and a reload", unused, "crash")
	restart() // which begins the count anew: what is kept is whether the pair reports usage
	for _, when := range []string{"first", "second", "third"} {
		want(when+" after usage and a restart", unused, "crash")
	}
	want("fourth after usage and a restart", unused, "pass")
}

// TestUpstreamThatReportsItsFailuresIsBelieved in its answers without usage.
func TestUpstreamThatReportsItsFailuresIsBelieved(t *testing.T) {
	const upstream, other, unused = "127.0.0.1:8642", "127.0.0.1:8643", textFrame + zeroStop
	dir := t.TempDir()
	h, cleanup := provision(t, "", dir)
	want := func(when, upstream, end string) {
		t.Helper()
		if got := ended(t, h, upstream, unused); got != end {
			t.Errorf("%s: %s, want %s", when, got, end)
		}
	}
	for _, u := range []string{upstream, other} {
		serve(t, h, answer(u, textFrame+usedStop))
		want("before", u, "crash")
	}
	serve(t, h, answer(upstream, textFrame+failedStop))
	want("it has said that it failed", upstream, "pass")
	want("another upstream has not", other, "crash")
	cleanup()
	h, _ = provision(t, "", dir)
	want("after a restart", upstream, "pass")

	serve(t, h, answer(upstream, oldMarker+textFrame+usedStop))
	want("it is an old one", upstream, "crash")
}
