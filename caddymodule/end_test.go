package caddymodule

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

func init() {
	caddy.RegisterModule(new(listener))
	caddy.RegisterModule(played{})
	httpcaddyfile.RegisterHandlerDirective("hermes_test", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return played{}, nil })
}

// listener is an event handler as users configure one.
type listener struct {
	// Name is whose events these are.
	Name string `json:"name"`
}

// heard is what listeners have been told.
var heard = make(chan string, 16)

func (*listener) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.hermes_test", New: func() caddy.Module { return new(listener) }}
}

func (l *listener) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	d.AllArgs(&l.Name)
	return nil
}

func (l *listener) Handle(ctx context.Context, e caddy.Event) error {
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

// TestEventsOfStreams reach who listens, also of a stream that outlives its
// configuration: then those who listen now.
func TestEventsOfStreams(t *testing.T) {
	listens := func(name string) string {
		return "events {\non hermes_stream_ended hermes_test " + name + "\non hermes_stream_failed hermes_test " + name + "\n}"
	}
	const repairs = "route {\nhermes\nhermes_test\n}"
	s := caddytest.NewSite(t, listens("first"), repairs)
	begin := func(stream string) *http.Response {
		t.Helper()
		res, err := s.Send(t.Context(), http.MethodPost, "/v1/chat/completions", `{"stream":true,"messages":[]}`, "Content-Type", "application/json", "X-Stream", stream)
		if err != nil {
			t.Fatal(err)
		}
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
	end("a", begin("a"), usedStop, "first: hermes_stream_ended"+good)
	end("a", begin("a"), markerFrame, "first: hermes_stream_failed"+bad)

	a, b := begin("a"), begin("b")
	s.Load(listens("second"), repairs)
	end("a", a, usedStop, "second: hermes_stream_ended"+good)
	s.Load(listens("third"), "route {\nhermes_test\n}")
	end("b", b, usedStop, "third: hermes_stream_ended"+good)
}
