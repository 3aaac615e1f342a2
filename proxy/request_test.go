package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"weak"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

func TestUpstreamIsAskedForABodyThatIsNotCompressed(t *testing.T) {
	for _, theirs := range [][]string{{"gzip, br"}, {"gzip", "br"}, nil} {
		x := begin(t, header("Authorization", "Bearer x"), func(_ *proxy.Options, r *http.Request, _ *recorder) {
			if theirs != nil {
				r.Header["Accept-Encoding"] = slices.Clone(theirs)
			}
		})
		equal(t, fmt.Sprint(x.Up.Header["Accept-Encoding"], x.Up.Header["Authorization"]), "[identity] [Bearer x]", "what upstream is asked for")
		x.Ret(nil)
		equal(t, fmt.Sprint(x.R.Header["Accept-Encoding"]), fmt.Sprint(theirs), "the client's own header")
	}
}

func TestRequestWithoutAHeader(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, chatPath, nil)
	r.Header = nil
	proxy.New(proxy.Options{}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		equal(t, r.Header.Get("Accept-Encoding"), "identity", "Accept-Encoding")
		w.WriteHeader(http.StatusNoContent)
	})).ServeHTTP(httptest.NewRecorder(), r)
}

func TestRequestOverridesTheFormOfToolEvents(t *testing.T) {
	sent := func(form rewrite.Progress, settings ...setting) string {
		x := begin(t, append(settings, option(func(o *proxy.Options) { o.Rewrite.Progress = form }))...)
		x.Stream()
		x.Write(role, text("\\n`💻 ls`\\n"), text("Hello"), stop, done)
		x.Ret(nil)
		return x.Rec.Body.String()
	}
	for _, c := range []struct {
		option rewrite.Progress
		header string
		want   rewrite.Progress
	}{
		{"", "envelope", rewrite.ProgressEnvelope},
		{"", " OFF ", rewrite.ProgressOff},
		{rewrite.ProgressOff, "envelope", rewrite.ProgressEnvelope},
		{rewrite.ProgressBare, "", rewrite.ProgressBare},
		{rewrite.ProgressBare, "nonsense", rewrite.ProgressBare},
	} {
		equal(t, sent(c.option, header(proxy.ProgressHeader, c.header)), sent(c.want), fmt.Sprintf("%.30q", c.header))
	}
}

const (
	polluted = `{"stream":true,"messages":[{"role":"assistant","content":"Let me look.\n` + "`💻 ls`" + `\n\n\nDone."}]}`
	clean    = `{"stream":true,"messages":[{"role":"assistant","content":"Let me look.\n\nDone."}]}`
)

// posting gives the request a body of JSON, and says how long it is.
func posting(body string) setting {
	return func(o *proxy.Options, r *http.Request, rec *recorder) {
		asking(body)(o, r, rec)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
}

// without takes a field out of the request's header.
func without(name string) setting {
	return func(_ *proxy.Options, r *http.Request, _ *recorder) { r.Header.Del(name) }
}

// digests are the fields that describe the bytes of a body.
var digests = http.Header{"Content-Md5": {"x"}, "Digest": {"x"}, "Content-Digest": {"x"}, "Repr-Digest": {"x"}}

// digested gives the request all of digests.
func digested(_ *proxy.Options, r *http.Request, _ *recorder) { maps.Copy(r.Header, digests) }

// wantAsked checks the body that upstream gets, its length, and that the header says the same.
// The client's own request keeps its body, if upstream's is another.
func (x *exchange) wantAsked(came, want string) {
	x.T.Helper()
	x.Do(func() {
		if b, err := io.ReadAll(x.Up.Body); string(b) != want || err != nil {
			x.T.Errorf("upstream gets %.200q, %v; want %.200q", b, err, want)
		}
		for r, body := range map[*http.Request]string{x.Up: want, x.R: came} {
			if r.ContentLength != int64(len(body)) || r.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
				x.T.Errorf("ContentLength %d, header %q; want %d", r.ContentLength, r.Header.Get("Content-Length"), len(body))
			}
		}
		if b, err := io.ReadAll(x.R.Body); came != want && (string(b) != came || err != nil) {
			x.T.Errorf("the client's request has the body %q, %v", b, err)
		}
	})
}

func TestHistoriesAreHealed(t *testing.T) {
	for name, sets := range map[string][]setting{
		"chat":             nil,
		"any path":         {path("/api/chat")},
		"chat as text":     {header("Content-Type", "text/plain")},
		"chat as nothing":  {without("Content-Type")},
		"chat as nonsense": {header("Content-Type", ";;")},
		"with parameters":  {header("Content-Type", "application/json; charset=utf-8; x")},
		"another JSON":     {path("/x"), header("Content-Type", "application/x+JSON")},
		"identity":         {header("Content-Encoding", "Identity")},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, append([]setting{posting(polluted), digested}, sets...)...)
			x.wantAsked(polluted, clean)
			equal(t, x.Markers, 1, "markers")
			for name := range digests {
				equal(t, x.Up.Header.Get(name)+x.R.Header.Get(name), "x", name+": the client's alone")
			}
		})
	}
}

func TestHistoriesThatPassUntouched(t *testing.T) {
	small := option(func(o *proxy.Options) { o.MaxRequest = int64(len(polluted)) - 1 })
	for name, c := range map[string]struct {
		body string
		sets []setting
	}{
		"clean":                 {clean, nil},
		"keep":                  {polluted, []setting{unread["history keep"]}},
		"too large":             {polluted, []setting{small}},
		"PUT":                   {polluted, []setting{method(http.MethodPut)}},
		"gzip":                  {polluted, []setting{header("Content-Encoding", "gzip")}},
		"a form":                {polluted, []setting{header("Content-Type", "multipart/form-data; boundary=x")}},
		"no JSON, another path": {polluted, []setting{path("/x"), header("Content-Type", "text/plain")}},
		"no type, another path": {polluted, []setting{path("/x"), without("Content-Type")}},
		"incremental":           {polluted, []setting{header("Incremental", "?1")}},
		"an array":              {"[" + polluted + "]", nil},
		"garbage after":         {polluted + "x", nil},
		"empty":                 {"", nil},
		"spaces":                {strings.Repeat(" ", 100000), nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := begin(t, append([]setting{posting(c.body), digested}, c.sets...)...)
			x.wantAsked(c.body, c.body)
			equal(t, x.Markers, 0, "markers")
			for name := range digests {
				equal(t, x.Up.Header.Get(name), "x", name)
			}
		})
	}
}

// A request of exactly MaxRequest bytes is healed, whether its length is known
// or not; a byte more passes.
func TestMaxRequest(t *testing.T) {
	for more, want := range map[int]string{0: clean, 1: polluted} {
		for limit, spaces := range map[int]string{0: strings.Repeat(" ", 10_000_000-len(polluted)), len(polluted): ""} {
			for _, chunked := range []bool{false, true} {
				after := spaces + strings.Repeat(" ", more)
				x := begin(t, asking(polluted+after), option(func(o *proxy.Options) { o.MaxRequest = int64(limit) }),
					func(_ *proxy.Options, r *http.Request, _ *recorder) {
						if chunked {
							r.ContentLength = -1
						}
					})
				x.Do(func() {
					b, err := io.ReadAll(x.Up.Body)
					if string(b) != want+after || err != nil || chunked != (x.Up.ContentLength < 0) || x.Up.Header.Get("Content-Length") != "" {
						t.Errorf("limit %d, %d bytes more: %d bytes, ContentLength %d, %v", limit, more, len(b), x.Up.ContentLength, err)
					}
				})
			}
		}
	}
}

// A body that is known to be too large is not read before the next handler
// reads it, nor is one that turns out to be no object read further than that.
func TestBodiesAreNotReadInVain(t *testing.T) {
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		read   int
	}{
		"too large":      {strings.NewReader(strings.Repeat(" ", 2000)), 2000, 0},
		"no object":      {io.MultiReader(strings.NewReader("\x00\x00\x00\x00\x02{}"), strings.NewReader("{}")), -1, 7},
		"no object soon": {io.MultiReader(strings.NewReader(" "), strings.NewReader("["), strings.NewReader("{}")), -1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			read := 0
			r := httptest.NewRequest(http.MethodPost, chatPath, nil)
			r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
				n, err := c.body.Read(b)
				read += n
				return n, err
			}))
			r.ContentLength = c.length
			_ = proxy.New(proxy.Options{Histories: proxy.Histories{MaxRequest: 1000}}).Serve(httptest.NewRecorder(), r, func(http.ResponseWriter, *http.Request) error {
				equal(t, read, c.read, "bytes that have been read")
				return nil
			})
		})
	}
}

type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// A request without a body has none for the next handler, whatever it says.
func TestRequestsWithoutABody(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		for _, length := range []int64{-1, 0, 9} {
			r := httptest.NewRequest(http.MethodPost, chatPath, nil)
			r.Body, r.ContentLength = body, length
			_ = proxy.New(proxy.DefaultOptions()).Serve(httptest.NewRecorder(), r, func(_ http.ResponseWriter, r *http.Request) error {
				if r.Body != body || r.ContentLength != length {
					t.Errorf("length %d: the body %v became %v", length, body, r.Body)
				}
				return nil
			})
		}
	}
}

// No transport can have the body again: net/http would repeat what it has written.
// A handler in front may have said how.
func TestTheBodyCannotBeHadAgain(t *testing.T) {
	for _, history := range proxy.HistoryValues() {
		for _, body := range []string{polluted, clean, "[1]"} {
			x := begin(t, posting(body), func(o *proxy.Options, r *http.Request, _ *recorder) {
				o.History = history
				r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
			})
			if x.Up.GetBody != nil || x.R.GetBody == nil {
				t.Errorf("%s, %q: the body can be had again, or the client's own cannot", history, body)
			}
		}
	}
}

// watched is a body that remembers where it was last read to, and does not keep
// that alive.
type watchedBody struct {
	*strings.Reader
	into weak.Pointer[byte]
}

func (w *watchedBody) Read(b []byte) (int, error) {
	w.into = weak.Make(&b[0])
	return w.Reader.Read(b)
}

func (w *watchedBody) Close() error { return nil }

// held tells whether what was read is still in memory.
func (w *watchedBody) held() bool {
	runtime.GC()
	return w.into.Value() != nil
}

// A request is in memory until upstream has got it and has said what its answer
// is, and not for as long as that takes.
func TestRequestsAreLetGoOnceTheyAreAnswered(t *testing.T) {
	streams := func(x *exchange) { x.Stream(); x.Write(role) }
	for name, c := range map[string]struct {
		body   string
		read   int64 // how much of it upstream has read before its answer
		closed bool
		answer func(x *exchange)
		held   bool // while the answer goes on
	}{
		"a stream":            {clean, 1e6, false, streams, false},
		"a healed one":        {polluted, 1e6, false, streams, false},
		"closed":              {clean, 9, true, streams, false},
		"read in part":        {clean, 9, false, streams, true},
		"not read at all":     {clean, 0, false, streams, true},
		"an answer":           {clean, 1e6, false, func(x *exchange) { x.Head(http.StatusNotFound) }, false},
		"the beginning of it": {`[` + clean, 1e6, false, streams, false},
		"a timeout":           {clean, 1e6, false, func(x *exchange) { advance(1e15) }, false},
	} {
		bubble(t, name, func(t *testing.T) {
			body := &watchedBody{Reader: strings.NewReader(c.body + strings.Repeat(" ", 100_000))}
			x := begin(t, timeouts(1e9), func(_ *proxy.Options, r *http.Request, _ *recorder) {
				r.Body, r.ContentLength = body, int64(body.Len())
			})
			x.Do(func() {
				_, _ = io.CopyN(io.Discard, x.Up.Body, c.read)
				if c.closed {
					_ = x.Up.Body.Close()
				}
			})
			if !body.held() && c.body[0] == '{' {
				t.Error("the body was let go while an error route may ask for it")
			}
			c.answer(x)
			equal(t, body.held(), c.held, "held while the answer goes on")
			x.Do(func() { _, _ = io.Copy(io.Discard, x.Up.Body) })
			equal(t, c.held && body.held(), false, "held after its last byte")
			runtime.KeepAlive(x)
		})
	}
}

// allocated returns how many bytes f allocates, the least of some runs: others
// allocate meanwhile.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// A request takes twice its size at most, whatever is removed from it: what came, and what
// leaves. One above MaxRequest takes no more than one of that size. Nothing of it is there any more
// once the answer has begun.
func TestARequestTakesTwiceItsSizeAtMost(t *testing.T) {
	alone.NotUnderRace(t)
	if alone.Elsewhere(t) {
		return
	}
	const card = `{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"terminal","arguments":"{\"label\": \"ls\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":"completed"},`
	const marked = `{"role":"assistant","content":"` + "`💻 ls`" + `\nDone."},`
	p := proxy.New(proxy.Options{})
	for name, messages := range map[string]string{"nothing": "", "markers": strings.Repeat(marked, 200), "cards": card + card, "both": strings.Repeat(marked, 200) + card + marked} {
		for _, size := range []int{5_000_000, proxy.DefaultMaxRequest, 2 * proxy.DefaultMaxRequest} {
			for _, chunked := range []bool{false, true} {
				text := strings.Repeat("x", size-len(messages)-200)
				body := `{"stream":true,"messages":[` + messages + `{"role":"user","content":"` + text + `"}]}`
				r := httptest.NewRequest(http.MethodPost, chatPath, nil)
				peak := &peak{from: strings.NewReader(body), chunked: chunked}
				r.Body, r.ContentLength = io.NopCloser(peak), int64(len(body))
				if chunked {
					r.ContentLength = -1
				}
				peak.begin = heapNow()
				err := p.Serve(httptest.NewRecorder(), r, func(w http.ResponseWriter, r *http.Request) error {
					peak.look()
					if n, err := io.Copy(io.Discard, r.Body); err != nil || messages != "" && size <= proxy.DefaultMaxRequest && n >= int64(len(body)) {
						t.Errorf("%s: %d bytes of %d, %v", name, n, len(body), err)
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, role)
					if left := heapNow() - peak.begin; left > 64<<10 {
						t.Errorf("%s, %d bytes: %d are left", name, len(body), left)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				// A request takes some of its own, and buffers are rounded up.
				if most := int64(2*min(len(body), proxy.DefaultMaxRequest)) + 256<<10; peak.most > most {
					t.Errorf("%s, %d bytes, chunked %v: %d bytes, want at most %d", name, len(body), chunked, peak.most, most)
				}
			}
		}
	}
}

// heapNow returns the size of the heap without garbage.
func heapNow() int64 {
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	return heapAndGarbage()
}

func heapAndGarbage() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peak is a body that looks while it is read how much memory it takes. If its length is
// known, that includes what has become garbage since it has looked last.
type peak struct {
	from        *strings.Reader
	chunked     bool
	begin, most int64
}

func (p *peak) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if n == 0 || n >= 256<<10 || p.from.Len()%(256<<10) < n {
		p.look()
	}
	return n, err
}

func (p *peak) look() {
	if p.chunked { // its parts are garbage once they are one
		p.most = max(p.most, heapNow()-p.begin)
		return
	}
	p.most = max(p.most, heapAndGarbage()-p.begin)
	runtime.GC()
}

// A length is a promise. Of bytes that have not come at most eight times as many
// are allocated as have.
func TestMemoryIsNotAllocatedForPromises(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	const promised = proxy.DefaultMaxRequest
	p := proxy.New(proxy.Options{})
	next := func(http.ResponseWriter, *http.Request) error { return nil }
	for _, came := range []int{1, 1000, 100_000, 1_000_000, promised/8 - 10} {
		part := []byte("{" + strings.Repeat(" ", came-1))
		got := allocated(func() {
			r := httptest.NewRequest(http.MethodPost, chatPath, nil)
			r.Body, r.ContentLength = io.NopCloser(io.MultiReader(bytes.NewReader(part), brokenOff{})), promised
			_ = p.Serve(httptest.NewRecorder(), r, next)
		})
		// What has been outgrown is garbage.
		if most := uint64(came)*4 + 128<<10; got > most {
			t.Errorf("%d bytes for %d of %d, want at most %d", got, came, promised, most)
		}
	}
}

// brokenOff is the rest of a body whose client has left.
type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
