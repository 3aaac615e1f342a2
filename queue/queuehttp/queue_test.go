package queuehttp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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
	idle = `"id":"","object":"chat.completion.chunk","created":946684800,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":null}]`
)

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
	l.T.Helper()
	for _, turn := range l.before {
		turn.Done()
	}
	l.before = nil
	<-l.Ack
}

// end waits until the guard has let the request go, and returns how. The next handler has not
// run, or has ended.
func (l *inLine) end() ending {
	l.T.Helper()
	l.Over = true
	return <-l.Ended
}

// wantFree checks that no place is lost.
func (l *inLine) wantFree() {
	l.T.Helper()
	advance(10 * time.Second) // after a refusal nobody gets one at once
	turn, err := l.lines.Join("b", queue.Options{Runs: 1}, queue.Client{2})
	if err != nil {
		l.T.Fatalf("the place is lost: %v", err)
	}
	turn.Done()
}

// status returns a status of upstream's form, with the members of a chunk or without.
func status(members, text string) string {
	return "event: hermes.status\ndata: {" + members + `"kind": "lifecycle", "text": "` + text + "\"}\n\n"
}

// shown returns a status in a chat, with the members of a chunk and its status line.
func shown(text string) string {
	return "event: hermes.status\ndata: {" + idle + `,"kind": "lifecycle", "text": "` + text + `","event":{"type":"status","data":{"description":"` + text + "\",\"done\":true}}}\n\n"
}

// over returns the status in a chat that is sent when the wait is over, whose status line is hidden.
func over() string {
	return "event: hermes.status\ndata: {" + idle + `,"kind": "lifecycle", "text": "` + yourTurn + `", "event": ` + hidden(yourTurn) + "}\n\n"
}

func hidden(text string) string {
	return `{"type":"status","data":{"description":"` + text + `","done":true,"hidden":true}}`
}

// hides returns the frame that hides the status line of a stream that ends with an error.
func hides() string {
	return "event: hermes.card\ndata: {" + idle + `,"event":` + hidden("Waiting in line") + "}\n\n"
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
		x := waits(t, 3, limits("keepalive=10s"), func(o *options, _ *http.Request, rec *recorder) {
			o.Announce = "v1.2.3"
			rec.Fields.Set("Access-Control-Allow-Origin", "*")
		})
		advance(time.Second - 1)
		x.WantLog()
		advance(1)
		x.WantBody(shown(twoBefore))
		equal(t, x.Rec.Status, 200, "status")
		equal(t, fmt.Sprint(x.Rec.Sent), "map[Access-Control-Allow-Origin:[*] Cache-Control:[no-cache] Content-Type:[text/event-stream] X-Accel-Buffering:[no] X-Hermes-Sidecar:[v1.2.3]]", "header")
		equal(t, x.Rec.Log[len(x.Rec.Log)-1], "flush", "the last call")
		want := shown(twoBefore)
		x.before[0].Done()
		x.before[1].Done()
		x.before = x.before[2:]
		advance(time.Second)
		want += shown(youAreNext)
		x.WantBody(want)
		advance(10*time.Second - 1)
		x.WantBody(want)
		advance(1)
		want += "data: {" + idle + "}\n\n"
		x.WantBody(want)
		if x.W != nil {
			t.Fatal("the next handler runs")
		}
		x.goesOn()
		x.Stream("X-Hermes-Session-Id", "s", "Content-Type", "text/event-stream; charset=utf-8")
		x.Write(role, text("Hello"))
		want += over() + role + text("Hello")
		x.WantBody(want)
		for range 3 { // from now on the keepalives are those of the stream
			advance(10 * time.Second)
			want += "data: {" + strings.NewReplacer(`"id":""`, `"id":"chatcmpl-1"`, "946684800", "1795164799").Replace(idle) + "}\n\n"
			x.WantBody(want)
		}
		x.Write(fullStop, done)
		x.Ret(nil).WantSwallowed(t)
		x.WantBody(want + fullStop + done)
		equal(t, x.Rec.Fields.Get("X-Hermes-Session-Id"), "", "what came after the header")
		equal(t, x.Result().Outcome, proxy.OutcomeOK, "outcome")
		equal(t, x.turn.Waited(), 12*time.Second, "waited")
		equal(t, append(x.Lines, "nothing")[0], "begin /v1/chat/completions chat", "the first of what was observed")
		x.wantFree()
	})
}

// TestWaitingForms: what a waiting client is sent in each form and by each API: a status, a
// keepalive, and another status when it is its turn. A chat's answer follows as it is.
func TestWaitingForms(t *testing.T) {
	const unnamed = "data: {" + idle + `,"kind": "lifecycle", "text": "` + oneBefore + `"`
	bare, kept, off := status("", oneBefore), "data: {"+idle+"}\n\n", rewrite.Options{NoStatusLine: true}
	for _, c := range []struct {
		name, path, form  string
		o                 rewrite.Options
		status, keepalive string
	}{
		{"envelope", chatPath, "", rewrite.Options{}, shown(oneBefore), kept},
		{"unnamed", chatPath, "unnamed", rewrite.Options{NoCards: true}, strings.Replace(shown(oneBefore), "event: hermes.status\n", "", 1), kept},
		{"no status_line", chatPath, "", off, status(idle+",", oneBefore), kept},
		{"unnamed, no status_line", chatPath, "unnamed", off, unnamed + "}\n\n", kept},
		{"bare", chatPath, "bare", rewrite.Options{}, bare, kept},
		{"comment", chatPath, "comment", rewrite.Options{}, `: hermes.status {"kind": "lifecycle", "text": "` + oneBefore + "\"}\n\n", kept},
		{"off", chatPath, "off", rewrite.Options{}, "", kept},
		{"keepalives are comments", chatPath, "bare", rewrite.Options{KeepaliveForm: rewrite.KeepaliveComment}, bare, beat},
		{"of a session", sessionPath, "", rewrite.Options{}, bare, beat},
		{"of a response", responsesPath, "", rewrite.Options{}, `: hermes.status {"kind": "lifecycle", "text": "` + oneBefore + "\"}\n\n", beat},
	} {
		bubble(t, c.name, func(t *testing.T) {
			x := waits(t, 2, path(c.path), header(proxy.ProgressHeader, c.form), limits("keepalive=10s"), option(func(o *options) { o.Rewrite = c.o }))
			advance(time.Second)
			equal(t, x.Rec.Status, 200, "status after a second")
			advance(10 * time.Second)
			want := c.status + c.keepalive
			x.WantBody(want)
			x.goesOn()
			x.WantBody(want)
			x.Stream()
			want += strings.Replace(strings.ReplaceAll(c.status, oneBefore, yourTurn),
				`,"event":{"type":"status","data":{"description":"`+yourTurn+`","done":true}}`, `, "event": `+hidden(yourTurn), 1)
			x.WantBody(want)
			if c.path != chatPath {
				x.Leave()
				x.Ret(nil)
				return
			}
			x.Write(role, text("Hello"), fullStop, done)
			x.Ret(nil).WantSwallowed(t)
			x.WantBody(want + role + text("Hello") + fullStop + done)
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
			x.WantLog()
			x.goesOn()
			x.Do(func() {
				b, err := io.ReadAll(x.Up.Body)
				if string(b) != c.body || err != nil {
					t.Errorf("upstream gets %q, %v", b, err)
				}
			})
			x.AnswerWhole(`{"a":1}`)
			x.Write(`{"a":1}`)
			x.Ret(nil).WantSwallowed(t)
			x.WantBody(`{"a":1}`)
			equal(t, x.Rec.Sent.Get("X-Hermes-Session-Id"), "b58e0870", "upstream's header")
			x.wantFree()
		})
	}
	bubble(t, "a reply that fails", func(t *testing.T) {
		x := waits(t, 1, body(`{"stream":true,"messages":[{"role":"user","content":"approve K7QF-2M9D"}]}`), option(func(o *options) {
			o.Approvals.Reply = func(http.ResponseWriter, *http.Request, rewrite.Reply, rewrite.AnswerForm) (bool, error) {
				return true, errTest
			}
			o.Approvals.Secrets = func(*http.Request) rewrite.Secrets { return rewrite.Secrets{"K7QF-2M9D": true} }
		}))
		x.end().WantEnd(t, nil, errTest)
	})
	for _, c := range []struct{ name, method, path string }{
		{"no POST", http.MethodGet, chatPath}, {"no run", http.MethodPost, "/v1/models"}, {"events", http.MethodPost, "/v1/runs/r1/events"},
	} {
		bubble(t, c.name+" does not wait", func(t *testing.T) {
			x := waits(t, 1, method(c.method), path(c.path))
			<-x.Ack
			x.Ret(nil)
		})
	}
}

// TestNoPlace: the line is full, or the request has waited for too long.
func TestNoPlace(t *testing.T) {
	const full, late = "queue_full", "queue_timeout"
	check := func(t *testing.T, x *inLine, code string) {
		t.Helper()
		equal(t, x.Rec.Status, 429, "status")
		equal(t, x.Rec.Sent.Get("Retry-After"), "10", "Retry-After")
		equal(t, x.Rec.Sent.Get("X-Should-Retry"), "", "X-Should-Retry")
		equal(t, x.Rec.Sent.Get("Content-Type"), "application/json", "Content-Type")
		var got struct{ Error map[string]any }
		if err := json.Unmarshal(x.Rec.Body.Bytes(), &got); err != nil || len(got.Error) != 4 || got.Error["code"] != code ||
			got.Error["type"] != "rate_limit_error" || got.Error["message"] != rewrite.Message(code) || got.Error["param"] != nil {
			t.Errorf("the answer is %s", x.Rec.Body.String())
		}
		if x.W != nil {
			t.Error("the next handler has run")
		}
	}
	bubble(t, "full", func(t *testing.T) {
		x := waits(t, 1, func(o *options, _ *http.Request, _ *recorder) {
			o.Announce = "v1.2.3"
			o.queue.Turn = func(*http.Request) (*queue.Turn, error) { return nil, queue.ErrFull }
		})
		x.end().WantSwallowed(t)
		check(t, x, full)
		equal(t, x.Rec.Sent.Get(proxy.SidecarHeader), "v1.2.3", "the announcement")
		equal(t, x.Result().Outcome, full, "outcome")
	})
	bubble(t, "timeout", func(t *testing.T) {
		x := waits(t, 1, body(`{"messages":[]}`))
		advance(time.Minute)
		x.end().WantSwallowed(t)
		check(t, x, late)
		equal(t, x.Result().Outcome, late, "outcome")
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
			x.end().WantSwallowed(t)
			_, got, _ := strings.Cut("\n\n"+x.Rec.Body.String(), "\n\n")
			if i := strings.Index(got, c.want); i < 0 || got[i:] != c.want {
				t.Errorf("the client was sent\n%s\nwant at its end\n%s", got, c.want)
			}
			equal(t, x.Result().Outcome, late, "outcome")
			equal(t, x.Result().Status, 200, "status")
			if x.W != nil {
				t.Error("the next handler has run")
			}
		})
	}
}

// TestLeavingTheLine: a client that leaves loses its place at once, and upstream does not hear of it.
func TestLeavingTheLine(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Millisecond, 2 * time.Second} {
		for name, leave := range map[string]func(*inLine){
			"it leaves":          func(x *inLine) { x.Leave() },
			"its turn comes too": func(x *inLine) { x.before[0].Done(); x.Leave() },
		} {
			bubble(t, fmt.Sprint(name, " after ", after), func(t *testing.T) {
				x := waits(t, 1)
				advance(after)
				leave(x)
				synctest.Wait()
				if name == "its turn comes too" {
					select {
					case <-x.Ack: // the turn came first
						x.UntilCancelled()
					case e := <-x.Ended:
						x.Ended <- e
					}
				}
				if !x.Over {
					x.end().WantSwallowed(t)
				}
				for _, turn := range x.before {
					turn.Done()
				}
				equal(t, x.Result().Outcome, proxy.OutcomeClientGone, "outcome")
				if after < time.Second && x.W == nil {
					equal(t, x.Rec.Status, 499, "the status of a client that was told nothing")
				}
				x.wantFree()
			})
		}
	}
	bubble(t, "its connection breaks", func(t *testing.T) {
		x := waits(t, 1, func(_ *options, _ *http.Request, rec *recorder) {
			rec.OnWrite = func([]byte) (int, error) { return 0, errTest }
		})
		advance(time.Second)
		x.end().WantSwallowed(t)
		equal(t, x.Result().Outcome, proxy.OutcomeClientGone, "outcome")
		x.before[0].Done()
		x.wantFree()
	})
	bubble(t, "its writer panics", func(t *testing.T) {
		x := waits(t, 1, func(_ *options, _ *http.Request, rec *recorder) {
			rec.OnWrite = func([]byte) (int, error) { panic("boom") }
		})
		advance(time.Second)
		if e := x.end(); !strings.HasPrefix(fmt.Sprint(e.Panicked), "boom") {
			t.Errorf("the guard ended with panic %v", e.Panicked)
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
		x.Streams.Shutdown(0)
		x.end().WantSwallowed(t)
		x.WantAnswerOf(503-1, "shutting_down", false)
		equal(t, strings.Contains(x.Rec.Body.String(), before), true, "asked to send it again")
	})
	bubble(t, "after the header", func(t *testing.T) {
		x := waits(t, 1, limits("drain=10s"))
		advance(time.Second)
		x.Streams.Shutdown(0)
		x.end().WantSwallowed(t)
		x.WantBody(shown(youAreNext) + hides() + errorOf(`{"message":"`+before+`","type":"upstream_error","param":null,"code":"shutting_down"}`, `"`+before+`"`))
		equal(t, x.Result().Outcome, "shutting_down", "outcome")
	})
	bubble(t, "it began before", func(t *testing.T) {
		streams := new(proxy.Streams)
		streams.Shutdown(0)
		x := waits(t, 1, limits("drain=10s"), option(func(o *options) { o.Streams = streams }))
		x.end().WantSwallowed(t)
		x.WantAnswerOf(502, "shutting_down", false)
	})
	bubble(t, "with a free place", func(t *testing.T) {
		streams := new(proxy.Streams)
		streams.Shutdown(0)
		x := waits(t, 0, limits("drain=10s"), option(func(o *options) { o.Streams = streams }))
		x.goesOn()
		advance(10 * time.Second)
		x.WantAnswer(502, "shutting_down")
	})
	for _, p := range []string{chatPath, sessionPath, responsesPath} {
		bubble(t, "its turn has come: "+p, func(t *testing.T) {
			x := waits(t, 1, limits("drain=10s"), path(p))
			advance(time.Second)
			x.goesOn()
			x.Streams.Shutdown(0)
			advance(10 * time.Second)
			x.WantStopped()
			equal(t, strings.Contains(x.Rec.Body.String(), "the agent may be running"), true, "what the agent does")
		})
	}
}

// TestWaitedAnswersThatAreNoStreams: after the header has left, each of them is an error of the
// stream.
func TestWaitedAnswersThatAreNoStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		value  string // of the error, "" for that of the status
	}{
		{"of OpenAI's kind", 401, `{"error": {"message": "Invalid API key", "type": "invalid_request_error", "code": "invalid_api_key"}}`, `{"message": "Invalid API key", "type": "invalid_request_error", "code": "invalid_api_key","param":null}`},
		{"of no JSON", 500, "<html>", ""},
		{"without an error", 200, `{"id": "chatcmpl-1", "object": "chat.completion"}`, ""},
		{"too large", 500, `{"error": {"message": "` + strings.Repeat("a", 16<<10) + `"}}`, ""},
	} {
		bubble(t, c.name, func(t *testing.T) {
			x := waits(t, 1)
			advance(time.Second)
			x.goesOn()
			x.Do(func() {
				x.W.Header().Set("Content-Type", "application/json")
				x.W.WriteHeader(c.status)
			})
			for _, b := range []byte(c.body) {
				if _, err := x.TryWrite(string(b)); err != nil {
					t.Fatal(err)
				}
			}
			x.Ret(nil).WantSwallowed(t)
			want := c.value
			if want == "" {
				want = `{"message":"the answer to the request was not a stream, but had status ` + fmt.Sprint(c.status, " ", http.StatusText(c.status)) + `","type":"upstream_error","param":null,"code":"agent_error"}`
			}
			var value struct{ Message string }
			if err := json.Unmarshal([]byte(want), &value); err != nil {
				t.Fatal(err)
			}
			message, _ := json.Marshal(value.Message)
			x.WantBody(shown(youAreNext) + hides() + errorOf(want, string(message)))
			equal(t, x.Result().Outcome, "agent_error", "outcome")
			equal(t, x.Result().Status, 200, "status")
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
		"a drain":   {"drain=10s", "shutting_down", func(x *inLine) { x.Streams.Shutdown(0); advance(10 * time.Second) }},
		"a timeout": {"idle=10s", "upstream_timeout", func(*inLine) { advance(10 * time.Second) }},
	} {
		bubble(t, name, func(t *testing.T) {
			x := waits(t, 1, limits(c.limits))
			advance(time.Second)
			x.goesOn()
			x.Do(func() { x.W.WriteHeader(500) })
			x.Write(`{"error": {"mess`)
			c.do(x)
			x.WantStopped()
			equal(t, strings.Contains(x.Rec.Body.String(), `"code":"`+c.code+`"`) && strings.HasSuffix(x.Rec.Body.String(), done), true, "the end")
			x.Ret(nil).WantSwallowed(t)
			x.wantFree()
		})
	}
}

// TestEmptyStreamsAfterTheWait: a response without an event has its last one all the same.
func TestEmptyStreamsAfterTheWait(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"chat": {chatPath, ": ping\n\n"}, "session": {sessionPath, ": ping\n\n"}, "response": {responsesPath, ": ping\n\n"},
		"chat, no byte": {chatPath, ""}, "session, no byte": {sessionPath, ""}, "response, no byte": {responsesPath, ""},
	} {
		bubble(t, name, func(t *testing.T) {
			x := waits(t, 1, path(c.path), header(proxy.ProgressHeader, "off"))
			advance(time.Second)
			x.goesOn()
			x.Stream()
			x.Write(c.body)
			x.Ret(nil).WantSwallowed(t)
			for _, want := range map[string][]string{
				chatPath: {`"code":"upstream_incomplete"`, done}, sessionPath: {"event: error", "event: done"},
				responsesPath: {"event: response.failed", `"code":"server_error"`, `"hermes_code":"upstream_incomplete"`},
			}[c.path] {
				equal(t, strings.Contains(x.Rec.Body.String(), want), true, want)
			}
			equal(t, x.Result().Outcome, "upstream_incomplete", "outcome")
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
		"it returns":      {func(x *exchange) ending { return x.Ret(nil) }, "", "upstream_incomplete"},
		"it aborts":       {(*exchange).Abort, "", "upstream_aborted"},
		"it panics":       {func(x *exchange) ending { return x.Panics("boom") }, "panic", "upstream_aborted"},
		"bad gateway":     {func(x *exchange) ending { return x.Ret(statusError(502)) }, "", "upstream_aborted"},
		"gateway timeout": {func(x *exchange) ending { return x.Ret(statusError(504)) }, "", "upstream_timeout"},
		"forbidden":       {func(x *exchange) ending { return x.Ret(statusError(403)) }, "", "agent_error"},
		"an error":        {func(x *exchange) ending { return x.Ret(errTest) }, "", "upstream_aborted"},
	} {
		bubble(t, name, func(t *testing.T) {
			x := waits(t, 1, withStatuses())
			advance(time.Second)
			x.goesOn()
			c.how(x.exchange).Want(t, c.goesOn)
			equal(t, x.Result().Code, c.code, "code")
			equal(t, strings.HasSuffix(x.Rec.Body.String(), done), true, "an end")
			equal(t, strings.Contains(x.Rec.Body.String(), `"code":"`+c.code+`"`), true, "the code leaves")
			x.wantFree()
		})
	}
	for name, p := range map[string]string{"chat": chatPath, "session": sessionPath} {
		bubble(t, "no upstream, "+name, func(t *testing.T) {
			x := waits(t, 1, withStatuses(), path(p))
			advance(time.Second)
			x.goesOn()
			x.Ret(statusError(503)).WantSwallowed(t)
			equal(t, strings.Contains(x.Rec.Body.String(), "the agent could not be reached"), true, "nothing runs")
		})
	}
}

// TestSlowClientHoldsNoPlace: the place is free when upstream has ended, and not when the client has read the
// rest.
func TestSlowClientHoldsNoPlace(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		x := waits(t, 0)
		<-x.Ack
		x.Stream()
		x.Write(role)
		reads := make(chan struct{})
		x.Do(func() {
			x.Rec.OnWrite = func(b []byte) (int, error) {
				<-reads
				return len(b), nil
			}
		})
		x.Last(func() error { return nil })
		synctest.Wait()
		x.wantFree()
		close(reads)
		x.end().WantSwallowed(t)
		equal(t, x.Result().Outcome, "upstream_incomplete", "outcome")
	})
}

// TestNoDeadlineInLine: deadlines begin when the request goes on.
func TestNoDeadlineInLine(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		x := waits(t, 1, limits("first=5s idle=5s stall=5s"))
		advance(50 * time.Second)
		x.goesOn()
		advance(5*time.Second - 1)
		x.WantRunning()
		advance(1)
		x.WantStopped()
		equal(t, strings.Contains(x.Rec.Body.String(), "upstream_timeout"), true, "the error finish")
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
				x.Stream()
				told := x.Rec.Body.Len()
				for from := 0; from < len(recorded); from += cut {
					if _, err := x.TryWrite(string(recorded[from:min(from+cut, len(recorded))])); err != nil {
						t.Fatal(err)
					}
				}
				x.Ret(nil).WantSwallowed(t)
				return x.Rec.Body.Bytes()[told:]
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

// TestWriterThatEndsItsGoroutineHoldsNothingUp: a client that waits is told so in a goroutine
// of its own.
func TestWriterThatEndsItsGoroutineHoldsNothingUp(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		exited := false
		x := waits(t, 1, func(_ *options, _ *http.Request, rec *recorder) {
			rec.OnWrite = func(b []byte) (int, error) {
				if !exited {
					exited = true
					runtime.Goexit()
				}
				return len(b), nil
			}
		})
		advance(time.Second)
		equal(t, exited, true, "its goroutine has ended")
		x.goesOn()
		x.Stream()
		x.Write(role, text("hi"), fullStop, done)
		x.Ret(nil).WantSwallowed(t)
	})
}
