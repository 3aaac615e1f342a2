package caddymodule

import (
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// identityOf returns the proxy.Identity of the option identity, the zero value if o is nil.
func identityOf(o *options.Identity) proxy.Identity {
	if o == nil {
		return proxy.Identity{}
	}
	named := func(text string) func(*http.Request) string {
		if text == "" {
			return nil
		}
		return func(r *http.Request) string {
			name, _ := placeholder.Value(r, text)
			return name
		}
	}
	return proxy.Identity{Header: named(o.Header), Session: named(o.Session), Prompt: named(o.Prompt)}
}
