package site

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/routes"
)

// Check looks at all routes of an app, provisioned or not, for what no handler sees alone: handlers
// of the sidecar's in places where they do nothing. The error is of what can never be meant. All of
// it is silent otherwise.
func Check(app *caddyhttp.App) (warnings []string, err error) {
	l := lookAt(app)
	return l.warnings, l.err
}

// A look goes through the routes of an app.
type look struct {
	walk   routes.Walk[state]
	server *caddyhttp.Server // the current one
	site   Site              // of its current route, without upstreams

	nodes map[*routes.Handler]*node
	order []*node                  // the same, as they were found
	found map[*routes.Handler]bool // the reverse_proxy handlers that have been found after hermes
	sites []Site                   // theirs
	page  bool                     // there is a hermes_approvals

	warnings []string
	err      error // the first one
}

// A node is a handler of the sidecar's.
type node struct {
	name    string
	options map[string]any

	reached bool    // by requests
	blocked bool    // a reverse_proxy in front answers requests that would reach it
	fresh   bool    // requests reach it that have not gone through hermes
	again   bool    // requests reach it that have
	next    []*node // of a hermes: those that follow it
	answers bool    // of a hermes: a handler after it may answer
	resumes bool    // of a hermes: there is a hermes_resume in front of it
	early   bool    // of another: there is a hermes after it
}

// state is what a request has gone through.
type state struct {
	hermes         *node // the last one, nil for none
	late           late
	resumes        bool // through hermes_resume
	detached, runs int  // max_detached of hermes_resume and runs of hermes_queue, 0 for none
	answered       bool // a reverse_proxy has answered, so that the request goes no further
}

// late are handlers that the request has gone through after the last hermes.
type late struct{ resume, queue *node }

// lookAt looks at the routes of an app.
func lookAt(app *caddyhttp.App) *look {
	l := &look{nodes: make(map[*routes.Handler]*node), found: make(map[*routes.Handler]bool)}
	l.walk = routes.Walk[state]{Visit: l.visit, Top: func(r *caddyhttp.Route) { l.site = siteOf(l.server, r) }}
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		l.server = app.Servers[name]
		l.walk.Server(l.server, state{})
	}
	l.conclude()
	return l
}

func (l *look) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(l.warnings, text) {
		l.warnings = append(l.warnings, text)
	}
}

func (l *look) refuse(format string, args ...any) {
	l.err = cmp.Or(l.err, fmt.Errorf(format, args...))
}

// passive are handlers that pass requests on. Any other may answer them.
var passive = []string{
	"authentication", "copy_response_headers", "encode", "headers", "hermes_approvals", "log_append", "map", "push", "request_body",
	"rewrite", "templates", "timeouts", "tracing", "vars",
}

// visit follows requests through a handler.
func (l *look) visit(h *routes.Handler, in routes.States[state]) routes.States[state] {
	switch h.Name {
	case "hermes":
		return l.node(h).through(in, l.hermes)
	case "hermes_resume":
		return l.node(h).through(in, func(n *node, s state) state {
			s.resumes, s.detached = true, n.number("max_detached", 4)
			if n.isZero("detach") { // no answer goes on without a client
				s.detached = 0
			}
			if s.hermes != nil {
				s.late.resume = n
			}
			return s
		})
	case "hermes_queue":
		return l.node(h).through(in, func(n *node, s state) state {
			s.runs = n.number("runs", 8)
			if s.hermes != nil {
				s.late.queue = n
			}
			return s
		})
	case "hermes_approvals":
		l.page = true
		return l.node(h).through(in, func(_ *node, s state) state { return s })
	case "reverse_proxy":
		if proxy, ok := h.Module.(*reverseproxy.Handler); ok {
			return l.proxy(h, proxy, in)
		}
	}
	if !slices.Contains(passive, h.Name) {
		l.page = l.page || mayHavePage(h)
		answeredBy(in)
	}
	return in
}

// mayHavePage reports whether h is a handler of a plugin that may have a route with hermes_approvals.
func mayHavePage(h *routes.Handler) bool {
	if h.Raw != nil {
		return bytes.Contains(h.Raw, []byte("hermes_approvals"))
	}
	t := reflect.Indirect(reflect.ValueOf(h.Module)).Type()
	return !strings.HasPrefix(t.PkgPath(), caddy.ImportPath)
}

// node returns the node of a handler of the sidecar's.
func (l *look) node(h *routes.Handler) *node {
	n := l.nodes[h]
	if n == nil {
		n = &node{name: h.Name}
		if h.Raw == nil {
			n.options = options.Of(h.Module)
		} else {
			_ = json.Unmarshal(h.Raw, &n.options) // the handler says why
		}
		l.nodes[h], l.order = n, append(l.order, n)
	}
	return n
}

// through follows requests through n, which change changes.
func (n *node) through(in routes.States[state], change func(*node, state) state) routes.States[state] {
	out := make(routes.States[state])
	for s := range in {
		if s.answered {
			n.blocked = true
			out[s] = true
			continue
		}
		n.reached = true
		n.again = n.again || s.hermes != nil
		n.fresh = n.fresh || s.hermes == nil
		out[change(n, s)] = true
	}
	return out
}

// hermes returns the state after the hermes n of a request with the state s before it.
func (l *look) hermes(n *node, s state) state {
	if s.hermes != nil && !slices.Contains(s.hermes.next, n) {
		s.hermes.next = append(s.hermes.next, n)
	}
	for _, before := range []*node{s.late.resume, s.late.queue} {
		if before != nil {
			before.early = true
		}
	}
	n.resumes = n.resumes || s.resumes
	if s.detached > 0 && s.runs > 0 && s.detached >= s.runs {
		l.warn("max_detached (%d) of hermes_resume must be below runs (%d) of hermes_queue, or answers without a client may occupy every place: lower max_detached, or raise runs", s.detached, s.runs)
	}
	s.hermes, s.late = n, late{}
	return s
}

// answeredBy records that a handler may answer requests with the states in.
func answeredBy(in routes.States[state]) {
	for s := range in {
		if s.hermes != nil {
			s.hermes.answers = true
		}
	}
}

// proxy follows requests to a reverse_proxy.
func (l *look) proxy(h *routes.Handler, proxy *reverseproxy.Handler, in routes.States[state]) routes.States[state] {
	answeredBy(in)
	var of *node // the hermes that was found last
	for s := range in {
		if s.hermes != nil && (of == nil || slices.Index(l.order, s.hermes) > slices.Index(l.order, of)) {
			of = s.hermes
		}
	}
	if of != nil && !l.found[h] {
		l.found[h] = true
		l.agent(proxy, of)
	}
	if len(proxy.HandleResponse) > 0 || len(in) == 0 {
		return nil
	}
	return routes.States[state]{{answered: true}: true}
}

// agent adds the site of a reverse_proxy after the hermes n.
func (l *look) agent(proxy *reverseproxy.Handler, n *node) {
	if proxy.ResponseBuffers != 0 {
		l.warn("response_buffers of a reverse_proxy after hermes delays streams: remove it, or use a separate reverse_proxy for the agent")
	}
	site := l.site
	site.Options = make(map[string]bool)
	for name := range n.options {
		site.Options[name] = true
	}
	var transport struct{ Protocol string }
	_ = json.Unmarshal(proxy.TransportRaw, &transport)
	for _, u := range proxy.Upstreams {
		dial := caddy.NewReplacer().ReplaceKnown(u.Dial, "")
		// The transport of a plugin may know other addresses.
		if p := transport.Protocol; p == "" || p == "http" {
			l.checkAddress(dial)
		}
		if usesTLS(proxy) {
			dial = "https://" + dial
		}
		site.Upstreams = append(site.Upstreams, dial)
	}
	if len(site.Upstreams) > 0 {
		l.sites = append(l.sites, site)
	}
}

// checkAddress checks an address of an upstream after hermes.
func (l *look) checkAddress(address string) {
	if err := checkDial(address); err != nil {
		l.err = cmp.Or(l.err, err)
		return
	}
	if host, found := strings.CutSuffix(address, ":80"); found && IsPort(host) {
		l.warn("a reverse_proxy after hermes connects to port 80 of a host named %[1]s: if you mean a port, write 127.0.0.1:%[1]s", host)
	}
	switch {
	case !leadsTo(l.server, address):
	case l.walk.Matched: // its requests may have another path or host when they return
		l.warn("a reverse_proxy after hermes points back to its own server (%s): unless that is intended, write the address of the agent, such as 127.0.0.1:8642", address)
	default:
		l.refuse("a reverse_proxy after hermes points back to its own server (%s) in an endless loop: write the address of the agent, such as 127.0.0.1:8642", address)
	}
}

// conclude draws conclusions once all routes have been looked at.
func (l *look) conclude() {
	twice, link := false, false
	checks, anybody := false, false // a page checks its visitors; there are links that anybody may answer
	for _, n := range l.order {
		if n.blocked && !n.reached {
			l.refuse("no request reaches %[1]s, because the reverse_proxy before it answers them all: put %[1]s before reverse_proxy", n.name)
		}
		if !n.reached {
			continue
		}
		switch n.name {
		case "hermes":
			twice = twice || n.again && !n.fresh
			offers, _ := n.options["approvals"].(map[string]any)
			link = link || offers["link"] != nil
			anybody = anybody || offers["link"] != nil && offers["by"] == nil
			if !n.isAnswered(nil) {
				l.refuse("no handler after hermes answers, so clients get an empty response: add reverse_proxy with the address of the agent after it, in the same block (a request enters only one of several handle blocks)")
			}
			if offers["reply"] == true && !n.resumes {
				l.reportNoReply(offers["link"] != nil)
			}
		case "hermes_approvals":
			checks = checks || n.options["by"] != nil || n.options["login"] != nil
		case "hermes_resume", "hermes_queue":
			if !n.fresh && !n.early {
				l.refuse("%[1]s comes after hermes, which depends on it: put %[1]s before hermes", n.name)
			}
		}
	}
	if twice {
		l.warn("some requests go through hermes twice; remove one, or give them mutually exclusive matchers")
	}
	if checks && anybody {
		l.warn("hermes_approvals has by or login, but hermes does not say whom its links ask, so each visitor of the page may answer for all: add approvals by with the same value to hermes")
	}
	if link && !l.page {
		l.refuse("approvals link is set, but nothing serves the pages that the links lead to: add hermes_approvals to a site of this configuration")
	}
}

// reportNoReply says that replies are never offered; links says whether links are.
func (l *look) reportNoReply(links bool) {
	const text = "approvals reply does nothing without hermes_resume, which keeps the rest of the answer: put hermes_resume before hermes"
	if links {
		l.warn(text)
		return
	}
	l.refuse(text)
}

// isAnswered reports whether a handler after the hermes n, or after those that follow it, may
// answer. seen are those that have been asked.
func (n *node) isAnswered(seen []*node) bool {
	return n.answers || slices.ContainsFunc(n.next, func(m *node) bool {
		return !slices.Contains(seen, m) && m.isAnswered(append(seen, n))
	})
}

// number returns the value of an option of n, or the default.
func (n *node) number(name string, standard int) int {
	v := reflect.ValueOf(n.options[name])
	switch {
	case !v.IsValid() || v.IsZero():
		return standard
	case v.CanInt():
		return int(v.Int())
	case v.CanFloat():
		return int(v.Float())
	}
	return standard
}

// isZero reports whether a duration of n is given and zero.
func (n *node) isZero(name string) bool {
	switch v := n.options[name].(type) {
	case nil:
		return false
	case string:
		d, err := caddy.ParseDuration(v)
		return err == nil && d == 0
	default:
		return reflect.ValueOf(v).IsZero()
	}
}

// leadsTo reports whether a server listens at the address of an upstream.
func leadsTo(server *caddyhttp.Server, address string) bool {
	to, err := caddy.ParseNetworkAddress(address)
	if err != nil || to.PortRangeSize() != 1 {
		return false
	}
	return slices.ContainsFunc(server.Listen, func(listen string) bool {
		at, err := caddy.ParseNetworkAddress(listen)
		switch {
		case err != nil || at.IsUnixNetwork() != to.IsUnixNetwork():
			return false
		case at.IsUnixNetwork():
			return strings.SplitN(at.Host, "|", 2)[0] == to.Host
		}
		return to.StartPort >= at.StartPort && to.StartPort <= at.EndPort && sameHost(at.Host, to.Host)
	})
}

// sameHost reports whether a connection to the host to reaches a server of this machine that listens
// on the host at.
func sameHost(at, to string) bool {
	isAny := func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host == "" || err == nil && ip.IsUnspecified()
	}
	isLoopback := func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host == "localhost" || err == nil && ip.IsLoopback()
	}
	switch {
	case isAny(to) || isLoopback(to):
		return isAny(at) || at == to || isLoopback(at) && (isAny(to) || at == "localhost" || to == "localhost")
	}
	return at == to && !isAny(at)
}
