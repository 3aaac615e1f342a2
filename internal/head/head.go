// Package head has what is done with the headers of requests and answers, in front of
// whichever handler: what they say of a body, and how they are copied.
package head

import (
	"errors"
	"maps"
	"mime"
	"net/http"
	"strings"
)

// MediaType returns the media type of the body behind the header h, "" for none.
// Parameters that are not well formed do not matter.
func MediaType(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return media
}

// IsEncoded reports whether the body behind the header h is compressed.
func IsEncoded(h http.Header) bool {
	encoding := h.Get("Content-Encoding")
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// DropOfBody drops what a header says of a body that will change (Caddy's
// templates handler drops the same, templates.go:480-486).
func DropOfBody(h http.Header) {
	for _, name := range []string{
		"Content-Length", "Etag", "Last-Modified", "Accept-Ranges",
		"Digest", "Content-Digest", "Repr-Digest", "Content-Md5",
	} {
		delete(h, name) // they are canonical
	}
}

// Copy replaces all fields of the header to by copies of those of from.
func Copy(to, from http.Header) {
	clear(to)
	maps.Copy(to, from.Clone())
}

// CopyTrailers copies the trailers of an answer to the header to: what that has
// announced, and what bears net/http's prefix for the others.
func CopyTrailers(to, from http.Header) {
	announced := announcedBy(to)
	for name, values := range from {
		if announced[name] || strings.HasPrefix(name, http.TrailerPrefix) {
			to[name] = values
		}
	}
}

// HasTrailers reports whether the header h announces trailers, or has some without.
func HasTrailers(h http.Header) bool {
	for name := range h {
		if name == "Trailer" || strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// DropTrailers drops what HasTrailers looks for.
func DropTrailers(h http.Header) {
	for name := range h {
		if name == "Trailer" || strings.HasPrefix(name, http.TrailerPrefix) {
			delete(h, name)
		}
	}
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

// Inform sends an informational answer with the fields of header, over HTTP of the major
// version. They are not those of the answer to come, which another goroutine may send.
func Inform(w http.ResponseWriter, version, status int, header http.Header) {
	h := w.Header()
	before := maps.Clone(h)
	Copy(h, header)
	if version == 2 {
		// When the client leaves, net/http comes back while it may still read the
		// map (h2_bundle.go, writeHeaders). It reads a copy where there is a
		// length, which it leaves out.
		h.Set("Content-Length", "0")
	}
	w.WriteHeader(status)
	clear(h)
	maps.Copy(h, before)
}
