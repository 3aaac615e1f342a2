package queuecaddy

import (
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/internal/accesslog"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
)

// seen tells the access log of r, and handlers after it, how long the request has waited.
func (p *pass) seen(r *http.Request) {
	t := p.turn.Load()
	if t == nil || t.Waited() <= 0 {
		return
	}
	waited := t.Waited().Seconds()
	accesslog.SetPlaceholder(r, "http.hermes.waited", waited)
	accesslog.Add(r, zap.Float64("hermes_waited", waited))
}

// logFull logs that r has found no room to wait in.
func (h *QueueHandler) logFull(r *http.Request) {
	h.refuse(r, "too many requests wait for the agent; refused one")
}

// refuse logs that a request is refused.
func (h *QueueHandler) refuse(r *http.Request, message string, fields ...zap.Field) {
	level := zapcore.InfoLevel
	if !h.refused.allows(time.Now()) {
		level = zapcore.DebugLevel
	}
	if c := h.logger.Check(level, message); c != nil {
		c.Write(append(fields, zap.String("path", bounded.Name(r.URL.Path)), zap.Int("waiting", h.options.Waiting))...)
	}
}

// logEvery is how often refused requests are logged: whoever is refused may try again at once.
const logEvery = time.Second

// limit is for what happens often. It is safe for concurrent use.
type limit struct{ last atomic.Int64 } // in nanoseconds since 1970

// allows reports whether it has allowed nothing for a second.
func (l *limit) allows(now time.Time) bool {
	last := l.last.Load()
	return now.UnixNano()-last >= int64(logEvery) && l.last.CompareAndSwap(last, now.UnixNano())
}
