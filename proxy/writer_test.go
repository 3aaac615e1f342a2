package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func TestInformationalAnswersAreNotLatched(t *testing.T) {
	x := begin(t)
	for _, status := range []int{http.StatusEarlyHints, http.StatusProcessing, http.StatusEarlyHints} {
		x.Head(status, "Link", "</a.css>; rel=preload")
	}
	x.WantLog("header 103", "header 102", "header 103")
	x.Stream()
	x.Write(role)
	x.WantLog("header 103", "header 102", "header 103", "header 200", "write "+role, "flush")
	x.Head(http.StatusEarlyHints)
	x.Ret(nil)
	equal(t, x.Rec.Body.String(), role+errorFinish("upstream_incomplete", false), "the stream")
	if slices.Contains(x.Rec.Log[4:], "header 103") {
		t.Error("an informational answer after the final one")
	}
}

func TestHeaderOfAStreamIsFittedToABodyThatChanges(t *testing.T) {
	gone := []string{
		"Content-Length", "Etag", "Last-Modified", "Accept-Ranges",
		"Digest", "Content-Digest", "Repr-Digest", "Content-Md5",
	}
	fields := []string{"X-Hermes-Session-Id", "1", "Trailer", "X-Sum", "Set-Cookie", "a=b"}
	for _, name := range gone {
		fields = append(fields, name, "1")
	}
	x := begin(t)
	x.Stream(fields...)
	x.Write(role)
	h := x.Rec.Sent
	for _, name := range gone {
		if _, ok := h[name]; ok {
			t.Errorf("%s stayed", name)
		}
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "X-Hermes-Session-Id": "1", "Trailer": "X-Sum", "Set-Cookie": "a=b",
		"X-Accel-Buffering": "no", "Cache-Control": "no-cache",
	} {
		if got := h.Values(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	x = begin(t) // upstream's own fields stay
	x.Stream("X-Accel-Buffering", "yes", "Cache-Control", "private")
	x.Write(role)
	if h := x.Rec.Sent; h.Get("X-Accel-Buffering") != "yes" || h.Get("Cache-Control") != "private" {
		t.Errorf("the header is %v", h)
	}
}

// hidden is a writer that can only be unwrapped.
type hidden struct{ http.ResponseWriter }

func (h hidden) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// bare is a writer that can do nothing but write.
type bare struct{ rec *recorder }

func (b bare) Header() http.Header         { return b.rec.Header() }
func (b bare) WriteHeader(status int)      { b.rec.WriteHeader(status) }
func (b bare) Write(p []byte) (int, error) { return b.rec.Write(p) }

// serve has a guard run a handler.
func serve(w http.ResponseWriter, o proxy.Options, next func(http.ResponseWriter, *http.Request)) {
	proxy.New(o).Handler(http.HandlerFunc(next)).ServeHTTP(w, chatRequest(`{"stream":true}`))
}

// TestWritersThatAreWrapped are flushed through, and those that cannot flush are written to all
// the same.
func TestWritersThatAreWrapped(t *testing.T) {
	for name, wrap := range map[string]func(*recorder) http.ResponseWriter{
		"hidden": func(rec *recorder) http.ResponseWriter { return hidden{rec} },
		"bare":   func(rec *recorder) http.ResponseWriter { return bare{rec} },
	} {
		rec := newRecorder(t)
		serve(wrap(rec), proxy.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if n, err := io.WriteString(w, role+stop+done); n != len(role+stop+done) || err != nil {
				t.Errorf("%s: Write = %d, %v", name, n, err)
			}
		})
		want := []string{"header 200", "write " + role + stop + done, "flush"}
		if name == "bare" {
			want = want[:2]
		}
		if !slices.Equal(rec.Log, want) {
			t.Errorf("%s: calls %q, want %q", name, rec.Log, want)
		}
	}
}

func TestUnwrapReachesTheConnection(t *testing.T) {
	at := time.Unix(1, 0)
	for _, want := range [][]string{{"header 101"}, nil} { // with and without a header of its own
		inner := &deadlined{recorder: newRecorder(t)}
		serve(inner, proxy.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			ctl := http.NewResponseController(w)
			equal(t, ctl.SetWriteDeadline(at), nil, "SetWriteDeadline")
			if want != nil {
				w.WriteHeader(http.StatusSwitchingProtocols)
			}
			if _, _, err := ctl.Hijack(); err != nil {
				t.Errorf("Hijack: %v", err)
			}
		})
		if !inner.hijacked || inner.deadline != at {
			t.Errorf("hijacked: %v, deadline: %v", inner.hijacked, inner.deadline)
		}
		if !slices.Equal(inner.Log, want) {
			t.Errorf("calls %q, want %q", inner.Log, want)
		}
	}
}

func TestOneWriteAndOneFlushForWhatOneReadCompleted(t *testing.T) {
	x := begin(t)
	x.Stream()
	marker := text("\\n`💻 ls`\\n")
	for _, step := range []struct {
		in, out string // out is empty for a read that completes nothing
	}{
		{role, role},
		{text("a") + text("b") + text("c"), text("a") + text("b") + text("c")},
		{text("d")[:20], ""},
		{text("d")[20:40], ""},
		{text("d")[40:] + text("e")[:10], text("d")},
		{text("e")[10:] + text("f"), text("e") + text("f")},
		{": c\n", ""},
		{"\n", ": c\n\n"},
		{text("\\n`💻 "), ""},
		{text("is a computer"), ""},
		{text("\\n") + text("g"), text("\\n`💻 ") + text("is a computer") + text("\\n") + text("g")},
	} {
		before := len(x.Rec.Log)
		x.Write(step.in)
		x.Flush() // as a proxy does after each write
		var want []string
		if step.out != "" {
			want = []string{"write " + step.out, "flush"}
			if before == 0 {
				want = append([]string{"header 200"}, want...)
			}
		}
		if got := x.Rec.Log[before:]; !slices.Equal(got, want) {
			t.Errorf("for %q the inner writer was called\n%q, want\n%q", step.in, got, want)
		}
	}
	before := len(x.Rec.Log)
	x.Write(marker + text("h"))
	if got := x.Rec.Log[before:]; len(got) != 2 || got[1] != "flush" {
		t.Errorf("for a tool and text the inner writer was called %q, want one write and one flush", got)
	}
	before = len(x.Rec.Log)
	x.Abort()
	if got := x.Rec.Log[before:]; len(got) != 2 || got[1] != "flush" {
		t.Errorf("for the error finish the inner writer was called %q, want one write and one flush", got)
	}
}

func TestWriteErrorIsRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		n   int
		err error
	}{
		"nothing written": {0, errTest},
		"a short write":   {5, io.ErrShortWrite},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t)
			x.Stream()
			x.Write(role)
			x.Rec.OnWrite = func([]byte) (int, error) { return c.n, c.err }
			if n, err := x.TryWrite(text("a")); n != 0 || err != c.err {
				t.Errorf("Write = %d, %v; want 0, %v", n, err, c.err)
			}
			x.Rec.OnWrite = nil // it would go well again
			x.Rec.OnFlush = func() error { return errors.New("another") }
			calls := len(x.Rec.Log)
			if n, err := x.TryWrite(text("b")); n != 0 || err != c.err {
				t.Errorf("a later Write = %d, %v; want 0, %v", n, err, c.err)
			}
			x.Flush()
			x.Abort().WantEnd(t, http.ErrAbortHandler, nil)
			if later := x.Rec.Log[calls:]; len(later) > 0 {
				t.Errorf("after a failed write the inner writer was called %q", later)
			}
		})
	}
}

func TestFlushDecidesLikeWriteHeader(t *testing.T) {
	for _, c := range []struct {
		path, media string
		held        bool // the header is, until a frame is complete
	}{
		{chatPath, "text/event-stream", true}, {chatPath, "text/plain", false}, {otherPath, "text/event-stream", false},
	} {
		x := begin(t, path(c.path))
		x.Do(func() { x.W.Header().Set("Content-Type", c.media) })
		x.Flush()
		if c.held {
			x.WantLog()
			x.Abort().WantSwallowed(t)
			x.WantAnswer(http.StatusBadGateway, "upstream_aborted")
			continue
		}
		if x.WantLog("header 200", "flush"); c.path == otherPath { // flushed once
			x.Flush()
			x.WantLog("header 200", "flush")
		}
		x.Ret(nil)
	}
}

// stamping is an inner writer, such as Caddy's encode, that sets header fields
// as the header leaves.
type stamping struct{ *recorder }

func (s stamping) WriteHeader(status int) {
	s.Header().Set("Content-Encoding", "zstd")
	s.Header().Del("Content-Length")
	s.recorder.WriteHeader(status)
}

// Access logs of Caddy read the map after the end (resp_headers).
func TestHeaderMapTellsWhatWasSent(t *testing.T) {
	for _, media := range []string{"application/json", "text/event-stream"} {
		rec := newRecorder(t)
		serve(stamping{rec}, proxy.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(role + stop + done))
		})
		for name := range rec.Sent {
			equal(t, rec.Fields.Get(name), rec.Sent.Get(name), media+": in the map, "+name)
		}
		equal(t, rec.Fields.Get("Content-Length"), "", media+": the map's Content-Length")
	}
}

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
				x.Do(func() { kept = x.W.Header() })
				if strings.HasPrefix(trailer, http.TrailerPrefix) {
					x.Stream()
				} else {
					x.Stream("Trailer", "x-other, x-sum")
				}
				x.Write(role) // with which it is ours on any path

				x.Do(func() {
					for i := range 100 {
						time.Sleep(time.Millisecond) // until the timer writes
						x.W.Header().Set(trailer, fmt.Sprint(i))
						kept.Set(trailer+"-Kept", fmt.Sprint(i))
					}
				})
				synctest.Wait()
				if !strings.Contains(x.Rec.Body.String(), beatForm) {
					t.Error("no keepalive was sent")
				}
				x.Write(stop, done)
				x.Ret(nil).WantSwallowed(t)
				equal(t, x.Rec.Fields.Get(trailer), "99", "the trailer")
				if strings.HasPrefix(trailer, http.TrailerPrefix) && p != chatPath && x.Rec.Fields.Get(trailer+"-Kept") != "99" {
					t.Error("the trailer that was set in the map of the beginning is missing")
				}
			})
		}
	}
}

// TestTimersEndStreamsBesideTheHandler has a deadline or the drain answer or end the stream
// while the handler sets trailers.
func TestTimersEndStreamsBesideTheHandler(t *testing.T) {
	for _, p := range paths {
		for _, headerCame := range []bool{true, false} {
			bubble(t, fmt.Sprint(p, headerCame), func(t *testing.T) {
				x := begin(t, path(p), limits("idle=1s drain=1s"))
				if headerCame {
					x.Stream("Trailer", "X-Sum")
					x.Write(role)
				}
				x.Streams.Shutdown(0)
				x.Do(func() {
					time.Sleep(time.Second)
					for range 100 {
						x.W.Header().Set("X-Sum", "1")
					}
				})
				synctest.Wait()
				e := x.Ret(nil)
				if got := x.Rec.Body.String(); headerCame && !strings.Contains(got, `"error":{`) || e.Err != nil {
					t.Errorf("%v, the client was sent\n%s", e.Err, got)
				}
			})
		}
	}
}

// TestHeaderWithoutAnAnswerIsHandedOver: a handler that answers after the guard, such as
// an error route, has the header that the handler has left.
func TestHeaderWithoutAnAnswerIsHandedOver(t *testing.T) {
	for _, p := range paths {
		for name, e := range map[string]error{"nothing": nil, "an error": errTest} {
			x := begin(t, path(p))
			x.Do(func() {
				x.W.Header().Set("Link", "</early>")
				x.W.WriteHeader(http.StatusEarlyHints)
				x.W.Header().Del("Link")
				x.W.Header().Set("X-Handler", "1")
			})
			x.Ret(e)
			if got := x.Rec.Fields; got.Get("X-Handler") != "1" || got.Get("Link") != "" {
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
					rec.Fields.Set("Server", "Caddy")
				})
			x.Head(http.StatusEarlyHints, "Link", "</early>")
			advance(time.Second)
			x.WantAnswer(http.StatusGatewayTimeout, "upstream_timeout")
			if got := x.Rec.Sent; got.Get("Link") != "" || got.Get("Server") != "Caddy" {
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
	x.Stream("Trailer", names.String())
	x.Write(role, stop, done)
	x.Do(func() {
		for i := range many {
			x.W.Header()[fmt.Sprintf("X-%d", i)] = []string{"1"}
		}
	})
	x.Ret(nil).WantSwallowed(t)
	if n := len(x.Rec.Fields); n < many {
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
			w.T.Error("the request has no body")
		}
		runtime.Gosched()
	}
	w.recorder.WriteHeader(status)
}

// TestTheBodyIsGivenBackBesideATimersAnswer has the handler fail while a timer
// answers.
func TestTheBodyIsGivenBackBesideATimersAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := proxy.New(proxy.Options{Limits: proxy.Limits{FirstByteTimeout: time.Second}})
		r := chatRequest(`{"messages":[],"stream":true}`)
		w := lookingAtTheRequest{newRecorder(t), r, make(chan struct{})}
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
	h := w.recorder.Fields
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

// TestInformationalAnswerThatIsReadLate has the answer follow at once.
func TestInformationalAnswerThatIsReadLate(t *testing.T) {
	w := &readingOn{recorder: newRecorder(t), on: make(chan struct{})}
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
	equal(t, w.Body.String(), role+stop+done, "what the client was sent")
}

// TestUpstreamIsNamedInTheHandlersGoroutine, also where a timer ends the stream
// and asks who reports usage: what names it may be what handlers set.
func TestUpstreamIsNamedInTheHandlersGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timer bool
		n, named := 0, 0
		x := begin(t, option(func(o *proxy.Options) {
			o.IdleTimeout = time.Second
			o.Upstream = func(*http.Request) string {
				if timer {
					t.Error("a timer has the upstream named")
				}
				named++
				return "one"
			}
			o.Usage = func(upstream string) rewrite.UsageMemory {
				equal(t, upstream, "one", "upstream")
				m := newMemory()
				m.used = func() { proxytest.Moved(); n++ }
				return m.of(upstream)
			}
		}))
		if named > 0 {
			t.Error("it is named before the header has come")
		}
		x.Stream()
		x.Write(role, text("hi"), strings.TrimSuffix(zeroStop, "\n\n"))
		n = 0
		timer = true
		advance(time.Second)
		timer = false
		if n == 0 {
			t.Error("the timer has asked for no usage")
		}
		x.Ret(nil)
	})
}

// everything sets all that looks at a clock.
func everything(o *proxy.Options) {
	o.FirstByteTimeout, o.IdleTimeout, o.StallTimeout = time.Second, time.Second, time.Second
	o.Keepalive, o.DoneGrace, o.DrainTimeout = time.Second, time.Second, time.Second
}

func TestAnswersThatAreNoStreamPassByteForByte(t *testing.T) {
	const body = "data: {\"object\":\"chat.completion.chunk\"" // a stream's would be held back
	for name, c := range map[string]struct {
		status         int
		method         string
		media, encoded string
	}{
		"JSON":                  {200, "POST", "application/json", ""},
		"no media type":         {200, "POST", "", ""},
		"a malformed type":      {200, "POST", "text/event-stream/x", ""},
		"a longer media type":   {200, "POST", "text/event-streams", ""},
		"text/plain":            {200, "POST", "text/plain", ""},
		"201":                   {201, "POST", "text/event-stream", ""},
		"206":                   {206, "POST", "text/event-stream", ""},
		"401":                   {401, "POST", "text/event-stream", ""},
		"500":                   {500, "POST", "text/event-stream", ""},
		"gzip":                  {200, "POST", "text/event-stream", "gzip"},
		"br":                    {200, "POST", "text/event-stream", "br"},
		"HEAD of a stream":      {200, "HEAD", "text/event-stream", ""},
		"an error with a cause": {502, "POST", "text/plain", ""},
	} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(everything), method(c.method))
			x.Head(c.status, "Content-Length", "1000", "Etag", `"1"`, "Last-Modified", "x", "Content-Type", c.media, "Content-Encoding", c.encoded)
			want := http.Header{"Content-Length": {"1000"}, "Etag": {`"1"`}, "Last-Modified": {"x"}, "Content-Type": {c.media}, "Content-Encoding": {c.encoded}}
			if c.status >= 500 { // the agent may have run
				want.Set("X-Should-Retry", "false")
			}
			x.Write(body[:7])
			advance(time.Hour) // no deadline is ours
			x.Flush()
			x.Write(body[7:])
			x.Flush()
			x.Ret(nil).WantSwallowed(t)
			x.WantLog(fmt.Sprintf("header %d", c.status), "write "+body[:7], "flush", "write "+body[7:], "flush")
			equal(t, fmt.Sprint(x.Rec.Sent), fmt.Sprint(want), "the header")
			if encoded := c.encoded != ""; len(x.Ends) > 0 != encoded || encoded && x.Result().Outcome != proxy.OutcomeEncoded {
				t.Errorf("the observer observed %+v", x.Ends)
			}
		})
	}
}

func TestMediaTypesOfAStream(t *testing.T) {
	for _, fields := range [][]string{
		{"Content-Type", "text/event-stream"},
		{"Content-Type", "text/event-stream; charset=utf-8"},
		{"Content-Type", "text/event-stream;charset=UTF-8"},
		{"Content-Type", "Text/Event-Stream"},
		{"Content-Type", "text/event-stream; charset"},
		{"Content-Type", "text/event-stream", "Content-Encoding", "identity"},
	} {
		x := begin(t)
		x.Stream(fields...)
		x.Write(role)
		x.Abort().WantSwallowed(t)
		equal(t, x.Rec.Body.String(), role+errorFinish("upstream_aborted", false), fmt.Sprint(fields))
		equal(t, x.Rec.Sent.Get("Content-Type"), fields[1], "Content-Type")
	}
}

func TestForeignStreamPassesByteForByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pieces := []string{
			"\xef\xbb\xbfid: 1\r\n", "event: response.created\r\ndata: {\"type\":\"response.created\"}\r\n\r\n",
			": comment\n\n", "retry: 10\n\n", "data: `💻 ls`\n\n", "data: [DONE]\n\n", "data: {\"choices\":[]}\n\n", "data: torn",
		}
		x := begin(t, path(otherPath), option(everything))
		x.Stream("Content-Length", "1000")
		for _, p := range pieces {
			x.Write(p)
			x.Flush()
			advance(time.Hour) // no deadline is ours
		}
		x.Ret(nil).WantSwallowed(t)
		x.WantBody(strings.Join(pieces, ""))
		if len(x.Ends) > 0 {
			t.Errorf("the observer observed it: %+v", x.Ends)
		}
	})
}

func TestPathsOfChatCompletions(t *testing.T) {
	for p, chat := range map[string]bool{
		"/v1/chat/completions":       true,
		"/chat/completions":          true,
		"/a/b/v1/chat/completions":   true,
		"/v1/chat/completions/":      false,
		"/v1/chat/completions/1":     false,
		"/v1/completions":            false,
		"/v1/responses":              false,
		"/v1/runs/1/events":          false,
		"/v1/chatcompletions":        false,
		"/v1/xchat/completions":      false,
		"/v1/responses?x=/completio": false,
	} {
		x := begin(t, path(p))
		x.Stream()
		x.Flush()
		x.Ret(nil)
		equal(t, slices.Contains(x.Rec.Log, "header 502"), chat, p+" is taken for chat completions")
	}
}

// deadlined is an inner writer with a deadline, which it keeps without a lock, as
// Caddy's (idletimeout.go:401), and a connection to take.
type deadlined struct {
	*recorder
	deadline         time.Time
	duplex, hijacked bool
}

func (w *deadlined) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.hijacked = true
	return nil, nil, nil
}

func (w *deadlined) SetWriteDeadline(d time.Time) error {
	proxytest.Moved()
	w.deadline = d
	return nil
}

func (w *deadlined) EnableFullDuplex() error {
	w.duplex = true
	return nil
}

func (w *deadlined) Write(b []byte) (int, error) {
	proxytest.Moved()
	if !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
		return 0, context.DeadlineExceeded
	}
	if w.duplex {
		w.Looks++
	}
	return w.recorder.Write(b)
}

// TestDeadlinesAreSetBesideKeepalives has the handler set what the inner writer
// looks at while a timer writes.
func TestDeadlinesAreSetBesideKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deadlined{recorder: newRecorder(t)}
		serve(w, proxy.Options{Limits: proxy.Limits{Keepalive: time.Millisecond}}, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = rw.Write([]byte(role))
			for range 100 {
				time.Sleep(time.Millisecond) // until the timer writes
				if err := http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
				if err := http.NewResponseController(rw).EnableFullDuplex(); err != nil {
					t.Error(err)
				}
			}
		})
		if !w.duplex {
			t.Error("the inner writer was not called")
		}
	})
}

// TestDeadlineOfTheHandlerIsForItsOwnWrites: many set one before each write. It
// has passed when a keepalive is sent, or the stream is ended for it; then the
// client is not gone.
func TestDeadlineOfTheHandlerIsForItsOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deadlined{recorder: newRecorder(t)}
		serve(w, proxy.Options{Limits: proxy.Limits{Keepalive: 10 * time.Second, IdleTimeout: time.Minute}}, func(rw http.ResponseWriter, up *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = rw.Write([]byte(role))
			advance(10 * time.Second)
			if up.Context().Err() != nil {
				t.Error("upstream's request has ended")
			}
			if want := time.Now().Add(-9 * time.Second); !w.deadline.Equal(want) {
				t.Errorf("the deadline is %v after the keepalive, want %v as before", w.deadline, want)
			}
			advance(time.Hour)
		})
		equal(t, w.Body.String(), role+beatForm+beatForm+beatForm+beatForm+beatForm+errorFinish("upstream_timeout", false), "what the client was sent")
		if !w.deadline.IsZero() {
			t.Error("the end of the body has the handler's deadline")
		}
	})
}

// TestDeadlineBeforeATimersAnswer: the answer is none of the handler's writes.
func TestDeadlineBeforeATimersAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &deadlined{recorder: newRecorder(t)}
		serve(w, proxy.Options{Limits: proxy.Limits{FirstByteTimeout: time.Minute}}, func(rw http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Second))
			advance(time.Hour)
			if err := http.NewResponseController(rw).SetWriteDeadline(time.Now()); err == nil {
				t.Error("the deadline of an answer that has been sent may be set")
			}
			if _, _, err := http.NewResponseController(rw).Hijack(); err == nil || errors.Is(err, http.ErrNotSupported) {
				t.Errorf("its connection may be taken over: %v", err)
			}
		})
		proxytest.CheckAnswer(t, w.Sent, w.Body.Bytes(), "upstream_timeout", true)
	})
}

func TestTimeoutsAreAppliedOnceUnderTheLock(t *testing.T) {
	type key struct{}
	for name, c := range map[string]struct {
		act  func(http.ResponseWriter)
		want []string
	}{
		"stream":      {func(w http.ResponseWriter) { writeStream(w, role) }, []string{"apply", "header 200", "restore"}},
		"passes":      {func(w http.ResponseWriter) { _, _ = w.Write([]byte("hi")) }, []string{"apply", "header 200", "restore"}},
		"no answer":   {func(http.ResponseWriter) {}, nil},
		"early hints": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, []string{"header 103"}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := newRecorder(t)
			p := proxy.New(proxy.Options{Timeouts: func(ctx context.Context) (context.Context, func() func()) {
				return context.WithValue(ctx, key{}, 1), func() func() {
					rec.Log = append(rec.Log, "apply")
					return func() { rec.Log = append(rec.Log, "restore") }
				}
			}})
			_ = p.Serve(rec, chatRequest(`{"stream":true}`), func(w http.ResponseWriter, up *http.Request) error {
				if up.Context().Value(key{}) != 1 {
					t.Error("the next handler has not got the context")
				}
				c.act(w)
				return nil
			})
			got := slices.DeleteFunc(rec.Log, func(s string) bool { return s[0] == 'w' || s[0] == 'f' })
			if !slices.Equal(got, c.want) {
				t.Errorf("calls %q, want %q", got, c.want)
			}
		})
	}
}

// writeStream writes an event stream.
func writeStream(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write([]byte(s))
}
