package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

const (
	polluted = `{"stream":true,"messages":[{"role":"assistant","content":"Let me look.\n` + "`💻 ls`" + `\n\n\nDone."}]}`
	clean    = `{"stream":true,"messages":[{"role":"assistant","content":"Let me look.\n\nDone."}]}`
)

// A request is what the next handler gets of one.
type request struct {
	*http.Request
	body    string
	err     error // of the body
	markers int   // what the observer was told
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
		"chat":                     func(*http.Request) {},
		"any path":                 func(r *http.Request) { r.URL.Path = "/api/chat" },
		"chat as text":             requestHeader("Content-Type", "text/plain"),
		"chat as nothing":          func(r *http.Request) { r.Header.Del("Content-Type") },
		"chat as nonsense":         requestHeader("Content-Type", ";;"),
		"with parameters":          requestHeader("Content-Type", "application/json; charset=utf-8; x"),
		"another JSON":             func(r *http.Request) { r.URL.Path = "/x"; r.Header.Set("Content-Type", "application/x+JSON") },
		"identity":                 requestHeader("Content-Encoding", "Identity"),
		"a byte at a time":         withBody(iotest.OneByteReader(strings.NewReader(polluted)), int64(len(polluted))),
		"its end with its bytes":   withBody(iotest.DataErrReader(strings.NewReader(polluted)), int64(len(polluted))),
		"a body in small portions": withBody(iotest.HalfReader(strings.NewReader(polluted)), int64(len(polluted))),
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(t, proxy.Options{}, polluted, set)
			r.want(t, clean)
			if r.markers != 1 {
				t.Errorf("the observer was told of %d markers, want 1", r.markers)
			}
			if r.Request == r.client || r.client.ContentLength != int64(len(polluted)) || r.client.Header.Get("Content-Length") != strconv.Itoa(len(polluted)) {
				t.Error("the client's own request was changed")
			}
			if r.own != polluted {
				t.Errorf("the client's request has the body %q", r.own)
			}
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
		"garbage behind":        {body: polluted + "x"},
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
				if read != c.read {
					t.Errorf("%d bytes have been read, want %d", read, c.read)
				}
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
func TestNobodyCanHaveTheBodyAgain(t *testing.T) {
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
