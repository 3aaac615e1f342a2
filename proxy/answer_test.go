package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

func TestHeaderIsHeldUntilTheFirstCompleteFrame(t *testing.T) {
	x := begin(t)
	x.stream()
	x.flush()
	x.write(role[:10])
	x.flush()
	x.write(role[10 : len(role)-1])
	x.flush()
	x.wantLog()
	x.write("\n")
	x.wantLog("header 200", "write "+role, "flush")
	x.ret(nil)
}

func TestFrameWhoseTextIsHeldLetsTheHeaderGo(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(text("`💻 l"))
	x.wantLog("header 200", "flush")
	x.ret(nil)
}

func TestFrameThatIsDroppedLetsTheHeaderGo(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write("event: hermes.tool.progress\ndata: {\"tool\":\"_internal\",\"toolCallId\":\"c\",\"status\":\"running\"}\n\n")
	x.wantLog("header 200", "flush")
	x.ret(nil)
}

func TestFirstPartOfAnOversizedFrameLetsTheHeaderGo(t *testing.T) {
	x := begin(t, option(func(o *proxy.Options) { o.Rewrite.MaxFrame = 16 }))
	x.stream()
	x.write("data: 01234567890123456789")
	x.wantLog("header 200", "write data: 01234567890123456789", "flush")
	x.abort().wantSwallowed(t)
	if got := x.rec.body.String(); !strings.HasPrefix(got, "data: 01234567890123456789\n\ndata: {\"error\":") {
		t.Errorf("want a blank line and an error finish behind what has left:\n%s", got)
	}
}

func TestEndBeforeTheFirstFrameIsAnAnswer(t *testing.T) {
	ends := map[string]struct {
		end    func(*exchange) ending
		status int
		code   string
	}{
		"abort":   {(*exchange).abort, http.StatusBadGateway, "upstream_aborted"},
		"error":   {func(x *exchange) ending { return x.ret(errTest) }, http.StatusBadGateway, "upstream_aborted"},
		"clean":   {func(x *exchange) ending { return x.ret(nil) }, http.StatusBadGateway, "upstream_incomplete"},
		"timeout": {func(x *exchange) ending { return x.ret(timedOut{}) }, http.StatusGatewayTimeout, "upstream_timeout"},
	}
	for before, write := range map[string]string{"nothing": "", "torn frame": role[:50]} {
		for how, c := range ends {
			t.Run(before+", "+how, func(t *testing.T) {
				x := begin(t)
				x.stream(
					"Content-Length", "4711", "Cache-Control", "no-cache", "Trailer", "X-Sum", "Etag", `"1"`,
					"X-Hermes-Session-Id", "b58e0870",
				)
				x.flush()
				x.write(write)
				x.wantLog()
				c.end(x).wantSwallowed(t)
				x.wantAnswer(c.status, c.code)
				x.wantLog(fmt.Sprintf("header %d", c.status), "write "+x.rec.body.String(), "flush")
				h := x.rec.sent
				for _, name := range []string{"X-Accel-Buffering", "Trailer", "Transfer-Encoding", "Etag", "Content-Encoding"} {
					if v := h.Get(name); v != "" {
						t.Errorf("%s: %s on an answer that is no stream", name, v)
					}
				}
				if got := h.Get("X-Hermes-Session-Id"); got != "b58e0870" {
					t.Errorf("X-Hermes-Session-Id %q, want upstream's", got)
				}
				if got := h.Get("Cache-Control"); got != "no-store" {
					t.Errorf("Cache-Control %q on an error", got)
				}
				res := x.result()
				if res.Outcome != c.code || res.Code != c.code || res.Status != c.status {
					t.Errorf("outcome %q, code %q, status %d; want %s, %d", res.Outcome, res.Code, res.Status, c.code, c.status)
				}
			})
		}
	}
}

func TestForeignPanicBeforeTheFirstFrameGoesOnBehindTheAnswer(t *testing.T) {
	x := begin(t)
	x.stream()
	x.panics("boom").wantPanic(t, "boom")
	x.wantAnswer(http.StatusBadGateway, "upstream_aborted")
}

func TestFirstFrameThatLacksItsBlankLineIsAStream(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(strings.TrimRight(role, "\n"))
	x.wantLog()
	x.abort().wantSwallowed(t)
	x.wantBody(role + errorFinish("upstream_aborted", false))
}

func TestEndBehindAKeepaliveIsAnErrorFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive = 10 * time.Second }))
		x.stream()
		advance(10 * time.Second)
		x.wantLog("header 200", "write "+beat, "flush")
		x.abort().wantSwallowed(t)
		frames := strings.SplitAfter(x.rec.body.String(), "\n\n")
		if len(frames) != 5 || frames[0] != beat || frames[3] != done || frames[4] != "" {
			t.Fatalf("want a keepalive, an error, a finish chunk and [DONE], got\n%q", frames)
		}
		var chunk struct {
			ID      string
			Created int64
			Choices []struct {
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(frames[2], "data: ")), &chunk); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^chatcmpl-[0-9a-f]{29}$`).MatchString(chunk.ID) {
			t.Errorf("id %q does not look like Hermes' own", chunk.ID)
		}
		if want := time.Now().Add(-10 * time.Second).Unix(); chunk.Created != want {
			t.Errorf("created %d, want %d", chunk.Created, want)
		}
		if chunk.Choices[0].FinishReason != "error" {
			t.Errorf("finish reason %q, want error", chunk.Choices[0].FinishReason)
		}
	})
}

func TestCompletionsWithoutAnIDOfUpstreamsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]bool)
		for range 3 {
			x := begin(t, option(func(o *proxy.Options) { o.Keepalive = time.Second }))
			x.stream()
			advance(time.Second)
			x.abort()
			id := regexp.MustCompile(`chatcmpl-[0-9a-f]+`).FindString(x.rec.body.String())
			if id == "" || seen[id] {
				t.Errorf("the id %q is empty or was given twice", id)
			}
			seen[id] = true
		}
	})
}

func TestErrorsOfTheNextHandlerAreAnsweredOnChatPathsOnly(t *testing.T) {
	for _, c := range []struct {
		path   string
		status int
		code   string // "" for an error that goes on
	}{
		{chatPath, http.StatusBadGateway, "upstream_aborted"},
		{chatPath, http.StatusServiceUnavailable, "upstream_aborted"},
		{chatPath, http.StatusGatewayTimeout, "upstream_timeout"},
		{chatPath, 0, ""},
		{chatPath, http.StatusInternalServerError, ""},
		{chatPath, http.StatusBadRequest, ""},
		{chatPath, http.StatusUnauthorized, ""},
		{chatPath, http.StatusNotFound, ""},
		{chatPath, http.StatusRequestEntityTooLarge, ""},
		{chatPath, http.StatusTooManyRequests, ""},
		{otherPath, http.StatusBadGateway, ""},
		{otherPath, http.StatusServiceUnavailable, ""},
		{otherPath, http.StatusGatewayTimeout, ""},
	} {
		t.Run(fmt.Sprint(c.path, " ", c.status), func(t *testing.T) {
			x := begin(t, path(c.path), option(func(o *proxy.Options) {
				o.ErrorStatus = func(err error) int {
					if err != errTest { //nolint:errorlint // the very error
						t.Errorf("ErrorStatus was asked about %v", err)
					}
					return c.status
				}
			}))
			e := x.ret(errTest)
			if c.code == "" {
				e.wantError(t, errTest)
				x.wantLog()
				return
			}
			e.wantSwallowed(t)
			x.wantAnswerOf(c.status, c.code, c.status != http.StatusServiceUnavailable)
			if res := x.result(); res.Outcome != c.code || res.Err != errTest { //nolint:errorlint // the very error
				t.Errorf("outcome %q, error %v; want %q and the handler's", res.Outcome, res.Err, c.code)
			}
		})
	}
}

func TestErrorsAreReturnedWhenNobodyKnowsTheirStatus(t *testing.T) {
	x := begin(t)
	x.ret(errTest).wantError(t, errTest)
	x.wantLog()
}

func TestAnswerToHeadHasNoBody(t *testing.T) {
	answered := func(m string) *exchange {
		x := begin(t, method(m), option(func(o *proxy.Options) {
			o.ErrorStatus = func(error) int { return http.StatusBadGateway }
		}))
		x.ret(errTest).wantSwallowed(t)
		return x
	}
	head, get := answered(http.MethodHead), answered(http.MethodGet)
	head.wantLog("header 502")
	if got, want := head.rec.sent.Get("Content-Length"), get.rec.sent.Get("Content-Length"); got != want {
		t.Errorf("Content-Length %q, want %q as of the body that GET has", got, want)
	}
}

func TestClientThatLeavesDuringTheAnswerEndsNothingElse(t *testing.T) {
	x := begin(t)
	x.rec.onWrite = func([]byte) (int, error) { return 0, errTest }
	x.stream()
	x.abort()
	if len(x.rec.log) != 2 {
		t.Errorf("calls %q, want a header and one write", x.rec.log)
	}
}

func TestAnswersNameNoAddress(t *testing.T) {
	x := begin(t, option(func(o *proxy.Options) {
		o.ErrorStatus = func(error) int { return http.StatusBadGateway }
	}))
	x.ret(fmt.Errorf("dial tcp 10.1.2.3:8642: connection refused, key sk-%s", strings.Repeat("x", 40)))
	if got := x.rec.body.String(); strings.Contains(got, "10.1.2.3") || strings.Contains(got, "sk-") {
		t.Errorf("the answer tells too much: %s", got)
	}
}
