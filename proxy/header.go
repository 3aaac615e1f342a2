package proxy

import (
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
)

// prepareHeader fits the header of a stream to what will be sent.
func prepareHeader(h http.Header) {
	head.DropOfBody(h)
	setDefault(h, "X-Accel-Buffering", "no")
	setDefault(h, "Cache-Control", "no-cache")
}

// setDefault sets the field name, which is canonical, if it has no value.
func setDefault(h http.Header, name, value string) {
	if head.First(h, name) == "" {
		h[name] = []string{value}
	}
}
