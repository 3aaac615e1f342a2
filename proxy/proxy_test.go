package proxy_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// TestEnds: a stream of chat completions that ends gets what it lacks, and an observer is told.
func TestEnds(t *testing.T) {
	for _, c := range []struct{ name, does, answers string }{
		{"abort after the role", "header role abort", "role error:aborted"},
		{"abort after text", "header role text abort", "role text partial:aborted"},
		{"abort after a space", "header role space abort", "role space error:aborted"},
		{"abort in a frame", "header role half abort", "role error:aborted"},
		{"abort before a blank line", "header role text-1 abort", "role text partial:aborted"},
		{"abort before the end of a line", "header role text-2 abort", "role text partial:aborted"},
		{"abort with text held", "header role held abort", "role held partial:aborted"},
		{"abort in the first frame", "header role-2 abort", "role error:aborted"},
		{"abort before a frame", "header abort", "502:aborted"},
		{"error", "header role text error", "role text partial:aborted"},
		{"timeout", "header role text timeout", "role text partial:timeout"},
		{"wrapped timeout", "header role text wrapped-timeout", "role text partial:timeout"},
		{"no finish", "header role text end", "role text partial:incomplete"},
		{"[DONE] without a finish", "header role text done end", "role text partial:incomplete"},
		{"a tool is open", "header role tool abort", "role tool-starts tool-ends error:aborted"},
		{"some time", "+2s header role text +3s abort", "role text partial:aborted"},
		{"only the first status counts", "header 500 role end", "role error:incomplete"},
	} {
		scene{name: c.name, does: c.does, answers: c.answers}.run(t)
	}
	elsewhere, refused := []setting{path(otherPath)}, []setting{statusOf(http.StatusBadGateway), limits("first=1s")}
	diagnostic := asking(`{"stream":true,"messages":[],"hermes_notification_category":"diagnostic"}`)
	muted := []setting{diagnostic, header(proxy.SessionIDHeader, "s1")}
	for _, s := range []scene{
		{
			name: "length", does: "header role text length done end",
			answers: "role text length done", outcome: "ok",
		},
		{
			name: "false stop", does: "header role zero-stop done end",
			answers: "role ...", outcome: "agent_crashed",
		},
		{
			name: "no answer", does: "header role full-stop done end",
			answers: "role ...", outcome: "empty_answer",
		},
		{name: "no answer to a diagnostic request of a session", does: "header role full-stop done end", answers: "role full-stop done", outcome: "ok", set: muted},
		{name: "no answer to one of no session", does: "header role full-stop done end", answers: "role ...", outcome: "empty_answer", set: []setting{diagnostic}},
		{name: "no answer to one that is not read", does: "header role full-stop done end", answers: "role ...", outcome: "empty_answer", set: append(muted, unread["too large"])},
		{name: "a crash of one", does: "header role zero-stop done end", answers: "role ...", outcome: "agent_crashed", set: muted},
		{
			name: "the agent says so", does: "header role error-stop done abort",
			answers: "role ...", outcome: "agent_error",
		},
		{name: "an error after early hints", does: "103 error", answers: "502:aborted", set: refused},
		{
			name: "a stream that is ours from its first chunk on", limits: "idle=1m keepalive=1s", set: elsewhere,
			does:    "header foreign +1h role tool text +1s! abort",
			answers: "foreign role tool-starts tool-done text beat partial:aborted",
		},
		{
			name: "a stream that is ours with its tail", does: "header foreign role-2 abort",
			answers: "foreign role error:aborted", set: elsewhere,
		},
		{name: "gone before the header", does: "leave abort", outcome: "client_gone", goesOn: "abort"},
		{name: "gone before a frame", does: "header leave abort", outcome: "client_gone", goesOn: "abort"},
		{
			name: "gone before [DONE]", does: "header role stop leave abort",
			answers: "role stop", outcome: "client_gone", goesOn: "abort",
		},
		{
			name: "gone after [DONE]", does: "header role text stop done leave end",
			answers: "role text stop done", outcome: "ok",
		},
		{name: "panic before a frame", does: "header panic", answers: "502:aborted", goesOn: "panic"},
		{name: "abort before the header", does: "abort", outcome: "-", goesOn: "abort"},
		{
			name: "abort before the header, elsewhere", does: "abort",
			outcome: "-", goesOn: "abort", set: elsewhere,
		},
		{name: "gone before the header, elsewhere", does: "leave end", outcome: "-", set: elsewhere},
		{name: "gone before the header, by an error", does: "leave +1h error", outcome: "client_gone", goesOn: "error", set: refused},
	} {
		s.run(t)
	}
	for _, how := range []string{"abort", "error", "end"} {
		for _, lacks := range []string{"stop", "stop torn-done", "stop done-2", "stop done"} {
			s := scene{name: lacks + " " + how, does: "header role text " + lacks + " " + how, answers: "role text stop done"}
			s.run(t)
		}
	}
}

// TestEndsThatGoOn: an abort, a panic and an error go on where the client does not learn of
// them from the answer, or has left. It is sent nothing more.
func TestEndsThatGoOn(t *testing.T) {
	silences := option(func(o *proxy.Options) {
		o.IdleTimeout, o.StallTimeout, o.Keepalive = time.Minute, time.Minute, time.Second
	})
	for _, how := range []string{"abort", "panic", "error", "end"} {
		goesOn := how
		if how == "end" {
			goesOn = ""
		}
		for _, s := range []scene{
			{name: "JSON", does: "json part", answers: "part", outcome: "-"},
			{name: "an error", does: "500 part", answers: "part", outcome: "-"},
			{name: "a coded stream", does: "gzip part", answers: "part", outcome: "passed_encoded"},
			{name: "HEAD", does: "header part", answers: "part", outcome: "-", set: []setting{method(http.MethodHead)}},
			{name: "another's stream", does: "header foreign part", answers: "foreign part", outcome: "-", set: []setting{path(otherPath)}},
			{name: "its context ends", does: "header role leave +1h", answers: "role", outcome: "client_gone", set: []setting{silences}},
			{name: "a write fails", does: "header role write-breaks +1h", answers: "role", outcome: "client_gone", set: []setting{silences}},
			{name: "a flush fails", does: "header role flush-breaks +1h", answers: "role text", outcome: "client_gone", set: []setting{silences}},
		} {
			s.name, s.does, s.goesOn = s.name+", "+how, s.does+" "+how, goesOn
			s.run(t)
		}
	}
}

// explodingHandler is looked for in stacks.
func explodingHandler(v any) { panic(v) }

func TestForeignPanicGoesOnAfterTheFinish(t *testing.T) {
	for name, v := range map[string]any{
		"an error":        errTest,
		"a pointer":       &struct{ int }{1},
		"a string":        "boom",
		"a wrapped abort": fmt.Errorf("no sentinel: %w", http.ErrAbortHandler),
	} {
		for _, headerCame := range []bool{true, false} {
			x := begin(t)
			if headerCame {
				x.Stream()
				x.Write(role, text("Hello"))
			}
			e := x.Finish(func() error { explodingHandler(v); return nil })
			e.WantEnd(t, v, nil)
			if !strings.Contains(e.Stack, "explodingHandler") {
				t.Errorf("%s: the stack does not show who panicked:\n%s", name, e.Stack)
			}
			if !headerCame {
				x.WantLog()
				continue
			}
			x.WantBody(role + text("Hello") + errorFinish("upstream_aborted", true))
			if res := x.Result(); res.Outcome != rewrite.CodeAborted || res.Err == nil {
				t.Errorf("%s: outcome %q, error %v; want upstream_aborted and the panic", name, res.Outcome, res.Err)
			}
		}
	}
}

func TestResultCountsWhatTheStreamHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.Keepalive = time.Second }))
		x.Stream()
		x.Write(role, text("\\n`💻 ls`\\n"))
		advance(time.Second)
		x.Write(text("Hello"), stop, done)
		x.Ret(nil)
		res := x.Result()
		got := fmt.Sprint(res.Frames, res.Chunks, res.Tools, res.Markers, res.Keepalives)
		if want := "5 4 1 1 1"; got != want {
			t.Errorf("frames, chunks, tools, markers, keepalives are %s, want %s", got, want)
		}
	})
}

// memory is the UsageMemory of one upstream. It remembers who has reported usage, and who reports failures.
type memory struct {
	used     func() // with each call
	upstream string
	knows    map[string]bool
	honest   []string // upstreams, with "does" for those that do
}

func newMemory() *memory { return &memory{used: func() {}, knows: make(map[string]bool)} }

func (m *memory) of(upstream string) rewrite.UsageMemory {
	m.upstream = upstream
	return m
}

func (m *memory) Reported(model string) bool { m.used(); return m.knows[model] }
func (m *memory) Report(model string)        { m.used(); m.knows[model] = true }
func (m *memory) Missed(string)              { m.used() }
func (m *memory) SendsEvents() bool          { return m.Reported("events") }
func (m *memory) ShowedEvents(does bool)     { m.used(); m.knows["events"] = does }

func (m *memory) ReportsFailures(does bool) {
	m.used()
	m.honest = append(m.honest, m.upstream+map[bool]string{true: " does"}[does])
}

// breaking is an inner writer that panics with what it is given where at says, and must not be used again then.
type breaking struct {
	*recorder
	at    string // "header", "write" or "flush"; "" for not yet
	value any
	broke bool
	seen  *proxytest.Observer
}

func (w *breaking) use(what string) {
	proxytest.Moved()
	if w.broke {
		w.T.Errorf("the writer is used again, for its %s", what)
	}
	if w.at == what {
		w.broke = true
		panic(w.value)
	}
}

func (w *breaking) WriteHeader(status int) {
	w.use("header")
	w.recorder.WriteHeader(status)
}

func (w *breaking) Write(b []byte) (int, error) {
	w.use("write")
	return w.recorder.Write(b)
}

func (w *breaking) FlushError() error {
	w.use("flush")
	return w.recorder.FlushError()
}

// guardedBy serves a request with an inner writer that breaks, and returns how
// the guard let it go, which it must.
func guardedBy(t *testing.T, w *breaking, set setting, p string, next func(http.ResponseWriter, *http.Request) error) ending {
	t.Helper()
	x := begin(t, set, path(p), posting(`{"stream":true}`), func(_ *proxy.Options, _ *http.Request, rec *recorder) {
		w.recorder, rec.Wrapped = rec, w
	})
	w.seen = x.Observer
	e := x.Finish(func() error { return next(x.W, x.Up) })
	equal(t, x.Streams.Open(), 0, "open streams")
	return e
}

// TestPanicOfTheWriterGoesOn: in the handler's goroutine, once, and holds nothing
// up, whatever the handler does and whatever the answer is.
func TestPanicOfTheWriterGoesOn(t *testing.T) {
	for _, media := range []string{"text/event-stream", "application/json", "text/plain", "" /* an error's */} {
		for _, p := range []string{chatPath, otherPath} {
			for _, at := range []string{"header", "write", "flush"} {
				for name, act := range map[string]func(http.ResponseWriter){
					"Write":       func(w http.ResponseWriter) { _, _ = w.Write([]byte(role + text("hi"))) },
					"Flush":       func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
					"WriteHeader": func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) },
				} {
					t.Run(fmt.Sprint(media, p, at, name), func(t *testing.T) {
						w := &breaking{at: at, value: "boom"}
						e := guardedBy(t, w, statusOf(http.StatusBadGateway), p, func(w http.ResponseWriter, _ *http.Request) error {
							if media == "" {
								return errTest
							}
							w.Header().Set("Content-Type", media)
							act(w)
							return nil
						})
						if got := fmt.Sprint(e.Panicked); w.broke != (e.Panicked != nil) || w.broke && !strings.HasPrefix(got, "boom") {
							t.Errorf("the writer broke: %v; the guard panicked with %v", w.broke, got)
						}
						if p == chatPath && media == "text/event-stream" && len(w.seen.Ends) != 1 {
							t.Errorf("%d ends were observed", len(w.seen.Ends))
						}
					})
				}
			}
		}
	}
}

// TestPanicUnderATimerGoesOnInTheHandler: it ends upstream's request, and not the
// process. The handler gets an error, and the server gets the panic with its stack.
func TestPanicUnderATimerGoesOnInTheHandler(t *testing.T) {
	type timer struct {
		set   func(*proxy.Options)
		at    string
		begun bool // the stream has
	}
	for name, c := range map[string]timer{
		"keepalive":                     {func(o *proxy.Options) { o.Keepalive = time.Second }, "write", true},
		"keepalive, flush":              {func(o *proxy.Options) { o.Keepalive = time.Second }, "flush", true},
		"keepalive that is first":       {func(o *proxy.Options) { o.Keepalive = time.Second }, "header", false},
		"idle timeout":                  {func(o *proxy.Options) { o.IdleTimeout = time.Second }, "write", true},
		"idle timeout before the first": {func(o *proxy.Options) { o.IdleTimeout = time.Second }, "header", false},
		"drain":                         {func(o *proxy.Options) { o.Streams.Shutdown(0) }, "write", true},
		"drain before the first":        {func(o *proxy.Options) { o.Streams.Shutdown(0) }, "header", false},
	} {
		for _, value := range []any{"boom", errTest, http.ErrAbortHandler} {
			for how, finish := range map[string]func() error{
				"returns":        func() error { return nil },
				"returns errors": func() error { return errors.New("another") },
				"aborts":         func() error { panic(http.ErrAbortHandler) },
			} {
				bubble(t, fmt.Sprint(name, " ", value, " ", how), func(t *testing.T) {
					set := option(func(o *proxy.Options) {
						o.Streams, o.DrainTimeout = new(proxy.Streams), time.Second
						c.set(o)
					})
					w := &breaking{value: value}
					e := guardedBy(t, w, set, chatPath, func(rw http.ResponseWriter, up *http.Request) error {
						rw.Header().Set("Content-Type", "text/event-stream")
						rw.WriteHeader(http.StatusOK)
						if c.begun {
							_, _ = rw.Write([]byte(role))
						}
						w.at = c.at
						advance(time.Second)
						if up.Context().Err() == nil {
							t.Error("upstream's request goes on")
						}
						if _, err := rw.Write([]byte(role)); err == nil {
							t.Error("the handler may write on")
						}
						return finish()
					})
					if !w.broke {
						t.Fatal("the timer has written nothing")
					}
					checkLate(t, e.Panicked, value)
				})
			}
		}
	}
}

// checkLate checks that got is the panic with value, and shows where it came from.
func checkLate(t *testing.T, got, value any) {
	t.Helper()
	if value == http.ErrAbortHandler {
		equal(t, got, value, "the panic")
		return
	}
	err, ok := got.(error)
	if !ok {
		t.Fatalf("the guard panicked with %v", got)
	}
	if s := err.Error(); !strings.HasPrefix(s, fmt.Sprint(value)) || !strings.Contains(s, "(*breaking).use") {
		t.Errorf("the panic is\n%s", s)
	}
	if value == errTest && !errors.Is(err, errTest) {
		t.Error("the error is lost")
	}
}

// TestPanicOfTheHandlerIsMoreThanTheTimers: what the handler itself panics with
// goes on.
func TestPanicOfTheHandlerIsMoreThanTheTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &breaking{value: "boom"}
		e := guardedBy(t, w, limits("idle=1s"), chatPath,
			func(http.ResponseWriter, *http.Request) error {
				w.at = "header"
				advance(time.Second)
				panic("mine")
			})
		e.WantEnd(t, "mine", nil)
	})
}

// chatRequest is a request for chat completions.
func chatRequest(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// TestNothingIsTorn has the three that write, the handler, the goroutine in
// which a proxy flushes and the timer, do so at once. The recorder has no lock:
// the race detector sees when two of them use it.
func TestNothingIsTorn(t *testing.T) {
	var frames strings.Builder
	frames.WriteString(role)
	for range 200 {
		frames.WriteString(text("Hello, ") + comment + text("world"))
	}
	frames.WriteString(text("end"))
	want := frames.String()

	for name, size := range map[string]int{"small pieces": 37, "whole": len(want)} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) {
				o.Keepalive, o.IdleTimeout, o.StallTimeout = time.Millisecond, 10000*time.Hour, 10000*time.Hour
			}))
			x.Stream()
			x.Write(role) // so that keepalives are chunks

			over := make(chan struct{})
			var others sync.WaitGroup
			repeat := func(f func()) {
				others.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
							time.Sleep(time.Millisecond)
							f()
						}
					}
				})
			}
			repeat(func() { _ = http.NewResponseController(x.W).Flush() })
			repeat(func() { x.W.WriteHeader(http.StatusEarlyHints) })

			for rest := want[len(role):]; len(rest) > 0; {
				n := min(size, len(rest))
				time.Sleep(time.Millisecond)
				x.Write(rest[:n])
				rest = rest[n:]
			}
			close(over)
			others.Wait()
			advance(time.Millisecond)

			x.Ret(nil).WantSwallowed(t)
			got := x.Rec.Body.String()
			beats := strings.Count(got, beatForm)
			if beats == 0 {
				t.Error("no keepalive was sent")
			}
			equal(t, strings.ReplaceAll(got, beatForm, ""), want+errorFinish("upstream_incomplete", true), "the stream without its keepalives")
			equal(t, x.Result().Keepalives, beats, "keepalives")
		})
	}
}

// TestEndsAtOnce has a stream end for several reasons at the same time.
func TestEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 100 {
			streams := new(proxy.Streams)
			x := begin(t, option(func(o *proxy.Options) {
				o.Streams = streams
				o.IdleTimeout, o.Keepalive, o.DrainTimeout = time.Second, time.Second/2, time.Second
			}))
			x.Stream()
			x.Write(role)
			streams.Shutdown(time.Second)
			time.Sleep(time.Second)
			if i%4 == 0 {
				go x.Leave()
			}
			e := x.Abort()
			synctest.Wait()
			if i%4 == 0 {
				continue // the panic goes on when the client left first
			}
			e.WantSwallowed(t)
			got := strings.ReplaceAll(x.Rec.Body.String(), beatForm, "")
			if strings.Count(got, `"error":{`) != 1 || strings.Count(got, done) != 1 || !strings.HasSuffix(got, done) {
				t.Fatalf("want one end:\n%s", got)
			}
			x.Result()
		}
	})
}

// 101 is the answer, not a word before it: what comes after it is no stream, and no
// timeout ends it.
func TestSwitchingProtocolsIsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, p := range []string{chatPath, otherPath} {
			x := begin(t, path(p), option(func(o *proxy.Options) { o.IdleTimeout, o.Keepalive = time.Second, time.Second }))
			x.Do(func() {
				x.W.Header().Set("Content-Type", "text/event-stream")
				x.W.WriteHeader(http.StatusSwitchingProtocols)
				x.W.WriteHeader(http.StatusOK)
			})
			x.WantLog("header 101")
			advance(time.Minute)
			x.Write("raw")
			x.Ret(nil).WantSwallowed(t)
			x.WantLog("header 101", "write raw")
		}
	})
}

// To read nothing of a request's body is no end of it.
func TestReadingNothingOfARequest(t *testing.T) {
	for _, body := range []string{clean, polluted, "[" + clean, ""} {
		x := begin(t, asking(body))
		x.Do(func() {
			read := 0
			for b := make([]byte, 7); ; {
				if n, err := x.Up.Body.Read(nil); read < int(x.Up.ContentLength) && (n != 0 || err != nil) {
					t.Errorf("after %d bytes Read(nil) = %d, %v", read, n, err)
					return
				}
				n, err := x.Up.Body.Read(b)
				if read += n; err != nil {
					break
				}
			}
			equal(t, read, int(x.Up.ContentLength), "bytes")
		})
		x.Ret(nil)
	}
}

// A field that is nil keeps net/http from setting it, and has to arrive so.
func TestFieldsThatAreNil(t *testing.T) {
	for _, p := range []string{chatPath, otherPath} {
		x := begin(t, path(p))
		x.Do(func() { x.W.Header()["Date"] = nil })
		x.Stream("X-One", "1")
		x.Write(role)
		if date, ok := x.Rec.Sent["Date"]; !ok || date != nil || x.Rec.Sent.Get("X-One") != "1" {
			t.Errorf("%s: the header is %v", p, x.Rec.Sent)
		}
		x.Abort()
	}
}

// An upstream that says in its header whether its agent has ended well reports its
// failures, whatever its answer is. What the sidecar says of one does not count.
func TestUpstreamsThatSayWhetherTheyHaveCompleted(t *testing.T) {
	const events, whole = "text/event-stream", "application/json"
	for _, c := range []struct {
		path, media string
		status      int
		completed   []string // nil for no header
		does        bool
	}{
		{chatPath, events, 200, []string{"true"}, true}, {chatPath, events, 200, []string{"false"}, true}, {chatPath, events, 200, []string{""}, true},
		{chatPath, whole, 200, []string{"true"}, true}, {chatPath, whole, 502, []string{"false"}, true},
		{chatPath, events, 200, nil, false}, {chatPath, whole, 200, nil, false},
		{otherPath, whole, 200, []string{"true"}, false}, {otherPath, events, 200, []string{"true"}, false},
	} {
		for _, store := range []*memory{newMemory(), nil} {
			x := begin(t, path(c.path), option(func(o *proxy.Options) {
				o.Upstream = func(*http.Request) string { return "a" }
				if store != nil {
					o.Usage = store.of
				}
			}))
			x.Do(func() {
				x.W.Header().Set("Content-Type", c.media)
				if c.completed != nil {
					x.W.Header()["X-Hermes-Completed"] = c.completed
				}
				x.W.WriteHeader(http.StatusContinue)
				x.W.WriteHeader(c.status)
			})
			x.Abort()
			if store != nil {
				equal(t, strings.Join(store.honest, ", "), map[bool]string{true: "a does"}[c.does], fmt.Sprintf("%+v: the store got", c))
			}
		}
	}

	// A legacy agent's failure, to which the sidecar gives the header.
	store := newMemory()
	x := answered(t, []setting{option(func(o *proxy.Options) { o.Usage = store.of })}, nil, completion("", zeroTokens))
	if x.Rec.Sent.Get("X-Hermes-Completed") != "false" || store.honest != nil {
		t.Errorf("the answer is %v, the store got %q", x.Rec.Sent, store.honest)
	}
}

// The defaults are those of the contract, written out here.
func TestDefaults(t *testing.T) {
	o := proxy.DefaultOptions()
	if o.MaxRequest != 10_000_000 || o.FirstByteTimeout != 0 || o.IdleTimeout != 15*time.Minute || o.StallTimeout != 0 ||
		o.Keepalive != 10*time.Second || o.DoneGrace != 5*time.Second || o.DrainTimeout != 10*time.Second {
		t.Errorf("defaults %+v", o)
	}
	if v := proxy.HistoryValues(); !slices.Equal(v, []proxy.History{"heal", "keep"}) {
		t.Errorf("values of History %q", v)
	}
}
