package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// unread are settings with which a body goes on while it comes.
var unread = map[string]setting{
	"history keep": option(func(o *proxy.Options) { o.History = proxy.HistoryKeep }),
	"too large":    option(func(o *proxy.Options) { o.MaxRequest = 5 }),
	"incremental":  header("Incremental", "?1"),
	"compressed":   header("Content-Encoding", "gzip"),
	"no JSON":      option(func(*proxy.Options) {}),
}

// sending gives the request a body each of whose portions takes the client what
// meanwhile does.
func sending(portions int, meanwhile func()) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) {
		first := true
		r.ContentLength = int64(portions)
		r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
			if first {
				first = false // where the beginning is looked at
			} else {
				meanwhile()
			}
			if portions--; portions < 0 {
				return 0, io.EOF
			}
			b[0] = '['
			return 1, nil
		}))
	}
}

// A body that goes on while it comes has been read when its end has: until then
// upstream may wait for as long as the client takes, for one portion or for all.
func TestTimeoutsDoNotCountAnUploadThatGoesOnWhileItComes(t *testing.T) {
	for name, set := range unread {
		for of, timeout := range deadlines {
			bubble(t, name+", "+of, func(t *testing.T) {
				beats := option(func(o *proxy.Options) { o.Keepalive = time.Second }) // of which none may leave before the header
				x := begin(t, timeout(time.Minute), beats, sending(100, func() { advance(10 * time.Minute) }), set)
				x.do(func() {
					if b, err := io.ReadAll(x.up.Body); len(b) != 100 || err != nil {
						t.Errorf("upstream gets %d bytes, %v", len(b), err)
					}
				})
				advance(time.Minute - 1)
				if x.rec.status != 0 {
					t.Fatalf("answered with %d already", x.rec.status)
				}
				advance(1)
				x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
				x.ret(nil).wantSwallowed(t)
			})
		}
	}
}

// An upstream that does not take what the client sends is silent.
func TestTimeoutsCountWhatUpstreamDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, set := range unread {
			for of, timeout := range deadlines {
				x := begin(t, timeout(time.Minute), sending(100, func() {}), set)
				for range 5 {
					x.do(func() { _, _ = x.up.Body.Read(make([]byte, 1)) })
					advance(time.Minute - 1)
				}
				if x.rec.status != 0 {
					t.Fatalf("%s, %s: answered with %d already", name, of, x.rec.status)
				}
				advance(1)
				x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
				x.ret(nil)
			}
		}
	})
}

// Once the answer has begun it is the answer that must not be silent.
func TestUploadsDoNotHideASilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, timeouts(time.Minute), sending(100, func() {}), unread["history keep"])
		x.stream()
		x.write(role)
		for range 2 {
			advance(30 * time.Second)
			x.do(func() { _, _ = x.up.Body.Read(make([]byte, 1)) })
		}
		x.wantBody(role + errorFinish("upstream_timeout", false))
		x.ret(nil).wantSwallowed(t)
	})
}

// The request is read on while the client does not read its answer.
func TestUploadsDoNotWaitForTheAnswer(t *testing.T) {
	blocked, goOn := make(chan bool), make(chan bool)
	x := begin(t, timeouts(time.Minute), sending(100, func() {}), unread["history keep"],
		func(_ *proxy.Options, _ *http.Request, rec *recorder) {
			rec.onWrite = func(b []byte) (int, error) {
				close(blocked)
				<-goOn
				return len(b), nil
			}
		})
	x.stream()
	x.start(func() { _, _ = io.WriteString(x.w, role) })
	<-blocked
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(x.up.Body)
		read <- err
	}()
	if err := <-read; err != nil {
		t.Error(err)
	}
	close(goOn)
	<-x.ack
}

// Without a deadline that it could move, a body stays what it is.
func TestBodiesThatAreNotFollowed(t *testing.T) {
	none := func(_ *proxy.Options, r *http.Request, _ *recorder) { r.Body = nil }
	nothing := func(_ *proxy.Options, r *http.Request, _ *recorder) { r.Body = http.NoBody }
	for name, sets := range map[string][]setting{
		"no deadline": {sending(9, func() {})}, "no chat": {timeouts(1), path(otherPath), sending(9, func() {})},
		"none": {timeouts(1), none}, "nothing": {timeouts(1), nothing},
	} {
		x := begin(t, append(sets, unread["history keep"])...)
		x.do(func() {
			if fmt.Sprintf("%T", x.up.Body) != fmt.Sprintf("%T", x.r.Body) {
				t.Errorf("%s: the body became a %T", name, x.up.Body)
			}
		})
	}
}

// statusError is an error of a handler that stands for a status.
type statusError int

func (statusError) Error() string { return "status" }

func withStatuses() setting {
	return option(func(o *proxy.Options) {
		o.ErrorStatus = func(err error) int {
			var s statusError
			errors.As(err, &s)
			return int(s)
		}
	})
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
		"a limit":               {&http.MaxBytesError{}, http.StatusRequestEntityTooLarge, 0},
		"a limit's own status":  {fmt.Errorf("x: %w", statusError(413)), http.StatusRequestEntityTooLarge, 0},
	} {
		for form, set := range map[string]setting{"read": option(func(*proxy.Options) {}), "history keep": unread["history keep"]} {
			t.Run(name+", "+form, func(t *testing.T) {
				x := begin(t, timeouts(time.Minute), withStatuses(), set, func(_ *proxy.Options, r *http.Request, _ *recorder) {
					r.Body, r.ContentLength = io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, c.body })), -1
				})
				e := x.finish(func() error {
					_, _ = io.ReadAll(x.up.Body)
					return statusError(c.status)
				})
				if x.rec.status != 0 {
					t.Errorf("the client was answered %d", x.rec.status)
				}
				var failed *proxy.RequestError
				if !errors.As(e.err, &failed) {
					if c.want != 0 || e.err != statusError(c.status) { //nolint:errorlint // the very error
						t.Errorf("error %v", e.err)
					}
					return
				}
				if failed.Status != c.want || !errors.Is(failed, c.body) {
					t.Errorf("status %d, %v; want %d", failed.Status, failed, c.want)
				}
				if c.want != 499 && len(x.ends) != 0 {
					t.Errorf("a stream is said to have ended: %+v", x.ends)
				}
				if c.want == 499 {
					if got := x.result().Outcome; got != proxy.OutcomeClientGone {
						t.Errorf("outcome %q", got)
					}
					if err := context.Cause(x.up.Context()); !errors.Is(err, c.body) {
						t.Errorf("upstream's request ended with %v", err)
					}
				}
			})
		}
	}
}

// Elsewhere than in chat completions, and without a failure of the client's, the next
// handler's error is its own.
func TestErrorsThatAreNotTheClientsStayWhatTheyAre(t *testing.T) {
	torn := func(_ *proxy.Options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, errTest })), -1
		r.Header.Set("Content-Type", "application/json")
	}
	for name, sets := range map[string][]setting{
		"another path": {path(otherPath), torn},
		"a good body":  {path(otherPath), header("Content-Type", "application/json"), asking(clean)},
		"no body":      {path(otherPath)},
	} {
		x := begin(t, append(sets, withStatuses())...)
		e := x.finish(func() error {
			if x.up.Body != nil {
				_, _ = io.ReadAll(x.up.Body)
			}
			return statusError(http.StatusBadGateway)
		})
		if e.err != statusError(http.StatusBadGateway) { //nolint:errorlint // the very error
			t.Errorf("%s: %v", name, e.err)
		}
	}
}

// Nor is an error behind the answer, which has begun, and no error is none.
func TestErrorsBehindAnAnswerAreNotTheClientsFailure(t *testing.T) {
	for _, err := range []error{statusError(http.StatusBadGateway), nil} {
		x := begin(t, func(o *proxy.Options, r *http.Request, _ *recorder) {
			r.Body, r.ContentLength = io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, errTest })), -1
			o.ErrorStatus = func(err error) int {
				if err == nil {
					t.Error("ErrorStatus was asked about no error")
				}
				var s statusError
				errors.As(err, &s)
				return int(s)
			}
		})
		x.do(func() { x.w.WriteHeader(http.StatusNotFound) })
		if e := x.ret(err); e.err != err || x.rec.status != http.StatusNotFound { //nolint:errorlint // the very error
			t.Errorf("error %v, want %v; status %d", e.err, err, x.rec.status)
		}
	}
}

// Whoever limits the body says so himself: where he does not, it is no failure of the
// client's that we would name.
func TestLimitsOfBodiesAreNotTheClientsFailure(t *testing.T) {
	for _, failure := range []error{&http.MaxBytesError{}, fmt.Errorf("x: %w", statusError(413))} {
		x := begin(t, withStatuses(), func(_ *proxy.Options, r *http.Request, _ *recorder) {
			r.Body, r.ContentLength = io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, failure })), -1
		})
		x.ret(statusError(http.StatusBadGateway)).wantSwallowed(t)
		x.wantAnswer(http.StatusBadGateway, "upstream_aborted")
	}
}

// So is one of a client of whom the server says that it has gone.
func TestRequestsThatEndWithTheirClient(t *testing.T) {
	x := begin(t, withStatuses(), func(_ *proxy.Options, r *http.Request, _ *recorder) {
		r.Body, r.ContentLength = io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, errTest })), -1
	})
	x.leave()
	var failed *proxy.RequestError
	if err := x.ret(statusError(http.StatusBadGateway)).err; !errors.As(err, &failed) || failed.Status != 499 {
		t.Errorf("error %v", err)
	}
	if got := x.result().Outcome; got != proxy.OutcomeClientGone || x.rec.status != 0 {
		t.Errorf("outcome %q, status %d", got, x.rec.status)
	}
}

// What breaks off because the next handler has closed the body is not the
// client's failure.
func TestBodiesThatUpstreamClosesAreNotTheClientsFailure(t *testing.T) {
	closed := false
	x := begin(t, timeouts(time.Minute), withStatuses(), unread["history keep"], func(_ *proxy.Options, r *http.Request, _ *recorder) {
		r.ContentLength = 9
		r.Body = struct {
			io.Reader
			io.Closer
		}{readerFunc(func([]byte) (int, error) {
			if closed {
				return 0, http.ErrBodyReadAfterClose
			}
			return 1, nil
		}), closerFunc(func() error { closed = true; return nil })}
	})
	x.do(func() {
		_, _ = x.up.Body.Read(make([]byte, 9))
		x.up.Body.Close()
		if _, err := x.up.Body.Read(make([]byte, 9)); err == nil {
			t.Error("a closed body is read")
		}
	})
	x.ret(statusError(http.StatusBadGateway)).wantSwallowed(t)
	x.wantAnswer(http.StatusBadGateway, "upstream_aborted")
	late := make(chan error, 1)
	go func() { // a transport may still be at it
		_, err := x.up.Body.Read(make([]byte, 9))
		late <- err
	}()
	if <-late == nil {
		t.Error("a closed body is read behind the answer")
	}
}
