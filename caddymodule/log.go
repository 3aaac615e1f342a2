package caddymodule

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Nothing of upstream's reaches a file or a log line uncut (contract section 7).
const (
	// maxLogged is how many bytes of a name that upstream gave are logged.
	maxLogged = 256
	// maxLoggedError is how many bytes of the text of an error are logged: Go's
	// transport quotes a header that is malformed, which may have megabytes.
	maxLoggedError = 1 << 10
)

// logEnd logs the end of a stream, in one line and at the level that endMessage
// says. It logs names and numbers, nothing of what was said.
func (h *Handler) logEnd(res proxy.Result) {
	level, message := endMessage(res)
	if res.Outcome == proxy.OutcomeEncoded && !h.encoded.CompareAndSwap(false, true) {
		level = zapcore.DebugLevel // said once
	}
	c := h.logger.Check(level, message)
	if c == nil {
		return
	}
	c.Write(
		zap.String("completion_id", logged(res.ID)),
		zap.String("model", logged(res.Model)),
		zap.String("upstream", res.Upstream),
		zap.String("outcome", res.Outcome),
		zap.Int("status", res.Status),
		zap.String("finish_reason", logged(res.FinishReason)),
		zap.Int("chunks", res.Chunks),
		zap.Int("tools", res.Tools),
		zap.Int("imitations", res.Imitations),
		zap.Int("reasoning", res.Reasoning),
		zap.Int("unexamined", res.Unexamined),
		zap.Float64("seconds", res.Duration.Seconds()),
		zap.Error(reason(res.Err)), // no field when there is none
	)
}

// logHeal logs that markers have been removed from the history of a request.
func (h *Handler) logHeal(r *http.Request, markers int) {
	if c := h.logger.Check(zapcore.InfoLevel, "history healed"); c != nil {
		c.Write(zap.Int("markers", markers), zap.String("path", logged(r.URL.Path)))
	}
}

// reason returns what an error says beyond the outcome: not that the answer was
// aborted, which reverse_proxy logs with its cause, nor where in Caddy it was
// made.
func reason(err error) error {
	var he caddyhttp.HandlerError
	switch {
	case errors.Is(err, http.ErrAbortHandler):
		return nil
	case errors.As(err, &he) && he.Err != nil:
		return shortened(he.Err)
	}
	return shortened(err)
}

// endMessage says at which level and as what the end of a stream is logged: a
// warning when it ended in an error, or passed although it may be a crash
// (contract section 3, "false stop") or unrepaired, and otherwise nothing that
// is seen by default but imitations and frames that passed unexamined.
func endMessage(res proxy.Result) (zapcore.Level, string) {
	switch {
	case res.Outcome == proxy.OutcomeEncoded:
		return zapcore.WarnLevel, "event stream is compressed by upstream and passes unrepaired"
	case res.Outcome == proxy.OutcomeClientGone:
		return zapcore.DebugLevel, "client left"
	case res.Outcome == rewrite.CodeAgentIncomplete:
		return zapcore.WarnLevel, "agent failed and said stop; answered with an error"
	case res.Outcome == rewrite.CodeEmpty:
		return zapcore.WarnLevel, "answer said nothing or ended on a tool, and was ended with an error; see empty_answer"
	case res.Outcome != proxy.OutcomeOK && res.Whole:
		return zapcore.WarnLevel, "no answer came; answered with an error"
	case res.Outcome != proxy.OutcomeOK && res.Status != http.StatusOK:
		return zapcore.WarnLevel, "no stream came; answered with an error"
	case res.Outcome != proxy.OutcomeOK:
		return zapcore.WarnLevel, "stream ended in an error"
	case res.ZeroUsagePassed:
		return zapcore.WarnLevel, "answer passed with text and a usage of zero tokens, which may be a crash; see zero_usage"
	case res.Imitations > 0:
		return zapcore.InfoLevel, "answer had tool markers that the model only imitated"
	case res.Unexamined > 0:
		return zapcore.InfoLevel, "stream had frames larger than max_frame, which passed unexamined"
	}
	if res.Whole {
		return zapcore.DebugLevel, "answer ended"
	}
	return zapcore.DebugLevel, "stream ended"
}

// logged returns a name as valid UTF-8 of at most maxLogged bytes.
func logged(s string) string { return cutText(s, maxLogged) }

// cutText returns s as valid UTF-8 of at most max bytes.
func cutText(s string, max int) string {
	return strings.ToValidUTF8(s[:min(len(s), max)], "")
}

// upstream names the server that answered, the host and port that reverse_proxy
// chose, "" when another handler answered (caddy reverseproxy.go:691).
func upstream(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	hostport, _ := repl.GetString("http.reverse_proxy.upstream.hostport")
	return logged(hostport)
}

// errorStatus returns the HTTP status of an error of the next handler, 0 when
// it names none.
func errorStatus(err error) int {
	var e caddyhttp.HandlerError
	if errors.As(err, &e) {
		return e.StatusCode
	}
	return 0
}

// passedError returns err for Caddy, which logs it, and for its error routes: with
// its status if it is one of the client's request, and with a text of at most
// maxLoggedError bytes. errors.Is and errors.As find what they found in err.
func passedError(err error) error {
	if e, ok := errors.AsType[*proxy.RequestError](err); ok {
		return caddyhttp.Error(e.Status, e)
	}
	he, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok || he.Err == nil || len(err.Error()) <= maxLoggedError {
		return shortened(err)
	}
	// Caddy logs the text of what the first HandlerError has, wherever that is
	// (caddy logging.go:234).
	he.Err = &shortError{cutText(he.Err.Error(), maxLoggedError), err}
	return he
}

// shortError is an error whose text is cut.
type shortError struct {
	text string
	err  error
}

func (e *shortError) Error() string { return e.text }

// Unwrap returns the whole error.
func (e *shortError) Unwrap() error { return e.err }

// shortened returns err or, if its text is too long, one that wraps it.
func shortened(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= maxLoggedError {
		return err
	}
	return &shortError{cutText(text, maxLoggedError), err}
}
