package proxy_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

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
			if held := body.held(); held != c.held {
				t.Errorf("held %v while the answer goes on, want %v", held, c.held)
			}
			if c.held {
				// What upstream has not read yet must still come.
				x.do(func() {
					b, err := io.ReadAll(x.up.Body)
					if want := size - c.read; len(b) != want || err != nil {
						t.Errorf("%d bytes more, %v; want %d", len(b), err, want)
					}
				})
				if body.held() {
					t.Error("it is still held behind its last byte")
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
	const streams, size = 20, 2 << 20
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range streams {
		body := strings.NewReader(polluted)
		x := begin(t, func(_ *proxy.Options, r *http.Request, _ *recorder) {
			r.Body, r.ContentLength = io.NopCloser(io.MultiReader(body, io.LimitReader(spaces{}, size))), int64(body.Len()+size)
		})
		x.do(func() { _, _ = io.Copy(io.Discard, x.up.Body) })
		x.stream()
		x.write(role)
	}
	if took := int64(heap() - before); took > size {
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

// The client's request has behind the next handler the body that it would have
// without us: as it came where it has not been read, spent where it has.
func TestTheBodyOfTheClientsRequestBehindAnError(t *testing.T) {
	limit := func(r *http.Request) { r.Body = http.MaxBytesReader(nil, r.Body, 50) }
	for name, c := range map[string]struct {
		body string
		next func(r *http.Request)
		want string
		err  error
		same bool // whether it has the length that it came with
	}{
		"not read":        {polluted, func(*http.Request) {}, polluted, nil, true},
		"not read, clean": {clean, func(*http.Request) {}, clean, nil, true},
		"read":            {polluted, func(r *http.Request) { _, _ = io.ReadAll(r.Body) }, "", nil, true},
		"read in part":    {clean, func(r *http.Request) { _, _ = r.Body.Read(make([]byte, 10)) }, clean[10:], nil, true},
		"sent in part": {clean, func(r *http.Request) {
			_, _ = r.Body.Read(make([]byte, 10))
			r.Body.Close()
		}, "", http.ErrBodyReadAfterClose, true},
		"limited":           {polluted, limit, polluted[:50], &http.MaxBytesError{}, true},
		"limited, no JSON":  {"[" + polluted, limit, "[" + polluted[:49], &http.MaxBytesError{}, true},
		"limited, and read": {clean, func(r *http.Request) { limit(r); _, _ = io.ReadAll(r.Body) }, "", &http.MaxBytesError{}, true},
		"replaced": {polluted, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1
		}, "x", nil, false},
	} {
		for _, history := range proxy.HistoryValues() {
			t.Run(name+", "+string(history), func(t *testing.T) {
				r := httptest.NewRequest(http.MethodPost, otherPath, strings.NewReader(c.body))
				r.Header.Set("Content-Type", "application/json")
				err := proxy.New(proxy.Options{History: history}).Serve(httptest.NewRecorder(), r, func(_ http.ResponseWriter, r *http.Request) error {
					c.next(r)
					return errTest
				})
				if err != errTest { //nolint:errorlint // the very error
					t.Fatal(err)
				}
				b, err := io.ReadAll(r.Body)
				if history == proxy.HistoryKeep && c.err == http.ErrBodyReadAfterClose { //nolint:errorlint // what strings.Reader does not know
					return
				}
				if string(b) != c.want || !sameKind(err, c.err) {
					t.Errorf("%q, %v; want %q, %v", b, err, c.want, c.err)
				}
				if same := r.ContentLength == int64(len(c.body)); same != c.same {
					t.Errorf("ContentLength %d", r.ContentLength)
				}
			})
		}
	}
}

// sameKind tells whether an error is the one wanted, or likewise of a limit.
func sameKind(err, want error) bool {
	var a, b *http.MaxBytesError
	return errors.Is(err, want) || errors.As(err, &a) && errors.As(want, &b)
}
