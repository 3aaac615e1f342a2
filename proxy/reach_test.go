package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// Whether the agent may be running is what the transport tells, of all tries.
func TestWhatMayHaveBegunIsNotToBeSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		tries   []string // what becomes of each
		status  int      // of the error
		running bool
	}{
		"refused":                   {[]string{"refused"}, 502, false},
		"refused twice":             {[]string{"refused", "refused"}, 502, false},
		"refused, 503":              {[]string{"refused"}, 503, false},
		"not connected in time":     {[]string{"late"}, 504, false},
		"no TLS":                    {[]string{"no TLS"}, 502, false},
		"nobody to ask":             {nil, 503, false},
		"nobody knows":              {nil, 502, true},
		"nobody knows, a timeout":   {nil, 504, true},
		"lost":                      {[]string{"lost"}, 502, true},
		"lost over HTTP/2":          {[]string{"lost over HTTP/2"}, 502, true},
		"refused over HTTP/2":       {[]string{"refused over HTTP/2"}, 502, false},
		"lost, 503":                 {[]string{"lost"}, 503, true},
		"lost, 504":                 {[]string{"lost"}, 504, true},
		"lost, and refused":         {[]string{"lost", "refused"}, 502, true},
		"refused, and lost":         {[]string{"refused", "lost"}, 502, true},
		"answered, and then failed": {[]string{"answered"}, 502, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, asking(clean), statusOf(c.status))
			for _, try := range c.tries {
				x.do(func() { x.try(try) })
			}
			x.ret(errTest).wantSwallowed(t)
			code := "upstream_aborted"
			if c.status == http.StatusGatewayTimeout {
				code = "upstream_timeout"
			}
			x.wantAnswerOf(c.status, code, c.running)
			if got := x.rec.body.String(); !c.running && !strings.Contains(got, `"the agent could not be reached"`) {
				t.Errorf("the answer is %s", got)
			}
		})
	}
}

// An error that goes on to somebody else's page says the same in its header, where
// SDKs would send the request again.
func TestErrorsThatGoOnAreNotToBeSentAgain(t *testing.T) {
	for _, c := range []struct {
		path, try string
		status    int
		want      string
	}{
		{chatPath, "lost", 0, "false"},
		{chatPath, "lost", 500, "false"},
		{chatPath, "lost", 599, "false"},
		{chatPath, "lost", 499, ""},
		{chatPath, "lost", 413, ""},
		{chatPath, "refused", 500, ""},
		{otherPath, "lost", 500, ""},
		{otherPath, "lost", 502, ""},
	} {
		x := begin(t, path(c.path), asking(clean), statusOf(c.status))
		x.do(func() { x.try(c.try) })
		x.ret(errTest).wantError(t, errTest)
		if got := x.rec.header.Get("X-Should-Retry"); got != c.want {
			t.Errorf("%s, %s, %d: X-Should-Retry %q, want %q", c.path, c.try, c.status, got, c.want)
		}
	}
}

// Other requests are not traced: they have no errors of ours.
func TestOtherRequestsAreNotTraced(t *testing.T) {
	for p, traced := range map[string]bool{chatPath: true, otherPath: false} {
		if x := begin(t, path(p)); (httptrace.ContextClientTrace(x.up.Context()) != nil) != traced {
			t.Errorf("%s is traced: %v", p, !traced)
		}
	}
}

// What upstream says itself does not stand against it.
func TestAnswersAreNotToBeSentAgainWhateverUpstreamSays(t *testing.T) {
	x := begin(t)
	x.stream("X-Should-Retry", "true")
	x.abort().wantSwallowed(t)
	x.wantAnswer(http.StatusBadGateway, "upstream_aborted")
}

// Each error in a stream's stead has a message of its own.
func TestMessagesOfWhatMayHaveBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(map[string]bool)
		streams := new(proxy.Streams)
		for _, end := range []func(*exchange) ending{
			(*exchange).abort,
			func(x *exchange) ending { return x.ret(nil) },
			func(x *exchange) ending { return x.ret(timedOut{}) },
			func(x *exchange) ending { streams.Shutdown(0); advance(0); return x.abort() },
		} {
			x := begin(t, among(streams, 0))
			x.stream()
			end(x).wantSwallowed(t)
			said[x.rec.body.String()] = true
		}
		if len(said) != 4 {
			t.Errorf("there are %d different answers, want 4: %v", len(said), said)
		}
	})
}

// statusOf says that errors stand for a status.
func statusOf(status int) setting {
	return option(func(o *proxy.Options) { o.ErrorStatus = func(error) int { return status } })
}

// try has the handler send its request as a proxy does, to an agent that is as how
// says, and wants an error, unless it is answered.
func (x *exchange) try(how string) {
	x.t.Helper()
	how, http2 := strings.CutSuffix(how, " over HTTP/2")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.t.Fatal(err)
	}
	srv := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if how == "lost" {
			panic(http.ErrAbortHandler)
		}
	})}}
	tr, scheme := new(http.Transport), "http"
	for _, p := range []**http.Protocols{&tr.Protocols, &srv.Config.Protocols} {
		*p = new(http.Protocols)
		(*p).SetHTTP1(!http2)
		(*p).SetUnencryptedHTTP2(http2)
	}
	switch how {
	case "refused":
		ln.Close()
	case "late":
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, timedOut{} }
	case "no TLS":
		scheme = "https"
		fallthrough
	default:
		srv.Start()
		defer srv.Close()
	}
	defer tr.CloseIdleConnections()
	r, err := http.NewRequestWithContext(x.up.Context(), http.MethodPost, scheme+"://"+ln.Addr().String(), io.NopCloser(x.up.Body))
	if err != nil {
		x.t.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	if (err == nil) != (how == "answered") {
		x.t.Errorf("%s: %v", how, err)
	}
	if err == nil {
		res.Body.Close()
	}
	if errors.Is(err, context.Canceled) {
		x.t.Error(err)
	}
}
