package proxy

import (
	"errors"
	"maps"
	"mime"
	"net/http"
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
// called in the handler's goroutine, or in one that the handler waits for, as all
// that looks at the handler's header.
func (rw *responseWriter) handOver() {
	n := 0
	for _, values := range rw.header {
		n += len(values)
	}
	inner, all := rw.inner.Header(), make([]string, 0, n)
	clear(inner)
	for name, values := range rw.header {
		if values != nil { // which keeps net/http from setting the field
			from := len(all)
			all = append(all, values...)
			values = all[from:len(all):len(all)]
		}
		inner[name] = values
	}
}

// inform sends an informational answer. Its fields are not those of the answer
// to come, which may be a timer's.
func (rw *responseWriter) inform(status int) {
	inner := rw.inner.Header()
	before := maps.Clone(inner)
	rw.handOver()
	if rw.r.ProtoMajor == 2 {
		// When the client leaves, net/http comes back while it may still read the
		// map (h2_bundle.go, writeHeaders). It reads a copy where there is a
		// length, which it leaves out.
		inner.Set("Content-Length", "0")
	}
	rw.inner.WriteHeader(status)
	clear(inner)
	maps.Copy(inner, before)
}

// handOverTrailers gives the inner writer the trailers of the answer: what its
// header has announced, and what bears net/http's prefix for the others.
func (rw *responseWriter) handOverTrailers() {
	inner := rw.inner.Header()
	announced := announcedBy(inner)
	for name, values := range rw.header {
		if announced[name] || strings.HasPrefix(name, http.TrailerPrefix) {
			inner[name] = values
		}
	}
}

// letHeaderGo drops the handler's header once that of a chat stream has left, unless
// it says something of trailers: a stream takes less memory without. Whoever asks for
// it again gets a new one, and sets trailers there. It is called in the handler's
// goroutine.
func (rw *responseWriter) letHeaderGo() {
	if rw.chat && rw.committed && !rw.hasTrailers() {
		rw.header = nil
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

// announcedBy returns the names of the trailers that the header h announces, nil
// for none. Upstream chooses how many there are: each is looked at once.
func announcedBy(h http.Header) map[string]bool {
	var names map[string]bool
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			if names == nil {
				names = make(map[string]bool)
			}
			names[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return names
}
