package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// memoryOff is the value of the option memory that turns it off.
const memoryOff = "off"

// memory returns the memory of the answers to the client of a request, nil for none (contract section 8).
// A client has one for each site and agent. Whatever tells users apart elsewhere tells them apart here, or
// else their addresses.
func (h *Handler) memory() func(r *http.Request) rewrite.Memory {
	if h.Memory == memoryOff {
		return nil
	}
	store := hermesapp.OfProcess().Memory
	var names []string
	if i := h.Identity; i != nil {
		names = append(names, i.Header, i.Session, i.Prompt)
	}
	if a := h.Approvals; a != nil {
		names = append(names, a.By)
	}
	return func(r *http.Request) rewrite.Memory {
		scope, known := behalf.Site(r), client.HasCredentials(r)
		for _, name := range names {
			user := ""
			if name != "" {
				user, _ = placeholder.Value(r, name)
			}
			scope, known = append(scope, user), known || user != ""
		}
		if !known { // all of them would be one client
			address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
			scope = append(scope, address)
		}
		return store.Of(client.Of(r, scope...))
	}
}
