package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

func TestInformationalAnswersAreNotLatched(t *testing.T) {
	x := begin(t)
	x.do(func() {
		x.w.Header().Set("Link", "</a.css>; rel=preload")
		x.w.WriteHeader(http.StatusEarlyHints)
		x.w.WriteHeader(http.StatusProcessing)
		x.w.WriteHeader(http.StatusEarlyHints)
	})
	x.wantLog("header 103", "header 102", "header 103")
	x.stream()
	x.write(role)
	x.wantLog("header 103", "header 102", "header 103", "header 200", "write "+role, "flush")
	x.do(func() { x.w.WriteHeader(http.StatusEarlyHints) })
	x.ret(nil)
	if got := x.rec.body.String(); got != role+errorFinish("upstream_incomplete", false) {
		t.Errorf("the stream was not repaired:\n%s", got)
	}
	if slices.Contains(x.rec.log[4:], "header 103") {
		t.Error("an informational answer behind the final one")
	}
}

func TestInformationalAnswerBeforeAnErrorDoesNotPreventTheAnswer(t *testing.T) {
	x := begin(t, option(func(o *proxy.Options) {
		o.ErrorStatus = func(error) int { return http.StatusBadGateway }
	}))
	x.do(func() { x.w.WriteHeader(http.StatusEarlyHints) })
	x.ret(errTest).wantSwallowed(t)
	x.wantAnswer(http.StatusBadGateway, "upstream_aborted")
}

func TestOnlyTheFirstFinalStatusCounts(t *testing.T) {
	x := begin(t)
	x.stream()
	x.do(func() { x.w.WriteHeader(http.StatusInternalServerError) })
	x.write(role)
	x.wantLog("header 200", "write "+role, "flush")
	x.ret(nil)
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
	x.stream(fields...)
	x.write(role)
	h := x.rec.sent
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
	x.ret(nil)
}

func TestHeaderFieldsOfUpstreamsStayWhereAStreamNeedsThem(t *testing.T) {
	x := begin(t)
	x.stream("X-Accel-Buffering", "yes", "Cache-Control", "private")
	x.write(role)
	if got := x.rec.sent.Get("X-Accel-Buffering"); got != "yes" {
		t.Errorf("X-Accel-Buffering %q, want upstream's", got)
	}
	if got := x.rec.sent.Get("Cache-Control"); got != "private" {
		t.Errorf("Cache-Control %q, want upstream's", got)
	}
	x.ret(nil)
}

func TestWriterNeedsNoFlusher(t *testing.T) {
	x := begin(t)
	var inner http.ResponseWriter = x.rec
	if _, ok := inner.(http.Flusher); ok {
		t.Fatal("this test needs an inner writer that is no http.Flusher")
	}
	x.stream()
	x.write(role)
	x.wantLog("header 200", "write "+role, "flush")
	x.ret(nil)
}

// hidden is a writer that can only be unwrapped.
type hidden struct{ http.ResponseWriter }

func (h hidden) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// bare is a writer that can do nothing but write.
type bare struct{ rec *recorder }

func (b bare) Header() http.Header         { return b.rec.Header() }
func (b bare) WriteHeader(status int)      { b.rec.WriteHeader(status) }
func (b bare) Write(p []byte) (int, error) { return b.rec.Write(p) }

// serve has a guard with everything off run a handler.
func serve(w http.ResponseWriter, next func(http.ResponseWriter, *http.Request)) {
	r, _ := http.NewRequest(http.MethodPost, chatPath, nil)
	proxy.New(proxy.Options{}).Handler(http.HandlerFunc(next)).ServeHTTP(w, r)
}

func TestFlushReachesAWrappedWriter(t *testing.T) {
	rec := &recorder{t: t, header: make(http.Header)}
	serve(hidden{rec}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, role+stop+done)
	})
	if want := []string{"header 200", "write " + role + stop + done, "flush"}; !slices.Equal(rec.log, want) {
		t.Errorf("calls %q, want %q", rec.log, want)
	}
}

func TestWriterThatCannotFlushIsWrittenToAllTheSame(t *testing.T) {
	rec := &recorder{t: t, header: make(http.Header)}
	serve(bare{rec}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, s := range []string{role, stop, done} {
			if n, err := io.WriteString(w, s); n != len(s) || err != nil {
				t.Errorf("Write = %d, %v; want %d, nil", n, err, len(s))
			}
		}
	})
	if got := rec.body.String(); got != role+stop+done {
		t.Errorf("the client was sent\n%s", got)
	}
}

// bypass is an inner writer that io.Copy would rather use.
type bypass struct {
	*recorder
	used bool
}

func (b *bypass) ReadFrom(r io.Reader) (int64, error) {
	b.used = true
	return io.Copy(b.recorder, r)
}

func TestReadFromIsRepaired(t *testing.T) {
	in := role + text("\\n`💻 ls`\\n") + text("\\n\\nThree files.") + stop + done
	for name, read := range map[string]func(w http.ResponseWriter) (int64, error){
		"io.Copy from a reader":   func(w http.ResponseWriter) (int64, error) { return io.Copy(w, onlyReader{strings.NewReader(in)}) },
		"io.Copy from a writerTo": func(w http.ResponseWriter) (int64, error) { return io.Copy(w, strings.NewReader(in)) },
		"through a bufio.Writer": func(w http.ResponseWriter) (int64, error) {
			b := bufio.NewWriter(w)
			n, err := b.ReadFrom(onlyReader{strings.NewReader(in)})
			return n, errors.Join(err, b.Flush())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &bypass{recorder: &recorder{t: t, header: make(http.Header)}}
			serve(inner, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				if n, err := read(w); n != int64(len(in)) || err != nil {
					t.Errorf("read %d bytes, %v; want %d, nil", n, err, len(in))
				}
			})
			got := inner.body.String()
			if inner.used || strings.Contains(got, "`") {
				t.Errorf("the stream went past the engine:\n%s", got)
			}
			for _, want := range []string{`"status":"running"`, `"status":"completed"`, "Three files.", done} {
				if strings.Count(got, want) != 1 {
					t.Errorf("want %s once in\n%s", want, got)
				}
			}
		})
	}
}

func TestReadFromOfWhatPassesUsesTheInnerWriters(t *testing.T) {
	inner := &bypass{recorder: &recorder{t: t, header: make(http.Header)}}
	serve(inner, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if n, err := io.Copy(w, onlyReader{strings.NewReader("{}")}); n != 2 || err != nil {
			t.Errorf("read %d bytes, %v; want 2, nil", n, err)
		}
	})
	if !inner.used || inner.body.String() != "{}" {
		t.Errorf("the inner ReadFrom was used: %v; the client was sent %q", inner.used, inner.body.String())
	}
}

// connection is an inner writer with a connection to take.
type connection struct {
	*recorder
	hijacked bool
	deadline time.Time
}

func (c *connection) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.hijacked = true
	return nil, nil, nil
}

func (c *connection) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func TestUnwrapReachesTheConnection(t *testing.T) {
	inner := &connection{recorder: &recorder{t: t, header: make(http.Header)}}
	at := time.Unix(1, 0)
	serve(inner, func(w http.ResponseWriter, _ *http.Request) {
		ctl := http.NewResponseController(w)
		if err := ctl.SetWriteDeadline(at); err != nil {
			t.Errorf("SetWriteDeadline: %v", err)
		}
		w.WriteHeader(http.StatusSwitchingProtocols)
		if _, _, err := ctl.Hijack(); err != nil {
			t.Errorf("Hijack: %v", err)
		}
	})
	if !inner.hijacked || inner.deadline != at {
		t.Errorf("hijacked: %v, deadline: %v", inner.hijacked, inner.deadline)
	}
	if want := []string{"header 101"}; !slices.Equal(inner.log, want) {
		t.Errorf("calls %q, want %q", inner.log, want)
	}
}

func TestOneWriteAndOneFlushForWhatOneReadCompleted(t *testing.T) {
	x := begin(t)
	x.stream()
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
		before := len(x.rec.log)
		x.write(step.in)
		x.flush() // as a proxy does behind each write
		var want []string
		if step.out != "" {
			want = []string{"write " + step.out, "flush"}
			if before == 0 {
				want = append([]string{"header 200"}, want...)
			}
		}
		if got := x.rec.log[before:]; !slices.Equal(got, want) {
			t.Errorf("for %q the inner writer was called\n%q, want\n%q", step.in, got, want)
		}
	}
	before := len(x.rec.log)
	x.write(marker + text("h"))
	if got := x.rec.log[before:]; len(got) != 2 || got[1] != "flush" {
		t.Errorf("for a tool and text the inner writer was called %q, want one write and one flush", got)
	}
	before = len(x.rec.log)
	x.abort()
	if got := x.rec.log[before:]; len(got) != 2 || got[1] != "flush" {
		t.Errorf("for the error finish the inner writer was called %q, want one write and one flush", got)
	}
}

func TestWithheldBytesAreTaken(t *testing.T) {
	x := begin(t)
	x.stream()
	x.write(role)
	calls := len(x.rec.log)
	for _, b := range []byte(text("\\n`💻 ls")) { // write checks the counts
		x.write(string([]byte{b}))
	}
	if later := x.rec.log[calls:]; len(later) > 0 {
		t.Errorf("withheld bytes cost %q", later)
	}
	x.ret(nil)
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
			x.stream()
			x.write(role)
			x.rec.onWrite = func([]byte) (int, error) { return c.n, c.err }
			if n, err := x.tryWrite(text("a")); n != 0 || err != c.err { //nolint:errorlint // the very error
				t.Errorf("Write = %d, %v; want 0, %v", n, err, c.err)
			}
			x.rec.onWrite = nil // it would go well again
			calls := len(x.rec.log)
			if n, err := x.tryWrite(text("b")); n != 0 || err != c.err { //nolint:errorlint // the very error
				t.Errorf("a later Write = %d, %v; want 0, %v", n, err, c.err)
			}
			x.flush()
			x.abort().wantPanic(t, http.ErrAbortHandler)
			if later := x.rec.log[calls:]; len(later) > 0 {
				t.Errorf("behind a failed write the inner writer was called %q", later)
			}
		})
	}
}

func TestTrailersBehindTheBodyAreHandedOver(t *testing.T) {
	x := begin(t)
	x.stream("Trailer", "X-Sum")
	x.write(role, stop, done)
	x.do(func() { x.w.Header().Set("X-Sum", "1") })
	x.ret(nil)
	if got := x.rec.header.Get("X-Sum"); got != "1" {
		t.Errorf("the trailer is %q behind the body", got)
	}
}

func TestStreamWithoutWriteHeader(t *testing.T) {
	x := begin(t)
	x.do(func() { x.w.Header().Set("Content-Type", "text/event-stream") })
	x.write(role)
	x.wantLog("header 200", "write "+role, "flush")
	x.abort().wantSwallowed(t)
}

func TestFlushDecidesLikeWriteHeader(t *testing.T) {
	x := begin(t)
	x.do(func() { x.w.Header().Set("Content-Type", "text/event-stream") })
	x.flush()
	x.wantLog()
	x.abort().wantSwallowed(t)
	x.wantAnswer(http.StatusBadGateway, "upstream_aborted")

	x = begin(t)
	x.do(func() { x.w.Header().Set("Content-Type", "text/plain") })
	x.flush()
	x.wantLog("header 200", "flush")
	x.ret(nil)
}
