package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddypki"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/desk/deskcaddy"
	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

const (
	// upstreamIdle is how long idle connections to the upstream are kept. Caddy's
	// own two minutes are longer than Hermes' servers keep them
	// (Caddyfile.example).
	upstreamIdle = "4s"

	// graceReserve is how much longer than drain_timeout the grace period is, for connections
	// without streams of Hermes.
	graceReserve = 10 * time.Second
)

// proxyPlan is the configuration that the flags describe.
type proxyPlan struct {
	URL    string   // of --from, completed
	Listen []string // host:port
	Config *caddy.Config

	internalCA bool // the certificate is one of Caddy's internal CA
}

// Loopback reports whether only this machine can connect.
func (p proxyPlan) Loopback() bool {
	return !slices.ContainsFunc(p.Listen, func(addr string) bool {
		ap, err := netip.ParseAddrPort(addr)
		return err != nil || !ap.Addr().Unmap().IsLoopback()
	})
}

// prepare returns the plan that the flags describe.
func (c *proxyCommand) prepare() (p proxyPlan, err error) {
	given, err := c.options.Values()
	if err != nil {
		return p, err
	}
	compiled, err := given.Compile()
	if err != nil {
		return p, err
	}
	from, err := parseFrom(c.from)
	if err != nil {
		return p, err
	}
	p.URL = from.scheme + "://" + net.JoinHostPort(from.host, from.port)
	p.internalCA = from.scheme == "https" && (c.internalCerts || !certmagic.SubjectQualifiesForPublicCert(from.host))
	if c.internalCerts && from.scheme != "https" {
		return p, fmt.Errorf("--internal-certs: --from %s is served without TLS; name a host, such as --from localhost:8643", c.from)
	}
	if c.installTrust && !p.internalCA {
		return p, fmt.Errorf("--install-trust: the certificate of --from %s is not from the internal CA; add --internal-certs", c.from)
	}
	if p.Listen, err = from.listen(c.bind); err != nil {
		return p, err
	}
	proxy, err := c.upstreams()
	if err != nil {
		return p, err
	}
	approvals, _ := given["approvals"].(options.Approvals)
	if approvals.Reply {
		return p, errors.New("--approvals: reply needs hermes_resume, which hermes-proxy does not include: use link, or a Caddyfile with hermes_resume before hermes")
	}
	page, err := approvalPage(approvals)
	if err != nil {
		return p, err
	}
	server := &caddyhttp.Server{Listen: p.Listen, Routes: caddyhttp.RouteList{{HandlersRaw: append(page, site.Handlers(given, proxy)...)}}}
	c.serve(server, from, p.internalCA)
	p.Config = site.Config(caddyhttp.App{
		GracePeriod: caddy.Duration(compiled.DrainTimeout + graceReserve),
		Servers:     map[string]*caddyhttp.Server{"hermes-proxy": server},
	})
	c.configure(p.Config, from, p.internalCA)
	return p, nil
}

// approvalPage returns the handler of the page to which the links of --approvals lead, because only
// this process knows the tickets. It returns none if a has no link.
func approvalPage(a options.Approvals) ([]json.RawMessage, error) {
	if a.Link == "" {
		return nil, nil
	}
	u, err := url.Parse(a.Link)
	if err != nil {
		return nil, fmt.Errorf("--approvals: %w", err)
	}
	page := &deskcaddy.ApprovalsHandler{Path: strings.TrimSuffix(u.Path, "/")}
	if page.Path == "" {
		return nil, errors.New("--approvals: the base URL needs a path, such as https://hermes.example.com/hermes/approve")
	}
	return []json.RawMessage{caddyconfig.JSONModuleObject(page, "handler", "hermes_approvals", nil)}, nil
}

// serve sets how clients reach the server at the address from.
func (c *proxyCommand) serve(server *caddyhttp.Server, from fromAddr, internalCA bool) {
	if from.host != "" {
		hosts := caddyconfig.JSON(caddyhttp.MatchHost{from.host}, nil)
		server.Routes[0].MatcherSetsRaw = []caddy.ModuleMap{{"host": hosts}}
	}
	switch {
	case from.scheme == "http":
		server.AutoHTTPS = &caddyhttp.AutoHTTPSConfig{Disabled: true}
		server.Protocols = []string{"h1"} // the others need TLS
	case c.disableRedirects, internalCA && from.port != strconv.Itoa(caddyhttp.DefaultHTTPSPort):
		// No client expects the redirect on port 80, which may be taken, or not allowed.
		server.AutoHTTPS = &caddyhttp.AutoHTTPSConfig{DisableRedir: true}
	}
	if c.accessLog {
		server.Logs = new(caddyhttp.ServerLogConfig)
	}
}

// configure sets the parts of cfg outside the server: certificates and the log.
func (c *proxyCommand) configure(cfg *caddy.Config, from fromAddr, internalCA bool) {
	if internalCA && !c.installTrust {
		no := false
		cfg.AppsRaw["pki"] = caddyconfig.JSON(caddypki.PKI{
			CAs: map[string]*caddypki.CA{caddypki.DefaultCAID: {InstallTrust: &no}},
		}, nil)
	}
	if c.internalCerts {
		cfg.AppsRaw["tls"] = caddyconfig.JSON(caddytls.TLS{Automation: &caddytls.AutomationConfig{
			Policies: []*caddytls.AutomationPolicy{{
				SubjectsRaw: []string{from.host},
				IssuersRaw:  []json.RawMessage{caddyconfig.JSON(map[string]string{"module": "internal"}, nil)},
			}},
		}}, nil)
	}
	if c.debug {
		cfg.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{
			"default": {BaseLog: caddy.BaseLog{Level: zap.DebugLevel.CapitalString()}},
		}}
	}
}

// upstreams returns a reverse_proxy with the addresses of --to and the fields of --header-up,
// --header-down and --change-host-header. It parses them as lines of a Caddyfile.
func (c *proxyCommand) upstreams() (*reverseproxy.Handler, error) {
	lines := [][]string{slices.Concat([]string{"reverse_proxy"}, c.to, []string{"{"})}
	secure := false
	for _, to := range c.to {
		if err := site.CheckUpstream(to); err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
		secure = secure || strings.HasPrefix(strings.ToLower(to), "https://")
	}
	if len(c.to) == 0 {
		return nil, errors.New("--to is required: an address such as " + proxyTo)
	}
	up, err := headerLines("up", c.headerUp)
	if err != nil {
		return nil, err
	}
	down, err := headerLines("down", c.headerDown)
	if err != nil {
		return nil, err
	}
	if c.changeHost {
		up = append(up, []string{"header_up", "Host", "{http.reverse_proxy.upstream.hostport}"})
	}
	transport := "http"
	if c.resume {
		transport = "hermes_resume"
	}
	lines = slices.Concat(lines, up, down, [][]string{{"transport", transport, "{"}, {"keepalive", upstreamIdle}})
	if c.insecure && secure {
		lines = append(lines, []string{"tls_insecure_skip_verify"})
	}
	var tokens []caddyfile.Token
	for i, line := range append(lines, []string{"}"}, []string{"}"}) {
		for _, text := range line {
			tokens = append(tokens, caddyfile.Token{File: "--to", Line: i + 1, Text: text})
		}
	}
	proxy := new(reverseproxy.Handler)
	return proxy, proxy.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens))
}

// headerLines reads the values of --header-up or --header-down as lines of a Caddyfile.
// Errors do not repeat the value, which may be a key.
func headerLines(way string, values []string) (lines [][]string, err error) {
	for i, v := range values {
		field, value, found := strings.Cut(v, ":")
		field, value = strings.TrimSpace(field), strings.TrimSpace(value)
		if !found || field == "" || value == "" {
			return nil, fmt.Errorf("header-%s %d: invalid format (expecting \"Field: value\")", way, i)
		}
		lines = append(lines, []string{"header_" + way, field, value})
	}
	return lines, nil
}
