package proxy_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// paths are one of each kind.
var paths = []string{chatPath, "/v1/responses", "/v1/runs/run_1/events", "/api/sessions/s1/chat/stream", otherPath}

// TestHeaderIsTheHandlersAloneOnAnyPath has a timer write while the handler sets
// trailers, which net/http lets it do at any time, in the map that it had from the
// beginning and in the one that it asks for then. The recorder reads its map with
// each write, as net/http does over HTTP/2.
func TestHeaderIsTheHandlersAloneOnAnyPath(t *testing.T) {
	for _, p := range paths {
		for _, trailer := range []string{"X-Sum", http.TrailerPrefix + "X-Sum"} {
			bubble(t, p+" "+trailer, func(t *testing.T) {
				streams := new(proxy.Streams)
				x := begin(t, path(p), option(func(o *proxy.Options) {
					o.Streams, o.Keepalive, o.DrainTimeout = streams, time.Millisecond, time.Second
				}))
				var kept http.Header
				x.do(func() { kept = x.w.Header() })
				if strings.HasPrefix(trailer, http.TrailerPrefix) {
					x.stream()
				} else {
					x.stream("Trailer", "x-other, x-sum")
				}
				x.write(role) // with which it is ours on any path

				x.do(func() {
					for i := range 100 {
						time.Sleep(time.Millisecond) // until the timer writes
						x.w.Header().Set(trailer, fmt.Sprint(i))
						kept.Set(trailer+"-Kept", fmt.Sprint(i))
					}
				})
				synctest.Wait()
				if !strings.Contains(x.rec.body.String(), beatForm) {
					t.Error("no keepalive was sent")
				}
				x.write(stop, done)
				x.ret(nil).wantSwallowed(t)
				if got := x.rec.header.Get(trailer); got != "99" {
					t.Errorf("the trailer is %q, want 99", got)
				}
				if strings.HasPrefix(trailer, http.TrailerPrefix) && p != chatPath && x.rec.header.Get(trailer+"-Kept") != "99" {
					t.Error("the trailer that was set in the map of the beginning is missing")
				}
			})
		}
	}
}

// TestTimersEndStreamsBesideTheHandler has the drain end the stream while the
// handler sets trailers.
func TestTimersEndStreamsBesideTheHandler(t *testing.T) {
	for _, p := range paths {
		bubble(t, p, func(t *testing.T) {
			streams := new(proxy.Streams)
			x := begin(t, path(p), among(streams, time.Second))
			x.stream("Trailer", "X-Sum")
			x.write(role)
			streams.Shutdown(0)
			x.do(func() {
				time.Sleep(time.Second)
				for range 100 {
					x.w.Header().Set("X-Sum", "1")
				}
			})
			synctest.Wait()
			x.abort().wantSwallowed(t)
			if !strings.HasSuffix(x.rec.body.String(), errorFinish("shutting_down", false)) {
				t.Errorf("the client was sent\n%s", x.rec.body.String())
			}
		})
	}
}

// TestHeaderWithoutAnAnswerIsHandedOver: whoever answers behind the guard, such as
// an error route, has the header that the handler has left.
func TestHeaderWithoutAnAnswerIsHandedOver(t *testing.T) {
	for _, p := range paths {
		for name, e := range map[string]error{"nothing": nil, "an error": errTest} {
			x := begin(t, path(p))
			x.do(func() {
				x.w.Header().Set("Link", "</early>")
				x.w.WriteHeader(http.StatusEarlyHints)
				x.w.Header().Del("Link")
				x.w.Header().Set("X-Handler", "1")
			})
			x.ret(e)
			if got := x.rec.header; got.Get("X-Handler") != "1" || got.Get("Link") != "" {
				t.Errorf("%s, %s: the header is %v", p, name, got)
			}
		}
	}
}

// TestFieldsOfAnInformationalAnswerStayWithIt: an answer of a timer's has none of
// them.
func TestFieldsOfAnInformationalAnswerStayWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, major := range []int{1, 2} {
			x := begin(t, option(func(o *proxy.Options) { o.FirstByteTimeout = time.Second }),
				func(_ *proxy.Options, r *http.Request, rec *recorder) {
					r.ProtoMajor = major
					rec.header.Set("Server", "Caddy")
				})
			x.do(func() {
				x.w.Header().Set("Link", "</early>")
				x.w.WriteHeader(http.StatusEarlyHints)
			})
			advance(time.Second)
			x.wantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			if got := x.rec.sent; got.Get("Link") != "" || got.Get("Server") != "Caddy" {
				t.Errorf("HTTP/%d: the header is %v", major, got)
			}
		}
	})
}

// TestManyTrailersAreHandedOverInTime: upstream chooses how many there are. What
// looks at all for each takes minutes.
func TestManyTrailersAreHandedOverInTime(t *testing.T) {
	const many = 50_000
	var names strings.Builder
	for i := range many {
		fmt.Fprintf(&names, "X-%d, ", i)
	}
	x := begin(t)
	x.stream("Trailer", names.String())
	x.write(role, stop, done)
	x.do(func() {
		for i := range many {
			x.w.Header()[fmt.Sprintf("X-%d", i)] = []string{"1"}
		}
	})
	x.ret(nil).wantSwallowed(t)
	if n := len(x.rec.header); n < many {
		t.Errorf("%d fields, want %d", n, many)
	}
}

// lookingAtTheRequest is a writer that reads the request with its header, as
// net/http does over HTTP/1.1 (server.go, chunkWriter.writeHeader).
type lookingAtTheRequest struct {
	*recorder
	r     *http.Request
	looks chan struct{} // closed when it begins to
}

func (w lookingAtTheRequest) WriteHeader(status int) {
	close(w.looks)
	for range 1000 {
		if w.r.Body == nil || w.r.ContentLength == 0 {
			w.t.Error("the request has no body")
		}
		runtime.Gosched()
	}
	w.recorder.WriteHeader(status)
}

// TestTheBodyIsGivenBackBesideATimersAnswer has the handler fail while a timer
// answers.
func TestTheBodyIsGivenBackBesideATimersAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := proxy.New(proxy.Options{FirstByteTimeout: time.Second})
		r := chatRequest(`{"messages":[],"stream":true}`)
		w := lookingAtTheRequest{&recorder{t: t, header: make(http.Header)}, r, make(chan struct{})}
		_ = p.Serve(w, r, func(_ http.ResponseWriter, up *http.Request) error {
			<-w.looks                                  // of the timer
			up.Body, up.ContentLength = http.NoBody, 1 // is given back
			return errTest
		})
		if r.Body != http.NoBody {
			t.Error("the request has not been given the body")
		}
	})
}

// readingOn is a writer that reads the header of an informational answer when it
// has come back, as net/http's HTTP/2 does where the client has left meanwhile; and
// a copy of it where there is a length, which it leaves out.
type readingOn struct {
	*recorder
	on   chan struct{} // it may
	late sync.WaitGroup
}

func (w *readingOn) WriteHeader(status int) {
	if status != http.StatusEarlyHints {
		w.recorder.WriteHeader(status)
		return
	}
	h := w.recorder.header
	if _, ok := h["Content-Length"]; ok {
		h = h.Clone()
	}
	n := 0
	w.late.Go(func() {
		<-w.on
		for range h {
			n++
		}
	})
}

// TestInformationalAnswerIsReadBehindOurBack has the answer follow at once.
func TestInformationalAnswerIsReadBehindOurBack(t *testing.T) {
	w := &readingOn{recorder: &recorder{t: t, header: make(http.Header)}, on: make(chan struct{})}
	r := chatRequest(`{"stream":true}`)
	r.ProtoMajor = 2
	_ = proxy.New(proxy.Options{}).Serve(w, r, func(rw http.ResponseWriter, _ *http.Request) error {
		rw.Header().Set("Link", "</early>")
		rw.WriteHeader(http.StatusEarlyHints)
		close(w.on)
		writeStream(rw, role+stop+done)
		return nil
	})
	w.late.Wait()
	if w.body.String() != role+stop+done {
		t.Errorf("the client was sent\n%s", w.body.String())
	}
}

// asked is a rewrite.UsageMemory that knows nothing, and is called when it is asked.
type asked func()

func (a asked) Reported(string) bool { a(); return false }
func (a asked) Report(string)        { a() }
func (a asked) Missed(string)        { a() }
func (a asked) ReportsFailures(bool) { a() }

// TestUpstreamIsNamedInTheHandlersGoroutine, also where a timer ends the stream
// and asks who reports usage: what names it may be what handlers set.
func TestUpstreamIsNamedInTheHandlersGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timer bool
		n := 0
		x := begin(t, option(func(o *proxy.Options) {
			o.IdleTimeout = time.Second
			o.Upstream = func(*http.Request) string {
				if timer {
					t.Error("a timer has the upstream named")
				}
				return "one"
			}
			o.Usage = func(upstream string) rewrite.UsageMemory {
				if upstream != "one" {
					t.Errorf("upstream %q", upstream)
				}
				return asked(func() { moves.Load(); n++ })
			}
		}))
		x.stream()
		x.write(role, text("hi"), strings.TrimSuffix(zeroStop, "\n\n"))
		n = 0
		timer = true
		advance(time.Second)
		timer = false
		if n == 0 {
			t.Error("the timer has asked for no usage")
		}
		x.ret(nil)
	})
}
