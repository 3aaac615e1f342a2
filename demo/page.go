package demo

import (
	"bytes"
	"embed"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
)

// pageFiles has the files of the page.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy is the Content-Security-Policy of the page: it loads nothing and
// talks to its own server only, has no inline script or style, and its
// script cannot write HTML.
const pagePolicy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// mediaTypes are the media types of the files, by extension. Those of the machine may be wrong,
// and then browsers do not run a module.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// page returns the demo as a web page for the backend b at backendAddr and the sidecar at
// sidecarAddr. It serves the page itself, GET /recordings.json, POST /without/v1/chat/completions
// and POST /with/v1/chat/completions, which go to the backend and the sidecar, and POST /kill,
// which kills the run of the request's runHeader. So the page needs no origin but its own, and
// requests from another origin are refused.
func page(b *backend, backendAddr, sidecarAddr string) http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic("demo: " + err.Error()) // the name is a constant
	}
	mux := http.NewServeMux()
	server := http.FileServerFS(files)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		if t, ok := mediaTypes[path.Ext(r.URL.Path)]; ok {
			w.Header().Set("Content-Type", t)
		}
		server.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /recordings.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, scenarios())
	})
	const completions = "/v1/chat/completions"
	mux.Handle("POST /without"+completions, forward(backendAddr, completions))
	mux.Handle("POST /with"+completions, forward(sidecarAddr, completions))
	mux.HandleFunc("POST /kill", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]int{"killed": b.kill(r.Header.Get(runHeader))})
	})
	return guard(mux)
}

// guard refuses requests that come neither from the page nor from its user, and adds the policies
// of the page to each answer.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store") // the next run may be another version
		if !loopbackHost(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, "wrong_host", "this page is served on the loopback interface only: open it as http://127.0.0.1")
			return
		}
		if foreign(r) {
			refuse(w, http.StatusForbidden, "wrong_origin", "requests from other pages are not accepted")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackHost reports whether the host of a request is a loopback address or localhost. Any other
// name that leads to this machine has been rebound by its owner. Any port is allowed, because it
// may have been forwarded.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// foreign reports whether a page of another origin made the request. Following a link to the page
// is allowed.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin": // "": not a browser
		return false
	}
	return r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// forward returns a handler that forwards requests to path at addr, and streams the answers. If an
// answer breaks off, it also breaks off for the browser.
//
// The handler reads a request whole before it forwards it: net/http closes the body of a request
// when its answer begins, and if the backend is so quick that the transport has not yet seen the
// end of the body, the transport takes that for an error and cuts the answer.
func forward(addr, path string) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = &url.URL{Scheme: "http", Host: addr, Path: path}
			r.Out.Host = addr
		},
		// No proxy of the environment, and no connection that outlives its run.
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readRequest(w, r)
		if err != nil {
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		proxy.ServeHTTP(w, r)
	})
}
