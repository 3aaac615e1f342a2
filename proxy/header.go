package proxy

import (
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/head"
)

// prepareHeader fits the header of a stream to what will be sent.
func prepareHeader(h http.Header) {
	head.DropOfBody(h)
	setDefault(h, "X-Accel-Buffering", "no")
	setDefault(h, "Cache-Control", "no-cache")
}

func setDefault(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
	}
}
