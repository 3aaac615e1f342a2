package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// fromPage gives the request an Origin.
func fromPage(o *proxy.Origins, origin string) setting {
	return func(options *proxy.Options, r *http.Request, _ *recorder) {
		options.Origins = o
		r.Host = "agent"
		r.Header.Set("Origin", origin)
	}
}

// TestHeaderForAPage: the header of an error of the sidecar's gives a page leave if upstream has given it to
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
		"another socket": {func(o *proxy.Origins) {
			says(o, preflight, page, func(r *http.Request) {
				*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/a.sock", Net: "unix"}))
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
			x := begin(t, fromPage(o, page), statusOf(http.StatusBadGateway))
			x.Ret(errTest).WantSwallowed(t)
			equal(t, x.Rec.Status, http.StatusBadGateway, "status")
			equal(t, fields(x.Rec.Sent), c.want, "the header")
		})
	}
}

// TestOriginsAreBounded: however many origins, hosts and paths upstream gives leave to, little is
// remembered, and the newest are.
func TestOriginsAreBounded(t *testing.T) {
	o := new(proxy.Origins)
	before := heapNow()
	for i := range 20_000 {
		origin := fmt.Sprintf("https://%d.example", i)
		prefix := "/" + strings.Repeat("a", i%600)
		says(o, http.MethodOptions, origin, func(r *http.Request) { r.URL.Path = prefix + chatPath }, 200, "Access-Control-Allow-Origin", origin)
	}
	if grown := heapNow() - before; grown > 2<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	says(o, http.MethodOptions, page, nil, 200, "Access-Control-Allow-Origin", page)
	for range 2000 { // one of which upstream says it often counts once
		says(o, http.MethodOptions, "https://often.example", nil, 200, "Access-Control-Allow-Origin", "https://often.example")
	}
	bubble(t, "the newest", func(t *testing.T) {
		x := begin(t, fromPage(o, page), statusOf(http.StatusBadGateway))
		x.Ret(errTest).WantSwallowed(t)
		equal(t, x.Rec.Sent.Get("Access-Control-Allow-Origin"), page, "the header")
	})
	runtime.KeepAlive(o)
}
