package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

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
		begin: "event: response.created\ndata: {\"type\": \"response.created\", \"response\": {\"id\": \"resp_1\", \"status\": \"in_progress\"}, \"sequence_number\": 0}\n\n",
		more:  "event: response.output_text.delta\ndata: {\"type\": \"response.output_text.delta\", \"delta\": \"x\", \"sequence_number\": 1}\n\n",
		end:   "event: response.completed\ndata: {\"type\": \"response.completed\", \"response\": {\"id\": \"resp_1\", \"status\": \"completed\"}, \"sequence_number\": 2}\n\n",
		cut:   "event: response.output_text.delta\ndata: {\"type\": \"resp",
		failed: func(code string) string {
			return fmt.Sprintf("event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\": \"resp_1\", \"status\": \"failed\",\"error\":{\"code\":\"server_error\",\"message\":%q}},\"sequence_number\":2}\n\n", rewrite.Message(code))
		},
		id: "resp_1",
	},
	"runs": {
		path:  "/v1/runs/run_1/events",
		begin: "data: {\"event\": \"message.delta\", \"run_id\": \"run_1\", \"timestamp\": 1.5, \"delta\": \"a\"}\n\n",
		more:  "data: {\"event\": \"tool.started\", \"run_id\": \"run_1\", \"timestamp\": 2.5, \"tool\": \"terminal\"}\n\n",
		end:   "data: {\"event\": \"run.completed\", \"run_id\": \"run_1\", \"timestamp\": 3.5, \"output\": \"a\"}\n\n",
		cut:   "data: {\"event\": \"tool.com",
		failed: func(code string) string {
			return "data: {\"event\": \"tool.completed\", \"run_id\": \"run_1\", \"timestamp\": 2.5, \"tool\": \"terminal\", \"duration\": 0.0, \"error\": true}\n\n" +
				fmt.Sprintf("data: {\"event\": \"run.failed\", \"run_id\": \"run_1\", \"timestamp\": 2.5, \"error\": %q}\n\n", rewrite.Message(code))
		},
		id: "run_1",
	},
	"sessions": {
		path:  "/p/coder/api/sessions/s1/chat/stream",
		begin: "event: run.started\ndata: {\"user_message\": {}, \"session_id\": \"s1\", \"run_id\": \"run_1\", \"seq\": 1, \"ts\": 1.5}\n\n",
		more:  "event: tool.started\ndata: {\"message_id\": \"m\", \"tool_name\": \"terminal\", \"session_id\": \"s1\", \"run_id\": \"run_1\", \"seq\": 2, \"ts\": 2.5}\n\n",
		end:   "event: done\ndata: {\"session_id\": \"s1\", \"run_id\": \"run_1\", \"seq\": 3, \"ts\": 3.5}\n\n",
		cut:   "event: tool.completed\ndata: {\"mess",
		failed: func(code string) string {
			const tail = `"session_id": "s1", "run_id": "run_1", "seq": %d, "ts": 2.5}` + "\n\n"
			return fmt.Sprintf("event: tool.completed\ndata: {\"message_id\": \"m\", \"tool_name\": \"terminal\", \"preview\": null, \"args\": null, "+tail, 3) +
				fmt.Sprintf("event: error\ndata: {\"message\": %q, "+tail, rewrite.Message(code), 4) + fmt.Sprintf("event: done\ndata: {"+tail, 5)
		},
		id: "run_1",
	},
}

// eachOther runs a test for each of the other streams.
func eachOther(t *testing.T, f func(t *testing.T, s otherStream)) {
	for name, s := range otherStreams {
		bubble(t, name, func(t *testing.T) { f(t, s) })
	}
}

func TestOtherStreamThatIsCutFails(t *testing.T) {
	eachOther(t, func(t *testing.T, s otherStream) {
		for _, c := range map[string]struct {
			end  func(*exchange) ending
			code string
		}{
			"abort":   {(*exchange).abort, "upstream_aborted"},
			"error":   {func(x *exchange) ending { return x.ret(errTest) }, "upstream_aborted"},
			"timeout": {func(x *exchange) ending { return x.ret(timeoutError{}) }, "upstream_timeout"},
			"end":     {func(x *exchange) ending { return x.ret(nil) }, "upstream_incomplete"},
		} {
			x := begin(t, path(s.path))
			x.stream()
			x.write(s.begin, s.more, s.cut)
			x.wantBody(s.begin + s.more)
			c.end(x).wantSwallowed(t)
			x.wantBody(s.begin + s.more + s.failed(c.code))
			if res := x.result(); res.Outcome != c.code || res.Code != c.code || res.ID != s.id {
				t.Errorf("%+v", res)
			}
		}
	})
}

type timeoutError struct{}

func (timeoutError) Error() string { return "timeout" }
func (timeoutError) Timeout() bool { return true }

// Behind the event that ends it nothing is added, and the client is not told
// that upstream's connection broke: its answer is complete.
func TestOtherStreamThatHasEndedEndsWell(t *testing.T) {
	eachOther(t, func(t *testing.T, s otherStream) {
		for _, end := range map[string]func(*exchange) ending{
			"abort": (*exchange).abort,
			"error": func(x *exchange) ending { return x.ret(errTest) },
			"end":   func(x *exchange) ending { return x.ret(nil) },
		} {
			for _, tail := range []string{"", ": stream closed\n\n", ": stream cl"} {
				x := begin(t, path(s.path))
				x.stream()
				x.write(s.begin, s.end, tail)
				end(x).wantSwallowed(t)
				x.wantBody(s.begin + s.end + tail)
				if res := x.result(); res.Outcome != proxy.OutcomeOK || res.Code != "" || res.ID != s.id {
					t.Errorf("%+v", res)
				}
			}
		}
	})
}

func TestForeignPanicOfAnotherStreamGoesOn(t *testing.T) {
	eachOther(t, func(t *testing.T, s otherStream) {
		x := begin(t, path(s.path))
		x.stream()
		x.write(s.begin, s.more)
		x.panics("boom").wantPanic(t, "boom")
		x.wantBody(s.begin + s.more + s.failed("upstream_aborted"))
	})
}

func TestClientOfAnotherStreamThatIsGone(t *testing.T) {
	eachOther(t, func(t *testing.T, s otherStream) {
		for how, end := range map[string]func(*exchange) ending{
			"abort": (*exchange).abort,
			"error": func(x *exchange) ending { return x.ret(errTest) },
		} {
			for ended, sent := range map[string]string{"": s.begin, proxy.OutcomeOK: s.begin + s.end} {
				x := begin(t, path(s.path))
				x.stream()
				x.write(sent)
				x.leave()
				e := end(x)
				e.want(t, how)
				x.wantBody(sent)
				want := proxy.OutcomeClientGone
				if ended != "" {
					want = ended
				}
				if res := x.result(); res.Outcome != want {
					t.Errorf("%s: outcome %q, want %q", how, res.Outcome, want)
				}
			}
		}
	})
}

// Deadlines and keepalives are those of chat completions.
func TestOtherStreamsMayBeSilent(t *testing.T) {
	eachOther(t, func(t *testing.T, s otherStream) {
		x := begin(t, path(s.path), option(func(o *proxy.Options) {
			o.FirstByteTimeout, o.IdleTimeout, o.StallTimeout = time.Second, time.Second, time.Second
			o.Keepalive, o.DoneGrace = time.Second, time.Second
		}))
		x.stream()
		advance(time.Hour)
		x.write(s.begin)
		advance(time.Hour)
		x.write(s.end)
		advance(time.Hour)
		x.wantRunning()
		x.ret(nil).wantSwallowed(t)
		x.wantBody(s.begin + s.end)
	})
}

func TestOtherStreamsAreDrained(t *testing.T) {
	eachOther(t, func(t *testing.T, s otherStream) {
		streams := new(proxy.Streams)
		x := begin(t, path(s.path), among(streams, 10*time.Second))
		x.stream()
		x.write(s.begin)
		streams.Shutdown(0)
		advance(10*time.Second - 1)
		x.write(s.more, s.cut)
		x.wantRunning()
		advance(1)
		x.wantBody(s.begin + s.more + s.failed("shutting_down"))
		x.wantStopped()
		x.abort().wantSwallowed(t)
		if res := x.result(); res.Outcome != "shutting_down" {
			t.Errorf("%+v", res)
		}
	})
}

// A stream that shows what it is after the drain ends then. One of runs is known
// by its path, and ends at the drain (TestRunThatHasShownNothingIsDrained).
func TestOtherStreamThatComesAfterTheDrain(t *testing.T) {
	eachOther(t, func(t *testing.T, s otherStream) {
		if s.path != "/v1/responses" {
			return
		}
		streams := new(proxy.Streams)
		x := begin(t, path(s.path), among(streams, time.Second))
		x.stream()
		streams.Shutdown(0)
		advance(time.Second)
		x.wantRunning()
		x.write(": hello\n\n" + s.begin + s.more)
		x.wantBody(": hello\n\n" + s.begin + s.more + s.failed("shutting_down"))
		x.wantStopped()
		x.abort().wantSwallowed(t)
	})
}

func TestRunThatHasShownNothingIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, path("/v1/runs/run_9/events"), among(streams, time.Second))
		x.stream()
		streams.Shutdown(0)
		advance(time.Second)
		x.wantBody(`data: {"event": "run.failed", "run_id": "run_9", "error": "the service is shutting down, and the agent's answer is not complete; the agent may be running"}` + "\n\n")
		x.wantStopped()
		x.abort().wantSwallowed(t)
	})
}

func TestSessionThatHasShownNothingIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, path("/api/sessions/s9/chat/stream"), among(streams, time.Second))
		x.stream()
		streams.Shutdown(0)
		advance(time.Second)
		x.wantStopped()
		x.abort().wantSwallowed(t)
		body := x.rec.body.String()
		for _, event := range []string{"event: error\ndata: {\"message\": \"the service is shutting down", "event: done\ndata: {\"session_id\": \"s9\", \"seq\": 2, \"ts\": "} {
			if !strings.Contains(body, event) {
				t.Errorf("no %q in %s", event, body)
			}
		}
		if res := x.result(); strings.Count(body, "event:") != 2 || res.Outcome != "shutting_down" {
			t.Errorf("%+v: %s", res, body)
		}
	})
}

// TestRunsAreKnownByTheirPath: what looks like a run's event elsewhere is none.
func TestRunsAreKnownByTheirPath(t *testing.T) {
	const event = `data: {"event": "message.created", "run_id": "r1"}` + "\n\n"
	for p, known := range map[string]bool{
		"/v1/runs/run_1/events": true, "/hermes/v1/runs/run_1/events": true,
		"/bus": false, "/runs/events": false, "/v1/runs/run_1": false, "/v1/runs/a/b/events": false, "/events": false, "/v1/runs//events": false,
	} {
		x := begin(t, path(p))
		x.stream()
		x.write(event)
		x.ret(nil)
		if got := strings.Contains(x.rec.body.String(), "run.failed"); got != known {
			t.Errorf("%s: run.failed: %t", p, got)
		}
	}
}

func TestOtherStreamThatHasEndedIsDrainedWithoutAnError(t *testing.T) {
	eachOther(t, func(t *testing.T, s otherStream) {
		streams := new(proxy.Streams)
		x := begin(t, path(s.path), among(streams, time.Second))
		x.stream()
		x.write(s.begin, s.end)
		streams.Shutdown(0)
		advance(time.Second)
		x.wantStopped()
		x.abort().wantSwallowed(t)
		x.wantBody(s.begin + s.end)
		if res := x.result(); res.Outcome != proxy.OutcomeOK {
			t.Errorf("%+v", res)
		}
	})
}

func TestReverseProxyWhoseUpstreamDiesInAnotherStream(t *testing.T) {
	for _, s := range otherStreams {
		head := chunkedHead + chunked(s.begin) + chunked(s.more)
		for name, c := range map[string]struct{ sends, want string }{
			"not at all":            {head + chunked(s.end) + "0\r\n\r\n", s.end},
			"by FIN in a chunk":     {head + chunked(s.cut)[:20], s.failed("upstream_aborted")},
			"by FIN in an event":    {head + chunked(s.cut), s.failed("upstream_aborted")},
			"by a clean end":        {head + chunked(s.cut) + "0\r\n\r\n", s.failed("upstream_incomplete")},
			"with no length":        {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + s.begin + s.more + s.cut, s.failed("upstream_incomplete")},
			"by FIN behind its end": {head + chunked(s.end), s.end},
		} {
			t.Run(s.path+", "+name, func(t *testing.T) {
				protocols(t, func(t *testing.T, http2 bool) {
					u := upstream(t, func(conn *net.TCPConn) { _, _ = io.WriteString(conn, c.sends) })
					got, err := get(t, guarded(t, u, proxy.Options{}, http2), s.path)
					if want := s.begin + s.more + c.want; got != want || err != nil {
						t.Errorf("the client was sent\n%s\n%v\nwant\n%s", got, err, want)
					}
				})
			})
		}
	}
}

// get reads the whole answer to a request for an event stream.
func get(t *testing.T, srv *httptest.Server, path string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(patient(t), http.MethodGet, srv.URL+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}
