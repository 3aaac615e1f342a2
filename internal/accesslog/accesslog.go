// Package accesslog adds fields to a request's line in Caddy's access log, and placeholders to the
// request. For a request that another goroutine than the server's handles, Fields collects the
// fields.
package accesslog

import (
	"context"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// Fields collects fields for the line of another request.
type Fields struct {
	mu     sync.Mutex
	fields []zap.Field
}

// fieldsKey is the key of Fields in a context.
type fieldsKey struct{}

// Collect returns a copy of ctx with Fields. They get the fields that Add adds to a request with
// that context.
func Collect(ctx context.Context) (context.Context, *Fields) {
	f := new(Fields)
	return context.WithValue(ctx, fieldsKey{}, f), f
}

// Add adds fields to the Fields in the context of r or, if it has none, to the access log line of
// r.
func Add(r *http.Request, fields ...zap.Field) {
	ctx := r.Context()
	if f, ok := ctx.Value(fieldsKey{}).(*Fields); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fields = append(f.fields, fields...)
		return
	}
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		for _, field := range fields {
			extra.Set(field)
		}
	}
}

// All returns the fields.
func (f *Fields) All() []zap.Field {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fields
}

// SetPlaceholder sets a placeholder of the request r.
func SetPlaceholder(r *http.Request, key string, value any) {
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Set(key, value)
	}
}
