package queuecaddy

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// pass is what a request has from hermes_queue: it says which line the request may wait in, and
// whose it is. The context of the request has it, which a request of hermes_resume's
// has as well.
type pass struct {
	handler *QueueHandler
	client  queue.Client
	taken   atomic.Bool
	turn    atomic.Pointer[queue.Turn] // nil until it is taken
}

// passKey is the key of a pass in a context.
type passKey struct{}

// Join takes the pass of r, a request that begins a run of the agent, and joins the line that it is
// for. The turn is nil if r has no pass, or it has been taken: then r need not
// wait. The error is queue.ErrFull.
func Join(r *http.Request) (*queue.Turn, error) {
	p, ok := r.Context().Value(passKey{}).(*pass)
	if !ok || !p.taken.CompareAndSwap(false, true) {
		return nil, nil
	}
	o := p.handler.options
	o.Label = bounded.Name(r.URL.Path)
	t, err := lines.Join(p.handler.backend(), o, p.client)
	if err != nil {
		p.handler.logRefused(r, err, 0)
		return nil, err
	}
	p.turn.Store(t)
	return t, nil
}

// Queued reports whether r has a pass, so that Join may let it wait.
func Queued(r *http.Request) bool {
	_, ok := r.Context().Value(passKey{}).(*pass)
	return ok
}

// clientOf returns what tells the client of r from others. It says nothing of the site: a client that
// comes to a backend by two sites is one.
func (h *QueueHandler) clientOf(r *http.Request) queue.Client {
	if by, ok := expand(h.By, r); ok {
		return digest("by", [][]string{{by}})
	}
	fields := resume.Credentials(r)
	for _, values := range fields {
		if len(values) > 0 {
			return digest("credentials", fields)
		}
	}
	// Otherwise all that have no credentials were one client.
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return digest("address", [][]string{{address}})
}

// expand returns the text with its placeholders replaced. ok is false if none of them has a value.
func expand(text string, r *http.Request) (value string, ok bool) {
	if text == "" {
		return "", false
	}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if repl == nil {
		return "", false
	}
	// The function returns no error, and Caddy's own leaves the value empty. An empty list is [].
	value, _ = repl.ReplaceFunc(text, func(_ string, v any) (any, error) {
		ok = ok || strings.Trim(caddy.ToString(v), "[] \t\r\n") != ""
		return v, nil
	})
	return value, ok
}

// digest returns the hash of a kind of client and the fields that tell it from others of that kind. With
// their lengths, no two lists are the same bytes.
func digest(kind string, fields [][]string) queue.Client {
	b := append(make([]byte, 0, 512), kind...)
	for _, values := range fields {
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, v := range values {
			b = binary.AppendUvarint(b, uint64(len(v)))
			b = append(b, v...)
		}
	}
	return sha256.Sum256(b)
}
