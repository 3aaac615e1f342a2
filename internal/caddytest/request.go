package caddytest

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Request returns a request as Caddy hands it on. fields are names and values of its header.
func Request(method, url, body string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), nil)
}

// Replacer returns the placeholders of a request.
func Replacer(r *http.Request) *caddy.Replacer {
	return r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
}

const upstream = "http.reverse_proxy.upstream.hostport"

// AnswerBy records that the upstream with the name answers r, as reverse_proxy does.
func AnswerBy(r *http.Request, name string) { Replacer(r).Set(upstream, name) }

// Upstream names the upstream that answers r, as package telemetry does.
func Upstream(r *http.Request) string {
	name, _ := Replacer(r).GetString(upstream)
	return name
}
