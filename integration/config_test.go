package integration

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"
)

// options are members of the handler's JSON, durations as strings of Caddy's or
// 0 for off.
type options map[string]any

// A site is one server of a configuration: a listener, the handler under test
// and reverse_proxy.
type site struct {
	listen   string
	upstream string
	options  options
	plain    bool   // reverse_proxy alone
	tls      string // directory of cert.pem and key.pem, "" for cleartext
}

// A config is what the sidecar is started with.
type config struct {
	sites []site
	admin string // host:port, "" for off
	grace string // grace_period of the http app, "" for none
}

// json is the configuration in Caddy's own form.
func (c config) json(t testing.TB) []byte {
	t.Helper()
	type object = map[string]any
	servers, files := object{}, []any{}
	for i, s := range c.sites {
		var handle []any
		if !s.plain {
			h := object{"handler": "hermes"}
			for k, v := range s.options {
				h[k] = v
			}
			handle = append(handle, h)
		}
		handle = append(handle, object{"handler": "reverse_proxy", "upstreams": []any{object{"dial": s.upstream}}})
		server := object{
			"listen":          []string{s.listen},
			"routes":          []any{object{"handle": handle}},
			"automatic_https": object{"disable": true},
		}
		if s.tls != "" {
			server["tls_connection_policies"] = []any{object{}}
			files = append(files, object{"certificate": s.tls + "/cert.pem", "key": s.tls + "/key.pem"})
		}
		servers["srv"+strconv.Itoa(i)] = server
	}
	app := object{"servers": servers}
	if c.grace != "" {
		app["grace_period"] = c.grace
	}
	apps := object{"http": app}
	if len(files) > 0 {
		apps["tls"] = object{"certificates": object{"load_files": files}}
	}
	admin := object{"disabled": true, "config": object{"persist": false}}
	if c.admin != "" {
		admin = object{"listen": c.admin, "config": object{"persist": false}}
	}
	b, err := json.Marshal(object{"admin": admin, "apps": apps})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// write writes the configuration below home, and returns its path.
func (c config) write(t testing.TB, home string) string {
	t.Helper()
	file := filepath.Join(home, "caddy.json")
	write(t, file, c.json(t))
	return file
}

// serve starts a sidecar with one site in front of up and returns its URL.
func serve(t testing.TB, up *upstream, o options) (string, *sidecar) {
	t.Helper()
	listen := freePort(t)
	return "http://" + listen, run(t, t.TempDir(), config{sites: []site{{listen: listen, upstream: up.addr, options: o}}})
}

// with is o and the members of more.
func (o options) with(more options) options {
	sum := options{}
	for k, v := range o {
		sum[k] = v
	}
	for k, v := range more {
		sum[k] = v
	}
	return sum
}

// still are options under which no clock matters: what leaves depends on what
// came alone.
var still = options{"keepalive": 0, "parallel_window": "1h"}
