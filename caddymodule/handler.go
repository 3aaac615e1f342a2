package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/ask"
	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
	"github.com/hermes-sidecar/hermes-sidecar/internal/configjson"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/internal/replicas"
	"github.com/hermes-sidecar/hermes-sidecar/internal/runs"
	"github.com/hermes-sidecar/hermes-sidecar/internal/telemetry"
	"github.com/hermes-sidecar/hermes-sidecar/internal/usage"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue/queuecaddy"
	"github.com/hermes-sidecar/hermes-sidecar/queue/queuehttp"
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
// All options are optional: `hermes` alone does the whole job. The directive
// `hermes_proxy` is both handlers in one, and accepts the options of both.
//
// Besides chat completions and their requests, it changes only streams of
// `/v1/responses`, `/v1/runs` and `/api/sessions` that break off, to which it adds
// an event that says so. Everything else passes byte for byte.
//
// Streams that end in an error are logged as warnings. Access logs get the fields
// `hermes_outcome` (`ok`, `client_gone`, `passed_encoded` or the code of the error)
// and `hermes_tools`, the number of tools that ran, and where a history was healed
// `hermes_healed`, the number of its markers, and if records of tools were added to it
// `hermes_records`, their number. `hermes_ignored` names what a request asks
// for and Hermes ignores, such as `tools`. Metrics are exposed as
// `caddy_hermes_*` and `gen_ai_client_operation_*`. Within the `tracing` handler
// each stream has a span. The admin endpoint `/hermes/streams` and the handler
// `hermes_streams` list the streams.
//
// ### Placeholders
//
// These placeholders are set when a stream has ended, a request for one was
// answered with an error, or an answer that is not streamed has ended. By then the
// header of the answer has been sent: they are for handlers that act after this one,
// such as `log_append` (unless the client has disconnected, because Caddy then aborts
// the request), and for span attributes of `tracing`.
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
// `{http.hermes.imitations}` | The number of imitated markers that were removed
// `{http.hermes.reasoning}` | The number of stretches of reasoning that were removed from the text
// `{http.hermes.input_tokens}` | The input tokens that upstream reported, 0 for none
// `{http.hermes.output_tokens}` | The output tokens that upstream reported, 0 for none
// `{http.hermes.seconds}` | The time from the request to the end
//
// The same is the data of the events `hermes_stream_ended` and, for an error,
// `hermes_stream_failed`: `{event.data.outcome}` and so on.
type Handler struct {
	// The largest frame that the sidecar examines. A larger one, or a larger
	// answer that is not streamed, passes unchanged. It is a number of bytes
	// from 1024 (1KiB) to 1073741824 (1GiB). Default: 1048576 (1MiB).
	MaxFrame int64 `json:"max_frame,omitempty"`

	// What happens to markers that the model wrote itself, without running a
	// tool. `auto` removes them from texts and histories until upstream has
	// sent a tool event. `strip` always removes them. `keep` leaves them in
	// the text. `trust` removes them and, in streams, treats them as tools.
	// Default: `auto`.
	Imitations string `json:"imitations,omitempty"`

	// What happens to reasoning between tags such as `<think>` in the text.
	// `extract` moves it to `reasoning_content`. `keep` leaves it in the text,
	// with its tags. `drop` removes it. Default: `extract`.
	Reasoning string `json:"reasoning,omitempty"`

	// What happens to markers and cards in the histories that clients send
	// back. `heal` removes them from the assistant's messages. `keep` passes
	// requests on unread. Default: `heal`.
	History string `json:"history,omitempty"`

	// Whether the agent is told which tools ran during its earlier answers,
	// which Hermes drops from the histories that clients send. Not for
	// requests that name a session, or with `history keep`. `on` puts a record
	// in front of the user's next message: the tools, what they were given,
	// and how they ended. `results` adds what they returned, as quoted data.
	// `off` adds nothing. Default: `on`.
	Memory string `json:"memory,omitempty"`

	// The largest request that the sidecar reads, with up to twice its size of
	// memory. A larger one passes unchanged, and `hermes_resume` does not keep
	// its answer. It is a number of bytes from 1024 (1KiB) to 1073741824
	// (1GiB). Default: 10000000 (10MB).
	MaxRequest int64 `json:"max_request,omitempty"`

	// Tools that start closer together than this run in parallel; a later
	// start ends the earlier tool. With `0s`, every start does.
	// Default: 500ms.
	ParallelWindow *caddy.Duration `json:"parallel_window,omitempty"`

	// The name of a tool whose emoji is not in Hermes' own table. A name that
	// begins with `_` is reserved. In JSON it is an object that has the names
	// by emoji. Default: none.
	Tools map[string]string `json:"tool,omitempty"`

	// The form of tool events. The request header `X-Hermes-Tool-Progress`
	// overrides it for one request. `envelope` sends the members of a chunk
	// and those of the tool. `bare` sends only upstream's five fields.
	// `unnamed` is `envelope` without the `event:` line. `comment` sends SSE
	// comments. `off` sends none. Default: `envelope`.
	Progress string `json:"progress,omitempty"`

	// Turns `hermes.status`, `approval.request` and tool events without a card
	// into a status, which Open WebUI shows above the message, in the forms
	// `envelope` and `unnamed`. Default: true.
	StatusLine *bool `json:"status_line,omitempty"`

	// Makes cards of tool events, which Open WebUI draws and stores, in the
	// forms `envelope` and `unnamed`. Default: true.
	Cards *bool `json:"cards,omitempty"`

	// What tool events and cards say about a tool, from what Hermes 0.18 and
	// newer stores. `full` gives the arguments and the result. `arguments`
	// gives only the arguments. `off` asks nothing. Default: `full`.
	ToolDetails string `json:"tool_details,omitempty"`

	// How clients can answer what Hermes asks before it runs a dangerous
	// command. `link <base URL> [text]` gives them a link to a page of
	// `hermes_approvals`, with `text` also in the text of the answer. `reply`
	// ends the answer with a code, with which the client's next message
	// answers; it needs `hermes_resume` in front. `by <placeholder>` tells the
	// users of one key apart. `replicas <URL…> <secret>` makes a link work at
	// whichever replica it reaches. In JSON it is an object with `link`,
	// `text`, `reply`, `by` and `replicas`. Default: none.
	Approvals *options.Approvals `json:"approvals,omitempty"`

	// How long a link or a code of `approvals` can be used. With `0s`, none is
	// made. Default: 5m.
	ApprovalTimeout *caddy.Duration `json:"approval_timeout,omitempty"`

	// Names the user of a request to Hermes, by a placeholder. A client's own
	// value of the same header does not pass. `<placeholder> by header` sends
	// the user in `X-Hermes-Session-Key`; this is the default. `<placeholder>
	// by session` gives each chat of the user a session in
	// `X-Hermes-Session-Id`. `<placeholder> by prompt` puts a line with a hash
	// of the user in front of the system prompt. In JSON it is an object with
	// `header`, `session` and `prompt`. Default: none.
	Identity *options.Identity `json:"identity,omitempty"`

	// How long upstream may be silent after the finish chunk, before the
	// sidecar adds `[DONE]` and ends the stream. With `0s`, the finish chunk
	// is the end. Default: 5s.
	DoneGrace *caddy.Duration `json:"done_grace,omitempty"`

	// The form of an error at the end of a stream. `split` sends it in a frame
	// of its own, and then the finish chunk. `inline` sends one chunk with
	// both, as Hermes 0.18 does. Default: `split`.
	ErrorFinish string `json:"error_finish,omitempty"`

	// What to make of an answer with text and a usage of 0/0/0. `auto` treats
	// it as a crash if this upstream and model have reported usage before, and
	// the upstream does not report its failures itself. `error` always treats
	// it as a crash. `pass` never does. Default: `auto`.
	ZeroUsage string `json:"zero_usage,omitempty"`

	// What to make of an answer that says `stop` and reports its usage, but
	// says nothing or ends on a tool. `error` treats it as a failure. `pass`
	// lets it pass, unless its usage is 0/0/0. Default: `error`.
	EmptyAnswer string `json:"empty_answer,omitempty"`

	// How long upstream may take to send the first byte of a stream before the
	// client gets `upstream_timeout`. With 0 it is off. Default: 0.
	FirstByteTimeout caddy.Duration `json:"first_byte_timeout,omitempty"`

	// How long upstream may send nothing at all before the client gets
	// `upstream_timeout`. It also counts before the stream begins. With 0 it
	// is off. Default: 15m.
	IdleTimeout *caddy.Duration `json:"idle_timeout,omitempty"`

	// How long upstream may send nothing but comments before the client gets
	// `upstream_timeout`. It counts from the request. With 0 it is off.
	// Default: 0.
	StallTimeout caddy.Duration `json:"stall_timeout,omitempty"`

	// The silence towards the client after which the sidecar sends a
	// keepalive. With 0 it is off. Default: 10s.
	Keepalive *caddy.Duration `json:"keepalive,omitempty"`

	// The form of a keepalive. `chunk` is a chunk with an empty delta, which
	// breaks no client, or a comment before the first chunk. `comment` is
	// always `: keepalive`. Default: `chunk`.
	KeepaliveForm string `json:"keepalive_form,omitempty"`

	// How long open streams may continue when Caddy stops. Then they get
	// `shutting_down` and a clean end. Default: 10s.
	DrainTimeout *caddy.Duration `json:"drain_timeout,omitempty"`

	// Adds the header `X-Hermes-Sidecar`, with the sidecar's version, to each
	// answer that it examines or writes. Default: true.
	Announce *bool `json:"announce,omitempty"`

	// The directory in which to record streams, as upstream sends them: what
	// the agent said, and of the request only its path. Default: none.
	Record string `json:"record,omitempty"`

	// The size of all recordings together, the oldest of which are removed.
	// One has at most a tenth. It is a number of bytes from 1024 (1KiB) to
	// 1073741824 (1GiB). Default: 100000000 (100MB).
	RecordMax int64 `json:"record_max,omitempty"`

	// The fields below are nil until Provision.
	queue    *queuehttp.Queue
	usage    *usage.Store
	ask      *ask.Options       // nil if no approvals are offered
	replicas *replicas.Replicas // nil if none are asked
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.hermes",
		New: func() caddy.Module { return new(Handler) },
	}
}

// UnmarshalJSON decodes the options strictly. Its errors say what to write for a value of another
// type.
func (h *Handler) UnmarshalJSON(b []byte) error {
	type fields Handler
	return configjson.Unmarshal(b, (*fields)(h))
}

// Provision checks and compiles the options, and adds the handler to its configuration. An error names
// the option, the value and the allowed ones. It writes nothing and starts nothing, because it also
// runs to validate a configuration, and a configuration that is refused must change nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	logger := ctx.Logger()
	given := options.Of(h)
	if err := given.Check(); err != nil { // before what is said of all sites
		return err
	}
	o, err := given.Compile()
	if err != nil {
		return err
	}
	for _, conflict := range given.Conflicts(&o) {
		logger.Warn(conflict)
	}

	app, err := hermesapp.Of(ctx)
	if err != nil {
		return err
	}
	if h.usage, err = app.AddHermes(ctx, &o); err != nil {
		return err
	}
	hermesapp.Register(ctx, hermesapp.OfProcess().Telemetry.Metrics()...)
	emitter, err := telemetry.NewEmitter(ctx)
	if err != nil {
		return err
	}
	if h.replicas, err = h.addReplicas(app, logger); err != nil {
		return err
	}
	h.queue = h.connect(o, emitter, logger)
	return nil
}

// connect returns what serves the requests of the handler: o, which has the options, gets the values of
// the process and of Caddy as well.
func (h *Handler) connect(o proxy.Options, emitter *telemetry.Emitter, logger *zap.Logger) *queuehttp.Queue {
	process := hermesapp.OfProcess()
	if h.Announce == nil || *h.Announce {
		o.Announce = build.This().Version
	}
	o.Upstream = telemetry.Upstream
	o.ErrorStatus = errorStatus
	o.Timeouts = timeoutsFor
	o.Observer = &telemetry.Observer{Process: process.Telemetry, Logger: logger, Emitter: emitter}
	if h.Record != "" {
		o.Observer = process.Recordings.Recorder(o.Observer, h.Record, h.RecordMax, emitter.Runs, logger)
		o.ObserveRaw = true
	}
	h.offerApprovals(&o, logger)
	h.tellDetails(&o, logger)
	keeper := &runs.Keeper{Runs: process.Places, Logger: logger, Upstream: telemetry.Upstream}
	o.RunOver = keeper.Over
	o.Identity = identityOf(h.Identity)
	o.Memory = h.memory()
	o.Streams = process.Streams
	o.Origins = process.Origins
	o.Usage = h.usage.Of
	o.Site = (&upstreams{usage: h.usage}).of
	return &queuehttp.Queue{
		Proxy: proxy.New(o), Turn: queuecaddy.Join, Queued: queuecaddy.Queued, RunBegan: keeper.Began,
	}
}

// Validate reports a directory for recordings that cannot be written to.
func (h *Handler) Validate() error {
	if h.Record == "" {
		return nil
	}
	if err := recording.CheckWritable(h.Record); err != nil {
		return fmt.Errorf("invalid record %q: cannot record streams there; name a directory that this process can write to: %w", h.Record, err)
	}
	return nil
}

// ServeHTTP heals the history of the request, calls next, and repairs its answer
// if that is a chat completion, streamed or not.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.replicas != nil && h.replicas.IsAsked(r) {
		h.replicas.Serve(w, r)
		return nil
	}
	telemetry.OfferPlaceholders(r)
	*r = *r.WithContext(behalf.Begin(r, next.ServeHTTP)) // in place: handlers in front may refer to r
	if h.ask != nil {
		*r = *r.WithContext(h.ask.Begin(r)) // likewise
	}
	return passedError(h.queue.Serve(w, r, func(w http.ResponseWriter, up *http.Request) error {
		*up = *up.WithContext(behalf.Apart(up.Context())) // next may be called again
		return next.ServeHTTP(w, up)
	}))
}

// timeoutsFor returns ctx with a writer in place of the server's idle timeout writer, which has no
// lock and may be sending a keepalive. If Caddy's timeouts handler follows this one, it
// overrides the settings of that writer. apply applies them to the server's writer, and is nil if
// the server has none.
func timeoutsFor(ctx context.Context) (_ context.Context, apply func() (restore func())) {
	reader, server := caddyhttp.IdleTimeoutsFromContext(ctx)
	if server == nil {
		return ctx, nil
	}
	inner := new(caddyhttp.IdleTimeoutWriter) // writes nothing
	return caddyhttp.ContextWithIdleTimeouts(ctx, reader, inner), func() (restore func()) {
		if d := &inner.Deadline; d.Timeout > 0 {
			return server.Override(d.Timeout, d.MinRate, inner.MaxChunk)
		}
		return nil
	}
}

// errorStatus returns the HTTP status of an error of the next handler, 0 when
// it names none.
func errorStatus(err error) int {
	e, _ := errors.AsType[caddyhttp.HandlerError](err)
	return e.StatusCode
}

// passedError returns err as Caddy logs it and its error routes get it: with its status if it is a
// proxy.RequestError, and with its text cut (package bounded). errors.Is and errors.As find in the
// result what they find in err.
func passedError(err error) error {
	if e, ok := errors.AsType[*proxy.RequestError](err); ok {
		return caddyhttp.Error(e.Status, e)
	}
	he, _ := errors.AsType[caddyhttp.HandlerError](err)
	if he.Err == nil || !bounded.Long(err) {
		return bounded.Error(err)
	}
	// Caddy logs the text of the error in the first HandlerError, however deep err wraps that
	// (caddy logging.go:234).
	he.Err = bounded.WithText(he.Err.Error(), err)
	return he
}

// Interfaces that Caddy looks for.
var (
	_ caddy.Provisioner = (*Handler)(nil)
	_ caddy.Validator   = (*Handler)(nil)
)
