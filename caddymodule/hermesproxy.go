package caddymodule

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

func init() {
	httpcaddyfile.RegisterDirective("hermes_proxy", parseHermesProxy)
	// It answers, so it stands where reverse_proxy does, after encode, handle
	// and route.
	httpcaddyfile.RegisterDirectiveOrder("hermes_proxy", httpcaddyfile.Before, "reverse_proxy")
}

// parseHermesProxy sets up a route from the hermes_proxy directive, which is
// the directives hermes and reverse_proxy in one. Syntax:
//
//	hermes_proxy [<matcher>] [<upstreams...>] {
//	    <subdirectives of hermes and of reverse_proxy, in any order...>
//	}
//
// It is equivalent to a route with both directives, and changes no default of either. The name of a
// subdirective decides which of the two it belongs to: no subdirective of hermes has the name of
// one of reverse_proxy (TestNoOptionIsOneOfReverseProxys). This holds on the first level of the
// block only. Nested blocks are reverse_proxy's, such as its transport with a keepalive, which is
// how long an idle connection to the upstream is kept.
//
// Beyond that, hermes_proxy requires an upstream: without any, and without dynamic, reverse_proxy
// would answer every request with 503, and an environment variable that is not set would go
// unnoticed.
func parseHermesProxy(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // the directive's name
	matchers, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}

	// A copy of the tokens, from which the lines of hermes are removed. The rest
	// is a reverse_proxy directive.
	h.Next() // the directive's name again: the matcher has been taken out
	d := h.NewFromNextSegment()
	lines := optionLines{make(options.Values), make(map[string]bool)}
	d.Next() // the directive's name
	if err := checkUpstreams(d, d.RemainingArgs()); err != nil {
		return nil, err
	}
	for d.NextBlock(0) {
		switch name := d.Val(); {
		case d.Nesting() == 1 && options.Lookup(name) != nil:
			tokens := 1 + d.CountRemainingArgs()
			if err := lines.read(d); err != nil {
				return nil, err
			}
			d.DeleteN(tokens)
		case d.Nesting() == 1 && name == "to":
			if err := checkUpstreams(d, d.RemainingArgs()); err != nil {
				return nil, err
			}
		default: // NextBlock goes from token to token, and an argument may have the name of an option of hermes
			d.RemainingArgs()
		}
	}

	proxy := new(reverseproxy.Handler)
	d.Reset()
	if err := proxy.UnmarshalCaddyfile(d); err != nil {
		// Only Caddy knows the subdirectives of the version that runs.
		if name := d.Val(); d.Nesting() == 1 && strings.HasPrefix(err.Error(), "unrecognized subdirective "+name) {
			return nil, d.WrapErr(options.Unrecognized(name, slices.Concat(options.Names(), ofReverseProxy)))
		}
		return nil, err
	}
	if err := proxy.FinalizeUnmarshalCaddyfile(h); err != nil {
		return nil, err
	}
	if len(proxy.Upstreams) == 0 && proxy.DynamicUpstreamsRaw == nil {
		d.Reset()
		d.Next() // for an error at the directive's line
		return nil, d.Errf("no upstream: name one, such as hermes_proxy 127.0.0.1:8642")
	}

	route := caddyhttp.Route{HandlersRaw: site.Handlers(lines.values, proxy)}
	if matchers != nil {
		route.MatcherSetsRaw = []caddy.ModuleMap{matchers}
	}
	return []httpcaddyfile.ConfigValue{{Class: "route", Value: route}}, nil
}

// checkUpstreams returns an error if an address in args, of the line at which d stands, has a path.
func checkUpstreams(d *caddyfile.Dispenser, args []string) error {
	for _, address := range args {
		if err := site.CheckUpstream(address); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

// ofReverseProxy are the subdirectives of reverse_proxy, for errors
// (reverseproxy/caddyfile.go).
var ofReverseProxy = []string{
	"to", "dynamic",
	"lb_policy", "lb_retries", "lb_try_duration", "lb_try_interval", "lb_retry_match",
	"health_uri", "health_upstream", "health_port", "health_headers", "health_method", "health_request_body", "health_interval",
	"health_timeout", "health_status", "health_body", "health_follow_redirects", "health_passes", "health_fails",
	"max_fails", "fail_duration", "unhealthy_request_count", "unhealthy_status", "unhealthy_latency",
	"flush_interval", "request_buffers", "response_buffers", "stream_buffer_size", "stream_timeout", "stream_close_delay",
	"proxy_status_name", "trusted_proxies", "header_up", "header_down", "method", "rewrite", "transport", "handle_response", "replace_status",
	"verbose_logs",
}
