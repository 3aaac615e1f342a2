// Package accesslog adds fields to the line that Caddy's access log has of a request, and
// placeholders to the request. If another goroutine than the server's handles the request,
// the fields are collected for the goroutine that may add them.
package accesslog

import (
	"context"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// Fields are fields for the line of another request.
type Fields struct {
	mu     sync.Mutex
	fields []zap.Field
}

// fieldsKey is the key of Fields in a context.
type fieldsKey struct{}

// Collect returns ctx with Fields, which get all that Add is called with for a request with
// that context.
func Collect(ctx context.Context) (context.Context, *Fields) {
	f := new(Fields)
	return context.WithValue(ctx, fieldsKey{}, f), f
}

// Add adds fields to the line of the request r, if there is one.
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
