package demo

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy" // a handler of the configuration

	_ "github.com/hermes-sidecar/hermes-sidecar/caddymodule" // the other handler
	"github.com/hermes-sidecar/hermes-sidecar/internal/site"
)

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
	level := "FATAL"
	if verbose {
		level = "INFO"
	}
	var c caddy.Config
	err = json.Unmarshal(fmt.Appendf(nil, config, level, storage, addr, upstream), &c)
	if err == nil {
		err = caddy.Run(&c)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	// The port of addr may be 0.
	s.addr = app.(*caddyhttp.App).Servers["hermes-demo"].Listeners()[0].Addr().String()
	return s, nil
}

// stop ends Caddy and removes what it stored.
func (s *sidecar) stop() error {
	return errors.Join(caddy.Stop(), os.RemoveAll(s.storage))
}

// config is the Caddyfile of the documentation,
//
//	:8643 {
//		hermes
//		reverse_proxy 127.0.0.1:8642
//	}
//
// for a program that touches nothing but its own two ports: no admin endpoint, no certificates,
// nothing saved outside the storage directory (cleaning it would write a stamp into the user's data),
// and no log unless it is verbose. The level silences it: with another
// writer, Caddy would log that its log is redirected. Streams may go on for a second after Ctrl-C.
//
//go:embed sidecar.json
var config string
