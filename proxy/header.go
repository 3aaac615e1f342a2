package proxy

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// isStream tells whether the answer is one that we act on (contract section 0).
func (rw *responseWriter) isStream(status int) bool {
	if status != http.StatusOK || rw.r.Method == http.MethodHead {
		return false
	}
	h := rw.inner.Header()
	if mediaType(h) != "text/event-stream" {
		return false
	}
	rw.encoded = isEncoded(h)
	return !rw.encoded
}

// mediaType returns the media type of the body behind the header h, "" for none.
// Parameters that are not well formed do not matter.
func mediaType(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return media
}

// isEncoded tells whether the body behind the header h is compressed.
func isEncoded(h http.Header) bool {
	encoding := h.Get("Content-Encoding")
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// dropOfBody drops what a header says of a body that will change (Caddy's
// templates handler drops the same, templates.go:480-486).
func dropOfBody(h http.Header) {
	for _, name := range []string{
		"Content-Length", "Etag", "Last-Modified", "Accept-Ranges",
		"Digest", "Content-Digest", "Repr-Digest", "Content-Md5",
	} {
		h.Del(name)
	}
}

// prepareHeader fits the header of a stream to what will be sent.
func prepareHeader(h http.Header) {
	dropOfBody(h)
	for name, value := range map[string]string{"X-Accel-Buffering": "no", "Cache-Control": "no-cache"} {
		if h.Get(name) == "" {
			h.Set(name, value)
		}
	}
}

// handOver gives the inner writer what the handler has in its header. It is
// called in the handler's goroutine, or in one that the handler waits for.
func (rw *responseWriter) handOver() {
	if rw.header == nil {
		return
	}
	inner := rw.inner.Header()
	clear(inner)
	for name, values := range rw.header {
		inner[name] = slices.Clone(values)
	}
}

// letHeaderGo gives the handler the inner writer's header for its own, once that has
// left and nothing but the trailers is taken from it, unless it has announced some.
// It is called in the handler's goroutine. A stream takes less memory without.
func (rw *responseWriter) letHeaderGo() {
	if rw.committed && rw.header["Trailer"] == nil {
		rw.header = nil
	}
}

// handOverTrailers gives the inner writer the trailers of the answer: what its
// header has announced, and what bears net/http's prefix for the others.
func (rw *responseWriter) handOverTrailers() {
	if rw.header == nil {
		return
	}
	inner := rw.inner.Header()
	for name, values := range rw.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || announces(inner, name) {
			inner[name] = slices.Clone(values)
		}
	}
}

// hasTrailers tells whether the handler has announced trailers, or has set some
// without.
func (rw *responseWriter) hasTrailers() bool {
	for name := range rw.header {
		if name == "Trailer" || strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// announces tells whether the header h says that the trailer name will come.
func announces(h http.Header, name string) bool {
	for _, line := range h["Trailer"] {
		for t := range strings.SplitSeq(line, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(t)) == name {
				return true
			}
		}
	}
	return false
}
