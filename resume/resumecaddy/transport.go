package resumecaddy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/hermes-sidecar/hermes-sidecar/internal/configjson"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/resume/splice"
)

func init() { caddy.RegisterModule(new(Transport)) }

// Transport is a transport of reverse_proxy for a distant site that uses hermes_resume. Run it near
// the client: on a laptop, or on the host of a chat UI. It adds a key to each request for a stream.
// When the connection to the site breaks, it reconnects and continues, so that the client sees one
// unbroken stream. When the client disconnects, its run ends. Everything else passes as with the
// transport http, whose options it shares.
type Transport struct {
	reverseproxy.HTTPTransport

	// How long it tries to reconnect to a stream, at least 1s. The client gets comments in the
	// meantime. After that the stream breaks off, which hermes turns into an error. Default: 1m.
	ResumeFor caddy.Duration `json:"resume_for,omitempty"`
	// Whether a run continues after its client has disconnected, for the detach of the site.
	// Otherwise the run ends. Default: false.
	Detach bool `json:"detach,omitempty"`

	splice splice.Transport
}

// CaddyModule returns the Caddy module information.
func (*Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport.hermes_resume",
		New: func() caddy.Module { return new(Transport) },
	}
}

// UnmarshalJSON decodes the options strictly. Its errors say what to write for a value of another
// type.
func (t *Transport) UnmarshalJSON(b []byte) error {
	type fields Transport
	return configjson.Unmarshal(b, (*fields)(t))
}

// Provision sets up the transport.
func (t *Transport) Provision(ctx caddy.Context) error {
	if d := time.Duration(t.ResumeFor); d < 0 || d > 0 && d < time.Second {
		return fmt.Errorf("invalid resume_for %q: must be a duration of at least 1s, such as 1m", d)
	}
	app, err := hermesapp.Of(ctx)
	if err != nil {
		return err
	}
	t.splice = splice.Transport{
		Next: ownVars{&t.HTTPTransport}, ResumeFor: time.Duration(t.ResumeFor), Detach: t.Detach,
		MaxRequest: app.MaxRequest,
	}
	return t.HTTPTransport.Provision(ctx)
}

// failedVar is the request variable with the *splice.Failed of the last attempt. reverse_proxy may
// make another attempt after the body of the request has been read.
const failedVar = "hermes_resume_failed"

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	vars := r.Context()
	failed, again := caddyhttp.GetVar(vars, failedVar).(*splice.Failed)
	r = withOwnVars(r)
	send := t.splice.RoundTrip
	if again {
		send = func(r *http.Request) (*http.Response, error) { return t.splice.RoundTripAgain(r, failed) }
	}
	res, err := send(r)
	if failed, ok := errors.AsType[*splice.Failed](err); ok {
		caddyhttp.SetVar(vars, failedVar, failed)
		return nil, failed.Err
	}
	return res, err
}

// ownVars sends each request with its own variables: the transport http sets some, while handlers
// may use the variables of the client's request, which have no lock.
type ownVars struct{ http.RoundTripper }

func (o ownVars) RoundTrip(r *http.Request) (*http.Response, error) {
	return o.RoundTripper.RoundTrip(withOwnVars(r))
}

// withOwnVars returns r with a copy of its variables.
func withOwnVars(r *http.Request) *http.Request {
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	if vars == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, maps.Clone(vars)))
}

// UnmarshalCaddyfile sets up the transport from Caddyfile tokens. Syntax:
//
//	transport hermes_resume {
//	    resume_for <duration>
//	    detach
//	    <option of the transport http> ...
//	}
func (t *Transport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the transport's name
	tokens := []caddyfile.Token{d.Token()}
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		switch d.Val() {
		case "resume_for":
			if !d.NextArg() {
				return d.ArgErr()
			}
			v, err := caddy.ParseDuration(d.Val())
			if err != nil || v < time.Second {
				return d.Errf("invalid resume_for %q: must be a duration of at least 1s, such as 1m", d.Val())
			}
			t.ResumeFor = caddy.Duration(v)
		case "detach":
			t.Detach = true
		default:
			tokens = append(tokens, d.NextSegment()...)
			continue
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	if len(tokens) == 1 {
		return nil
	}
	// The other options are those of the transport http.
	brace := tokens[0]
	brace.Text = "{"
	tokens = append([]caddyfile.Token{tokens[0], brace}, tokens[1:]...)
	brace.Line, brace.Text = tokens[len(tokens)-1].Line+1, "}"
	return t.HTTPTransport.UnmarshalCaddyfile(caddyfile.NewDispenser(append(tokens, brace)))
}

var (
	_ caddyfile.Unmarshaler     = (*Transport)(nil)
	_ reverseproxy.TLSTransport = (*Transport)(nil)
	_ reverseproxy.H2CTransport = (*Transport)(nil)
	_ caddy.CleanerUpper        = (*Transport)(nil)
	_ caddy.Provisioner         = (*Transport)(nil)
)
