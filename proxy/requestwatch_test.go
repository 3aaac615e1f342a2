package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// asking gives the request a body.
func asking(body string) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

// slowly gives the request a body for which the client takes its time: meanwhile
// runs once it is being read.
func slowly(body string, meanwhile func()) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		begun, rest := false, strings.NewReader(body)
		r.ContentLength = int64(len(body))
		r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
			if !begun {
				begun = true
				meanwhile()
			}
			return rest.Read(b[:min(len(b), 10)])
		}))
	}
}

func timeouts(d time.Duration) setting {
	return option(func(o *proxy.Options) { o.FirstByteTimeout, o.IdleTimeout = d, d })
}

// deadlines are the timeouts that count from the request on, each alone.
var deadlines = map[string]func(time.Duration) setting{
	"first byte": func(d time.Duration) setting { return option(func(o *proxy.Options) { o.FirstByteTimeout = d }) },
	"idle":       func(d time.Duration) setting { return option(func(o *proxy.Options) { o.IdleTimeout = d }) },
	"stall":      func(d time.Duration) setting { return option(func(o *proxy.Options) { o.StallTimeout = d }) },
}

const plainAnswer = `{"object":"chat.completion"}`

// answers has the handler answer with JSON, which must pass.
func (x *exchange) answers() {
	x.t.Helper()
	x.do(func() {
		x.w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(x.w, plainAnswer)
	})
	x.ret(nil).wantSwallowed(x.t)
	x.wantBody(plainAnswer)
	if x.rec.status != http.StatusOK || len(x.ends) != 0 {
		x.t.Errorf("status %d, %d results; want 200 and none", x.rec.status, len(x.ends))
	}
}

func TestTimeoutsDoNotCountTheClientsUpload(t *testing.T) {
	for name, timeout := range deadlines {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, timeout(time.Minute), slowly(polluted, func() { advance(time.Hour) }))
			advance(time.Minute - 1)
			if x.rec.status != 0 {
				t.Fatalf("answered with %d already", x.rec.status)
			}
			advance(1)
			x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			x.ret(nil).wantSwallowed(t)
			if d := x.result().Duration; d != time.Hour+time.Minute {
				t.Errorf("duration %v, want that since the request came", d)
			}
		})
	}
}

// Timeouts and the drain are about streams: an answer that is none may take its
// time.
func TestAnswersThatAreNoStreamsHaveNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, body := range []string{`{}`, `{"stream":false}`, `{"messages":[],"stream":null}`, strings.Replace(polluted, "true", "false", 1)} {
			streams := new(proxy.Streams)
			stall := deadlines["stall"](time.Minute)
			x := begin(t, timeouts(time.Minute), stall, among(streams, time.Minute), asking(body))
			advance(24 * time.Hour)
			streams.Shutdown(0)
			advance(24 * time.Hour)
			x.answers()
		}
	})
}

// Where the body does not say, or was not read, the answer may be a stream.
func TestAnswersThatMayBeStreamsHaveDeadlines(t *testing.T) {
	keep := option(func(o *proxy.Options) { o.History = proxy.HistoryKeep })
	small := option(func(o *proxy.Options) { o.MaxRequest = 5 })
	none := option(func(*proxy.Options) {})
	for name, c := range map[string]struct {
		body string
		set  setting
	}{
		"a stream": {`{"stream":true}`, none}, "a number": {`{"stream":1}`, none}, "no JSON": {`stream=false`, none},
		"cut off": {`{"stream":false`, none}, "nothing": {``, none}, "history keep": {`{"stream":false}`, keep},
		"too large": {`{"stream":false}`, small}, "compressed": {`{"stream":false}`, header("Content-Encoding", "gzip")},
	} {
		bubble(t, name, func(t *testing.T) {
			for _, timeout := range deadlines {
				x := begin(t, timeout(time.Minute), asking(c.body), c.set)
				advance(time.Minute)
				x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
				x.ret(nil).wantSwallowed(t)
			}

			streams := new(proxy.Streams)
			x := begin(t, among(streams, time.Minute), asking(c.body), c.set)
			streams.Shutdown(0)
			advance(time.Minute)
			x.wantAnswer(http.StatusBadGateway, "shutting_down")
			x.ret(nil).wantSwallowed(t)
		})
	}
}

// A stream that nobody has asked for is one all the same, from its header on.
func TestStreamsThatNobodyAskedForHaveDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, timeout := range deadlines {
			x := begin(t, timeout(time.Minute), asking(`{}`))
			advance(time.Hour)
			x.stream()
			advance(time.Minute - 1)
			if x.rec.status != 0 {
				t.Fatalf("%s: answered with %d already", name, x.rec.status)
			}
			advance(1)
			x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			x.ret(nil).wantSwallowed(t)
		}

		streams := new(proxy.Streams)
		x := begin(t, among(streams, time.Minute), asking(`{}`))
		streams.Shutdown(0)
		advance(time.Minute)
		x.stream()
		if n, err := x.tryWrite(role); n != len(role) && err == nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		x.wantBody(role + errorFinish("shutting_down", false))
		x.ret(nil).wantSwallowed(t)
	})
}

func TestShutdownWhileTheClientSends(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		passed time.Duration // of the drain_timeout while the client sends
		asked  bool          // whether upstream is asked
	}{
		"a stream, over":         {polluted, time.Minute, false},
		"a stream, in time":      {polluted, time.Minute - 1, true},
		"not a stream, over":     {`{}`, time.Hour, true},
		"not a stream, in time":  {`{}`, time.Second, true},
		"cut off, over":          {polluted[:30], time.Minute, false},
		"no object at all, over": {`[`, time.Minute, false},
	} {
		bubble(t, name, func(t *testing.T) {
			streams := new(proxy.Streams)
			meanwhile := slowly(c.body, func() {
				if n := streams.Open(); n != 1 {
					t.Errorf("%d requests are under way, want 1", n)
				}
				streams.Shutdown(0)
				advance(c.passed)
			})
			if c.asked {
				x := begin(t, among(streams, time.Minute), meanwhile)
				advance(time.Hour)
				if c.body == `{}` {
					x.answers()
				} else {
					x.wantAnswer(http.StatusBadGateway, "shutting_down")
					x.ret(nil).wantSwallowed(t)
				}
			} else {
				rec := &recorder{t: t, header: make(http.Header)}
				o := proxy.Options{}
				r := httptest.NewRequest(http.MethodPost, chatPath, nil)
				among(streams, time.Minute)(&o, r, rec)
				meanwhile(&o, r, rec)
				err := proxy.New(o).Serve(rec, r, func(http.ResponseWriter, *http.Request) error {
					t.Error("upstream is asked")
					return nil
				})
				if err != nil || rec.status != http.StatusBadGateway {
					t.Errorf("status %d, error %v; want 502", rec.status, err)
				}
				checkAnswer(t, rec.sent, rec.body.Bytes(), "shutting_down", false)
			}
			if n := streams.Open(); n != 0 {
				t.Errorf("%d requests are left", n)
			}
		})
	}
}
