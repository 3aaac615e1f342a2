package caddytest

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// A Site is a Caddy with one site, at a socket, and a client of it.
type Site struct {
	// Log is a file for logs: LOG in what Load gets.
	Log    string
	Client *http.Client

	t     testing.TB
	dir   string
	loads int
}

// NewSite starts Caddy with what Load gets. It ends with the test.
func NewSite(t testing.TB, global, site string) *Site {
	t.Helper()
	dir, err := os.MkdirTemp("", "site") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Site{t: t, dir: dir, Log: filepath.Join(dir, "log")}
	s.Client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // a reload may be closing a connection that is kept
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", s.Socket()) },
	}}
	t.Cleanup(s.Client.CloseIdleConnections)
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.Load(global, site)
	return s
}

// Socket returns the path of the socket of the newest configuration. Each has its own: after a reload, the
// servers before it may still accept connections.
func (s *Site) Socket() string { return filepath.Join(s.dir, strconv.Itoa(s.loads)) }

// Load replaces the configuration by a Caddyfile with the global options and the directives of the site.
func (s *Site) Load(global, site string) {
	s.t.Helper()
	s.loads++
	file := "{\n\tadmin off\n\tpersist_config off\n\tstorage file_system " + s.dir + "\n" + global + "\n}\n" +
		"http:// {\n\tbind unix/" + s.Socket() + "\n" + site + "\n}\n"
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(strings.ReplaceAll(file, "LOG", s.Log)), nil)
	if err == nil {
		err = caddy.Load(config, true)
	}
	if err != nil {
		s.t.Fatalf("%v in\n%s", err, file)
	}
}

// Logged returns the lines of Log so far.
func (s *Site) Logged() string {
	s.t.Helper()
	b, err := os.ReadFile(s.Log)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// Send sends a request whose header has the names and values. The body of its answer ends with the test.
func (s *Site) Send(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://page.test"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Add(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	res, err := s.Client.Do(r)
	if err == nil {
		s.t.Cleanup(func() { res.Body.Close() })
	}
	return res, err
}
