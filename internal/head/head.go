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

// MediaType returns the media type of the body that the header h describes, "" for none. It
// ignores malformed parameters.
func MediaType(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return media
}

// IsJSON reports whether the body that the header h describes is JSON, judging by its media type.
func IsJSON(h http.Header) bool {
	media := MediaType(h)
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// IsEncoded reports whether the body that the header h describes is compressed.
func IsEncoded(h http.Header) bool {
	encoding := h.Get("Content-Encoding")
	return encoding != "" && !strings.EqualFold(encoding, "identity")
}

// DropOfBody drops the fields of h that describe the body, because the body will change (as
// Caddy's templates handler does, templates.go:480-486).
func DropOfBody(h http.Header) {
	for _, name := range []string{
		"Content-Length", "Etag", "Last-Modified", "Accept-Ranges",
		"Digest", "Content-Digest", "Repr-Digest", "Content-Md5",
	} {
		delete(h, name) // the names are canonical
	}
}

// Copy replaces all fields of to by copies of the fields of from.
func Copy(to, from http.Header) {
	clear(to)
	maps.Copy(to, from.Clone())
}

// CopyTrailers copies the trailers in from to to: the fields that to announces, and those with
// net/http's prefix.
func CopyTrailers(to, from http.Header) {
	announced := make(map[string]bool) // a set, because upstream chooses how many there are
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

// HasTrailers reports whether the header h announces trailers, or has unannounced ones, which have
// net/http's prefix.
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

// Inform sends an informational answer with the status and the fields of header; version is the
// major version of HTTP. The header of w, which belongs to the final answer, is the same
// afterwards.
func Inform(w http.ResponseWriter, version, status int, header http.Header) {
	h := w.Header()
	before := maps.Clone(h)
	Copy(h, header)
	if version == 2 {
		// If the client leaves, WriteHeader may return while net/http still reads the map
		// (h2_bundle.go, writeHeaders). If there is a Content-Length, net/http leaves it out and
		// reads a copy of the map.
		h.Set("Content-Length", "0")
	}
	w.WriteHeader(status)
	clear(h)
	maps.Copy(h, before)
}
