package resume_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// closesUsed starts an upstream that answers the first request of a connection, and closes
// it when it has read the second: Go's transport may write that again, on another one. It
// returns its URL, and how many requests have come.
func closesUsed(t *testing.T) (*url.URL, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	came := new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for first := true; ; first = false {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					if came.Add(1); !first {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				}
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String()}, came
}

// TestUpstreamIsAskedAsOftenAsWithout: no request that hermes_resume takes is one that Go's
// transport repeats after it has written it, whatever is in it, and whatever handlers in
// front and after add or replace, unless it would be without.
func TestUpstreamIsAskedAsOftenAsWithout(t *testing.T) {
	getBody := func(r *http.Request) {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(asking)), nil }
	}
	addsKey := func(r *http.Request) { r.Header.Set(key, "added") }
	replaces := func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(asking)), int64(len(asking))
	}
	nothing := func(*http.Request) {}
	for body, of := range map[string]func() (io.Reader, int64){
		"of a length":        func() (io.Reader, int64) { return strings.NewReader(asking), int64(len(asking)) },
		"of unknown length":  func() (io.Reader, int64) { return strings.NewReader(asking), -1 },
		"empty, of unknown":  func() (io.Reader, int64) { return strings.NewReader(""), -1 },
		"empty, of length 0": func() (io.Reader, int64) { return nil, 0 },
	} {
		for header, fields := range map[string][]string{
			"a key": {key, "k"}, "an empty key": {key, "", resume.DetachHeader, "1m"}, "no key": {resume.DetachHeader, "1m"},
		} {
			for front, inFront := range map[string]func(*http.Request){"nothing": nothing, "GetBody": getBody} {
				for back, behind := range map[string]func(*http.Request){"nothing": nothing, "a key": addsKey, "a body": replaces} {
					ask := func(with, inFrontOf bool) int64 {
						to, came := closesUsed(t)
						transport := new(http.Transport)
						defer transport.CloseIdleConnections()
						up := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport,
							ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
						var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							behind(r)
							up.ServeHTTP(w, r)
						})
						if with {
							h = resume.New(resume.DefaultOptions()).Handler(h)
						}
						srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							if inFrontOf {
								inFront(r)
							}
							h.ServeHTTP(w, r)
						}))
						defer srv.Close()
						warm, err := srv.Client().Get(srv.URL)
						if err != nil {
							t.Fatal(err)
						}
						_, _ = io.Copy(io.Discard, warm.Body)
						warm.Body.Close()
						in, length := of()
						r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, srv.URL+chatPath, in)
						if err != nil {
							t.Fatal(err)
						}
						r.GetBody, r.ContentLength = nil, length
						r.Header["Content-Type"] = []string{"application/json"}
						for i := 0; i < len(fields); i += 2 {
							r.Header[fields[i]] = []string{fields[i+1]}
						}
						res, err := srv.Client().Do(r)
						if err != nil {
							t.Fatal(err)
						}
						res.Body.Close()
						return came.Load() - 1
					}
					if got, want := ask(true, true), ask(false, false); got != want {
						t.Errorf("body %s, %s, in front %s, behind %s: upstream was asked %d times, %d without", body, header, front, back, got, want)
					}
				}
			}
		}
	}
}

// readsHeader is the writer of a client. It reads its header with each write, as net/http does
// over HTTP/2.
type readsHeader struct {
	header http.Header
	mu     sync.Mutex
	body   strings.Builder
}

func (w *readsHeader) Header() http.Header { return w.header }
func (w *readsHeader) WriteHeader(int)     {}
func (w *readsHeader) FlushError() error   { return nil }

func (w *readsHeader) Write(p []byte) (int, error) {
	_ = w.header.Clone()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(p)
}

func (w *readsHeader) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Len()
}

// TestHeaderIsTheHandlersAlone has a timer of hermes write while the handler behind it sets
// trailers, in its map and in the one that it has had from the beginning: to a client that
// the run writes to, to others, and in an answer that passes. Only the race detector sees
// what is wrong.
func TestHeaderIsTheHandlersAlone(t *testing.T) {
	for name, asks := range map[string]bool{"with a log": true, "that passes": false} {
		for _, readers := range []int{1, 2} {
			t.Run(fmt.Sprint(name, ", readers ", readers), func(t *testing.T) {
				po, ro := proxy.DefaultOptions(), resume.DefaultOptions()
				po.Keepalive = time.Millisecond
				begun, may := make(chan struct{}), make(chan struct{})
				first := &readsHeader{header: http.Header{}}
				h := resume.New(ro).Handler(proxy.New(po).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					kept := w.Header()
					kept.Set("Content-Type", "text/event-stream")
					kept.Set("Trailer", "X-Sum")
					if !asks { // too large to be kept
						kept.Set("X-Large", strings.Repeat("x", 100<<10))
					}
					_, _ = io.WriteString(w, chunk)
					close(begun)
					<-may
					for began := first.len(); first.len() < began+1000; { // a few keepalives
						w.Header().Set("X-Sum", "1")
						kept.Set("X-Sum", "2")
					}
					_, _ = io.WriteString(w, "data: [DONE]\n\n")
				})))
				serve := func(w http.ResponseWriter) {
					r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(asking))
					r.Header.Set(key, "k")
					h.ServeHTTP(w, r)
				}
				var all sync.WaitGroup
				all.Go(func() { serve(first) })
				<-begun
				if asks {
					for range readers - 1 {
						all.Go(func() { serve(&readsHeader{header: http.Header{}}) })
					}
				}
				close(may)
				all.Wait()
			})
		}
	}
}
