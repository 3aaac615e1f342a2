package queuehttp_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// fromPage gives the request that waits an Origin.
func fromPage(o *proxy.Origins, origin string) setting {
	return func(options *options, r *http.Request, _ *recorder) {
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
		"of a preflight":   {func(o *proxy.Origins) { says(o, preflight, page, nil, 204, allow, page) }, page + " [Origin]"},
		"with credentials": {func(o *proxy.Origins) { says(o, preflight, page, nil, 200, allow, page, credentials, "true") }, page + "true [Origin]"},
		"of everybody":     {func(o *proxy.Origins) { says(o, preflight, page, nil, 200, allow, "*") }, "* []"},
		"nothing":          {func(*proxy.Origins) {}, " []"},
	} {
		fields := func(h http.Header) string { return h.Get(allow) + h.Get(credentials) + " " + fmt.Sprint(h["Vary"]) }
		bubble(t, name, func(t *testing.T) {
			o := new(proxy.Origins)
			c.says(o)
			x := waits(t, 1, fromPage(o, page))
			advance(time.Second)
			equal(t, fields(x.Rec.Sent), c.want, "the header")
			x.goesOn()
			x.Stream(allow, page)
			x.Ret(nil)
		})
		bubble(t, name+", if a handler in front has set it", func(t *testing.T) {
			o := new(proxy.Origins)
			c.says(o)
			x := waits(t, 1, fromPage(o, page), func(_ *options, _ *http.Request, rec *recorder) { rec.Fields.Set(allow, "front") })
			advance(time.Second)
			equal(t, fmt.Sprint(x.Rec.Sent[allow], x.Rec.Sent["Vary"]), "[front] []", "the header")
		})
		// A browser that says that the page is another origin's would throw the answer away.
		for site, awaits := range map[string]bool{"cross-site": true, "same-site": true, "same-origin": false, "none": false} {
			bubble(t, name+", "+site, func(t *testing.T) {
				o := new(proxy.Origins)
				c.says(o)
				x := waits(t, 1, fromPage(o, page), header("Sec-Fetch-Site", site))
				advance(50 * time.Second)
				equal(t, x.Rec.Status == 0, awaits && c.want == " []", "the header has to wait for upstream's")
				x.goesOn()
				x.Stream(allow, page)
				x.Write(role, text("a"), fullStop, done)
				x.Ret(nil)
				if x.Rec.Sent.Get(allow) != page && c.want != "* []" && awaits {
					t.Errorf("the header has %s", fields(x.Rec.Sent))
				}
			})
		}
	}
}
