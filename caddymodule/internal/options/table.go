package options

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// table has the options in the order of the Caddyfile's syntax.
var table = []*Option{
	{Name: "max_frame", kind: size{}, Default: "1MiB", Help: "Larger frames pass unexamined",
		apply: func(o *proxy.Options, v any) { o.Rewrite.MaxFrame = int(v.(int64)) }},
	{Name: "imitations", kind: wordsOf(rewrite.ImitationsValues()), Default: "strip", Help: "Markers that no tool stands behind",
		apply: func(o *proxy.Options, v any) { o.Rewrite.Imitations = rewrite.Imitations(v.(string)) }},
	{Name: "reasoning", kind: wordsOf(rewrite.ReasoningValues()), Default: "extract", Help: "Reasoning between tags in the text",
		apply: func(o *proxy.Options, v any) { o.Rewrite.Reasoning = rewrite.Reasoning(v.(string)) }},
	{Name: "history", kind: wordsOf(proxy.HistoryValues()), Default: "heal", Help: "Markers in the histories that clients send",
		apply: func(o *proxy.Options, v any) { o.History = proxy.History(v.(string)) }},
	{Name: "max_request", kind: size{}, Default: "10MB", Help: "Larger requests pass as they are",
		apply: func(o *proxy.Options, v any) { o.MaxRequest = v.(int64) }},
	{Name: "parallel_window", kind: duration{}, Default: "500ms", Help: "Tools that start closer together than this run in parallel",
		// Zero means the default there, and a negative window that every start
		// completes the tools before it.
		apply: func(o *proxy.Options, v any) { o.Rewrite.ParallelWindow = orInstead(v, -1) }},
	{Name: "tool", kind: tools{}, Help: `Name of a tool whose emoji Hermes lacks, repeatable, such as "🛰️ satellite"`},
	{Name: "progress", kind: wordsOf(rewrite.ProgressForms()), Default: "envelope", Help: "Form of tool events",
		apply: func(o *proxy.Options, v any) { o.Rewrite.Progress = rewrite.Progress(v.(string)) }},
	{Name: "status_line", kind: onOff{words{"on", "off"}}, Default: "off", Help: "Add a status to tool events, which Open WebUI shows",
		apply: func(o *proxy.Options, v any) { o.Rewrite.StatusLine = v.(bool) }},
	{Name: "cards", kind: onOff{words{"on", "off"}}, Default: "off", Help: "Make cards of tool events, which Open WebUI draws and stores",
		apply: func(o *proxy.Options, v any) { o.Rewrite.Cards = v.(bool) }},
	{Name: "done_grace", kind: duration{}, Default: "5s", Help: "How long to wait for the end of a stream after its finish chunk",
		// Zero means no limit there, and no grace here.
		apply: func(o *proxy.Options, v any) { o.DoneGrace = orInstead(v, 1) }},
	{Name: "error_finish", kind: wordsOf(rewrite.ErrorFinishForms()), Default: "split", Help: "Errors in a frame before the finish chunk, or in it",
		apply: func(o *proxy.Options, v any) { o.Rewrite.ErrorFinish = rewrite.ErrorFinish(v.(string)) }},
	{Name: "zero_usage", kind: wordsOf(rewrite.ZeroUsageValues()), Default: "auto", Help: "What an answer with text and a usage of zero tokens is",
		apply: func(o *proxy.Options, v any) { o.Rewrite.ZeroUsage = rewrite.ZeroUsage(v.(string)) }},
	{Name: "empty_answer", kind: wordsOf(rewrite.EmptyAnswerValues()), Default: "error", Help: "What an answer is that says nothing, or ends on a tool",
		apply: func(o *proxy.Options, v any) { o.Rewrite.EmptyAnswer = rewrite.EmptyAnswer(v.(string)) }},
	{Name: "first_byte_timeout", kind: duration{off: true}, Default: "off", Help: "Limit for upstream to send its first byte",
		apply: func(o *proxy.Options, v any) { o.FirstByteTimeout = time.Duration(v.(caddy.Duration)) }},
	{Name: "idle_timeout", kind: duration{off: true}, Default: "15m", Help: "Limit for upstream to send nothing at all",
		apply: func(o *proxy.Options, v any) { o.IdleTimeout = time.Duration(v.(caddy.Duration)) }},
	{Name: "stall_timeout", kind: duration{off: true}, Default: "off", Help: "Limit for upstream to send nothing but comments",
		apply: func(o *proxy.Options, v any) { o.StallTimeout = time.Duration(v.(caddy.Duration)) }},
	{Name: "keepalive", kind: duration{off: true}, Default: "10s", Help: "Silence towards the client after which a keepalive is sent",
		apply: func(o *proxy.Options, v any) { o.Keepalive = time.Duration(v.(caddy.Duration)) }},
	{Name: "keepalive_form", kind: wordsOf(rewrite.KeepaliveForms()), Default: "chunk", Help: "Form of a keepalive",
		apply: func(o *proxy.Options, v any) { o.Rewrite.KeepaliveForm = rewrite.KeepaliveForm(v.(string)) }},
	{Name: "drain_timeout", kind: duration{}, Default: "10s", Help: "How long open streams may go on when the proxy stops",
		apply: func(o *proxy.Options, v any) { o.DrainTimeout = time.Duration(v.(caddy.Duration)) }},
	{Name: "record", kind: directory{}, Help: "Directory to record streams in, as upstream sends them"},
	{Name: "record_max", kind: size{}, Default: "100MB", Help: "What all recordings may take together"},
}
