package telemetry

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// logEnd logs the end of a stream, in one line and at the level that endMessage
// says. It logs names and numbers, nothing of what was said.
func (o *Observer) logEnd(e *EndedStream, res *proxy.Result) {
	level, message := endMessage(res)
	if e.Outcome == proxy.OutcomeEncoded && !o.encoded.CompareAndSwap(false, true) {
		level = zapcore.DebugLevel // said once
	}
	c := o.Logger.Check(level, message)
	if c == nil {
		return
	}
	var fields []zap.Field
	facts := e.facts()
	for _, f := range facts[:len(facts)-2] {
		fields = append(fields, zap.Any(f.name, f.value))
	}
	c.Write(append(fields, zap.Int("unexamined", res.Unexamined), zap.Error(reason(res.Err)))...) // no field for no error
}

// reason returns what err says beyond the outcome: nil for an aborted answer, which reverse_proxy
// logs with its cause, and otherwise err without the place in Caddy where it was made.
func reason(err error) error {
	if errors.Is(err, http.ErrAbortHandler) {
		return nil
	}
	if he, ok := errors.AsType[caddyhttp.HandlerError](err); ok && he.Err != nil {
		err = he.Err
	}
	return bounded.Error(err)
}

// endMessage returns the level and the message with which the end of a stream is logged. It is a
// warning if the stream ended in an error, passed although it may be a crash (contract section 3,
// "false stop"), or passed unrepaired. Of other streams, the default level shows only imitations
// and frames that passed unexamined.
func endMessage(res *proxy.Result) (zapcore.Level, string) {
	switch {
	case res.Outcome == proxy.OutcomeEncoded:
		return zapcore.WarnLevel, "upstream compressed the event stream, which passes unrepaired"
	case res.Outcome == proxy.OutcomeClientGone:
		return zapcore.DebugLevel, "client left"
	case res.Outcome == rewrite.CodeAgentIncomplete:
		return zapcore.WarnLevel, "agent failed and said stop; answered with an error"
	case res.Outcome == rewrite.CodeEmpty:
		return zapcore.WarnLevel, "answer was empty or ended with a tool; ended it with an error, see empty_answer"
	case res.Outcome != proxy.OutcomeOK && res.Whole:
		return zapcore.WarnLevel, "upstream sent no answer; answered with an error"
	case res.Outcome != proxy.OutcomeOK && res.Status != http.StatusOK:
		return zapcore.WarnLevel, "upstream sent no stream; answered with an error"
	case res.Outcome != proxy.OutcomeOK:
		return zapcore.WarnLevel, "stream ended in an error"
	case res.ZeroUsagePassed:
		return zapcore.WarnLevel, "answer passed with text and a usage of zero tokens, which may be a crash; see zero_usage"
	case res.Imitations > 0:
		return zapcore.InfoLevel, "answer contained tool markers that the model imitated"
	case res.Unexamined > 0:
		return zapcore.InfoLevel, "stream contained frames larger than max_frame, which passed unexamined"
	}
	if res.Whole {
		return zapcore.DebugLevel, "answer ended"
	}
	return zapcore.DebugLevel, "stream ended"
}

// Upstream names the server that answered, the host and port that reverse_proxy
// chose, "" when another handler answered (caddy reverseproxy.go:691).
func Upstream(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	hostport, _ := repl.GetString("http.reverse_proxy.upstream.hostport")
	return bounded.Name(hostport)
}
