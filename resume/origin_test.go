package resume_test

import (
	"io"
	"net/http"
	"testing"
)

// TestOriginsAreNotReplayed: what upstream has said to the page of one origin is said to no other one, nor
// to a client that is no page. What it says to everybody is.
func TestOriginsAreNotReplayed(t *testing.T) {
	const first, second = "https://first.example", "https://second.example"
	for name, c := range map[string]struct {
		first, allows, media string
		want                 map[string]string // what the header allows, by the origin of the repeat
	}{
		"a stream":              {first, first, "text/event-stream", map[string]string{first: first, second: "", "": ""}},
		"an answer":             {first, first, "application/json", map[string]string{first: first, second: "", "": ""}},
		"everybody":             {first, "*", "text/event-stream", map[string]string{first: "*", second: "*", "": "*"}},
		"a page without an own": {"null", "null", "text/event-stream", map[string]string{"null": "null", second: "", "": ""}},
		"a client that is none": {"", "", "text/event-stream", map[string]string{first: "", "": ""}},
		"an origin of its own":  {first, second, "text/event-stream", map[string]string{first: "", second: second}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				h := w.Header()
				h.Set("Content-Type", c.media)
				h.Set("X-Other", "yes")
				if c.allows != "" {
					h.Set("Access-Control-Allow-Origin", c.allows)
					h.Set("Access-Control-Allow-Credentials", "true")
					h.Set("Access-Control-Expose-Headers", "X-Other")
					h.Set("Vary", "Origin")
				}
				body := event(1)
				if c.media != "text/event-stream" {
					body = "{}"
				}
				_, _ = io.WriteString(w, body)
				return nil
			})
			ask := func(method, path, origin string) http.Header {
				t.Helper()
				q := request{method, path, asking, []string{"Content-Type", "application/json", key, "k", retryHeader, "0"}}
				if origin != "" {
					q.header = append(q.header, "Origin", origin)
				}
				r := l.send(q).want(http.StatusOK) // of an SDK, whose answers are kept that are no streams
				r.rest()
				return r.Header
			}
			at := ask(http.MethodPost, chatPath, c.first).Get("Content-Location")
			for origin, want := range c.want {
				for _, how := range [][2]string{{http.MethodPost, chatPath}, {http.MethodGet, at}, {http.MethodHead, at}} {
					if how[1] == "" { // an answer has no address
						continue
					}
					h := ask(how[0], how[1], origin)
					if got := h.Get("Access-Control-Allow-Origin"); got != want {
						t.Errorf("%s to %q: allows %q, want %q", how[0], origin, got, want)
					}
					for _, name := range []string{"Access-Control-Allow-Credentials", "Access-Control-Expose-Headers"} {
						if (h.Get(name) != "") != (want != "") {
							t.Errorf("%s to %q: %s %q", how[0], origin, name, h.Get(name))
						}
					}
					if h.Get("X-Other") != "yes" {
						t.Errorf("%s to %q: %v", how[0], origin, h)
					}
				}
			}
			l.wantAsked(1)
		})
	}
}
