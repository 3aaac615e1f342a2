package demo

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
)

// get answers a request of a browser that stands on the page.
func get(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:8640"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPageServesItsFilesUnderAStrictPolicy(t *testing.T) {
	h := page(new(backend), "", "")
	for path, mediaType := range map[string]string{
		"/": "text/html; charset=utf-8", "/main.js": "text/javascript; charset=utf-8",
		"/page.css": "text/css; charset=utf-8", "/icon.svg": "image/svg+xml", "/recordings.json": "application/json; charset=utf-8",
	} {
		w := get(h, "GET", path)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != mediaType {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'self'; ") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: header %v", path, w.Header())
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other origins are let in", path)
		}
	}
	for _, path := range []string{"/nothing", "/../page.go", "/with/v1/chat/completions", "/kill"} {
		if w := get(h, "GET", path); w.Code == http.StatusOK {
			t.Errorf("GET %s: status 200", path)
		}
	}
}

// The files name no host, write no HTML and have nothing inline, so that the
// policy has nothing to forbid.
func TestPageFilesKeepToTheirOrigin(t *testing.T) {
	forbidden := regexp.MustCompile(`https?://|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\sstyle=|\son[a-z]+=|<style|@import|url\(`)
	err := fs.WalkDir(pageFiles, "page", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := pageFiles.ReadFile(path)
		if err != nil {
			return err
		}
		text := strings.Replace(string(content), `xmlns="http://www.w3.org/2000/svg"`, "", 1)
		for i, line := range strings.Split(text, "\n") {
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: %s", path, i+1, found)
			}
		}
		if n := strings.Count(text, "\n"); n > 400 {
			t.Errorf("%s has %d lines", path, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPageRefusesOtherOrigins(t *testing.T) {
	h := page(new(backend), "127.0.0.1:1", "127.0.0.1:1")
	for _, test := range []struct {
		name, method, path string
		header             []string
		status             int
	}{
		{"a name that was rebound", "GET", "/", []string{"Host", "evil.example:8640"}, 421},
		{"a name that begins like an address", "GET", "/", []string{"Host", "127.0.0.1.evil.example"}, 421},
		{"the address of a network", "GET", "/", []string{"Host", "192.0.2.1:8640"}, 421},
		{"no host", "GET", "/", []string{"Host", ""}, 421},
		{"localhost", "GET", "/", []string{"Host", "localhost:8640"}, 200},
		{"another loopback address", "GET", "/", []string{"Host", "[::1]:8640"}, 200},
		{"a loopback address without a port", "GET", "/", []string{"Host", "[::1]"}, 200},
		{"another origin", "POST", "/kill", []string{"Origin", "https://evil.example"}, 403},
		{"a sandboxed frame", "POST", "/kill", []string{"Origin", "null"}, 403},
		{"another port", "POST", "/kill", []string{"Origin", "http://127.0.0.1:9"}, 403},
		{"another site, without an origin", "GET", "/main.js", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"the same site, another port", "GET", "/recordings.json", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"a frame of another site", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"a form of another site", "POST", "/kill", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		{"a link", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"the address bar", "GET", "/", []string{"Sec-Fetch-Site", "none"}, 200},
		{"the page", "POST", "/kill", []string{"Origin", "http://127.0.0.1:8640", "Sec-Fetch-Site", "same-origin"}, 200},
		{"curl", "POST", "/kill", nil, 200},
		{"a side that is gone", "POST", "/with/v1/chat/completions", nil, 502},
	} {
		if w := get(h, test.method, test.path, test.header...); w.Code != test.status {
			t.Errorf("%s: status %d, want %d", test.name, w.Code, test.status)
		}
	}
}

// A frame is in the browser when the backend has sent it, not later, and a
// kill also breaks the browser's connection.
func TestPageHandsOnFramesAndTheirEnd(t *testing.T) {
	hermes := &backend{speed: 1e-6} // a year and more
	page := serve(t, page(hermes, serve(t, hermes), ""))

	request := func(path, body string) *http.Response {
		req, err := http.NewRequest("POST", "http://"+page+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(runHeader, "run")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	// It returns before its first frame; the header is out.
	answer := request("/without/v1/chat/completions", `{"model": "one_tool", "stream": true}`)
	resp := request("/kill", "")
	var killed struct{ Killed int }
	if err := json.NewDecoder(resp.Body).Decode(&killed); err != nil || killed.Killed != 1 {
		t.Errorf("killed %d, %v", killed.Killed, err)
	}
	if _, err := io.ReadAll(answer.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want unexpected EOF", err)
	}
}

// A request goes on only when it is there: see forward.
func TestPageReadsRequestsWhole(t *testing.T) {
	reached := false
	side := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	h := page(new(backend), side, side)
	for name, test := range map[string]struct {
		body   io.Reader
		status int
	}{
		"too large": {strings.NewReader(strings.Repeat("x", maxRequest+1)), http.StatusRequestEntityTooLarge},
		"torn":      {io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)), http.StatusBadRequest},
	} {
		r := httptest.NewRequest("POST", "/without/v1/chat/completions", test.body)
		r.Host = "127.0.0.1"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.status || reached {
			t.Errorf("%s: status %d, reached the backend: %v", name, w.Code, reached)
		}
	}
}
