package caddymodule

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

func init() {
	caddy.RegisterModule(listener{})
	caddy.RegisterModule(played{})
}

// listener is an event handler as users configure one.
type listener struct {
	// Name is whose events these are.
	Name string `json:"name"`
}

// heard is what listeners have been told.
var heard = make(chan string, 16)

func (listener) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.hermes_test", New: func() caddy.Module { return new(listener) }}
}

func (l listener) Handle(ctx context.Context, e caddy.Event) error {
	repl := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	heard <- l.Name + ": " + e.Name() + " of " + string(e.Origin().CaddyModule().ID) +
		repl.ReplaceAll(" {event.data.outcome} {event.data.completion_id} {event.data.model} {event.data.upstream} {event.data.tools}", "?")
	return nil
}

// played answers with a stream, the end of which waits for goOn by the request's
// header X-Stream.
type played struct{}

var goOn = map[string]chan string{"a": make(chan string), "b": make(chan string)}

func (played) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.hermes_test", New: func() caddy.Module { return new(played) }}
}

func (played) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if err := answer("127.0.0.1:8642", textFrame)(w, r); err != nil {
		return err
	}
	_, err := io.WriteString(w, <-goOn[r.Header.Get("X-Stream")])
	return err
}

// load runs a configuration that listens at addr and to the events of streams.
func load(t *testing.T, name, addr string, hermes bool) {
	t.Helper()
	handle := `{"handler":"hermes"},`
	if !hermes {
		handle = ""
	}
	config := fmt.Sprintf(`{
		"admin":{"disabled":true},
		"storage":{"module":"file_system","root":%q},
		"logging":{"logs":{"default":{"writer":{"output":"discard"}}}},
		"apps":{
			"events":{"subscriptions":[{"events":["hermes_stream_ended","hermes_stream_failed"],"modules":["http.handlers.hermes"],"handlers":[{"handler":"hermes_test","name":%q}]}]},
			"http":{"servers":{"s":{"listen":[%q],"automatic_https":{"disable":true},"routes":[{"handle":[%s{"handler":"hermes_test"}]}]}}}
		}}`, t.TempDir(), name, addr, handle)
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatal(err)
	}
}

// TestEventsOfStreams reach who listens, also of a stream that outlives its
// configuration: then those who listen now.
func TestEventsOfStreams(t *testing.T) {
	dir, err := os.MkdirTemp("", "") // short, for a socket; a port could be another's by now
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	addr, c := "unix/"+socket, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	t.Cleanup(c.CloseIdleConnections)
	_ = t.TempDir() // the directories go last
	t.Cleanup(func() { _ = caddy.Stop() })
	begin := func(stream string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, "http://caddy/v1/chat/completions", strings.NewReader(`{"stream":true,"messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Stream", stream)
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	end := func(stream string, res *http.Response, rest, want string) {
		t.Helper()
		select {
		case goOn[stream] <- rest:
		case <-time.After(caddytest.Patience):
			t.Fatal("nothing waits to go on")
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Errorf("the body breaks off: %v", err)
		}
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
		default:
			t.Errorf("heard nothing, want %q", want)
		}
	}
	const good, bad = " of http.handlers.hermes ok chatcmpl-1 hermes-agent 127.0.0.1:8642 0", " of http.handlers.hermes upstream_incomplete chatcmpl-1 hermes-agent 127.0.0.1:8642 1"
	load(t, "first", addr, true)
	end("a", begin("a"), usedStop, "first: hermes_stream_ended"+good)
	end("a", begin("a"), markerFrame, "first: hermes_stream_failed"+bad)

	a, b := begin("a"), begin("b")
	load(t, "second", addr, true)
	end("a", a, usedStop, "second: hermes_stream_ended"+good)
	load(t, "third", addr, false)
	end("b", b, usedStop, "third: hermes_stream_ended"+good)
}
