package proxy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
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
		equal(t, fmt.Sprint(x.up.Header["Accept-Encoding"], x.up.Header["Authorization"]), "[identity] [Bearer x]", "what upstream is asked for")
		x.ret(nil)
		equal(t, fmt.Sprint(x.r.Header["Accept-Encoding"]), fmt.Sprint(theirs), "the client's own header")
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
		x.stream()
		x.write(role, text("\\n`💻 ls`\\n"), text("Hello"), stop, done)
		x.ret(nil)
		return x.rec.body.String()
	}
	for _, c := range []struct {
		option rewrite.Progress
		header string
		want   rewrite.Progress
	}{
		{"", "envelope", rewrite.ProgressEnvelope},
		{"", "bare", rewrite.ProgressBare},
		{"", "unnamed", rewrite.ProgressUnnamed},
		{"", "comment", rewrite.ProgressComment},
		{"", " OFF ", rewrite.ProgressOff},
		{rewrite.ProgressOff, "envelope", rewrite.ProgressEnvelope},
		{rewrite.ProgressBare, "", rewrite.ProgressBare},
		{rewrite.ProgressBare, "nonsense", rewrite.ProgressBare},
		{rewrite.ProgressBare, "off, on", rewrite.ProgressBare},
		{rewrite.ProgressBare, "\x00\xff", rewrite.ProgressBare},
		{rewrite.ProgressBare, strings.Repeat("off", 10000), rewrite.ProgressBare},
	} {
		equal(t, sent(c.option, header(proxy.ProgressHeader, c.header)), sent(c.want), fmt.Sprintf("%.30q", c.header))
	}
}

const (
	polluted = `{"stream":true,"messages":[{"role":"assistant","content":"Let me look.\n` + "`💻 ls`" + `\n\n\nDone."}]}`
	clean    = `{"stream":true,"messages":[{"role":"assistant","content":"Let me look.\n\nDone."}]}`
)

// A request is what the next handler gets of one.
type request struct {
	*http.Request
	body    string
	err     error // of the body
	markers int   // what the observer observed
	client  *http.Request
	own     string // the body of the client's request meanwhile
}

// ask sends a request through a Proxy. set changes it first, the body included.
func ask(t *testing.T, o proxy.Options, body string, set ...func(*http.Request)) request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	for _, f := range set {
		f(r)
	}
	got := request{client: r}
	observed := &observer{t: t, r: r}
	o.Observer = observed
	err := proxy.New(o).Serve(httptest.NewRecorder(), r, func(w http.ResponseWriter, r *http.Request) error {
		b, err := io.ReadAll(r.Body)
		got.Request, got.body, got.err = r, string(b), err
		if own, err := io.ReadAll(got.client.Body); err == nil {
			got.own = string(own)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	if err != nil || got.Request == nil {
		t.Fatalf("error %v", err)
	}
	got.markers = observed.markers
	return got
}

// want checks the body, its length, and that the header says the same.
func (r request) want(t *testing.T, body string) {
	t.Helper()
	if r.body != body || r.err != nil {
		t.Errorf("upstream gets %.200q, %v; want %.200q", r.body, r.err, body)
	}
	if r.ContentLength != int64(len(body)) || r.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
		t.Errorf("ContentLength %d, header %q; want %d", r.ContentLength, r.Header.Get("Content-Length"), len(body))
	}
}

func requestHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func withBody(b io.Reader, length int64) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(b), length
		if length < 0 {
			r.Header.Del("Content-Length")
			r.TransferEncoding = []string{"chunked"}
		}
	}
}

func TestHistoriesAreHealed(t *testing.T) {
	for name, set := range map[string]func(*http.Request){
		"chat":             func(*http.Request) {},
		"any path":         func(r *http.Request) { r.URL.Path = "/api/chat" },
		"chat as text":     requestHeader("Content-Type", "text/plain"),
		"chat as nothing":  func(r *http.Request) { r.Header.Del("Content-Type") },
		"chat as nonsense": requestHeader("Content-Type", ";;"),
		"with parameters":  requestHeader("Content-Type", "application/json; charset=utf-8; x"),
		"another JSON":     func(r *http.Request) { r.URL.Path = "/x"; r.Header.Set("Content-Type", "application/x+JSON") },
		"identity":         requestHeader("Content-Encoding", "Identity"),
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(t, proxy.Options{}, polluted, set)
			r.want(t, clean)
			equal(t, r.markers, 1, "markers")
			if r.Request == r.client || r.client.ContentLength != int64(len(polluted)) || r.client.Header.Get("Content-Length") != strconv.Itoa(len(polluted)) {
				t.Error("the client's own request was changed")
			}
			equal(t, r.own, polluted, "the body of the client's request")
		})
	}
}

// Cards leave without a word: every further request of a chat with cards has them.
func TestCardsLeaveHistories(t *testing.T) {
	const (
		carded = `{"messages":[{"role":"assistant","content":"a","tool_calls":[{"id":"c","function":{"arguments":"{\"label\": \"ls\"}"}}]},{"role":"tool","tool_call_id":"c","content":"completed"},{"role":"assistant","content":"b"}]}`
		joined = `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`
	)
	r := ask(t, proxy.Options{}, carded, requestHeader("Digest", "x"))
	r.want(t, joined)
	if r.markers != 0 || r.Header.Get("Digest") != "" || r.own != carded {
		t.Errorf("%d markers, header %v, the client's request has the body %q", r.markers, r.Header, r.own)
	}
}

func TestHistoriesThatPassUntouched(t *testing.T) {
	keep := proxy.Options{History: proxy.HistoryKeep}
	for name, c := range map[string]struct {
		o    proxy.Options
		body string
		set  func(*http.Request)
	}{
		"clean":                 {body: clean},
		"keep":                  {o: keep, body: polluted},
		"too large":             {o: proxy.Options{MaxRequest: int64(len(polluted)) - 1}, body: polluted},
		"PUT":                   {body: polluted, set: func(r *http.Request) { r.Method = http.MethodPut }},
		"gzip":                  {body: polluted, set: requestHeader("Content-Encoding", "gzip")},
		"a form":                {body: polluted, set: requestHeader("Content-Type", "multipart/form-data; boundary=x")},
		"no JSON, another path": {body: polluted, set: func(r *http.Request) { r.URL.Path = "/x"; r.Header.Set("Content-Type", "text/plain") }},
		"no type, another path": {body: polluted, set: func(r *http.Request) { r.URL.Path = "/x"; r.Header.Del("Content-Type") }},
		"incremental":           {body: polluted, set: requestHeader("Incremental", "?1")},
		"an array":              {body: "[" + polluted + "]"},
		"garbage after":         {body: polluted + "x"},
		"empty":                 {body: ""},
		"spaces":                {body: strings.Repeat(" ", 100000)},
	} {
		t.Run(name, func(t *testing.T) {
			if c.set == nil {
				c.set = func(*http.Request) {}
			}
			r := ask(t, c.o, c.body, c.set, requestHeader("Content-Digest", "sha-256=:x:"))
			r.want(t, c.body)
			if r.markers != 0 || r.Header.Get("Content-Digest") == "" {
				t.Errorf("%d markers, header %v", r.markers, r.Header)
			}
		})
	}
}

// A request of exactly MaxRequest bytes is healed, whether its length is known
// or not; a byte more passes.
func TestMaxRequest(t *testing.T) {
	// The last bytes may bring the end along.
	ends := func(r io.Reader) io.Reader { return r }
	for _, form := range []string{"", "chunked", "chunked, its end with its bytes"} {
		chunked := form != ""
		if strings.Contains(form, "its end") {
			ends = iotest.DataErrReader
		}
		for more, want := range map[int]string{0: clean, 1: polluted} {
			for _, limit := range []int64{0, int64(len(polluted))} {
				body, want := polluted, want
				if limit == 0 { // the default
					pad := strings.Repeat(" ", proxy.DefaultMaxRequest-len(polluted))
					body, want = body+pad, want+pad
				}
				body += strings.Repeat(" ", more)
				want += strings.Repeat(" ", more)
				set := func(*http.Request) {}
				if chunked {
					set = withBody(ends(strings.NewReader(body)), -1)
				}
				r := ask(t, proxy.Options{MaxRequest: limit}, body, set)
				if r.body != want || r.err != nil || chunked != (r.ContentLength < 0) || !chunked && r.ContentLength != int64(len(want)) {
					t.Errorf("limit %d, %d bytes more, %q: %d bytes, ContentLength %d, %v", limit, more, form, len(r.body), r.ContentLength, r.err)
				}
			}
		}
	}
	if proxy.DefaultMaxRequest != 10_000_000 {
		t.Errorf("the default is %d", proxy.DefaultMaxRequest)
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
			_ = proxy.New(proxy.Options{MaxRequest: 1000}).Serve(httptest.NewRecorder(), r, func(http.ResponseWriter, *http.Request) error {
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
			_ = proxy.New(proxy.Options{}).Serve(httptest.NewRecorder(), r, func(_ http.ResponseWriter, r *http.Request) error {
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
			r := ask(t, proxy.Options{History: history}, body, func(r *http.Request) {
				r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
			})
			if r.GetBody != nil {
				t.Errorf("%s, %q: the body can be had again", history, body)
			}
			if r.client.GetBody == nil {
				t.Error("the client's own request has lost it")
			}
		}
	}
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

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
	for name, c := range map[string]struct {
		body   string
		read   int // how much of it upstream has read before its answer, -1 for all
		closed bool
		answer func(x *exchange)
		held   bool // while the answer goes on
	}{
		"a stream":            {body: clean, read: -1},
		"a healed one":        {body: polluted, read: -1},
		"closed":              {body: clean, read: 9, closed: true},
		"read in part":        {body: clean, read: 9, held: true},
		"not read at all":     {body: clean, held: true},
		"an answer":           {body: clean, read: -1, answer: func(x *exchange) { x.do(func() { x.w.WriteHeader(http.StatusNotFound) }) }},
		"the beginning of it": {body: `[` + clean, read: -1},
		"a timeout":           {body: clean, read: -1, answer: func(x *exchange) { advance(1e15) }},
	} {
		bubble(t, name, func(t *testing.T) {
			body := &watchedBody{Reader: strings.NewReader(c.body + strings.Repeat(" ", 100_000))}
			size := body.Len()
			x := begin(t, timeouts(1e9), func(_ *proxy.Options, r *http.Request, _ *recorder) {
				r.Body, r.ContentLength = body, int64(size)
			})
			if !body.held() {
				t.Fatal("the body is not held where it has to be")
			}
			x.do(func() {
				in := io.Reader(x.up.Body)
				if c.read >= 0 {
					in = io.LimitReader(in, int64(c.read))
				}
				if _, err := io.Copy(io.Discard, in); err != nil {
					t.Error(err)
				}
				if c.closed {
					_ = x.up.Body.Close()
				}
			})
			whole := !strings.HasPrefix(c.body, "[")
			if held := body.held(); whole && !held {
				t.Error("the body was let go while an error route may ask for it")
			}
			if c.answer == nil {
				c.answer = func(x *exchange) { x.stream(); x.write(role) }
			}
			c.answer(x)
			equal(t, body.held(), c.held, "held while the answer goes on")
			if c.held {
				// What upstream has not read yet must still come.
				x.do(func() {
					b, err := io.ReadAll(x.up.Body)
					if want := size - c.read; len(b) != want || err != nil {
						t.Errorf("%d bytes more, %v; want %d", len(b), err, want)
					}
				})
				if body.held() {
					t.Error("it is still held after its last byte")
				}
			}
			x.do(func() {
				if whole {
					if n, err := x.r.Body.Read(make([]byte, 9)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
						t.Errorf("the client's request gives %d bytes, %v", n, err)
					}
				}
			})
			x.ret(nil)
			runtime.KeepAlive(x)
		})
	}
}

// Many streams with large histories that have begun take no memory for those.
func TestMemoryOfOpenStreams(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	const streams, size = 20, 2 << 20
	before := heapNow()
	for range streams {
		body := strings.NewReader(polluted)
		x := begin(t, func(_ *proxy.Options, r *http.Request, _ *recorder) {
			r.Body, r.ContentLength = io.NopCloser(io.MultiReader(body, io.LimitReader(spaces{}, size))), int64(body.Len()+size)
		})
		x.do(func() { _, _ = io.Copy(io.Discard, x.up.Body) })
		x.stream()
		x.write(role)
	}
	if took := heapNow() - before; took > size {
		t.Errorf("%d open streams with histories of %d bytes take %d bytes", streams, size, took)
	}
}

type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
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
// leaves. Nothing of it is there any more once the answer has begun.
func TestARequestTakesTwiceItsSizeAtMost(t *testing.T) {
	if alone.Elsewhere(t) {
		return
	}
	const card = `{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"terminal","arguments":"{\"label\": \"ls\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":"completed"},`
	const marked = `{"role":"assistant","content":"` + "`💻 ls`" + `\nDone."},`
	p := proxy.New(proxy.Options{})
	for name, messages := range map[string]string{"nothing": "", "markers": strings.Repeat(marked, 200), "cards": card + card, "both": strings.Repeat(marked, 200) + card + marked} {
		for _, size := range []int{5_000_000, proxy.DefaultMaxRequest} {
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
					if n, err := io.Copy(io.Discard, r.Body); err != nil || messages != "" && n >= int64(len(body)) {
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
				if most := int64(2*len(body)) + 256<<10; peak.most > most {
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
