package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
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
		"none to ask":               {nil, 503, false},
		"not known":                 {nil, 502, true},
		"not known, a timeout":      {nil, 504, true},
		"lost":                      {[]string{"lost"}, 502, true},
		"lost over HTTP/2":          {[]string{"lost over HTTP/2"}, 502, true},
		"refused over HTTP/2":       {[]string{"refused over HTTP/2"}, 502, false},
		"lost, 503":                 {[]string{"lost"}, 503, true},
		"lost, 504":                 {[]string{"lost"}, 504, true},
		"lost, and refused":         {[]string{"lost", "refused"}, 502, true},
		"refused, and lost":         {[]string{"refused", "lost"}, 502, true},
		"answered, and then failed": {[]string{"answered"}, 502, true},
	} {
		for _, body := range []string{clean, "[" + clean} { // which is read before, and which goes on while it comes
			t.Run(name+body[:1], func(t *testing.T) {
				x := begin(t, asking(body), statusOf(c.status))
				for _, try := range c.tries {
					x.Do(func() { x.try(try) })
				}
				x.Ret(errTest).WantSwallowed(t)
				code := "upstream_aborted"
				if c.status == http.StatusGatewayTimeout {
					code = "upstream_timeout"
				}
				x.WantAnswerOf(c.status, code, c.running)
				if got := x.Rec.Body.String(); !c.running && !strings.Contains(got, `"the agent could not be reached"`) {
					t.Errorf("the answer is %s", got)
				}
			})
		}
	}
}

// An error that goes on to an error page says the same in its header, where
// SDKs would send the request again, by each API that begins a run.
func TestErrorsThatGoOnAreNotToBeSentAgain(t *testing.T) {
	for _, c := range []struct {
		method, path, try string
		status            int
		want              string
	}{
		{"POST", chatPath, "lost", 0, "false"},
		{"POST", chatPath, "lost", 500, "false"},
		{"POST", chatPath, "lost", 599, "false"},
		{"POST", chatPath, "lost", 499, ""},
		{"POST", chatPath, "lost", 413, ""},
		{"POST", chatPath, "refused", 500, ""},
		{"POST", "/v1/responses", "lost", 502, "false"},
		{"POST", "/v1/responses", "lost", 504, "false"},
		{"POST", "/v1/responses", "lost", 0, "false"},
		{"POST", "/v1/responses", "lost", 499, ""},
		{"POST", "/v1/responses", "refused", 502, ""},
		{"GET", "/v1/responses", "lost", 502, ""},
		{"POST", "/p/coder/v1/runs", "lost", 502, "false"},
		{"GET", "/v1/runs/run_1/events", "lost", 502, ""},
		{"POST", "/v1/runs/run_1/stop", "lost", 502, ""},
		{"POST", "/api/sessions/s1/chat", "lost", 502, "false"},
		{"POST", "/api/sessions/s1/chat/stream", "lost", 502, "false"},
		{"POST", otherPath, "lost", 500, ""},
		{"POST", otherPath, "lost", 502, ""},
	} {
		sets := []setting{asking(clean), path(c.path), method(c.method)}
		if c.status > 0 { // by default an error stands for none
			sets = append(sets, statusOf(c.status))
		}
		x := begin(t, sets...)
		x.Do(func() { x.try(c.try) })
		x.Ret(errTest).WantEnd(t, nil, errTest)
		equal(t, x.Rec.Fields.Get("X-Should-Retry"), c.want, fmt.Sprintf("%+v: X-Should-Retry", c))
		equal(t, x.Rec.Status, 0, fmt.Sprintf("%+v: the status", c))
	}
}

// Other requests are not traced: they begin no run.
func TestOtherRequestsAreNotTraced(t *testing.T) {
	for p, traced := range map[string]bool{chatPath: true, "/v1/responses": true, otherPath: false} {
		if x := begin(t, path(p), method("POST")); (httptrace.ContextClientTrace(x.Up.Context()) != nil) != traced {
			t.Errorf("%s is traced: %v", p, !traced)
		}
	}
}

// What upstream says itself does not stand against it.
func TestAnswersAreNotToBeSentAgainWhateverUpstreamSays(t *testing.T) {
	x := begin(t)
	x.Stream("X-Should-Retry", "true")
	x.Abort().WantSwallowed(t)
	x.WantAnswer(http.StatusBadGateway, "upstream_aborted")
}

// statusOf says that errors stand for a status.
func statusOf(status int) setting {
	return option(func(o *proxy.Options) { o.ErrorStatus = func(error) int { return status } })
}

// try has the handler send its request as a proxy does, to an agent that is as how
// says, and wants an error, unless it is answered.
func (x *exchange) try(how string) {
	x.T.Helper()
	how, http2 := strings.CutSuffix(how, " over HTTP/2")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.T.Fatal(err)
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
	r, err := http.NewRequestWithContext(x.Up.Context(), http.MethodPost, scheme+"://"+ln.Addr().String(), io.NopCloser(x.Up.Body))
	if err != nil {
		x.T.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	equal(x.T, (err == nil), (how == "answered"), how)
	if err == nil {
		res.Body.Close()
	}
	if errors.Is(err, context.Canceled) {
		x.T.Error(err)
	}
}

func withStatuses() setting {
	return option(func(o *proxy.Options) { o.ErrorStatus = proxytest.StatusOf })
}

// A request that could not be read is the client's failure, and not the agent's.
func TestRequestsThatCannotBeRead(t *testing.T) {
	malformed := errors.New("malformed chunked encoding")
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	late := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for name, c := range map[string]struct {
		body   error
		status int // of the next handler's error
		want   int // of ours, 0 for the handler's as it is
	}{
		"malformed":             {malformed, http.StatusBadGateway, http.StatusBadRequest},
		"malformed, a timeout":  {malformed, http.StatusGatewayTimeout, http.StatusBadRequest},
		"too slow":              {late, http.StatusGatewayTimeout, http.StatusRequestTimeout},
		"gone":                  {io.ErrUnexpectedEOF, http.StatusBadGateway, 499},
		"reset":                 {reset, http.StatusBadGateway, 499},
		"refused by the site":   {malformed, http.StatusForbidden, 0},
		"an error of no status": {malformed, 0, 0},
		"its client has left":   {context.Canceled, http.StatusBadGateway, 499},
	} {
		for form, set := range map[string]setting{"read": option(func(*proxy.Options) {}), "history keep": unread["history keep"]} {
			t.Run(name+", "+form, func(t *testing.T) {
				x := begin(t, timeouts(time.Minute), withStatuses(), set, func(_ *proxy.Options, r *http.Request, _ *recorder) {
					r.Body, r.ContentLength = io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, c.body })), -1
				})
				if c.body == context.Canceled {
					x.Leave()
				}
				e := x.Finish(func() error {
					_, _ = io.ReadAll(x.Up.Body)
					return statusError(c.status)
				})
				equal(t, x.Rec.Status, 0, "status")
				var failed *proxy.RequestError
				if !errors.As(e.Err, &failed) {
					if c.want != 0 || e.Err != statusError(c.status) {
						t.Errorf("error %v", e.Err)
					}
					return
				}
				if failed.Status != c.want || !errors.Is(failed, c.body) {
					t.Errorf("status %d, %v; want %d", failed.Status, failed, c.want)
				}
				if c.want != 499 && len(x.Ends) != 0 {
					t.Errorf("a stream is said to have ended: %+v", x.Ends)
				}
				if c.want == 499 {
					equal(t, x.Result().Outcome, proxy.OutcomeClientGone, "outcome")
					if err := context.Cause(x.Up.Context()); !errors.Is(err, c.body) {
						t.Errorf("upstream's request ended with %v", err)
					}
				}
			})
		}
	}
}

// An error is the next handler's own, or one of the agent's, where the client's request did not
// break off: it came whole, a handler limits it and says so itself, or the answer has begun.
// So it is elsewhere than in chat completions.
func TestErrorsThatAreNotTheClients(t *testing.T) {
	torn := func(failure error) setting {
		return func(_ *proxy.Options, r *http.Request, _ *recorder) {
			r.Body, r.ContentLength = io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, failure })), -1
			r.Header.Set("Content-Type", "application/json")
		}
	}
	failed := statusError(http.StatusBadGateway)
	for name, c := range map[string]struct {
		sets     []setting
		begins   bool // the answer has
		err      error
		answered bool // with an error of the agent's
	}{
		"another path":              {sets: []setting{path(otherPath), torn(errTest)}, err: failed},
		"another path, a good body": {sets: []setting{path(otherPath), asking(clean)}, err: failed},
		"another path, no body":     {sets: []setting{path(otherPath)}, err: failed},
		"after an answer":           {sets: []setting{torn(errTest)}, begins: true, err: failed},
		"no error after an answer":  {sets: []setting{torn(errTest)}, begins: true},
		"a limit":                   {sets: []setting{torn(&http.MaxBytesError{})}, err: failed, answered: true},
		"a limit's own status":      {sets: []setting{torn(fmt.Errorf("x: %w", statusError(413)))}, err: failed, answered: true},
		"a whole body":              {sets: []setting{asking(clean)}, err: failed, answered: true},
		"one that is no history":    {sets: []setting{asking(`[]`)}, err: failed, answered: true},
		"an empty one":              {sets: []setting{asking("")}, err: failed, answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, append(c.sets, withStatuses())...)
			e := x.Finish(func() error {
				if c.begins {
					x.W.WriteHeader(http.StatusNotFound)
				} else if x.Up.Body != nil {
					_, _ = io.ReadAll(x.Up.Body)
				}
				return c.err
			})
			if c.answered {
				e.WantSwallowed(t)
				x.WantAnswer(http.StatusBadGateway, "upstream_aborted")
			} else if e.Err != c.err || c.begins && x.Rec.Status != http.StatusNotFound {
				t.Errorf("error %v, want %v; status %d", e.Err, c.err, x.Rec.Status)
			}
		})
	}
}
