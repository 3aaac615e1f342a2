package sidecar

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Options are members of the handler's JSON. A duration is a string, or 0 for off.
type Options map[string]any

// A Site is a server of a configuration: a listener, the handler under test and
// reverse_proxy.
type Site struct {
	Listen   string
	Upstream string
	Options  Options
	Queue    Options // of hermes_queue, which is only there with some
	Plain    bool    // reverse_proxy alone
	TLS      string  // directory of cert.pem and key.pem, "" for cleartext
	Before   []any   // handlers in front of the handler under test
	Behind   []any   // and between it and reverse_proxy
	Server   Options // more members of the server
}

// A Config is a configuration of the sidecar.
type Config struct {
	Sites []Site
	Admin string  // host:port, "" for off
	Grace string  // grace_period of the http app, "" for none
	HTTP  Options // more members of the http app
}

// JSON returns the configuration in Caddy's own form.
func (c Config) JSON(t testing.TB) []byte {
	t.Helper()
	type object = map[string]any
	servers, files := object{}, []any{}
	for i, s := range c.Sites {
		handle := slices.Clone(s.Before)
		if s.Queue != nil {
			handle = append(handle, s.Queue.With(Options{"handler": "hermes_queue"}))
		}
		if !s.Plain {
			handle = append(handle, s.Options.With(Options{"handler": "hermes"}))
		}
		handle = append(handle, s.Behind...)
		handle = append(handle, object{"handler": "reverse_proxy", "upstreams": []any{object{"dial": s.Upstream}}})
		server := object{
			"listen":          []string{s.Listen},
			"routes":          []any{object{"handle": handle}},
			"automatic_https": object{"disable": true},
		}
		if s.TLS != "" {
			server["tls_connection_policies"] = []any{object{}}
			files = append(files, object{"certificate": s.TLS + "/cert.pem", "key": s.TLS + "/key.pem"})
		}
		maps.Copy(server, s.Server)
		servers["srv"+strconv.Itoa(i)] = server
	}
	app := c.HTTP.With(Options{"servers": servers})
	if c.Grace != "" {
		app["grace_period"] = c.Grace
	}
	apps := object{"http": app}
	if len(files) > 0 {
		apps["tls"] = object{"certificates": object{"load_files": files}}
	}
	admin := object{"disabled": c.Admin == "", "listen": c.Admin, "config": object{"persist": false}}
	b, err := json.Marshal(object{"admin": admin, "apps": apps})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Write writes the configuration below home and returns its path.
func (c Config) Write(t testing.TB, home string) string {
	t.Helper()
	return write(t, home, "caddy.json", c.JSON(t))
}

// write writes a file below home and returns its path.
func write(t testing.TB, home, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(home, name)
	harness.WriteFile(t, file, content)
	return file
}

// Serve starts a sidecar with one site in front of up and returns the site's URL.
func Serve(t testing.TB, up *upstream.Server, o Options, env ...string) (string, *Process) {
	t.Helper()
	site := Site{Listen: harness.FreePort(t), Upstream: up.Addr, Options: o}
	return "http://" + site.Listen, Run(t, t.TempDir(), Config{Sites: []Site{site}}, env...)
}

// With returns o and the members of more.
func (o Options) With(more Options) Options {
	sum := Options{}
	maps.Copy(sum, o)
	maps.Copy(sum, more)
	return sum
}

// Still are options with which neither a clock nor what is known of upstream matters: what leaves
// depends only on what came. Upstream's keepalives leave as they came: as chunks, some are dropped that
// follow another too soon.
var Still = Options{"keepalive": 0, "keepalive_form": "comment", "parallel_window": "1h", "imitations": "strip"}

// URL returns the URL alone of those that start a sidecar.
func URL(base string, _ *Process) string { return base }

// RunCaddyfile writes a Caddyfile below home and runs it.
func RunCaddyfile(t testing.TB, home, text string, env ...string) *Process {
	t.Helper()
	return RunArgs(t, Environment(home, env...), "run", "--config", write(t, home, "Caddyfile", []byte(text)), "--adapter", "caddyfile")
}

// CommandOn runs a subcommand, such as "validate", on a Caddyfile.
func CommandOn(t testing.TB, subcommand, text string, flags ...string) (stdout, stderr string, err error) {
	t.Helper()
	home := t.TempDir()
	return Command(t, home, append([]string{subcommand, "--config", write(t, home, "Caddyfile", []byte(text)), "--adapter", "caddyfile"}, flags...)...)
}

// ServeCaddyfile runs a Caddyfile with one site, which has the directives, and returns the
// site's URL.
func ServeCaddyfile(t testing.TB, directives string, env ...string) (base string, s *Process) {
	t.Helper()
	listen := harness.FreePort(t)
	return "http://" + listen, RunCaddyfile(t, t.TempDir(), "{\n\tadmin off\n}\n"+OnLoopback(listen)+"\n"+directives+"\n}\n", env...)
}

// OnLoopback opens a site of a Caddyfile that listens on the loopback interface only.
func OnLoopback(listen string) string {
	return "http://" + listen + " {\n\tbind 127.0.0.1\n"
}
