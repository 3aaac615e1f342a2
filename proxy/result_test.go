package proxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func TestEndIsToldOnceWithItsOutcome(t *testing.T) {
	abort := (*exchange).abort
	returns := func(err error) func(*exchange) ending {
		return func(x *exchange) ending { return x.ret(err) }
	}
	for name, c := range map[string]struct {
		frames  string
		end     func(*exchange) ending
		outcome string
		code    string
		reason  string
	}{
		"well":                    {role + text("a") + stop + done, returns(nil), "ok", "", "stop"},
		"length":                  {role + text("a") + strings.Replace(stop, `"stop"`, `"length"`, 1) + done, returns(nil), "ok", "", "length"},
		"well, but for [DONE]":    {role + text("a") + stop, abort, "ok", "", "stop"},
		"aborted":                 {role + text("a"), abort, "upstream_aborted", "upstream_aborted", "error"},
		"incomplete":              {role + text("a"), returns(nil), "upstream_incomplete", "upstream_incomplete", "error"},
		"[DONE] without a finish": {role + text("a") + done, returns(nil), "upstream_incomplete", "upstream_incomplete", "error"},
		"timeout":                 {role + text("a"), returns(timedOut{}), "upstream_timeout", "upstream_timeout", "error"},
		"false stop":              {role + zeroStop + done, returns(nil), "agent_crashed", "agent_crashed", "error"},
		"no answer":               {role + fullStop + done, returns(nil), "empty_answer", "empty_answer", "error"},
		"the agent says so":       {role + strings.Replace(stop, `"stop"`, `"error"`, 1) + done, abort, "agent_error", "agent_error", "error"},
		"no frame":                {"", abort, "upstream_aborted", "upstream_aborted", ""},
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) {
				o.Upstream = func(*http.Request) string { return "10.0.0.1:8642" }
			}))
			advance(2 * time.Second)
			x.stream()
			x.write(c.frames)
			advance(3 * time.Second)
			if len(x.ends) > 0 {
				t.Fatal("the observer was told before the end")
			}
			c.end(x).wantSwallowed(t)
			res := x.result()
			if res.Outcome != c.outcome || res.Code != c.code {
				t.Errorf("outcome %q, code %q; want %q, %q", res.Outcome, res.Code, c.outcome, c.code)
			}
			if c.frames != "" {
				if res.FinishReason != c.reason || res.ID != "chatcmpl-1" || res.Model != "hermes-agent" || res.Status != 200 {
					t.Errorf("finish reason %q, id %q, model %q, status %d; want %s, chatcmpl-1, hermes-agent, 200",
						res.FinishReason, res.ID, res.Model, res.Status, c.reason)
				}
			}
			if res.Upstream != "10.0.0.1:8642" || res.Duration != 5*time.Second {
				t.Errorf("upstream %q, duration %v; want 10.0.0.1:8642, 5s", res.Upstream, res.Duration)
			}
		})
	}
}

func TestResultHasWhatTheHandlerEndedWith(t *testing.T) {
	end := func(f func(*exchange) ending) error {
		x := begin(t)
		x.stream()
		x.write(role)
		f(x)
		return x.result().Err
	}
	if err := end(func(x *exchange) ending { return x.ret(errTest) }); !errors.Is(err, errTest) {
		t.Errorf("error %v, want the handler's", err)
	}
	if err := end((*exchange).abort); !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("error %v, want http.ErrAbortHandler", err)
	}
	if err := end(func(x *exchange) ending { return x.panics("boom") }); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("error %v, want the panic's value in it", err)
	}
	if err := end(func(x *exchange) ending { return x.ret(nil) }); err != nil {
		t.Errorf("error %v, want none", err)
	}
}

func TestResultCountsWhatTheStreamHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive = time.Second }))
		x.stream()
		x.write(role, text("\\n`💻 ls`\\n"))
		advance(time.Second)
		x.write(text("Hello"), stop, done)
		x.ret(nil)
		res := x.result()
		got := fmt.Sprint(res.Frames, res.Chunks, res.Tools, res.Markers, res.Keepalives)
		if want := "5 4 1 1 1"; got != want {
			t.Errorf("frames, chunks, tools, markers, keepalives are %s, want %s", got, want)
		}
	})
}

func TestClientThatLeavesBehindDoneWasServed(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(role, text("a"), stop, done)
	x.leave()
	x.ret(nil)
	if res := x.result(); res.Outcome != proxy.OutcomeOK {
		t.Errorf("outcome %q, want ok", res.Outcome)
	}
}

func TestClientThatLeavesBeforeTheEndIsGone(t *testing.T) {
	for name, frames := range map[string]string{"before the header": "-", "before a frame": "", "mid-stream": role, "before [DONE]": role + stop} {
		t.Run(name, func(t *testing.T) {
			x := begin(t)
			if frames != "-" {
				x.stream()
				x.write(frames)
			}
			x.leave()
			x.abort()
			if res := x.result(); res.Outcome != proxy.OutcomeClientGone {
				t.Errorf("outcome %q, want client_gone", res.Outcome)
			}
		})
	}
}

// memory remembers who has reported usage.
type memory struct {
	mu       sync.Mutex
	reported map[string]bool
}

func (m *memory) of(upstream string) rewrite.UsageMemory { return memoryOf{m, upstream} }

// memoryOf is the part of a memory that belongs to an upstream.
type memoryOf struct {
	*memory
	upstream string
}

func (m memoryOf) Reported(model string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reported[m.upstream+" "+model]
}

func (m memoryOf) Report(model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reported[m.upstream+" "+model] = true
}

func (memoryOf) Missed(string)        {}
func (memoryOf) ReportsFailures(bool) {}

func TestUsageIsRememberedByUpstreamAndModel(t *testing.T) {
	m := &memory{reported: make(map[string]bool)}
	answer := func(upstream, model, finish string) string {
		x := begin(t, option(func(o *proxy.Options) {
			o.Usage = m.of
			o.Upstream = func(*http.Request) string { return upstream }
		}))
		x.stream()
		for _, s := range []string{role, text("Hello"), finish, done} {
			x.write(strings.Replace(s, "hermes-agent", model, 1))
		}
		x.ret(nil)
		return x.result().Outcome
	}
	for i, c := range []struct{ upstream, model, finish, want string }{
		{"a", "m", zeroStop, "ok"},
		{"a", "m", fullStop, "ok"},
		{"a", "m", zeroStop, "agent_crashed"},
		{"b", "m", zeroStop, "ok"},
		{"a", "n", zeroStop, "ok"},
	} {
		if got := answer(c.upstream, c.model, c.finish); got != c.want {
			t.Errorf("%d: upstream %s, model %s: outcome %q, want %q", i, c.upstream, c.model, got, c.want)
		}
	}
	if len(m.reported) != 1 || !m.reported["a m"] {
		t.Errorf("remembered %v, want a m", m.reported)
	}
}

func TestUpstreamIsAskedForBehindTheHeader(t *testing.T) {
	var asked int
	x := begin(t, option(func(o *proxy.Options) {
		o.Usage = (&memory{reported: make(map[string]bool)}).of
		o.Upstream = func(*http.Request) string { asked++; return "a" }
	}))
	if asked != 0 {
		t.Error("upstream was asked for before the header had come")
	}
	x.stream()
	x.write(role, text("a"), stop, done)
	x.ret(nil)
	if asked == 0 {
		t.Error("upstream was never asked for")
	}
}

func TestEndOfWhatIsNoStreamIsNotTold(t *testing.T) {
	for name, leaves := range map[string]bool{"the client stays": false, "the client leaves": true} {
		t.Run(name, func(t *testing.T) {
			x := begin(t)
			x.do(func() { x.w.Header().Set("Content-Type", "application/json") })
			x.write("{}")
			if leaves {
				x.leave()
			}
			x.ret(nil)
			if len(x.ends) > 0 {
				t.Errorf("the observer was told %q of a JSON answer", x.ends[0].Outcome)
			}
		})
	}
}
