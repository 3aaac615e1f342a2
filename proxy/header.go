package proxy

import (
	"errors"
	"maps"
	"mime"
	"net/http"
	"strings"
)

// mediaType returns the media type of the body behind the header h, "" for none.
// Parameters that are not well formed do not matter.
func mediaType(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return media
}

// isEncoded reports whether the body behind the header h is compressed.
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

// copyHeader replaces all fields of the header to by copies of those of from.
func copyHeader(to, from http.Header) {
	n := 0
	for _, values := range from {
		n += len(values)
	}
	all := make([]string, 0, n)
	clear(to)
	for name, values := range from {
		if values != nil { // a nil one keeps net/http from setting the field
			start := len(all)
			all = append(all, values...)
			values = all[start:len(all):len(all)]
		}
		to[name] = values
	}
}

// copyTrailers copies the trailers of an answer to the header to: what that has
// announced, and what bears net/http's prefix for the others.
func copyTrailers(to, from http.Header) {
	announced := announcedBy(to)
	for name, values := range from {
		if announced[name] || strings.HasPrefix(name, http.TrailerPrefix) {
			to[name] = values
		}
	}
}

// hasTrailers reports whether the header h announces trailers, or has some without.
func hasTrailers(h http.Header) bool {
	for name := range h {
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

// sendInformational sends an informational answer with the fields of header. They
// are not those of the answer to come, which may be a timer's.
func (c *client) sendInformational(status int, header http.Header) {
	h := c.w.Header()
	before := maps.Clone(h)
	copyHeader(h, header)
	if c.r.ProtoMajor == 2 {
		// When the client leaves, net/http comes back while it may still read the
		// map (h2_bundle.go, writeHeaders). It reads a copy where there is a
		// length, which it leaves out.
		h.Set("Content-Length", "0")
	}
	c.w.WriteHeader(status)
	clear(h)
	maps.Copy(h, before)
}
