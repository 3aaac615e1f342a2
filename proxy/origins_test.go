package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

const page = "https://chat.example"

// says has upstream answer a request of a page with the status and fields; for a preflight
// the method is OPTIONS.
func says(o *proxy.Origins, method, origin string, change func(*http.Request), status int, fields ...string) {
	r := httptest.NewRequest(method, "http://agent"+chatPath, strings.NewReader("{}"))
	r.Header.Set("Origin", origin)
	if method == http.MethodOptions {
		r.Header.Set("Access-Control-Request-Method", "POST")
	}
	if change != nil {
		change(r)
	}
	proxy.New(proxy.Options{Origins: o}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
	})).ServeHTTP(httptest.NewRecorder(), r)
}

// fromPage gives the request that waits an Origin.
func fromPage(o *proxy.Origins, origin string) setting {
	return func(options *proxy.Options, r *http.Request, _ *recorder) {
		options.Origins = o
		r.Host = "agent"
		r.Header.Set("Origin", origin)
	}
}

// TestHeaderForAPage: the header of a request that waits gives a page leave if upstream has given it to
// this origin at this address.
func TestHeaderForAPage(t *testing.T) {
	const allow, credentials = "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials"
	preflight := http.MethodOptions
	for name, c := range map[string]struct {
		says func(o *proxy.Origins)
		want string // the fields of the header
	}{
		"of a preflight":        {func(o *proxy.Origins) { says(o, preflight, page, nil, 204, allow, page) }, page + " [Origin]"},
		"with credentials":      {func(o *proxy.Origins) { says(o, preflight, page, nil, 200, allow, page, credentials, "true") }, page + "true [Origin]"},
		"of everybody":          {func(o *proxy.Origins) { says(o, preflight, page, nil, 200, allow, "*") }, "* []"},
		"of an answer":          {func(o *proxy.Origins) { says(o, "POST", page, nil, 200, allow, page) }, page + " [Origin]"},
		"of an error":           {func(o *proxy.Origins) { says(o, "POST", page, nil, 401, allow, page) }, page + " [Origin]"},
		"nothing":               {func(*proxy.Origins) {}, " []"},
		"a refused preflight":   {func(o *proxy.Origins) { says(o, preflight, page, nil, 403, allow, page) }, " []"},
		"leave for another":     {func(o *proxy.Origins) { says(o, preflight, page, nil, 200, allow, "https://other.example") }, " []"},
		"two values":            {func(o *proxy.Origins) { says(o, preflight, page, nil, 200, allow, page, allow, page) }, " []"},
		"another origin":        {func(o *proxy.Origins) { says(o, preflight, page+".evil", nil, 200, allow, page+".evil") }, " []"},
		"everybody, to another": {func(o *proxy.Origins) { says(o, preflight, "https://other.example", nil, 200, allow, "*") }, " []"},
		"another path": {func(o *proxy.Origins) {
			says(o, preflight, page, func(r *http.Request) { r.URL.Path = "/other/v1/chat/completions" }, 200, allow, page)
		}, " []"},
		"another host": {func(o *proxy.Origins) {
			says(o, preflight, page, func(r *http.Request) { r.Host = "other" }, 200, allow, page)
		}, " []"},
		"another server": {func(o *proxy.Origins) {
			says(o, preflight, page, func(r *http.Request) {
				*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{Port: 1}))
			}, 200, allow, page)
		}, " []"},
		"taken back": {func(o *proxy.Origins) {
			says(o, preflight, page, nil, 200, allow, page)
			says(o, preflight, page, nil, 200)
		}, " []"},
		"not taken back by an error": {func(o *proxy.Origins) {
			says(o, preflight, page, nil, 200, allow, page)
			says(o, "POST", page, nil, 502)
		}, page + " [Origin]"},
	} {
		fields := func(h http.Header) string { return h.Get(allow) + h.Get(credentials) + " " + fmt.Sprint(h["Vary"]) }
		bubble(t, name, func(t *testing.T) {
			o := new(proxy.Origins)
			c.says(o)
			x := waits(t, 1, fromPage(o, page))
			advance(time.Second)
			equal(t, fields(x.rec.sent), c.want, "the header")
			x.goesOn()
			x.stream(allow, page)
			x.ret(nil)
		})
		bubble(t, name+", of a request that is refused", func(t *testing.T) {
			o := new(proxy.Origins)
			c.says(o)
			x := waits(t, 1, fromPage(o, page), func(o *proxy.Options, _ *http.Request, _ *recorder) {
				o.Turn = func(*http.Request) (*queue.Turn, error) { return nil, queue.ErrFull }
			})
			x.end().wantSwallowed(t)
			equal(t, x.rec.status, 429, "status")
			equal(t, fields(x.rec.sent), c.want, "the header")
		})
		bubble(t, name+", if a handler in front has set it", func(t *testing.T) {
			o := new(proxy.Origins)
			c.says(o)
			x := waits(t, 1, fromPage(o, page), func(_ *proxy.Options, _ *http.Request, rec *recorder) { rec.header.Set(allow, "front") })
			advance(time.Second)
			equal(t, fmt.Sprint(x.rec.sent[allow], x.rec.sent["Vary"]), "[front] []", "the header")
		})
		// A browser that says that the page is another origin's would throw the answer away.
		for site, awaits := range map[string]bool{"cross-site": true, "same-site": true, "same-origin": false, "none": false} {
			bubble(t, name+", "+site, func(t *testing.T) {
				o := new(proxy.Origins)
				c.says(o)
				x := waits(t, 1, fromPage(o, page), header("Sec-Fetch-Site", site))
				advance(50 * time.Second)
				equal(t, x.rec.status == 0, awaits && c.want == " []", "the header has to wait for upstream's")
				x.goesOn()
				x.stream(allow, page)
				x.write(role, text("a"), fullStop, done)
				x.ret(nil)
				if x.rec.sent.Get(allow) != page && c.want != "* []" && awaits {
					t.Errorf("the header has %s", fields(x.rec.sent))
				}
			})
		}
	}
}

// TestOriginsAreBounded: however many origins, hosts and paths upstream gives leave to, little is
// remembered, and the newest are.
func TestOriginsAreBounded(t *testing.T) {
	o := new(proxy.Origins)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 20_000 {
		origin := fmt.Sprintf("https://%d.example", i)
		prefix := "/" + strings.Repeat("a", i%600)
		says(o, http.MethodOptions, origin, func(r *http.Request) { r.URL.Path = prefix + chatPath }, 200, "Access-Control-Allow-Origin", origin)
	}
	if grown := int64(heap()) - int64(before); grown > 2<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	says(o, http.MethodOptions, page, nil, 200, "Access-Control-Allow-Origin", page)
	bubble(t, "the newest", func(t *testing.T) {
		x := waits(t, 1, fromPage(o, page))
		advance(time.Second)
		synctest.Wait()
		equal(t, x.rec.sent.Get("Access-Control-Allow-Origin"), page, "the header")
	})
	runtime.KeepAlive(o)
}
