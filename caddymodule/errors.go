package caddymodule

import (
	"errors"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// errorStatus returns the HTTP status of an error of the next handler, 0 when
// it names none.
func errorStatus(err error) int {
	e, _ := errors.AsType[caddyhttp.HandlerError](err)
	return e.StatusCode
}

// passedError returns err for Caddy, which logs it, and for its error routes: with
// its status if it is one of the client's request, and with a text that is cut
// (package bounded). errors.Is and errors.As find what they found in err.
func passedError(err error) error {
	if e, ok := errors.AsType[*proxy.RequestError](err); ok {
		return caddyhttp.Error(e.Status, e)
	}
	he, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok || he.Err == nil || !bounded.Long(err) {
		return bounded.Error(err)
	}
	// Caddy logs the text of what the first HandlerError has, wherever that is
	// (caddy logging.go:234).
	he.Err = bounded.WithText(he.Err.Error(), err)
	return he
}
