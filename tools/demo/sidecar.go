package demo

import (
	"errors"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule"
	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

// serverName names the sidecar's only server.
const serverName = "hermes-demo"

// grace is how long streams may run on after Ctrl-C.
const grace = time.Second

// sidecar is a Caddy that runs in this process.
type sidecar struct {
	addr    string // host and port
	storage string // directory of what it stores
}

// startSidecar runs Caddy with the hermes handler in front of upstream.
func startSidecar(addr, upstream string, verbose bool) (*sidecar, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	if err := site.PortFree(addr); err != nil {
		return nil, err
	}
	storage, err := os.MkdirTemp("", "hermes-demo-")
	if err != nil {
		return nil, err
	}
	s := &sidecar{storage: storage}
	if err := caddy.Run(config(addr, upstream, storage, verbose)); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	// The port of addr may be 0.
	s.addr = app.(*caddyhttp.App).Servers[serverName].Listeners()[0].Addr().String()
	return s, nil
}

// stop ends Caddy and removes what it stored.
func (s *sidecar) stop() error {
	return errors.Join(caddy.Stop(), os.RemoveAll(s.storage))
}

// config is the Caddyfile of the documentation,
//
//	:8643 {
//		hermes {
//			cards on
//			status_line on
//		}
//		reverse_proxy 127.0.0.1:8642
//	}
//
// for a program that touches nothing but its own two ports: no admin
// endpoint, no certificates, nothing saved outside the storage directory, and
// no log unless verbose.
func config(addr, upstream, storage string, verbose bool) *caddy.Config {
	proxy := &reverseproxy.Handler{Upstreams: reverseproxy.UpstreamPool{{Dial: upstream}}}
	drain := caddy.Duration(grace / 2)
	app := caddyhttp.App{
		GracePeriod: caddy.Duration(grace),
		Servers: map[string]*caddyhttp.Server{serverName: {
			Listen:    []string{addr},
			Protocols: []string{"h1"}, // the others need TLS
			AutoHTTPS: &caddyhttp.AutoHTTPSConfig{Disabled: true},
			Routes:    caddyhttp.RouteList{{HandlersRaw: site.Handlers(&caddymodule.Handler{DrainTimeout: &drain, Cards: true, StatusLine: true}, proxy)}},
		}},
	}
	// To another writer Caddy would log that it has redirected its log.
	level := "FATAL"
	if verbose {
		level = "INFO"
	}
	cfg := site.Config(app)
	cfg.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {
		BaseLog: caddy.BaseLog{Level: level},
	}}}
	cfg.StorageRaw = caddyconfig.JSON(map[string]string{"module": "file_system", "root": storage}, nil)
	// Cleaning would write a stamp into the user's data directory.
	cfg.AppsRaw["tls"] = caddyconfig.JSON(map[string]bool{"disable_storage_clean": true}, nil)
	return cfg
}
