package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// diary is an Observer that writes down what it is told of streams.
type diary struct {
	begun time.Time
	lines []string
}

func (d *diary) Request(*http.Request, rewrite.Healed) {}

func (d *diary) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	if b.Kind == proxy.KindWhole {
		return deaf{}
	}
	d.begun = b.Since
	d.add("begin " + r.URL.Path + " " + string(b.Kind))
	return d
}

func (d *diary) Raw([]byte) {}

func (d *diary) Read(now time.Time, chunks int, s proxy.Summarizer) {
	d.add(fmt.Sprintf("%d chunks of %q after %v", chunks, s.Summary().ID, now.Sub(d.begun)))
}

func (d *diary) Tool(now time.Time, e rewrite.ToolEvent) {
	d.add(fmt.Sprintf("tool %s %t %s after %v", e.Name, e.Completed, e.Source, now.Sub(d.begun)))
}

func (d *diary) End(_ *http.Request, res proxy.Result) { d.add("end " + res.Outcome) }

func (d *diary) add(line string) { d.lines = append(d.lines, line) }

func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(d.lines, want) {
		t.Errorf("the observer was told\n%q\nwant\n%q", d.lines, want)
	}
}

// observed has the exchange told to d.
func observed(d *diary) setting {
	return option(func(o *proxy.Options) { observe(o, d) })
}

func TestStreamIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		x := begin(t, observed(d))
		advance(time.Second)
		x.stream()
		d.want(t, "begin /v1/chat/completions chat")
		x.write(": keepalive\n\n", role[:9]) // no frame
		advance(time.Second)
		x.write(role[9:])
		advance(time.Second)
		x.write(text("\\n`💻 ls`\\n") + text("Hi"))
		x.abort().wantSwallowed(t)
		id := x.result().ID
		d.want(t, "begin /v1/chat/completions chat",
			`0 chunks of "" after 1s`, `0 chunks of "" after 1s`, fmt.Sprintf("1 chunks of %q after 2s", id),
			"tool terminal false marker after 3s", "tool terminal true inferred after 3s",
			fmt.Sprintf("3 chunks of %q after 3s", id), "end upstream_aborted")
	})
}

// TestToolEndsWithItsStream, not with the last byte of upstream's.
func TestToolEndsWithItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		x := begin(t, observed(d))
		x.stream()
		x.write(role + text("\\n`💻 ls`\\n"))
		advance(5 * time.Second)
		x.abort().wantSwallowed(t)
		d.want(t, "begin /v1/chat/completions chat", "tool terminal false marker after 0s",
			fmt.Sprintf("2 chunks of %q after 0s", x.result().ID), "tool terminal true end after 5s", "end upstream_aborted")
	})
}

// TestStreamThatBecomesOursIsObserved from its first chunk on, with the tools of
// the same read.
func TestStreamThatBecomesOursIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		x := begin(t, observed(d), path("/elsewhere"))
		x.stream()
		x.write("data: x\n\n")
		d.want(t)
		x.write(role + text("\\n`💻 ls`\\n"))
		x.ret(nil)
		id := x.result().ID
		d.want(t, "begin /elsewhere chat", "tool terminal false marker after 0s", fmt.Sprintf("2 chunks of %q after 0s", id),
			"tool terminal true end after 0s", "end upstream_incomplete")
	})
}

func TestWhatIsNoStreamIsNotObserved(t *testing.T) {
	d := new(diary)
	x := begin(t, observed(d), path("/elsewhere"))
	x.stream()
	x.write("data: x\n\n")
	x.ret(nil)
	d.want(t)
}

// failing has an error of the next handler stand for a status.
func failing(status int) setting {
	return option(func(o *proxy.Options) { o.ErrorStatus = func(error) int { return status } })
}

// TestErrorInTheSteadOfAStreamIsObserved at its end, but not where no stream was
// asked for.
func TestErrorInTheSteadOfAStreamIsObserved(t *testing.T) {
	d := new(diary)
	x := begin(t, observed(d), failing(504))
	x.ret(timedOut{})
	d.want(t, "begin /v1/chat/completions chat", "end upstream_timeout")
	if x.result().Whole {
		t.Error("the answer is said to be none that is streamed")
	}

	d = new(diary)
	x = begin(t, observed(d), failing(504), asking(`{"messages":[]}`))
	x.ret(timedOut{})
	d.want(t)
	if res := x.result(); !res.Whole || res.Outcome != rewrite.CodeTimeout {
		t.Errorf("result %+v", res)
	}
}

func TestCompressedStreamIsObservedAtItsEnd(t *testing.T) {
	d := new(diary)
	x := begin(t, observed(d))
	x.do(func() {
		x.w.Header().Set("Content-Type", "text/event-stream")
		x.w.Header().Set("Content-Encoding", "gzip")
		x.w.WriteHeader(http.StatusOK)
	})
	x.write("\x1f\x8b")
	d.want(t)
	x.ret(nil)
	d.want(t, "begin /v1/chat/completions chat", "end passed_encoded")
}

func TestOtherStreamIsObservedAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		x := begin(t, observed(d), path("/v1/runs/run_1/events"))
		x.stream()
		x.write(`data: {"event":"run.started","run_id":"run_1","timestamp":1}` + "\n\n")
		x.abort().wantSwallowed(t)
		d.want(t, "begin /v1/runs/run_1/events other", `1 chunks of "run_1" after 0s`, "end upstream_aborted")
	})
}

func TestRepairedAnswerIsNotObserved(t *testing.T) {
	d := new(diary)
	x := begin(t, observed(d))
	x.do(func() { x.w.Header().Set("Content-Type", "application/json") })
	x.write(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"<think>a</think>b"},"finish_reason":"stop"}]}`)
	x.ret(nil)
	d.want(t)
	if res := x.result(); !res.Whole || res.Reasoning != 1 {
		t.Errorf("result %+v", res)
	}
}

// TestClientGoneEndsWhatIsObserved: each that begins ends.
func TestClientGoneEndsWhatIsObserved(t *testing.T) {
	d := new(diary)
	x := begin(t, observed(d))
	x.stream()
	x.leave()
	x.abort()
	d.want(t, "begin /v1/chat/completions chat", "end client_gone")
}
