package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// observer is an Observer that records what it observes.
type observer struct {
	t       *testing.T
	r       *http.Request // the client's
	markers int
	begun   proxy.Begun
	lines   []string
	raw     string
	ends    []proxy.Result
}

func (o *observer) check(r *http.Request) {
	if r != o.r {
		o.t.Error("the observer was not given the client's request")
	}
}

func (o *observer) Request(r *http.Request, read rewrite.Healed) {
	o.check(r)
	o.markers += read.Markers
}

func (o *observer) Begin(r *http.Request, b proxy.Begun) proxy.AnswerObserver {
	o.check(r)
	o.begun = b
	o.add("begin " + r.URL.Path + " " + string(b.Kind))
	return o
}

func (o *observer) Raw(b []byte) { o.raw += string(b) }

func (o *observer) Read(now time.Time, chunks int, s proxy.Summarizer) {
	o.add(fmt.Sprintf("%d chunks of %q after %v", chunks, s.Summary().ID, now.Sub(o.begun.Since)))
}

func (o *observer) Tool(now time.Time, e rewrite.ToolEvent) {
	o.add(fmt.Sprintf("tool %s %t %s after %v", e.Name, e.Completed, e.Source, now.Sub(o.begun.Since)))
}

func (o *observer) End(r *http.Request, res proxy.Result) {
	o.check(r)
	if res.Whole != (o.begun.Kind == proxy.KindWhole) {
		o.t.Errorf("the end of a %s is %+v", o.begun.Kind, res)
	}
	o.add("end " + res.Outcome)
	o.ends = append(o.ends, res)
}

func (o *observer) add(line string) {
	if o.begun.Kind != proxy.KindWhole {
		o.lines = append(o.lines, line)
	}
}

// wantObserved checks what was observed of streams.
func (o *observer) wantObserved(want ...string) {
	o.t.Helper()
	if !slices.Equal(o.lines, want) {
		o.t.Errorf("the observer observed\n%q\nwant\n%q", o.lines, want)
	}
}

func TestStreamIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t)
		advance(time.Second)
		x.stream()
		x.wantObserved("begin /v1/chat/completions chat")
		x.write(": keepalive\n\n", role[:9]) // no frame
		advance(time.Second)
		x.write(role[9:])
		advance(time.Second)
		x.write(text("\\n`💻 ls`\\n") + text("Hi"))
		x.abort().wantSwallowed(t)
		id := x.result().ID
		x.wantObserved("begin /v1/chat/completions chat",
			`0 chunks of "" after 1s`, `0 chunks of "" after 1s`, fmt.Sprintf("1 chunks of %q after 2s", id),
			"tool terminal false marker after 3s", "tool terminal true inferred after 3s",
			fmt.Sprintf("3 chunks of %q after 3s", id), "end upstream_aborted")
	})
}

// TestToolEndsWithItsStream, not with the last byte of upstream's.
func TestToolEndsWithItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t)
		x.stream()
		x.write(role + text("\\n`💻 ls`\\n"))
		advance(5 * time.Second)
		x.abort().wantSwallowed(t)
		x.wantObserved("begin /v1/chat/completions chat", "tool terminal false marker after 0s",
			fmt.Sprintf("2 chunks of %q after 0s", x.result().ID), "tool terminal true end after 5s", "end upstream_aborted")
	})
}

// TestStreamThatBecomesOursIsObserved from its first chunk on, with the tools of
// the same read.
func TestStreamThatBecomesOursIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, path("/elsewhere"))
		x.stream()
		x.write("data: x\n\n")
		x.wantObserved()
		x.write(role + text("\\n`💻 ls`\\n"))
		x.ret(nil)
		id := x.result().ID
		x.wantObserved("begin /elsewhere chat", "tool terminal false marker after 0s", fmt.Sprintf("2 chunks of %q after 0s", id),
			"tool terminal true end after 0s", "end upstream_incomplete")
	})
}

func TestWhatIsNoStreamIsNotObserved(t *testing.T) {
	x := begin(t, path("/elsewhere"))
	x.stream()
	x.write("data: x\n\n")
	x.ret(nil)
	x.wantObserved()
}

// TestErrorInTheSteadOfAStreamIsObserved at its end, but not where no stream was
// asked for.
func TestErrorInTheSteadOfAStreamIsObserved(t *testing.T) {
	x := begin(t, statusOf(504))
	x.ret(timedOut{})
	x.wantObserved("begin /v1/chat/completions chat", "end upstream_timeout")
	if x.result().Whole {
		t.Error("the answer is said to be none that is streamed")
	}

	x = begin(t, statusOf(504), asking(`{"messages":[]}`))
	x.ret(timedOut{})
	x.wantObserved()
	if res := x.result(); !res.Whole || res.Outcome != rewrite.CodeTimeout {
		t.Errorf("result %+v", res)
	}
}

func TestCompressedStreamIsObservedAtItsEnd(t *testing.T) {
	x := begin(t)
	x.do(func() {
		x.w.Header().Set("Content-Type", "text/event-stream")
		x.w.Header().Set("Content-Encoding", "gzip")
		x.w.WriteHeader(http.StatusOK)
	})
	x.write("\x1f\x8b")
	x.wantObserved()
	x.ret(nil)
	x.wantObserved("begin /v1/chat/completions chat", "end passed_encoded")
}

func TestOtherStreamIsObservedAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, path("/v1/runs/run_1/events"))
		x.stream()
		x.write(`data: {"event":"run.started","run_id":"run_1","timestamp":1}` + "\n\n")
		x.abort().wantSwallowed(t)
		x.wantObserved("begin /v1/runs/run_1/events other", `1 chunks of "run_1" after 0s`, "end upstream_aborted")
	})
}

func TestRepairedAnswerIsNotObserved(t *testing.T) {
	x := begin(t)
	x.do(func() { x.w.Header().Set("Content-Type", "application/json") })
	x.write(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"<think>a</think>b"},"finish_reason":"stop"}]}`)
	x.ret(nil)
	x.wantObserved()
	if res := x.result(); !res.Whole || res.Reasoning != 1 {
		t.Errorf("result %+v", res)
	}
}

// TestClientGoneEndsWhatIsObserved: each that begins ends.
func TestClientGoneEndsWhatIsObserved(t *testing.T) {
	x := begin(t)
	x.stream()
	x.leave()
	x.abort()
	x.wantObserved("begin /v1/chat/completions chat", "end client_gone")
}

// recorded has the observer observe the bytes of streams.
func recorded() setting { return option(func(o *proxy.Options) { o.ObserveRaw = true }) }

// wantRecorded checks what was recorded of a stream, "" for nothing.
func (x *exchange) wantRecorded(want string) {
	x.t.Helper()
	b := x.begun
	if x.raw != want || want != "" && (!b.Raw || b.Status != http.StatusOK || b.Header.Get("Content-Type") != "text/event-stream") {
		x.t.Errorf("recorded %d bytes %.200q of %+v, want %d bytes", len(x.raw), x.raw, b, len(want))
	}
	if want == "" && b.Raw && len(x.ends) > 0 {
		x.t.Error("nothing was recorded where all bytes were to be")
	}
}

// TestStreamIsRecordedAsItCame, whatever the client gets.
func TestStreamIsRecordedAsItCame(t *testing.T) {
	x := begin(t, recorded())
	x.stream()
	in := role + text("\\n`💻 ls`\\n") + "data: {torn"
	x.write(in[:5], in[5:100], in[100:])
	x.abort().wantSwallowed(t)
	x.wantRecorded(in)
	if res := x.result(); res.Cause != rewrite.CauseAborted || res.Outcome != "upstream_aborted" {
		t.Errorf("result %+v", res)
	}
}

// TestStreamThatBecomesOursIsRecorded with what has come before; one that does
// not is never recorded.
func TestStreamThatBecomesOursIsRecorded(t *testing.T) {
	x := begin(t, recorded(), path("/elsewhere"))
	x.stream()
	x.write("data: x\n\n", role[:20])
	x.wantRecorded("")
	x.write(role[20:])
	x.ret(nil)
	x.wantRecorded("data: x\n\n" + role)
	if res := x.result(); res.Cause != rewrite.CauseEOF {
		t.Errorf("result %+v", res)
	}

	x = begin(t, recorded(), path("/elsewhere"))
	x.stream()
	x.write("data: x\n\n")
	x.ret(nil)
	x.wantRecorded("")
}

// Up to 64 KiB are kept for that.
func TestWhatIsRecordedOfAnUnknownStream(t *testing.T) {
	for more, kept := range map[int]bool{0: true, 1: false} {
		x := begin(t, recorded(), path("/elsewhere"))
		x.stream()
		early := ": " + strings.Repeat("c", 64<<10-4+more) + "\n\n"
		x.write(early)
		x.write(role, stop, done)
		x.ret(nil)
		if kept {
			x.wantRecorded(early + role + stop + done)
		} else {
			x.wantRecorded("")
		}
	}
}

func TestWhatIsNoStreamIsNotRecorded(t *testing.T) {
	x := begin(t, recorded())
	x.answerWhole(completion("Hello", someTokens))
	x.write(completion("Hello", someTokens))
	x.ret(nil)
	x.wantRecorded("")
}
