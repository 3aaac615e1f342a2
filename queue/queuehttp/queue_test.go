package queuehttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

const (
	sessionPath   = "/api/sessions/s1/chat/stream"
	responsesPath = "/v1/responses"
	asksForStream = `{"stream":true,"messages":[{"role":"user","content":"Hi"}]}`

	idle = `"id":"","object":"chat.completion.chunk","created":946684800,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":null}]`
)

// body gives the request a body of JSON.
func body(s string) setting {
	return func(_ *options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(s)), int64(len(s))
		r.Header.Set("Content-Type", "application/json")
	}
}

// inLine is an exchange whose request waits.
type inLine struct {
	*exchange
	lines  queue.Lines
	o      queue.Options
	turn   *queue.Turn
	before []*queue.Turn // of those that are served before, the first of which has the only place
	err    error         // that Turn returns
}

// waits begins an exchange whose request waits for one that has the only place, and for the others
// of the number before.
func waits(t *testing.T, before int, settings ...setting) *inLine {
	t.Helper()
	l := &inLine{o: queue.Options{Runs: 1, Wait: time.Minute, Waiting: 10}}
	for range before {
		turn, err := l.lines.Join("b", l.o, queue.Client{1})
		if err != nil {
			t.Fatal(err)
		}
		l.before = append(l.before, turn)
	}
	turn := option(func(o *options) {
		o.queue.Turn = func(*http.Request) (_ *queue.Turn, err error) {
			if l.err == nil {
				l.turn, l.err = l.lines.Join("b", l.o, queue.Client{1})
			}
			return l.turn, l.err
		}
	})
	l.exchange = launch(t, append([]setting{body(asksForStream), turn}, settings...)...)
	synctest.Wait()
	return l
}

// goesOn lets those before go, and waits until the next handler runs.
func (l *inLine) goesOn() {
	l.t.Helper()
	for _, turn := range l.before {
		turn.Done()
	}
	l.before = nil
	<-l.ack
}

// end waits until the guard has let the request go, and returns how. The next handler has not
// run, or has ended.
func (l *inLine) end() ending {
	l.t.Helper()
	l.over = true
	return <-l.ended
}

// wantFree checks that no place is lost.
func (l *inLine) wantFree() {
	l.t.Helper()
	advance(10 * time.Second) // after a refusal nobody gets one at once
	turn, err := l.lines.Join("b", queue.Options{Runs: 1}, queue.Client{2})
	if err != nil {
		l.t.Fatalf("the place is lost: %v", err)
	}
	turn.Done()
}

// status returns a status of upstream's form, with the members of a chunk or without.
func status(members, text string) string {
	return "event: hermes.status\ndata: {" + members + `"kind": "lifecycle", "text": "` + text + "\"}\n\n"
}

// errorOf returns the error finish of a stream that waits, in two frames.
func errorOf(value, message string) string {
	return `data: {"error":` + value + "}\n\n" +
		`data: {` + strings.Replace(idle, "null", `"error"`, 1) + `,"hermes":{"completed":false,"partial":false,"failed":true,"error":` + message +
		`,"error_code":"agent_error"}}` + "\n\n" + done
}

const (
	twoBefore, oneBefore = "Waiting in line: 2 before you", "Waiting in line: 1 before you"
	youAreNext, yourTurn = "Waiting in line: you are next", "It is your turn"
)

// TestWaitingStream: the header leaves after a second, and the client is told its place when that
// changes, and keepalives; what upstream then sends continues the stream.
func TestWaitingStream(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		x := waits(t, 3, limits("keepalive=10s"), func(_ *options, _ *http.Request, rec *recorder) {
			rec.header.Set("Access-Control-Allow-Origin", "*")
		})
		advance(time.Second - 1)
		x.wantLog()
		advance(1)
		x.wantBody(status(idle+",", twoBefore))
		equal(t, x.rec.status, 200, "status")
		equal(t, fmt.Sprint(x.rec.sent), "map[Access-Control-Allow-Origin:[*] Cache-Control:[no-cache] Content-Type:[text/event-stream] X-Accel-Buffering:[no]]", "header")
		equal(t, x.rec.log[len(x.rec.log)-1], "flush", "the last call")
		want := status(idle+",", twoBefore)
		x.before[0].Done()
		x.before[1].Done()
		x.before = x.before[2:]
		advance(time.Second)
		want += status(idle+",", youAreNext)
		x.wantBody(want)
		advance(10 * time.Second)
		want += "data: {" + idle + "}\n\n"
		x.wantBody(want)
		if x.w != nil {
			t.Fatal("the next handler runs")
		}
		x.goesOn()
		x.stream("X-Hermes-Session-Id", "s", "Content-Type", "text/event-stream; charset=utf-8")
		x.write(role, text("Hello"), fullStop, done)
		x.ret(nil).wantSwallowed(t)
		x.wantBody(want + status(idle+",", yourTurn) + role + text("Hello") + fullStop + done)
		equal(t, x.rec.header.Get("X-Hermes-Session-Id"), "", "what came after the header")
		equal(t, x.result().Outcome, proxy.OutcomeOK, "outcome")
		equal(t, x.turn.Waited(), 12*time.Second, "waited")
		equal(t, x.lines0(), "begin /v1/chat/completions chat", "the first of what was observed")
		x.wantFree()
	})
}

// lines0 returns the first thing that was observed.
func (l *inLine) lines0() string { return append(l.observer.lines, "nothing")[0] }

// TestTurnComesAtOnce: with a free place nothing differs.
func TestTurnComesAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		x := waits(t, 0)
		x.goesOn()
		x.stream("X-Hermes-Session-Id", "s")
		x.write(role, text("Hello"), fullStop, done)
		equal(t, x.rec.sent.Get("X-Hermes-Session-Id"), "s", "upstream's header")
		x.ret(nil).wantSwallowed(t)
		x.wantBody(role + text("Hello") + fullStop + done)
		equal(t, x.turn.Waited(), 0, "waited")
		x.wantFree()
	})
}

// TestWaitingForms: what a waiting client is sent in each form and by each API: a status, a
// keepalive, and another status when it is its turn.
func TestWaitingForms(t *testing.T) {
	const unnamed = "data: {" + idle + `,"kind": "lifecycle", "text": "` + oneBefore + `"`
	bare, kept := status("", oneBefore), "data: {"+idle+"}\n\n"
	for _, c := range []struct {
		name, path, form  string
		o                 rewrite.Options
		status, keepalive string
	}{
		{"envelope", chatPath, "", rewrite.Options{}, status(idle+",", oneBefore), kept},
		{"unnamed", chatPath, "unnamed", rewrite.Options{}, unnamed + "}\n\n", kept},
		{"unnamed, status_line", chatPath, "unnamed", rewrite.Options{StatusLine: true}, unnamed + `,"event":{"type":"status","data":{"description":"` + oneBefore + `","done":true}}}` + "\n\n", kept},
		{"cards", chatPath, "", rewrite.Options{Cards: true}, status(idle+",", oneBefore), kept},
		{"bare", chatPath, "bare", rewrite.Options{}, bare, kept},
		{"comment", chatPath, "comment", rewrite.Options{}, `: hermes.status {"kind": "lifecycle", "text": "` + oneBefore + "\"}\n\n", kept},
		{"off", chatPath, "off", rewrite.Options{}, "", kept},
		{"keepalives are comments", chatPath, "bare", rewrite.Options{KeepaliveForm: rewrite.KeepaliveComment}, bare, beat},
		{"of a session", sessionPath, "", rewrite.Options{StatusLine: true}, bare, beat},
		{"of a response", responsesPath, "", rewrite.Options{}, `: hermes.status {"kind": "lifecycle", "text": "` + oneBefore + "\"}\n\n", beat},
	} {
		bubble(t, c.name, func(t *testing.T) {
			x := waits(t, 2, path(c.path), header(proxy.ProgressHeader, c.form), limits("keepalive=10s"), option(func(o *options) { o.Rewrite = c.o }))
			advance(time.Second)
			equal(t, x.rec.status, 200, "status after a second")
			advance(10 * time.Second)
			want := c.status + c.keepalive
			x.wantBody(want)
			x.goesOn()
			x.wantBody(want)
			x.stream()
			x.wantBody(want + strings.ReplaceAll(c.status, oneBefore, yourTurn))
			x.leave()
			x.ret(nil)
		})
	}
}

// TestNothingIsToldOtherwise: a request that asks for no stream just waits.
func TestNothingIsToldOtherwise(t *testing.T) {
	for _, c := range []struct{ name, path, body string }{
		{"not streamed", chatPath, `{"messages":[]}`},
		{"not to be read", chatPath, "[1]"},
		{"a run", "/v1/runs", `{"stream":true,"input":"Hi"}`},
		{"a response", responsesPath, `{"input":"Hi"}`},
		{"in a session", "/api/sessions/s1/chat", `{"stream":true,"message":"Hi"}`},
	} {
		bubble(t, c.name, func(t *testing.T) {
			x := waits(t, 1, path(c.path), body(c.body), limits("idle=5s stall=5s first=5s keepalive=1s"))
			advance(30 * time.Second)
			x.wantLog()
			x.goesOn()
			x.do(func() {
				b, err := io.ReadAll(x.up.Body)
				if string(b) != c.body || err != nil {
					t.Errorf("upstream gets %q, %v", b, err)
				}
			})
			x.answerWhole(`{"a":1}`)
			x.write(`{"a":1}`)
			x.ret(nil).wantSwallowed(t)
			x.wantBody(`{"a":1}`)
			equal(t, x.rec.sent.Get("X-Hermes-Session-Id"), "b58e0870", "upstream's header")
			x.wantFree()
		})
	}
	for _, c := range []struct{ name, method, path string }{
		{"no POST", http.MethodGet, chatPath}, {"no run", http.MethodPost, "/v1/models"}, {"events", http.MethodPost, "/v1/runs/r1/events"},
	} {
		bubble(t, c.name+" does not wait", func(t *testing.T) {
			x := waits(t, 1, method(c.method), path(c.path))
			<-x.ack
			x.ret(nil)
		})
	}
}

// TestNoPlace: the line is full, or the request has waited for too long.
func TestNoPlace(t *testing.T) {
	const full, late = "queue_full", "queue_timeout"
	check := func(t *testing.T, x *inLine, code string) {
		t.Helper()
		equal(t, x.rec.status, 429, "status")
		equal(t, x.rec.sent.Get("Retry-After"), "10", "Retry-After")
		equal(t, x.rec.sent.Get("X-Should-Retry"), "", "X-Should-Retry")
		equal(t, x.rec.sent.Get("Content-Type"), "application/json", "Content-Type")
		var got struct{ Error map[string]any }
		if err := json.Unmarshal(x.rec.body.Bytes(), &got); err != nil || len(got.Error) != 4 || got.Error["code"] != code ||
			got.Error["type"] != "rate_limit_error" || got.Error["message"] != rewrite.Message(code) || got.Error["param"] != nil {
			t.Errorf("the answer is %s", x.rec.body.String())
		}
		if x.w != nil {
			t.Error("the next handler has run")
		}
	}
	bubble(t, "full", func(t *testing.T) {
		x := waits(t, 1, func(o *options, _ *http.Request, _ *recorder) {
			o.queue.Turn = func(*http.Request) (*queue.Turn, error) { return nil, queue.ErrFull }
		})
		x.end().wantSwallowed(t)
		check(t, x, full)
		equal(t, x.result().Outcome, full, "outcome")
	})
	bubble(t, "timeout", func(t *testing.T) {
		x := waits(t, 1, body(`{"messages":[]}`))
		advance(time.Minute)
		x.end().wantSwallowed(t)
		check(t, x, late)
		equal(t, x.result().Outcome, late, "outcome")
	})
	const chatError = `{"message":"the agent was busy for as long as the request could wait; send the request again later","type":"rate_limit_error","param":null,"code":"queue_timeout"}`
	const message = `"the agent was busy for as long as the request could wait; send the request again later"`
	for _, c := range []struct{ name, path, want string }{
		{"chat", chatPath, errorOf(chatError, message)},
		{"session", sessionPath, `event: error` + "\n" + `data: {"message": ` + message + `, "code": "queue_timeout", "session_id": "s1", "seq": 1, "ts": 946684800}` + "\n\n" +
			`event: done` + "\n" + `data: {"session_id": "s1", "seq": 2, "ts": 946684800}` + "\n\n"},
		{"response", responsesPath, "event: response.failed\n" + `data: {"type":"response.failed","response":{"id":"resp_","object":"response","status":"failed","created_at":946684800,"model":"hermes-agent","output":[],"error":{"code":"rate_limit_exceeded","message":` + message + `,"hermes_code":"queue_timeout"}},"sequence_number":0}` + "\n\n"},
	} {
		bubble(t, "timeout of a stream: "+c.name, func(t *testing.T) {
			x := waits(t, 1, path(c.path), header(proxy.ProgressHeader, "off"))
			advance(time.Minute)
			x.end().wantSwallowed(t)
			_, got, _ := strings.Cut("\n\n"+x.rec.body.String(), "\n\n")
			if i := strings.Index(got, c.want); i < 0 || got[i:] != c.want {
				t.Errorf("the client was sent\n%s\nwant at its end\n%s", got, c.want)
			}
			equal(t, x.result().Outcome, late, "outcome")
			equal(t, x.result().Status, 200, "status")
			if x.w != nil {
				t.Error("the next handler has run")
			}
		})
	}
}

// TestLeavingTheLine: a client that leaves loses its place at once, and upstream does not hear of it.
func TestLeavingTheLine(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Millisecond, 2 * time.Second} {
		for name, leave := range map[string]func(*inLine){
			"it leaves":          func(x *inLine) { x.leave() },
			"its turn comes too": func(x *inLine) { x.before[0].Done(); x.leave() },
		} {
			bubble(t, fmt.Sprint(name, " after ", after), func(t *testing.T) {
				x := waits(t, 1)
				advance(after)
				leave(x)
				synctest.Wait()
				if name == "its turn comes too" {
					select {
					case <-x.ack: // the turn came first
						x.untilCancelled()
					case e := <-x.ended:
						x.ended <- e
					}
				}
				if !x.over {
					x.end().wantSwallowed(t)
				}
				for _, turn := range x.before {
					turn.Done()
				}
				equal(t, x.result().Outcome, proxy.OutcomeClientGone, "outcome")
				x.wantFree()
			})
		}
	}
	bubble(t, "its connection breaks", func(t *testing.T) {
		x := waits(t, 1, func(_ *options, _ *http.Request, rec *recorder) {
			rec.onWrite = func([]byte) (int, error) { return 0, errTest }
		})
		advance(time.Second)
		x.end().wantSwallowed(t)
		equal(t, x.result().Outcome, proxy.OutcomeClientGone, "outcome")
		x.before[0].Done()
		x.wantFree()
	})
	bubble(t, "its writer panics", func(t *testing.T) {
		x := waits(t, 1, func(_ *options, _ *http.Request, rec *recorder) {
			rec.onWrite = func([]byte) (int, error) { panic("boom") }
		})
		advance(time.Second)
		if e := x.end(); !strings.HasPrefix(fmt.Sprint(e.panicked), "boom") {
			t.Errorf("the guard ended with panic %v", e.panicked)
		}
		x.before[0].Done()
		x.wantFree()
	})
}

// TestDrainInLine: a drain ends those that wait at once.
func TestDrainInLine(t *testing.T) {
	const before = rewrite.ShutdownBeforeRun
	bubble(t, "before the header", func(t *testing.T) {
		x := waits(t, 1, limits("drain=10s"))
		x.streams.Shutdown(0)
		x.end().wantSwallowed(t)
		x.wantAnswerOf(503-1, "shutting_down", false)
		equal(t, strings.Contains(x.rec.body.String(), before), true, "asked to send it again")
	})
	bubble(t, "after the header", func(t *testing.T) {
		x := waits(t, 1, limits("drain=10s"))
		advance(time.Second)
		x.streams.Shutdown(0)
		x.end().wantSwallowed(t)
		x.wantBody(status(idle+",", youAreNext) + errorOf(`{"message":"`+before+`","type":"upstream_error","param":null,"code":"shutting_down"}`, `"`+before+`"`))
		equal(t, x.result().Outcome, "shutting_down", "outcome")
	})
	bubble(t, "it began before", func(t *testing.T) {
		streams := new(proxy.Streams)
		streams.Shutdown(0)
		x := waits(t, 1, limits("drain=10s"), option(func(o *options) { o.Streams = streams }))
		x.end().wantSwallowed(t)
		x.wantAnswerOf(502, "shutting_down", false)
	})
	bubble(t, "with a free place", func(t *testing.T) {
		streams := new(proxy.Streams)
		streams.Shutdown(0)
		x := waits(t, 0, limits("drain=10s"), option(func(o *options) { o.Streams = streams }))
		x.goesOn()
		advance(10 * time.Second)
		x.wantAnswer(502, "shutting_down")
	})
	for _, p := range []string{chatPath, sessionPath, responsesPath} {
		bubble(t, "its turn has come: "+p, func(t *testing.T) {
			x := waits(t, 1, limits("drain=10s"), path(p))
			advance(time.Second)
			x.goesOn()
			x.streams.Shutdown(0)
			advance(10 * time.Second)
			x.wantStopped()
			equal(t, strings.Contains(x.rec.body.String(), "the agent may be running"), true, "what the agent does")
		})
	}
}

// TestWaitedAnswersThatAreNoStreams: after the header has left, each of them is an error of the
// stream.
func TestWaitedAnswersThatAreNoStreams(t *testing.T) {
	const key = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
	for _, c := range []struct {
		name   string
		status int
		body   string
		value  string // of the error, "" for that of the status
	}{
		{"of OpenAI's kind", 401, `{"error": {"message": "Invalid API key", "type": "invalid_request_error", "code": "invalid_api_key"}}`, `{"message": "Invalid API key", "type": "invalid_request_error", "code": "invalid_api_key","param":null}`},
		{"over lines", 503, "{\r\n\"error\": {\r\n\"message\": \"Down\"}}\r\n", `{  "message": "Down","type":"upstream_error","param":null,"code":"agent_error"}`},
		{"a string", 404, `{"error": "Session not found"}`, `{"message":"Session not found","type":"upstream_error","param":null,"code":"agent_error"}`},
		{"with a secret", 500, `{"error": {"message": "key ` + key + ` is bad"}}`, `{"message": "key [redacted] is bad","type":"upstream_error","param":null,"code":"agent_error"}`},
		{"of no JSON", 500, "<html>", ""},
		{"without a body", 404, "", ""},
		{"without an error", 200, `{"id": "chatcmpl-1", "object": "chat.completion"}`, ""},
		{"too large", 500, `{"error": {"message": "` + strings.Repeat("a", 16<<10) + `"}}`, ""},
		{"an empty message", 400, `{"error": {"message": ""}}`, ""},
	} {
		bubble(t, c.name, func(t *testing.T) {
			x := waits(t, 1)
			advance(time.Second)
			x.goesOn()
			x.do(func() {
				x.w.Header().Set("Content-Type", "application/json")
				x.w.WriteHeader(c.status)
			})
			for _, b := range []byte(c.body) {
				if _, err := x.tryWrite(string(b)); err != nil {
					t.Fatal(err)
				}
			}
			x.ret(nil).wantSwallowed(t)
			want := c.value
			if want == "" {
				want = `{"message":"the answer to the request was no stream, but had the status ` + fmt.Sprint(c.status, " ", http.StatusText(c.status)) + `","type":"upstream_error","param":null,"code":"agent_error"}`
			}
			var value struct{ Message string }
			if err := json.Unmarshal([]byte(want), &value); err != nil {
				t.Fatal(err)
			}
			message, _ := json.Marshal(value.Message)
			x.wantBody(status(idle+",", youAreNext) + errorOf(want, string(message)))
			equal(t, x.result().Outcome, "agent_error", "outcome")
			equal(t, x.result().Status, 200, "status")
			x.wantFree()
		})
	}
}

// TestReportThatHangs: the error of upstream's that does not come whole is one of those that end the wait
// for it.
func TestReportThatHangs(t *testing.T) {
	for name, c := range map[string]struct {
		limits, code string
		do           func(x *inLine)
	}{
		"a drain":   {"drain=10s", "shutting_down", func(x *inLine) { x.streams.Shutdown(0); advance(10 * time.Second) }},
		"a timeout": {"idle=10s", "upstream_timeout", func(*inLine) { advance(10 * time.Second) }},
	} {
		bubble(t, name, func(t *testing.T) {
			x := waits(t, 1, limits(c.limits))
			advance(time.Second)
			x.goesOn()
			x.do(func() { x.w.WriteHeader(500) })
			x.write(`{"error": {"mess`)
			c.do(x)
			x.wantStopped()
			equal(t, strings.Contains(x.rec.body.String(), `"code":"`+c.code+`"`) && strings.HasSuffix(x.rec.body.String(), done), true, "the end")
			x.ret(nil).wantSwallowed(t)
			x.wantFree()
		})
	}
}

// TestEmptyStreamsAfterTheWait: a response without an event has its last one all the same.
func TestEmptyStreamsAfterTheWait(t *testing.T) {
	for name, path1 := range map[string]string{"chat": chatPath, "session": sessionPath, "response": responsesPath} {
		bubble(t, name, func(t *testing.T) {
			x := waits(t, 1, path(path1), header(proxy.ProgressHeader, "off"))
			advance(time.Second)
			x.goesOn()
			x.stream()
			x.write(": ping\n\n")
			x.ret(nil).wantSwallowed(t)
			for _, want := range map[string][]string{
				"chat": {`"code":"upstream_incomplete"`, done}, "session": {"event: error", "event: done"},
				"response": {"event: response.failed", `"code":"server_error"`, `"hermes_code":"upstream_incomplete"`},
			}[name] {
				equal(t, strings.Contains(x.rec.body.String(), want), true, want)
			}
			equal(t, x.result().Outcome, "upstream_incomplete", "outcome")
		})
	}
}

// TestUpstreamEndsAfterTheWait: without an answer.
func TestUpstreamEndsAfterTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		how    func(*exchange) ending
		goesOn string
		code   string
	}{
		"it returns":      {func(x *exchange) ending { return x.ret(nil) }, "", "upstream_incomplete"},
		"it aborts":       {(*exchange).abort, "", "upstream_aborted"},
		"it panics":       {func(x *exchange) ending { return x.panics("boom") }, "panic", "upstream_aborted"},
		"bad gateway":     {func(x *exchange) ending { return x.ret(statusError(502)) }, "", "upstream_aborted"},
		"gateway timeout": {func(x *exchange) ending { return x.ret(statusError(504)) }, "", "upstream_timeout"},
		"forbidden":       {func(x *exchange) ending { return x.ret(statusError(403)) }, "", "agent_error"},
		"an error":        {func(x *exchange) ending { return x.ret(errTest) }, "", "upstream_aborted"},
	} {
		bubble(t, name, func(t *testing.T) {
			x := waits(t, 1, withStatuses())
			advance(time.Second)
			x.goesOn()
			c.how(x.exchange).want(t, c.goesOn)
			equal(t, x.result().Code, c.code, "code")
			equal(t, strings.HasSuffix(x.rec.body.String(), done), true, "an end")
			equal(t, strings.Contains(x.rec.body.String(), `"code":"`+c.code+`"`), true, "the code leaves")
			x.wantFree()
		})
	}
	for name, p := range map[string]string{"chat": chatPath, "session": sessionPath} {
		bubble(t, "no upstream, "+name, func(t *testing.T) {
			x := waits(t, 1, withStatuses(), path(p))
			advance(time.Second)
			x.goesOn()
			x.ret(statusError(503)).wantSwallowed(t)
			equal(t, strings.Contains(x.rec.body.String(), "the agent could not be reached"), true, "nothing runs")
		})
	}
}

// tooManyRuns is the body with which Hermes refuses a run.
const tooManyRuns = `{"error": {"message": "Too many concurrent runs (max 10)", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"}}`

// wantRefused checks that the client got upstream's refusal, as it was.
func (l *inLine) wantRefused(after string) {
	l.t.Helper()
	equal(l.t, l.rec.status, 429, "status")
	equal(l.t, l.rec.sent.Get("X-Refused"), "yes", "the refusal's header")
	equal(l.t, l.rec.sent.Get("Retry-After"), after, "Retry-After")
	l.wantBody(tooManyRuns)
}

// refuses has the next handler refuse the request as Hermes does.
func (l *inLine) refuses(after string) {
	l.t.Helper()
	l.do(func() {
		l.w.Header().Set("X-Refused", "yes")
		l.w.Header().Set("Content-Type", "application/json")
		if after != "" {
			l.w.Header().Set("Retry-After", after)
		}
		l.w.WriteHeader(429)
		_, _ = io.WriteString(l.w, tooManyRuns)
		_ = http.NewResponseController(l.w).Flush()
	})
}

// nextTry ends the handler that has refused, in the way how, and waits until it runs again.
func (l *inLine) nextTry(how func() error) {
	l.t.Helper()
	l.steps <- func() (bool, error) { return true, how() }
	<-l.ack
}

// TestUpstreamRefuses: its 429 sends the request back into the line, and it comes again as it was.
func TestUpstreamRefuses(t *testing.T) {
	for name, how := range map[string]func() error{
		"and ends": func() error { return nil }, "and aborts": func() error { panic(http.ErrAbortHandler) }, "and fails": func() error { return errTest },
	} {
		bubble(t, name, func(t *testing.T) {
			polluted := `{"stream":true,"messages":[{"role":"assistant","content":"Look.\n` + "`💻 ls`" + `\nDone."}]}`
			x := waits(t, 0, body(polluted), func(_ *options, r *http.Request, rec *recorder) {
				rec.header.Set("X-Front", "yes")
				r.Header.Set("X-Mine", "yes")
			})
			<-x.ack
			hear := func() (heard string) {
				x.do(func() {
					x.up.Header.Add("X-Mine", "again")
					x.up.URL.Path += "/x"
					b, err := io.ReadAll(x.up.Body)
					heard = fmt.Sprint(x.up.Header, x.up.URL, x.up.ContentLength, string(b), err, x.up.Body.Close(), x.w.Header())
				})
				return heard
			}
			first, begun := hear(), time.Now()
			for range 3 {
				x.refuses("2")
				x.nextTry(how)
				equal(t, hear(), first, "what upstream hears again")
			}
			if took := time.Since(begun); took < 6*time.Second {
				t.Errorf("3 tries took %v", took)
			}
			x.stream()
			x.write(role, text("a"), fullStop, done)
			x.ret(nil).wantSwallowed(t)
			x.wantBody(status(idle+",", youAreNext) + status(idle+",", yourTurn) + role + text("a") + fullStop + done)
			equal(t, x.rec.sent.Get("X-Refused")+x.rec.header.Get("X-Refused"), "", "the refusal's header")
			equal(t, x.rec.sent.Get("X-Front"), "yes", "the header of handlers in front")
			equal(t, len(x.ends), 1, "ends observed")
			equal(t, x.result().Outcome, proxy.OutcomeOK, "outcome")
			x.wantFree()
		})
	}
	bubble(t, "of a user whom upstream is told", func(t *testing.T) {
		name := func(*http.Request) string { return "alice" }
		x := waits(t, 0, header(proxy.SessionKeyHeader, "mallory"), header(proxy.SessionIDHeader, "mallory"), option(func(o *options) {
			o.Identity = proxy.Identity{Header: name, Session: name}
		}))
		<-x.ack
		first := fmt.Sprint(x.up.Header)
		x.refuses("1")
		x.nextTry(func() error { return nil })
		equal(t, fmt.Sprint(x.up.Header), first, "what upstream hears again")
		equal(t, x.up.Header.Get(proxy.SessionKeyHeader), "alice", "the user")
		x.ret(nil)
	})
	bubble(t, "and cannot be reached then", func(t *testing.T) {
		x := waits(t, 0, statusOf(502))
		<-x.ack
		x.do(func() { x.try(true) })
		x.refuses("1")
		x.nextTry(func() error { return nil })
		x.do(func() { x.try(false) })
		x.ret(errTest).wantSwallowed(t)
		equal(t, strings.Contains(x.rec.body.String(), "the agent could not be reached"), true, "nothing runs")
		x.wantFree()
	})
	bubble(t, "and panics", func(t *testing.T) {
		x := waits(t, 0)
		<-x.ack
		x.refuses("1")
		x.panics("boom").want(t, "panic")
		x.wantFree()
	})
	bubble(t, "forever", func(t *testing.T) {
		x := waits(t, 0, body(`{"messages":[]}`))
		<-x.ack
		x.steps <- func() (bool, error) { return false, nil }
		for i := 0; ; i++ {
			select {
			case <-x.ack:
				x.refuses("")
				x.steps <- func() (bool, error) { return true, nil }
				continue
			case e := <-x.ended:
				x.over = true
				e.wantSwallowed(t)
			}
			if i < 50 || i > 70 {
				t.Errorf("%d tries within a minute", i)
			}
			break
		}
		x.wantRefused("")
		x.wantFree()
	})
	for name, after := range map[string]string{
		"for too long": "3600", "for too long, a date": "Wed, 21 Oct 2099 07:28:00 GMT", "for all time": "9223372036854775807",
	} {
		bubble(t, name, func(t *testing.T) {
			x := waits(t, 0, body(`{"messages":[]}`))
			<-x.ack
			x.refuses(after)
			begun := time.Now()
			x.steps <- func() (bool, error) { return true, nil }
			x.end().wantSwallowed(t)
			equal(t, time.Since(begun), time.Minute, "the wait")
			x.wantRefused(after)
			x.wantFree()
		})
		bubble(t, name+", and a place comes free", func(t *testing.T) {
			x := waits(t, 0)
			x.o.Runs = 2
			other, err := x.lines.Join("b", x.o, queue.Client{3})
			if err != nil {
				t.Fatal(err)
			}
			<-x.ack
			x.refuses(after)
			x.steps <- func() (bool, error) { return true, nil }
			advance(time.Second)
			other.Done()
			<-x.ack
			x.stream()
			x.write(role, text("a"), fullStop, done)
			x.ret(nil).wantSwallowed(t)
			x.wantBody(status(idle+",", youAreNext) + status(idle+",", yourTurn) + role + text("a") + fullStop + done)
			x.wantFree()
		})
	}
	bubble(t, "a body that is not whole", func(t *testing.T) {
		x := waits(t, 0, header("Incremental", "?1"))
		<-x.ack
		x.refuses("1")
		x.ret(nil).wantSwallowed(t)
		x.wantRefused("1")
		x.wantFree()
	})
	bubble(t, "for too long after the header", func(t *testing.T) {
		x := waits(t, 1)
		advance(time.Second)
		x.goesOn()
		x.refuses("3600")
		x.steps <- func() (bool, error) { return true, nil }
		advance(time.Minute)
		x.end().wantSwallowed(t)
		x.wantBody(status(idle+",", youAreNext) +
			errorOf(`{"message": "Too many concurrent runs (max 10)", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"}`, `"Too many concurrent runs (max 10)"`))
	})
	bubble(t, "and the client leaves", func(t *testing.T) {
		x := waits(t, 0)
		<-x.ack
		x.refuses("10")
		x.steps <- func() (bool, error) { return true, nil }
		synctest.Wait()
		x.leave()
		x.end().wantSwallowed(t)
		equal(t, x.result().Outcome, proxy.OutcomeClientGone, "outcome")
		x.wantFree()
	})
	bubble(t, "in a drain", func(t *testing.T) {
		x := waits(t, 0, limits("drain=10s"))
		<-x.ack
		x.streams.Shutdown(0)
		x.refuses("1")
		x.steps <- func() (bool, error) { return true, nil }
		x.end().wantSwallowed(t)
		x.wantAnswerOf(502, "shutting_down", false)
		x.wantFree()
	})
}

// TestOtherRefusals: a 429 that is not Hermes' own may come after the agent has begun, such as that of
// the model's provider. It is the answer, byte for byte, and the agent is not asked again.
func TestOtherRefusals(t *testing.T) {
	const provider = `{"error": {"message": "Rate limit reached for gpt-5", "type": "tokens", "param": null, "code": "rate_limit_exceeded"}}`
	for name, c := range map[string]struct {
		media, encoding, body string
		end                   error
	}{
		"of a provider":            {media: "application/json", body: provider},
		"with another code":        {media: "application/json", body: strings.Replace(tooManyRuns, "rate_limit_exceeded", "agent_error", 1)},
		"that quotes Hermes'":      {media: "application/json", body: strings.Replace(tooManyRuns, "Too many", "429: Too many", 1)},
		"with an empty body":       {media: "application/json"},
		"with an empty object":     {media: "application/json", body: "{}"},
		"of no object":             {media: "application/json", body: "[" + tooManyRuns + "]"},
		"with more than an object": {media: "application/json", body: tooManyRuns + tooManyRuns},
		"that is no JSON":          {media: "application/json", body: strings.Replace(tooManyRuns, `"code"`, "code", 1)},
		"that is too large":        {media: "application/json", body: strings.Replace(tooManyRuns, "}}", strings.Repeat(" ", 16<<10)+"}}", 1)},
		"of another media type":    {media: "text/html", body: tooManyRuns},
		"of events":                {media: "text/event-stream", body: "data: " + tooManyRuns + "\n\n"},
		"compressed":               {media: "application/json", encoding: "gzip", body: tooManyRuns},
		"that breaks off":          {media: "application/json", body: tooManyRuns[:50], end: http.ErrAbortHandler},
	} {
		for way, told := range map[string]bool{"": false, ", to a client that was told": true} {
			bubble(t, name+way, func(t *testing.T) {
				x := waits(t, 1, body(asksForStream))
				if told {
					advance(time.Second)
				}
				x.goesOn()
				x.do(func() {
					x.w.Header().Set("Content-Type", c.media)
					if c.encoding != "" {
						x.w.Header().Set("Content-Encoding", c.encoding)
					}
					x.w.Header().Set("Retry-After", "1")
					x.w.WriteHeader(429)
				})
				for _, b := range []byte(c.body) {
					if _, err := x.tryWrite(string(b)); err != nil {
						t.Fatal(err)
					}
				}
				if c.end != nil {
					x.panics(c.end)
				} else {
					x.ret(nil).wantSwallowed(t)
				}
				if told {
					equal(t, strings.HasSuffix(x.rec.body.String(), done), true, "the stream ends")
				} else {
					equal(t, x.rec.status, 429, "status")
					equal(t, x.rec.sent.Get("Retry-After"), "1", "Retry-After")
					x.wantBody(c.body)
				}
				x.wantFree()
			})
		}
	}
}

// TestNoDeadlineInLine: deadlines begin when the request goes on.
func TestNoDeadlineInLine(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		x := waits(t, 1, limits("first=5s idle=5s stall=5s"))
		advance(50 * time.Second)
		x.goesOn()
		advance(5*time.Second - 1)
		x.wantRunning()
		advance(1)
		x.wantStopped()
		equal(t, strings.Contains(x.rec.body.String(), "upstream_timeout"), true, "the error finish")
	})
}

// deadlined is an inner writer with a deadline.
type deadlined struct {
	*recorder
	deadline time.Time
}

func (w *deadlined) SetWriteDeadline(d time.Time) error {
	w.deadline = d
	return nil
}

func (w *deadlined) Write(b []byte) (int, error) {
	if !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
		return 0, context.DeadlineExceeded
	}
	return w.recorder.Write(b)
}

// serveStream has the next handler answer a request for a stream.
func serveStream(w http.ResponseWriter, o *options, turn func(*http.Request) (*queue.Turn, error), next func(http.ResponseWriter, *http.Request)) {
	o.queue.Turn = turn
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asksForStream))
	_ = o.serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
		next(w, r)
		return nil
	})
}

// TestRefusedTriesLeaveNoDeadline: one that a handler has set for its writes is gone with its answer.
func TestRefusedTriesLeaveNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines queue.Lines
		tries := 0
		w := &deadlined{recorder: &recorder{t: t, header: make(http.Header)}}
		serveStream(w, &options{Options: proxy.Options{Limits: proxy.Limits{Keepalive: time.Second}}}, func(*http.Request) (*queue.Turn, error) {
			return lines.Join("b", queue.Options{Runs: 1, Wait: time.Hour, Waiting: 1}, queue.Client{})
		}, func(rw http.ResponseWriter, _ *http.Request) {
			if tries++; tries == 1 {
				_ = http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Second))
				rw.Header().Set("Retry-After", "10")
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(rw, tooManyRuns)
				return
			}
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, role+text("Hello")+fullStop+done)
		})
		equal(t, tries, 2, "tries")
		equal(t, strings.HasPrefix(w.body.String(), status(idle+",", youAreNext)+"data: {"+idle+"}\n\n"), true, "it is told")
		equal(t, strings.HasSuffix(w.body.String(), role+text("Hello")+fullStop+done), true, "it gets the answer")
		equal(t, w.deadline.IsZero(), true, "no deadline")
	})
}

// TestWaitedStreamsAreTheSame: what a client that has waited is sent is what it was told and exactly
// what it would have been sent without waiting.
func TestWaitedStreamsAreTheSame(t *testing.T) {
	files, err := filepath.Glob("../../testdata/captures/*/*.sse")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, file := range files {
		recorded, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(2) == 0 {
			recorded = append([]byte("\xef\xbb\xbf"), recorded...)
		}
		if random.IntN(3) == 0 {
			recorded = recorded[:random.IntN(len(recorded))]
		}
		if strings.Contains(file, "runs.") {
			continue // which other requests read
		}
		p := chatPath
		if strings.Contains(file, "response") {
			p = responsesPath
		} else if strings.Contains(file, "session") {
			p = sessionPath
		}
		cut := 1 + random.IntN(len(recorded)+1)
		if random.IntN(3) == 0 {
			cut = 1
		}
		bubble(t, filepath.Base(file), func(t *testing.T) {
			sent := func(before int) []byte {
				x := waits(t, before, path(p))
				if before > 0 {
					advance(time.Second)
				}
				x.goesOn()
				x.stream()
				told := x.rec.body.Len()
				for from := 0; from < len(recorded); from += cut {
					if _, err := x.tryWrite(string(recorded[from:min(from+cut, len(recorded))])); err != nil {
						t.Fatal(err)
					}
				}
				x.ret(nil).wantSwallowed(t)
				return x.rec.body.Bytes()[told:]
			}
			want := bytes.TrimPrefix(sent(0), []byte("\xef\xbb\xbf"))
			if bytes.HasPrefix(want, []byte("{")) { // an error instead of the answer, which has not begun
				return
			}
			if got := sent(1); !bytes.Equal(got, want) {
				t.Errorf("after the wait the client was sent\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// exiting is an inner writer that ends the goroutine of the first write.
type exiting struct {
	*recorder
	exited bool
}

func (w *exiting) Write(b []byte) (int, error) {
	if !w.exited {
		w.exited = true
		runtime.Goexit()
	}
	return w.recorder.Write(b)
}

// TestWriterThatEndsItsGoroutineHoldsNothingUp: a client that waits is told so in a goroutine
// of its own.
func TestWriterThatEndsItsGoroutineHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines queue.Lines
		join := func() (*queue.Turn, error) {
			return lines.Join("b", queue.Options{Runs: 1, Wait: time.Hour, Waiting: 1}, queue.Client{1})
		}
		first, err := join()
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, first.Done)
		w, served := &exiting{recorder: &recorder{t: t, header: make(http.Header)}}, false
		serveStream(w, new(options), func(*http.Request) (*queue.Turn, error) { return join() }, func(w http.ResponseWriter, _ *http.Request) {
			served = true
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, role+text("hi"))
		})
		equal(t, w.exited && served, true, "exited and served")
	})
}
