// Package head reads and copies the headers of requests and answers.
package head

import (
	"errors"
	"maps"
	"mime"
	"net/http"
	"strings"
)

// Retry is the name of the header field that tells OpenAI's SDKs whether to send a request
// again, whatever the status.
const Retry = "X-Should-Retry"

// MediaType returns the media type of the body that the header h describes, "" for none.
// Parameters that are not well formed do not matter.
func MediaType(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return media
}

// IsEncoded reports whether the body that the header h describes is compressed.
func IsEncoded(h http.Header) bool {
	encoding := h.Get("Content-Encoding")
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// DropOfBody drops the fields of a header that describe a body that will change (Caddy's
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

// CopyTrailers copies the trailers of an answer to the header to: those that it has
// announced, and those with net/http's prefix.
func CopyTrailers(to, from http.Header) {
	announced := make(map[string]bool) // upstream chooses how many: each is looked at once
	for _, line := range to["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			announced[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range from {
		if announced[name] || strings.HasPrefix(name, http.TrailerPrefix) {
			to[name] = values
		}
	}
}

// HasTrailers reports whether the header h announces trailers, or has some that are not
// announced.
func HasTrailers(h http.Header) bool {
	for name := range h {
		if isTrailer(name) {
			return true
		}
	}
	return false
}

// DropTrailers drops the fields that HasTrailers looks for.
func DropTrailers(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool { return isTrailer(name) })
}

func isTrailer(name string) bool {
	return name == "Trailer" || strings.HasPrefix(name, http.TrailerPrefix)
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
