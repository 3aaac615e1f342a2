package caddymodule

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	// The commands register themselves.
	_ "github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/command"
	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/record"
	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/telemetry"
	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
	"github.com/hermes-sidecar/hermes-sidecar/internal/httpapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler repairs the OpenAI-compatible event streams of the Hermes agent:
// tool markers in the text become tool events with a beginning and an end,
// reasoning between tags becomes `reasoning_content`, streams that break off
// get an error and a clean end, and silences are broken by keepalives. Tool
// markers also leave the history that a request carries, and a failure that is
// answered as text, without a stream, gets the status 502.
//
// It stands in front of the handler that answers, usually `reverse_proxy`.
// In a Caddyfile:
//
//	:8643 {
//		bind 127.0.0.1
//		hermes
//		reverse_proxy 127.0.0.1:8642
//	}
//
// Every option may be left out: `hermes` without options does the whole job. The
// directive `hermes_proxy` is both handlers in one, and takes the options of both.
//
// Besides chat completions and their requests it changes only streams of
// `/v1/responses`, `/v1/runs` and `/api/sessions` that break off: they get the
// event that says so. Everything else passes byte for byte.
//
// Streams that end in an error are logged as warnings. Access logs get the fields
// `hermes_outcome` (`ok`, `client_gone`, `passed_encoded` or the code of the error)
// and `hermes_tools`, the number of tools that ran, and where a history was healed
// `hermes_healed`, the number of its markers. `hermes_ignored` names what a request asks
// for and Hermes ignores, such as `tools`. Metrics are exposed as
// `caddy_hermes_*` and `gen_ai_client_operation_*`. Within the `tracing` handler
// each stream has a span. The admin endpoint `/hermes/streams` and the handler
// `hermes_streams` list the streams.
//
// ### Placeholders
//
// These placeholders are set when a stream has ended, a request for one was
// answered with an error, or an answer that is not streamed has ended. By then the
// header of the answer has left: they are for handlers that act behind this one,
// such as `log_append` (not where the client has left, for then Caddy aborts the
// request), and for span attributes of `tracing`.
//
// Placeholder | Description
// ------------|-------------
// `{http.hermes.outcome}` | `ok`, `client_gone`, `passed_encoded` or the code of the error
// `{http.hermes.completion_id}` | The id of the completion
// `{http.hermes.model}` | The model, as upstream names it
// `{http.hermes.upstream}` | The host and port that answered
// `{http.hermes.status}` | The HTTP status that the client was sent
// `{http.hermes.finish_reason}` | The finish reason that the client was sent
// `{http.hermes.chunks}` | The number of chunks that upstream sent, or events in other streams
// `{http.hermes.tools}` | The number of tools that started
// `{http.hermes.imitations}` | The number of imitated markers that were stripped
// `{http.hermes.reasoning}` | The number of stretches of reasoning that left the text
// `{http.hermes.input_tokens}` | The input tokens that upstream reported, 0 for none
// `{http.hermes.output_tokens}` | The output tokens that upstream reported, 0 for none
// `{http.hermes.seconds}` | The time from the request to the end
//
// The same is the data of the events `hermes_stream_ended` and, for an error,
// `hermes_stream_failed`: `{event.data.outcome}` and so on.
type Handler struct {
	// The size in bytes above which a frame of the stream, or an answer that is
	// not streamed, passes unexamined, from 1024 (1 KiB) to 1073741824 (1 GiB).
	// It bounds the memory a stream takes. Default: 1048576 (1 MiB).
	MaxFrame int64 `json:"max_frame,omitempty"`

	// What becomes of tool markers that the model only imitated: `strip`
	// removes them from the text, `keep` leaves them there, and `trust`
	// removes them and takes them for tools, which is for backends behind a
	// proxy that re-chunks the text. Default: `strip`.
	Imitations string `json:"imitations,omitempty"`

	// What becomes of reasoning that stands between tags such as `<think>` in
	// the text: `extract` sends it as `reasoning_content`, `keep` leaves it
	// there, and `drop` removes it. Default: `extract`.
	Reasoning string `json:"reasoning,omitempty"`

	// What becomes of tool markers in the history that a request carries, in
	// the messages of the assistant: `heal` removes them, so that the model
	// does not learn to imitate them, and `keep` leaves the request as it is.
	// Default: `heal`.
	History string `json:"history,omitempty"`

	// The size in bytes above which a request passes untouched, from 1024
	// (1 KiB) to 1073741824 (1 GiB). It bounds the memory a request takes, which
	// may be twice that while a history is healed. `hermes_resume` goes by it, too.
	// Default: 10000000 (10 MB).
	MaxRequest int64 `json:"max_request,omitempty"`

	// The time between the starts of two tools from which on the second one
	// proves that the first has ended. It matters only for versions of Hermes
	// that do not say when a tool ends. With 0, tools never run in parallel.
	// Default: 500ms.
	ParallelWindow *caddy.Duration `json:"parallel_window,omitempty"`

	// Names for tools whose emoji Hermes' own table lacks, by emoji. The
	// emoji is what stands in front of the label in a marker: at least one
	// character beyond ASCII, no white space, no backtick. Names that begin
	// with an underscore are reserved for internal tools. Default: none.
	Tools map[string]string `json:"tool,omitempty"`

	// The form of tool events: `envelope` sends `event: hermes.tool.progress`
	// with the members of a chunk beside the tool's, `bare` sends the tool's
	// members only, `unnamed` is the envelope without the `event:` line,
	// `comment` sends a comment, and `off` sends none. The request header
	// `X-Hermes-Tool-Progress` with one of these overrides it for a request.
	// Default: `envelope`.
	Progress string `json:"progress,omitempty"`

	// Whether tool events also carry a status line, which Open WebUI shows.
	// Default: false.
	StatusLine bool `json:"status_line,omitempty"`

	// Whether tool events are also cards, which Open WebUI draws between the
	// texts of the answer and stores with it. It sends them back with the next
	// request: leave `history` at `heal`, which takes them out again. They are
	// in the forms `envelope` and `unnamed`. Default: false.
	Cards bool `json:"cards,omitempty"`

	// How long to wait for the end of the stream after its finish chunk. When
	// it has passed, the stream is ended properly, without an error. With 0
	// the finish chunk is the end. Default: 5s.
	DoneGrace *caddy.Duration `json:"done_grace,omitempty"`

	// The form of an error at the end of a stream: `split` sends it in a
	// frame of its own and then the finish chunk, `inline` sends both in one
	// chunk. Default: `split`.
	ErrorFinish string `json:"error_finish,omitempty"`

	// What an answer is that has text, the finish reason `stop` and a usage
	// of zero tokens: `auto` takes it for a crash when this upstream and
	// model have reported usage before and the upstream does not report its
	// failures itself, `error` always does, `pass` never does. After three in
	// a row `auto` takes the provider for one that reports no usage, until it
	// does again. What is known is kept in Caddy's storage, below `hermes/`, so
	// it survives reloads and restarts. Default: `auto`.
	ZeroUsage string `json:"zero_usage,omitempty"`

	// What an answer is that says `stop` and has no text, no reasoning and no
	// tool, or ends on a tool, although it reports its usage: `error` takes it
	// for a failure, `pass` lets it pass. One with a usage of zero tokens is
	// always a failure. Default: `error`.
	EmptyAnswer string `json:"empty_answer,omitempty"`

	// How long upstream may take to send the first byte of its answer. When it
	// has passed, the client gets an error. It does not apply when the request
	// does not ask for a stream; a request that was not read (see `history` and
	// `max_request`) may have asked for one. 0 means no limit. Default: 0.
	FirstByteTimeout caddy.Duration `json:"first_byte_timeout,omitempty"`

	// How long upstream may send nothing at all, before its answer as well if
	// the request may have asked for a stream. When it has passed, the stream
	// ends with an error. 0 means no limit. Default: 15m.
	IdleTimeout *caddy.Duration `json:"idle_timeout,omitempty"`

	// How long upstream may send nothing but comments, before its answer as well
	// if the request may have asked for a stream. When it has passed, the stream
	// ends with an error. 0 means no limit. Default: 0.
	StallTimeout caddy.Duration `json:"stall_timeout,omitempty"`

	// The silence towards the client after which a keepalive is sent. 0 means
	// none is ever sent. Default: 10s.
	Keepalive *caddy.Duration `json:"keepalive,omitempty"`

	// The form of a keepalive: `chunk` sends a chunk with an empty delta, and
	// a comment only while no chunk has come yet; `comment` always sends a
	// comment. Default: `chunk`.
	KeepaliveForm string `json:"keepalive_form,omitempty"`

	// How long open streams may go on when Caddy stops. Those still open then
	// get an error and a clean end. A `grace_period` of the http app has to
	// be longer; if it is not, streams end shortly before it does. With 0 they
	// end at once. A reload of the configuration ends no stream. Default: 10s.
	DrainTimeout *caddy.Duration `json:"drain_timeout,omitempty"`

	// A directory to record streams in, as upstream sends them, for bug reports
	// and `caddy hermes-repair`: each a file `.sse`, and a file `.json` with what
	// is known of it beside its bytes. The files hold what the agent said, and
	// nothing of the request but its path; only their owner can read them. It is
	// made when it is needed. One that cannot be written to is refused.
	// Default: none, nothing is recorded.
	Record string `json:"record,omitempty"`

	// The size in bytes that all recordings may take together, from 1024 (1 KiB)
	// to 1073741824 (1 GiB). The oldest are removed; one takes a tenth at most.
	// Default: 100000000 (100 MB).
	RecordMax int64 `json:"record_max,omitempty"`

	// What follows is nil until Provision.
	proxy    *proxy.Proxy
	shared   *shared
	emitter  *telemetry.Emitter
	observer *telemetry.Observer
	usage    *usage.Store
	joined   atomic.Bool // Cleanup has to leave what Provision joined

	maxRequest   int64
	drainTimeout time.Duration
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.hermes",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision compiles the options, joins what all configurations of the process
// share, and subscribes to the end of the process. It writes nothing and
// starts nothing, for it also runs to validate a configuration, and one that is
// refused changes nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	logger := ctx.Logger()
	given := options.Of(h)
	o, err := given.Compile()
	if err != nil {
		return err
	}
	for _, conflict := range given.Conflicts(&o) {
		logger.Warn(conflict)
	}

	var first bool
	h.shared, first = join()
	h.joined.Store(true)
	if first {
		b := build.This()
		logger.Info("hermes sidecar", zap.String("version", b.Version), zap.String("commit", b.Commit),
			zap.String("go", b.Go), zap.String("caddy", b.Caddy))
	}
	h.shared.handlers.Add(1)
	if err := h.shared.checkSites(ctx, logger); err != nil {
		return err
	}
	process := telemetry.OfProcess()
	if err := process.Register(ctx.GetMetricsRegistry()); err != nil {
		// Streams are worth more than their metrics.
		logger.Warn("another module has metrics of the same name; some of ours are not exposed", zap.Error(err))
	}
	if h.emitter, err = h.shared.emitters.Add(ctx); err != nil {
		return err
	}
	h.observer = &telemetry.Observer{Process: process, Logger: logger, Emitter: h.emitter}

	o.Upstream = telemetry.Upstream
	o.ErrorStatus = errorStatus
	o.Timeouts = timeoutsFor
	o.Observer = h.observer
	if h.Record != "" {
		o.Observer = h.shared.recordings.Recorder(h.observer, h.Record, h.RecordMax, h.emitter.Runs, logger)
		o.ObserveRaw = true
	}
	o.Streams = &h.shared.streams
	h.usage = &usage.Store{Memory: &h.shared.usage, Storage: ctx.Storage(), Logger: logger}
	o.Usage = h.usage.Of
	h.proxy = proxy.New(o)

	grace, delay := httpapp.Times(ctx)
	d := &drain{&h.shared.streams, o.DrainTimeout, httpapp.DrainLimit(grace, delay), caddy.Exiting, logger}
	if d.tooShort() { // at the end of the process it is too late to change
		logger.Warn("grace_period is too short for drain_timeout; raise grace_period in the global options, or lower drain_timeout",
			zap.Duration("drain_timeout", d.timeout), zap.Duration("grace_period", grace), zap.Duration("streams_end_after", d.limit))
	}
	h.maxRequest, h.drainTimeout = o.MaxRequest, o.DrainTimeout
	return h.emitter.On("stopping", d)
}

// Validate reports the first option whose value is not allowed, and a directory for
// recordings that cannot be written to. The error names the option, the value and
// what is allowed.
func (h *Handler) Validate() error {
	if err := options.Of(h).Check(); err != nil {
		return err
	}
	if h.Record == "" {
		return nil
	}
	if err := record.CheckWritable(h.Record); err != nil {
		return fmt.Errorf("invalid record %q: streams cannot be recorded there, name a directory that the user of this process can write to: %w", h.Record, err)
	}
	return nil
}

// Cleanup leaves what all configurations share. Streams of this configuration
// go on: they hold the shared state themselves until they have ended, and
// nothing they use is closed here. Only the last handler of the process waits,
// for a bounded time, until reported usage has been written.
func (h *Handler) Cleanup() error {
	if !h.joined.CompareAndSwap(true, false) {
		return nil
	}
	h.shared.handlers.Add(-1)
	h.shared.emitters.Remove(h.emitter)
	last := leave()
	if last || caddy.Exiting() {
		h.shared.usage.Flush(usage.FlushLimit)
		return nil
	}
	go h.shared.watchExit(caddy.Exiting, exitPoll)
	return nil
}

// ServeHTTP heals the history of the request, calls next, and repairs its answer
// if that is a chat completion, streamed or not.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	growStack(false)
	h.shared.hold()
	defer leave()
	telemetry.ProvidePlaceholders(r)
	return passedError(h.proxy.Serve(w, r, next.ServeHTTP))
}

// Interface guards
var (
	_ caddy.Module                = (*Handler)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
