package harness

import (
	"net/http"
	"net/http/httputil"
	"net/url"
)

// ProxyTo returns a handler that forwards requests to the server at addr, and streams the answers.
//
// It reads a request and writes its answer at the same time. By default net/http closes the body of a
// request when the answer begins. A server may answer before the transport of the proxy has read the
// end of the body, and the transport then breaks off the answer.
func ProxyTo(addr string) http.Handler {
	to := &url.URL{Scheme: "http", Host: addr}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				panic(err)
			}
		}
		proxy.ServeHTTP(w, r)
	})
}
