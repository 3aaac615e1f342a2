package telemetry

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/accesslog"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// logEnd returns what the end of a stream logs at the level and above.
func logEnd(level zapcore.Level, res proxy.Result) []observer.LoggedEntry {
	core, logs := observer.New(level)
	h := &Observer{Process: NewProcess(new(queue.Lines), desk.New()), Logger: zap.New(core)}
	h.end(httptest.NewRequest("POST", "/v1/chat/completions", nil), res)
	return logs.AllUntimed()
}

func TestEndIsLoggedAtTheLevelItDeserves(t *testing.T) {
	const ok, failed = proxy.OutcomeOK, rewrite.CodeAborted
	for _, c := range []struct {
		outcome string
		status  int
		whole   bool
		summary rewrite.Summary
		level   zapcore.Level
		message string
	}{
		{ok, 200, false, rewrite.Summary{}, zap.DebugLevel, "stream ended"},
		{ok, 200, true, rewrite.Summary{Reasoning: 1}, zap.DebugLevel, "answer ended"},
		{proxy.OutcomeClientGone, 200, false, rewrite.Summary{}, zap.DebugLevel, "client left"},
		{failed, 200, false, rewrite.Summary{Imitations: 1, ZeroUsagePassed: true}, zap.WarnLevel, "stream ended in an error"},
		{failed, 502, false, rewrite.Summary{}, zap.WarnLevel, "upstream sent no stream; answered with an error"},
		{failed, 502, true, rewrite.Summary{}, zap.WarnLevel, "upstream sent no answer; answered with an error"},
		{rewrite.CodeEmpty, 200, false, rewrite.Summary{}, zap.WarnLevel,
			"answer was empty or ended with a tool; ended it with an error, see empty_answer"},
		{rewrite.CodeAgentIncomplete, 502, false, rewrite.Summary{}, zap.WarnLevel,
			"agent failed and said stop; answered with an error"},
		{proxy.OutcomeEncoded, 200, false, rewrite.Summary{}, zap.WarnLevel,
			"upstream compressed the event stream, which passes unrepaired"},
		{ok, 200, false, rewrite.Summary{ZeroUsagePassed: true, Imitations: 1}, zap.WarnLevel,
			"answer passed with text and a usage of zero tokens, which may be a crash; see zero_usage"},
		{ok, 200, false, rewrite.Summary{Imitations: 2}, zap.InfoLevel, "answer contained tool markers that the model imitated"},
		{ok, 200, false, rewrite.Summary{Unexamined: 1}, zap.InfoLevel,
			"stream contained frames larger than max_frame, which passed unexamined"},
	} {
		res := proxy.Result{Summary: c.summary, Outcome: c.outcome, Status: c.status, Whole: c.whole}
		entries := logEnd(zap.DebugLevel, res)
		if len(entries) != 1 || entries[0].Level != c.level || entries[0].Message != c.message {
			t.Errorf("%+v: logged %v, want one line at %v: %s", c, entries, c.level, c.message)
		}
		if above := logEnd(c.level+1, res); len(above) != 0 {
			t.Errorf("%+v: logged %v above %v", c, above, c.level)
		}
	}
}

func TestEndIsLoggedWithWhatIsKnown(t *testing.T) {
	res := proxy.Result{
		Summary: rewrite.Summary{
			ID: "chatcmpl-1", Model: strings.Repeat("é", 256), FinishReason: "error",
			Code: "upstream_aborted", Chunks: 7, Tools: 2, Imitations: 1, Reasoning: 5, Unexamined: 3, InputTokens: 11, OutputTokens: 13,
		},
		Upstream: "127.0.0.1:8642",
		Outcome:  "upstream_aborted",
		Status:   200,
		Err:      errors.New("connection reset"),
		Duration: 1500 * time.Millisecond,
	}
	entries := logEnd(zap.WarnLevel, res)
	if len(entries) != 1 {
		t.Fatalf("logged %v, want one line", entries)
	}
	want := map[string]any{
		"completion_id": "chatcmpl-1",
		"model":         strings.Repeat("é", 256/2),
		"upstream":      "127.0.0.1:8642",
		"outcome":       "upstream_aborted",
		"status":        int64(200),
		"error":         "connection reset",
		"finish_reason": "error",
		"chunks":        int64(7),
		"tools":         int64(2),
		"imitations":    int64(1),
		"reasoning":     int64(5),
		"unexamined":    int64(3),
		"seconds":       1.5,
	}
	if got := entries[0].ContextMap(); !maps.Equal(got, want) {
		t.Errorf("logged %v, want %v", got, want)
	}
	// Placeholders and events have its tokens as well.
	if data := newEnded("/", &res, time.Now()).data(); data["input_tokens"] != int64(11) || data["output_tokens"] != int64(13) {
		t.Errorf("%v", data)
	}
}

// TestErrorsOfEnds: that the answer was aborted is no news, nor where in Caddy an error was made.
func TestErrorsOfEnds(t *testing.T) {
	const refused = "dial tcp: connection refused"
	for err, want := range map[error]any{
		http.ErrAbortHandler: nil,
		caddyhttp.Error(http.StatusBadGateway, errors.New(refused)): refused,
	} {
		entries := logEnd(zap.WarnLevel, proxy.Result{Outcome: rewrite.CodeAborted, Status: 200, Err: err})
		if len(entries) != 1 || entries[0].ContextMap()["error"] != want {
			t.Errorf("logged %v, want one line with the error %v", entries, want)
		}
	}
}

func TestEndAddsItsOutcomeToTheAccessLog(t *testing.T) {
	h := newObserver()
	res := proxy.Result{Summary: rewrite.Summary{Tools: 7}, Outcome: "some_outcome"}
	r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	ctx, collected := accesslog.Collect(r.Context())
	h.end(r.WithContext(ctx), res)
	core, logs := observer.New(zap.InfoLevel)
	zap.New(core).Info("handled request", collected.All()...)
	want := map[string]any{"hermes_outcome": "some_outcome", "hermes_tools": int64(7)}
	if got := logs.All()[0].ContextMap(); !reflect.DeepEqual(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}

	extra := new(caddyhttp.ExtraLogFields)
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.ExtraLogFieldsCtxKey, extra))
	for range 2 { // a second handler, as of an error route, replaces what the first said
		h.end(r, res)
		if n := reflect.ValueOf(extra).Elem().FieldByName("fields").Len(); n != 2 { // only Caddy can read them
			t.Errorf("%d fields for Caddy's log, want 2", n)
		}
	}
}

func TestCompressedStreamIsLoggedAsAWarningOnce(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	h := &Observer{Process: NewProcess(new(queue.Lines), desk.New()), Logger: zap.New(core)}
	for range 3 {
		h.end(httptest.NewRequest(http.MethodPost, "/", nil), proxy.Result{Outcome: proxy.OutcomeEncoded, Status: 200})
	}
	if n := logs.FilterLevelExact(zap.WarnLevel).Len(); n != 1 || logs.Len() != 3 {
		t.Errorf("%d warnings in %d lines, want 1 in 3", n, logs.Len())
	}
}
