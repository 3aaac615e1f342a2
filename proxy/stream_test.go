package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestHeaderIsHeldUntilTheFirstCompleteFrame, whatever becomes of that, or until the first
// part of one that is too large.
func TestHeaderIsHeldUntilTheFirstCompleteFrame(t *testing.T) {
	internal := "event: hermes.tool.progress\ndata: {\"tool\":\"_internal\",\"toolCallId\":\"c\",\"status\":\"running\"}\n\n"
	for frame, log := range map[string][]string{
		role:            {"header 200", "write " + role, "flush"},
		text("`💻 l`"):   {"header 200", "flush"}, // is held
		internal:        {"header 200", "flush"}, // is dropped
		": c\n\n":       {"header 200", "write : c\n\n", "flush"},
		"data: 1\r\r\n": {"header 200", "write data: 1\r\r\n", "flush"},
	} {
		x := begin(t)
		x.Stream()
		for _, piece := range []string{frame[:len(frame)/2], frame[len(frame)/2 : len(frame)-2]} {
			x.Flush()
			x.Write(piece)
		}
		x.WantLog()
		x.Write(frame[len(frame)-2:])
		x.WantLog(log...)
		x.Ret(nil)
	}
	const large = "data: 01234567890123456789"
	x := begin(t, option(func(o *proxy.Options) { o.Rewrite.MaxFrame = 16 }))
	x.Stream()
	x.Write(large)
	x.WantLog("header 200", "write "+large, "flush")
	x.Abort().WantSwallowed(t)
	if got := x.Rec.Body.String(); !strings.HasPrefix(got, large+"\n\ndata: {\"error\":") {
		t.Errorf("want a blank line and an error finish after what has left:\n%s", got)
	}
}

func TestEndBeforeTheFirstFrameIsAnAnswer(t *testing.T) {
	for how, answer := range map[string]string{
		"abort": "502:aborted", "error": "502:aborted", "end": "502:incomplete", "timeout": "504:timeout",
	} {
		for _, before := range []string{"", "half"} {
			does := "header flush " + before + " " + how
			scene{name: does, does: does, answers: answer}.run(t)
		}
	}
	x := begin(t)
	x.Stream(
		"Content-Length", "4711", "Cache-Control", "no-cache", "Trailer", "X-Sum", "Etag", `"1"`,
		"X-Hermes-Session-Id", "b58e0870",
	)
	x.WantLog()
	x.Do(func() { x.W.Header().Set("X-Sum", "42") }) // as a reverse proxy hands a trailer on
	x.Abort().WantSwallowed(t)
	x.WantLog("header 502", "write "+x.Rec.Body.String(), "flush")
	for name, want := range map[string]string{
		"X-Accel-Buffering": "", "Trailer": "", "X-Sum": "", "Transfer-Encoding": "", "Etag": "", "Content-Encoding": "",
		"X-Hermes-Session-Id": "b58e0870", "Cache-Control": "no-store",
	} {
		equal(t, x.Rec.Sent.Get(name), want, name+" of an answer that is no stream")
	}
	equal(t, x.Result().Status, http.StatusBadGateway, "status")
}

// TestEndAfterAKeepaliveIsAnErrorFinish, in the name of a completion that looks like Hermes'
// own, and like no other.
func TestEndAfterAKeepaliveIsAnErrorFinish(t *testing.T) {
	seen := make(map[string]bool)
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			x, begun := begin(t, limits("keepalive=10s")), time.Now()
			x.Stream()
			advance(10 * time.Second)
			x.WantLog("header 200", "write "+beat, "flush")
			x.Abort().WantSwallowed(t)
			id := regexp.MustCompile(`chatcmpl-[0-9a-f]{29}`).FindString(x.Rec.Body.String())
			own := strings.NewReplacer("chatcmpl-1", id, "1795164799", fmt.Sprint(begun.Unix()))
			x.WantBody(beat + own.Replace(errorFinish("upstream_aborted", false)))
			equal(t, seen[id], false, "an id is given twice")
			seen[id] = true
		})
	}
}

func TestErrorsOfTheNextHandlerAreAnsweredOnChatPathsOnly(t *testing.T) {
	answered := map[int]string{502: "502:aborted", 503: "503:aborted", 504: "504:timeout"}
	for _, p := range []string{chatPath, otherPath} {
		for _, status := range []int{0, 400, 401, 404, 413, 429, 500, 502, 503, 504} {
			s := scene{name: fmt.Sprint(p, " ", status), set: []setting{path(p), statusOf(status)}, does: "error"}
			if s.answers = answered[status]; s.answers == "" || p != chatPath {
				s.answers, s.outcome, s.goesOn = "", "-", "error"
			}
			s.run(t)
		}
	}
}

func TestAnswerToHeadHasNoBody(t *testing.T) {
	answered := func(m string) *exchange {
		x := begin(t, method(m), option(func(o *proxy.Options) {
			o.ErrorStatus = func(error) int { return http.StatusBadGateway }
		}))
		x.Ret(errTest).WantSwallowed(t)
		return x
	}
	head, get := answered(http.MethodHead), answered(http.MethodGet)
	head.WantLog("header 502")
	equal(t, head.Rec.Sent.Get("Content-Length"), get.Rec.Sent.Get("Content-Length"), "Content-Length, as of the body that GET has")
}

func TestClientThatLeavesDuringTheAnswerEndsNothingElse(t *testing.T) {
	x := begin(t)
	x.Rec.OnWrite = func([]byte) (int, error) { return 0, errTest }
	x.Stream()
	x.Abort()
	equal(t, len(x.Rec.Log), 2, "a header and one write")
}

// otherStream is a stream that is not one of chat completions.
type otherStream struct {
	path        string
	begin, more string // its events
	end         string // the one that ends it
	cut         string // one that is cut
	failed      func(code string) string
	id          string
}

var otherStreams = map[string]otherStream{
	"responses": {
		path:  "/v1/responses",
		id:    "resp_1",
		begin: "event: response.created\ndata: {\"type\": \"response.created\", \"response\": {\"id\": \"resp_1\", \"status\": \"in_progress\"}, \"sequence_number\": 0}\n\n",
		more:  "event: response.output_text.delta\ndata: {\"type\": \"response.output_text.delta\", \"delta\": \"x\", \"sequence_number\": 1}\n\n",
		end:   "event: response.completed\ndata: {\"type\": \"response.completed\", \"response\": {\"id\": \"resp_1\", \"status\": \"completed\"}, \"sequence_number\": 2}\n\n",
		cut:   "event: response.output_text.delta\ndata: {\"type\": \"resp",
		failed: func(code string) string {
			return fmt.Sprintf("event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\": \"resp_1\", \"status\": \"failed\",\"error\":{\"code\":\"server_error\",\"message\":%q}},\"sequence_number\":2}\n\n", rewrite.Message(code))
		},
	},
	"runs": {
		path:  "/v1/runs/run_1/events",
		id:    "run_1",
		begin: "data: {\"event\": \"message.delta\", \"run_id\": \"run_1\", \"timestamp\": 1.5, \"delta\": \"a\"}\n\n",
		more:  "data: {\"event\": \"tool.started\", \"run_id\": \"run_1\", \"timestamp\": 2.5, \"tool\": \"terminal\"}\n\n",
		end:   "data: {\"event\": \"run.completed\", \"run_id\": \"run_1\", \"timestamp\": 3.5, \"output\": \"a\"}\n\n",
		cut:   "data: {\"event\": \"tool.com",
		failed: func(code string) string {
			return "data: {\"event\": \"tool.completed\", \"run_id\": \"run_1\", \"timestamp\": 2.5, \"tool\": \"terminal\", \"duration\": 0.0, \"error\": true}\n\n" +
				fmt.Sprintf("data: {\"event\": \"run.failed\", \"run_id\": \"run_1\", \"timestamp\": 2.5, \"error\": %q}\n\n", rewrite.Message(code))
		},
	},
	"sessions": {
		path:  "/p/coder/api/sessions/s1/chat/stream",
		id:    "run_1",
		begin: "event: run.started\ndata: {\"user_message\": {}, \"session_id\": \"s1\", \"run_id\": \"run_1\", \"seq\": 1, \"ts\": 1.5}\n\n",
		more:  "event: tool.started\ndata: {\"message_id\": \"m\", \"tool_name\": \"terminal\", \"session_id\": \"s1\", \"run_id\": \"run_1\", \"seq\": 2, \"ts\": 2.5}\n\n",
		end:   "event: done\ndata: {\"session_id\": \"s1\", \"run_id\": \"run_1\", \"seq\": 3, \"ts\": 3.5}\n\n",
		cut:   "event: tool.completed\ndata: {\"mess",
		failed: func(code string) string {
			const tail = `"session_id": "s1", "run_id": "run_1", "seq": %d, "ts": 2.5}` + "\n\n"
			return fmt.Sprintf("event: tool.completed\ndata: {\"message_id\": \"m\", \"tool_name\": \"terminal\", \"preview\": null, \"args\": null, "+tail, 3) +
				fmt.Sprintf("event: error\ndata: {\"message\": %q, "+tail, rewrite.Message(code), 4) + fmt.Sprintf("event: done\ndata: {"+tail, 5)
		},
	},
}

// TestOtherStreams: one that is cut fails, in its own words. After the event that ends it
// nothing is added, and the client is not told that upstream's connection broke. Deadlines and
// keepalives are those of chat completions; a drain ends all.
func TestOtherStreams(t *testing.T) {
	for name, s := range otherStreams {
		words := map[string]string{
			"id": s.id, "begin": s.begin, "more": s.more, "ends": s.end, "cut": s.cut,
			"tail": ": stream closed\n\n", "cut-tail": ": stream cl", "late": ": hello\n\n" + s.begin + s.more,
		}
		for _, code := range []string{"upstream_aborted", "upstream_timeout", "upstream_incomplete", "shutting_down"} {
			words["failed:"+code] = s.failed(code)
		}
		cut := "header begin more cut "
		scenes := []scene{
			{does: cut + "abort", answers: "begin more failed:aborted"},
			{does: cut + "error", answers: "begin more failed:aborted"},
			{does: cut + "timeout", answers: "begin more failed:timeout"},
			{does: cut + "end", answers: "begin more failed:incomplete"},
			{does: "header begin more panic", answers: "begin more failed:aborted", goesOn: "panic"},
			{does: "header begin leave abort", answers: "begin", outcome: "client_gone", goesOn: "abort"},
			{does: "header begin leave error", answers: "begin", outcome: "client_gone", goesOn: "error"},
			{does: "header begin ends leave abort", answers: "begin ends", goesOn: "abort"},
			{does: "header begin ends leave error", answers: "begin ends", goesOn: "error"},
			{
				limits: "first=1s idle=1s stall=1s keepalive=1s grace=1s",
				does:   "header +1h begin +1h ends +1h running end", answers: "begin ends",
			},
			{
				limits: "drain=10s", does: "header begin shutdown +9s more cut +1s! stopped abort",
				answers: "begin more failed:shutdown",
			},
			{limits: "drain=1s", does: "header begin ends shutdown +1s! stopped abort", answers: "begin ends"},
		}
		for _, how := range []string{"abort", "error", "end"} {
			for _, tail := range []string{"", "tail", "cut-tail"} {
				scenes = append(scenes, scene{does: "header begin ends " + tail + " " + how, answers: "begin ends " + tail})
			}
		}
		if name == "responses" { // it shows what it is after the drain
			scenes = append(scenes, scene{
				limits: "drain=1s", does: "header shutdown +1s running late stopped abort",
				answers: "late failed:shutdown",
			})
		}
		for _, c := range scenes {
			c.name, c.set = name+", "+c.does, []setting{path(s.path)}
			c.runWith(t, words)
		}
	}
}

// TestOtherStreamsThatHaveShownNothingAreDrained: what they are is known by their path.
func TestOtherStreamsThatHaveShownNothingAreDrained(t *testing.T) {
	const message = "the service is shutting down, and the agent's answer is not complete; the agent may be running"
	for p, want := range map[string][]string{
		"/v1/runs/run_9/events":        {`data: {"event": "run.failed", "run_id": "run_9", "error": "` + message + `"}` + "\n\n"},
		"/api/sessions/s9/chat/stream": {"event: error\ndata: {\"message\": \"" + message, "event: done\ndata: {\"session_id\": \"s9\", \"seq\": 2, \"ts\": "},
	} {
		bubble(t, p, func(t *testing.T) {
			x := begin(t, path(p), limits("drain=1s"))
			for _, word := range []string{"header", "shutdown", "+1s!", "stopped"} {
				x.happens(word)
			}
			x.Abort().WantSwallowed(t)
			body := x.Rec.Body.String()
			for _, event := range want {
				if !strings.Contains(body, event) {
					t.Errorf("no %q in %s", event, body)
				}
			}
			if res := x.Result(); strings.Count(body, "\n\n") != len(want) || res.Outcome != "shutting_down" {
				t.Errorf("%+v: %s", res, body)
			}
		})
	}
}

// TestRunsAreKnownByTheirPath: what looks like a run's event elsewhere is none.
func TestRunsAreKnownByTheirPath(t *testing.T) {
	const event = `data: {"event": "message.created", "run_id": "r1"}` + "\n\n"
	for p, known := range map[string]bool{
		"/v1/runs/run_1/events": true, "/hermes/v1/runs/run_1/events": true,
		"/bus": false, "/runs/events": false, "/v1/runs/run_1": false, "/v1/runs/a/b/events": false, "/events": false, "/v1/runs//events": false,
	} {
		x := begin(t, path(p))
		x.Stream()
		x.Write(event)
		x.Ret(nil)
		equal(t, strings.Contains(x.Rec.Body.String(), "run.failed"), known, p+": run.failed")
	}
}

// forgetful is a writer that keeps nothing.
type forgetful struct{ header http.Header }

func (w forgetful) Header() http.Header         { return w.header }
func (w forgetful) WriteHeader(int)             {}
func (w forgetful) Write(b []byte) (int, error) { return len(b), nil }
func (w forgetful) Flush()                      {}

// A stream that waits keeps nothing of a large read.
func TestRoomOfALargeReadIsNotKept(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	for _, piece := range []string{"hi", `hi\n`} { // the second begins lines
		serve(forgetful{make(http.Header)}, proxy.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			writeStream(w, role+text("hi"))
			before := heapNow()
			_, _ = io.WriteString(w, strings.Repeat(text(piece), 20_000))
			runtime.GC() // once: a pool keeps what it has until the second
			if kept := heapAndGarbage() - before; kept > 256<<10 {
				t.Errorf("%q: %d bytes are kept", piece, kept)
			}
			_, _ = io.WriteString(w, stop)
		})
	}
}
