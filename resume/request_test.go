package resume_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestRequestsThatDoNotAskAreNotTouched gives next the very request and writer.
func TestRequestsThatDoNotAskAreNotTouched(t *testing.T) {
	id := "stream_" + strings.Repeat("A", 22)
	for name, c := range map[string]struct {
		method, path string
		header       []string
		allocates    bool
	}{
		"POST":                    {http.MethodPost, chatPath, nil, false},
		"GET with a key":          {http.MethodGet, chatPath, []string{key, "k"}, false},
		"HEAD of another id":      {http.MethodHead, "/v1/responses/resp_1", nil, false},
		"GET of another id":       {http.MethodGet, "/v1/responses/resp_1", nil, false},
		"DELETE of another id":    {http.MethodDelete, "/v1/responses/resp_1", nil, false},
		"PUT with a key":          {http.MethodPut, chatPath + "/" + id, []string{key, "k"}, false},
		"GET of the bare id":      {http.MethodGet, "/" + id[:8], nil, false},
		"OPTIONS":                 {http.MethodOptions, chatPath, nil, false},
		"POST of another's id":    {http.MethodPost, chatPath, []string{"Last-Event-ID", "17"}, true},
		"POST with an empty key":  {http.MethodPost, chatPath, []string{key, ""}, false},
		"POST that turns it off":  {http.MethodPost, chatPath, []string{resume.DetachHeader, "0s", "Content-Type", "application/json"}, false},
		"POST, always, of a file": {http.MethodPost, chatPath, []string{"Content-Type", "multipart/form-data; boundary=x"}, true},
	} {
		o := resume.DefaultOptions()
		o.Always = slices.Contains(c.header, "Content-Type")
		p := resume.New(o)
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(asking))
		setFields(r, c.header)
		rec := httptest.NewRecorder()
		want := errors.New("its error")
		called := false
		err := p.Serve(rec, r, func(gotW http.ResponseWriter, gotR *http.Request) error {
			called = true
			if gotW != rec || gotR != r {
				t.Errorf("%s: next got others", name)
			}
			return want
		})
		if !called || err != want {
			t.Errorf("%s: called %v, error %v", name, called, err)
		}
		if allocs := testing.AllocsPerRun(100, func() {
			_ = p.Serve(rec, r, func(http.ResponseWriter, *http.Request) error { return nil })
		}); allocs != 0 && !c.allocates {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

// TestWhatIsNotUnderstoodIsRefused, because it would not do what it should: a duration that is
// none, and two keys, with which the agent would run again and again.
func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	l := newLab(t, nil, streams(events(1), always()))
	id := l.send(post(key, "k")).want(http.StatusOK).id()
	for _, fields := range [][]string{
		{resume.DetachHeader, ""}, {resume.DetachHeader, "10"}, {resume.DetachHeader, "-1s"}, {resume.DetachHeader, "ten minutes"},
		{resume.DetachHeader, "10m", resume.DetachHeader, "0s"},
		{key, "k", key, "l"}, {key, "k", key, "k"}, {key, "", key, "k"}, {key, "k", key, "l", "Last-Event-ID", id + "/1"},
	} {
		problemOf(t, l.send(post(fields...)), http.StatusBadRequest)
	}
	l.wantAsked(1)
	if r := l.send(post(resume.DetachHeader, "0s")).want(http.StatusOK); r.id() != "" || r.rest() != event(1) {
		t.Error("0s asks for a log")
	}
}

// A handler in front may take the body of a request without one away.
func TestRequestWithoutBodyIsContinued(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	id := l.send(post(key, "k")).want(http.StatusOK).id()
	r := httptest.NewRequest(http.MethodGet, l.srv.URL+otherPath+"/"+id, nil)
	r.Header.Set("Last-Event-ID", id+"/1")
	r.Body = nil
	w := httptest.NewRecorder()
	l.srv.Config.Handler.ServeHTTP(w, r)
	if got := w.Body.String(); got != numbered(id, 2, event(2)) {
		t.Errorf("continues with %q", got)
	}
}

// TestPositions in streams: what is one, what is none, and what is not for us.
func TestPositions(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	first := l.send(post(key, "k"))
	id, other := first.id(), l.send(post(key, "b")).id()
	first.rest()
	get := func(id string, header ...string) request {
		return request{http.MethodGet, otherPath + "/" + id, "", header}
	}
	problemOf(t, l.send(post("Last-Event-ID", id+"/3")), http.StatusBadRequest)
	l.send(post("Last-Event-ID", id+"/2")).want(http.StatusOK).wantRest("")
	// An EventSource takes every end for a failure, but 204.
	l.send(get(id, "Last-Event-ID", id+"/2")).want(http.StatusNoContent)
	for _, q := range []request{post("Last-Event-ID", id+"/1"), get(id, "Last-Event-ID", id+"/1")} {
		l.send(q).want(http.StatusOK).wantRest(numbered(id, 2, event(2)))
	}
	for _, header := range [][]string{nil, {"Last-Event-ID", "7"}} { // one that is none of ours says nothing
		l.send(get(id, header...)).want(http.StatusOK).wantRest(numbered(id, 1, events(2)...))
	}
	problemOf(t, l.send(post(key, "k2", "Last-Event-ID", "stream_"+strings.Repeat("A", 22)+"/1")), http.StatusNotFound)
	for _, at := range []string{"/0", "/1", ""} { // in another stream
		problemOf(t, l.send(get(other, "Last-Event-ID", id+at)), http.StatusBadRequest)
	}
	// One of ours that names no event does not have the agent run again.
	for _, at := range []string{"", "/", "/x", "/-1", "/+1", "/1/2", "/1,2", "/0x1", "/99999999999999999999", "/" + strings.Repeat("9", 1000)} {
		at = id + at
		for _, q := range []request{
			post("Last-Event-ID", at), post(key, "k", "Last-Event-ID", at), post("Last-Event-ID", at, "Last-Event-ID", at), get(id, "Last-Event-ID", at),
		} {
			problemOf(t, l.send(q), http.StatusBadRequest)
		}
	}
	l.wantAsked(2)
	// Ids of others pass.
	for _, at := range []string{"7", "", "/", "x/1", "x" + id + "/1", id + "x/1", strings.ToUpper(id) + "/1", id[:28] + "!/1", "stream_7"} {
		l.send(post("Last-Event-ID", at)).want(http.StatusOK)
	}
	l.wantAsked(11)
	for _, path := range []string{"/" + id + "/", "/x" + id, "/a/" + id + "x", "/v1/responses/resp_0123456789abcdef0123456789abcdef", "/" + strings.Repeat("0", 32)} {
		l.send(request{http.MethodGet, path, "", nil}).want(http.StatusOK)
		l.send(request{http.MethodDelete, path, "", nil}).want(http.StatusOK)
	}
	l.wantAsked(21)
}

// closesUsed starts an upstream that answers the first request of a connection, and closes
// it when it has read the second: Go's transport may write that again, on another one. It
// returns its URL, and how many requests have come.
func closesUsed(t *testing.T) (*url.URL, *atomic.Int64) {
	t.Helper()
	var used sync.Map
	came := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		came.Add(1)
		if _, again := used.LoadOrStore(r.RemoteAddr, true); again {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(srv.Close)
	to, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return to, came
}

// TestUpstreamIsAskedAsOftenAsWithout: no request that hermes_resume takes is one that Go's
// transport repeats after it has written it, whatever is in it, and whatever handlers in
// front and after add or replace, unless it would be without.
func TestUpstreamIsAskedAsOftenAsWithout(t *testing.T) {
	type change = func(*http.Request)
	unchanged := func(*http.Request) {}
	// ask returns how many times upstream is asked.
	ask := func(in io.Reader, length int64, fields []string, front change, resumes func(http.Handler) http.Handler, back change) int64 {
		to, came := closesUsed(t)
		transport := new(http.Transport)
		defer transport.CloseIdleConnections()
		up := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
		h := resumes(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			back(r)
			up.ServeHTTP(w, r)
		}))
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			front(r)
			h.ServeHTTP(w, r)
		}))
		defer srv.Close()
		warm, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, warm.Body)
		warm.Body.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+chatPath, in)
		if err != nil {
			t.Fatal(err)
		}
		r.GetBody, r.ContentLength = nil, length
		setFields(r, append(fields, "Content-Type", "application/json"))
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return came.Load() - 1
	}
	for body, of := range map[string]func() (io.Reader, int64){
		"of a length":        func() (io.Reader, int64) { return strings.NewReader(asking), int64(len(asking)) },
		"of unknown length":  func() (io.Reader, int64) { return strings.NewReader(asking), -1 },
		"empty, of unknown":  func() (io.Reader, int64) { return strings.NewReader(""), -1 },
		"empty, of length 0": func() (io.Reader, int64) { return nil, 0 },
	} {
		for _, fields := range [][]string{{key, "k"}, {key, "", resume.DetachHeader, "1m"}, {resume.DetachHeader, "1m"}} {
			for front, inFront := range map[string]change{"nothing": unchanged, "GetBody": func(r *http.Request) {
				r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(asking)), nil }
			}} {
				for back, after := range map[string]change{
					"nothing": unchanged,
					"a key":   func(r *http.Request) { r.Header.Set(key, "added") },
					"a body": func(r *http.Request) {
						r.Body, r.ContentLength = io.NopCloser(strings.NewReader(asking)), int64(len(asking))
					},
				} {
					in, length := of()
					got := ask(in, length, fields, inFront, resume.New(resume.DefaultOptions()).Handler, after)
					in, _ = of()
					if want := ask(in, length, fields, unchanged, func(h http.Handler) http.Handler { return h }, after); got != want {
						t.Errorf("body %s, %s, in front %s, after %s: upstream was asked %d times, %d without", body, fields, front, back, got, want)
					}
				}
			}
		}
	}
}

// TestBodiesThatCannotBeKept pass as they come.
func TestBodiesThatCannotBeKept(t *testing.T) {
	failure := errors.New("torn")
	cut, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123")))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		want   string
		err    error
	}{
		"as large as may be":     {strings.NewReader("0123456789"), 10, "0123456789", nil},
		"of unknown length":      {strings.NewReader("0123456789"), -1, "0123456789", nil},
		"too large":              {strings.NewReader("0123456789a"), 11, "0123456789a", nil},
		"too large, not said":    {strings.NewReader("0123456789abc"), -1, "0123456789abc", nil},
		"that cannot be read":    {io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(failure)), -1, "0123", failure},
		"that ends too early":    {io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(io.ErrUnexpectedEOF)), 10, "0123", io.ErrUnexpectedEOF},
		"that net/http cuts":     {cut.Body, 10, "0123", io.ErrUnexpectedEOF}, // it says so once, and then io.EOF
		"none":                   {nil, 0, "", nil},
		"that is empty, chunked": {strings.NewReader(""), -1, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := resume.DefaultOptions()
			o.MaxRequest = func() int64 { return 10 }
			r := httptest.NewRequest(http.MethodPost, otherPath, c.body)
			r.ContentLength = c.length
			r.Header.Set(key, "k")
			w := httptest.NewRecorder()
			err := resume.New(o).Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
				got, err := io.ReadAll(r.Body)
				if string(got) != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
					t.Errorf("next reads %q, %v; want %q, %v", got, err, c.want, c.err)
				}
				return streams(events(1), always())(w, r)
			})
			if err != nil {
				t.Error(err)
			}
			fits := c.err == nil && len(c.want) <= 10
			if got := w.Header().Get(resume.StreamHeader) != ""; got != fits {
				t.Errorf("it has a log: %v", got)
			}
		})
	}
}

// TestDepartureIsNoticed whatever body a request has, and however it is framed: net/http
// looks for the end of a connection only once the body has been read to its end.
func TestDepartureIsNoticed(t *testing.T) {
	// They get the id of the stream, and the host.
	const (
		position = "Host: %[2]s\r\nLast-Event-ID: %[1]s/1\r\n"
		length   = "Content-Length: 15\r\n\r\n" + `{"stream":true}`
		chunked  = "Transfer-Encoding: chunked\r\n\r\n8\r\n" + `{"stream` + "\r\n7\r\n" + `":true}` + "\r\n0\r\n\r\n"
		large    = 1 << 20
	)
	for name, request := range map[string]string{
		"keep-alive":             "POST /events HTTP/1.1\r\n" + position + length,
		"close":                  "POST /events HTTP/1.1\r\nConnection: close\r\n" + position + length,
		"close, chunked":         "POST /events HTTP/1.1\r\nConnection: close\r\n" + position + chunked,
		"HTTP/1.0":               "POST /events HTTP/1.0\r\n" + position + length,
		"HTTP/1.0, no body":      "POST /events HTTP/1.0\r\n" + position + "\r\n",
		"a large body":           "POST /events HTTP/1.1\r\n" + position + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", large, strings.Repeat("x", large)),
		"100-continue, not sent": "POST /events HTTP/1.1\r\nExpect: 100-continue\r\n" + position + length,
		"GET":                    "GET /events/%[1]s HTTP/1.1\r\n" + position + "\r\n",
		"GET with a body":        "GET /events/%[1]s HTTP/1.0\r\n" + position + length,
		"GET from the beginning": "GET /events/%[1]s HTTP/1.1\r\nConnection: close\r\nHost: %[2]s\r\n" + chunked,
		"the key":                "POST /events HTTP/1.0\r\nHost: %[2]s\r\nIdempotency-Key: k\r\n" + length,
		"the key, a position":    "POST /events HTTP/1.0\r\nIdempotency-Key: k\r\n" + position + length,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil, streams([]string{event(1), event(2)}, onlyOnce()))
			q := post(key, "k")
			q.body = `{"stream":true}`
			first := l.send(q)
			first.next()
			first.leave()
			until(t, "it has left", func() bool { return l.runs.Stats().Detached == 1 })

			c := dial(t, l.srv, request, first.id(), l.srv.Listener.Addr())
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err == nil && res.StatusCode == http.StatusContinue {
				res, err = http.ReadResponse(in, nil)
			}
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(err, res)
			}
			until(t, "it reads", func() bool { st := l.runs.Stats(); return st.Readers == 1 && st.Detached == 0 })
			c.Close()
			until(t, "it has left", func() bool { st := l.runs.Stats(); return st.Readers == 0 && st.Detached == 1 })
		})
	}
}

// TestBodiesThatCannotBeRead get an error, not a stream whose end would go unnoticed.
func TestBodiesThatCannotBeRead(t *testing.T) {
	l := newLab(t, nil, streams([]string{event(1), event(2)}, onlyOnce()))
	first := l.send(post(resume.DetachHeader, "1m")).want(http.StatusOK)
	c := dial(t, l.srv, "POST /events HTTP/1.1\r\nHost: %s\r\nLast-Event-ID: %s/0\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n", l.srv.Listener.Addr(), first.id())
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	problemOf(t, &reply{Response: res, t: t, in: bufio.NewReader(res.Body)}, http.StatusBadRequest)
	if _, err := io.ReadAll(c); err != nil {
		t.Error(err)
	}
	l.wantAsked(1)
}

// allocated returns how many bytes have been allocated, ever.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// repeated returns n bytes of before, as many of what fit, and after.
func repeated(before, what, after string, n int) []byte {
	var b bytes.Buffer
	b.Grow(n)
	b.WriteString(before)
	for b.Len()+len(what)+len(after) <= n {
		b.WriteString(what)
	}
	b.WriteString(after)
	return b.Bytes()
}

// TestABodyTakesItsSize has four clients send 10 MB each, in shapes that take a multiple when
// they are read into values. What is allocated for that, and what is kept while the next
// handler has not read it, is a small multiple of the size. Once that has read it, in whichever
// way, nothing is kept while the agent works.
func TestABodyTakesItsSize(t *testing.T) {
	alone.NotUnderRace(t)
	if alone.Elsewhere(t) {
		return
	}
	const size, clients = proxy.DefaultMaxRequest, 4
	for name, body := range map[string][]byte{
		"objects":       repeated(`{"stream":[{"":0}`, `,{"":0}`, `]}`, size),
		"depth":         repeated(`{"stream":`, `[`, ``, size),
		"escaped names": repeated(`{"a":0`, `,"\u0061\u0061\u0061\u0061":0`, `,"\u0073tream":true}`, size),
		"a string":      repeated(`{"stream":"`, `\u0061`, `"}`, size),
	} {
		lengths := []int64{int64(len(body))}
		if name == "objects" {
			lengths = append(lengths, -1)
		}
		for _, length := range lengths {
			t.Run(name+" of length "+strconv.FormatInt(length, 10), func(t *testing.T) {
				p := resume.New(resume.DefaultOptions())
				var there, through, over sync.WaitGroup
				there.Add(clients)
				through.Add(clients)
				read, work := make(chan struct{}), make(chan struct{})
				before, allocatedBefore := alone.Heap(), allocated()
				for i := range clients {
					over.Go(func() {
						r := httptest.NewRequest(http.MethodPost, chatPath, io.NopCloser(io.MultiReader(bytes.NewReader(body))))
						r.ContentLength = length
						r.Header.Set(key, strconv.Itoa(i))
						_ = p.Serve(httptest.NewRecorder(), r, func(_ http.ResponseWriter, r *http.Request) error {
							there.Done()
							<-read
							var in io.Reader = r.Body
							if i%2 == 0 {
								in = struct{ io.Reader }{r.Body} // by Read alone
							}
							n, err := io.Copy(io.Discard, in)
							if n != int64(len(body)) || err != nil {
								t.Errorf("%d bytes, %v", n, err)
							}
							through.Done()
							<-work
							runtime.KeepAlive(r)
							return nil
						})
					})
				}
				there.Wait()
				took, kept := allocated()-allocatedBefore, alone.Heap()-before
				close(read)
				through.Wait()
				left := alone.Heap() - before
				close(work)
				over.Wait()
				if left > size {
					t.Errorf("%d bytes are kept of bodies that have been read", left)
				}
				most := int64(clients * (size*5/2 + 1<<20))
				if length < 0 { // with the race detector, io.ReadAll allocates everything twice
					most *= 2
				}
				if took > most {
					t.Errorf("%d bytes are allocated for %d, at most %d may be", took, clients*size, most)
				}
				if most := int64(clients * (size*5/4 + 64<<10)); kept > most {
					t.Errorf("%d bytes are kept of %d, at most %d may be", kept, clients*size, most)
				}
			})
		}
	}
}
