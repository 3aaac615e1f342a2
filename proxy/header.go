package proxy

import (
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/head"
)

// prepareHeader fits the header of a stream to what will be sent.
func prepareHeader(h http.Header) {
	head.DropOfBody(h)
	for name, value := range map[string]string{"X-Accel-Buffering": "no", "Cache-Control": "no-cache"} {
		if h.Get(name) == "" {
			h.Set(name, value)
		}
	}
}
