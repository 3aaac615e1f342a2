// Package resumecaddy is the Caddy module http.handlers.hermes_resume and its directive: package
// resume as a handler of Caddy, its metrics and its lines in logs.
package resumecaddy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/configjson"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

func init() {
	caddy.RegisterModule(new(ResumeHandler))
}

// ResumeHandler keeps an answer for a client whose connection breaks: the agent continues, and
// the client reads on from where it was, or sends its request again without a second run of the
// agent.
//
// Put it in front of `hermes`, or of any other handler that answers with event streams. In a
// Caddyfile:
//
//	:8643 {
//		bind 127.0.0.1
//		hermes_resume
//		hermes
//		reverse_proxy 127.0.0.1:8642
//	}
//
// OpenAI's SDKs need no change: a request that an SDK repeats because its connection failed
// joins the run of the first request, streamed or not. When the client of such a request
// disconnects, its run continues for ten seconds.
//
// The events of a run that `POST /v1/runs` begins are kept for any number of clients: each
// reads all of `GET /v1/runs/{id}/events`, or continues after an event. A stream of
// `/v1/responses` is also found by the id of its response, and continues after a
// `sequence_number`.
//
// Any other POST asks for it with the header `Idempotency-Key`, or with `X-Hermes-Detach` and a
// duration. The options `key` and `always` ask on behalf of clients that send neither. If the
// answer is an event stream, it gets the headers `X-Hermes-Stream` with its id and
// `Content-Location` with its address, and each of its events a line `id: <id>/<number>`.
// Everything else passes unchanged.
//
// A client with the same credentials gets the stream again if it sends the same request with
// the same key. A POST with the header `Last-Event-ID`, or a GET of `<path>/<id>`, continues
// after that event. A DELETE of `<path>/<id>` ends the stream.
//
// Streams are kept in the memory of the process, and a reload of the configuration ends none of
// them. With a storage, replicas share them. Access logs get the field
// `hermes_resumed`. Metrics are exposed as `caddy_hermes_resume_*`.
//
// ### Placeholders
//
// Placeholder | Description
// ------------|-------------
// `{http.hermes.resumed}` | As `hermes_resumed` in access logs: `begun`, `replayed` or `continued`
type ResumeHandler struct {
	// How long the agent continues without a client. A client may ask for less with the
	// header `X-Hermes-Detach`. With 0 a stream ends with its last client. Default: 10m.
	Detach *caddy.Duration `json:"detach,omitempty"`

	// How long a stream is kept after its end. Default: 5m.
	Keep *caddy.Duration `json:"keep,omitempty"`

	// Whether every POST of JSON is treated as if it asked for this. A client that disconnects
	// on purpose, for example with a Stop button, then does not stop the agent. Default: false.
	Always bool `json:"always,omitempty"`

	// The APIs whose POSTs of JSON are treated like this, each with the time for which its agent
	// continues without a client, at most `detach`: `chat`, `responses`, `sessions` and `runs`. It
	// overrides `always`; 0 excludes an API. Default: none.
	AlwaysFor map[string]caddy.Duration `json:"always_for,omitempty"`

	// The key of a POST of JSON that has no `Idempotency-Key`: texts with placeholders, such as
	// `{http.request.header.X-Chat-Id}`. If all placeholders are empty, there is no key. When a
	// client has been sent the whole answer, the key can be used again. Default: none.
	Key []string `json:"key,omitempty"`

	// Whether the body is a part of that key, so that another body makes another request.
	// Otherwise, another body is answered with 422. Default: false.
	KeyBody bool `json:"key_body,omitempty"`

	// The size in bytes above which the oldest events of a stream are deleted, from 65536
	// (64 KiB) to 1073741824 (1 GiB). The largest event does not count if it is larger than
	// half of this size. Default: 16777216 (16 MiB).
	MaxStream int64 `json:"max_stream,omitempty"`

	// The size in bytes of all streams together, from 65536 (64 KiB) to 1073741824 (1 GiB).
	// Above it, the oldest streams that have ended are deleted first; then the oldest without a
	// client end with an error. Default: 67108864 (64 MiB).
	MaxMemory int64 `json:"max_memory,omitempty"`

	// The number of streams that may continue without a client, 1 or more. Any further stream
	// ends with its client. As many again may wait for a reply to an approval. Hermes admits ten
	// runs, and works on as many at once as it has cores, plus four: streams without readers
	// must not occupy all of them. Default: 4.
	MaxDetached int `json:"max_detached,omitempty"`

	// Where streams are kept, instead of in the memory of this process, so that replicas
	// share them. Default: in memory.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=http.handlers.hermes_resume.stores inline_key=module"`

	resume *resume.Resume // nil until Provision
}

// storages is the namespace of the modules that keep streams.
const storages = "http.handlers.hermes_resume.stores"

// Storage is a module that keeps the streams of a ResumeHandler.
type Storage interface {
	// ResumeStore returns the store that keeps the streams, and the value of resume.Options.Secret.
	// It completes a log whose run is gone by finish. The store may keep the streams of this
	// process in local, which all configurations of the process share: max_memory bounds local, and
	// metrics count it. The store must outlive the module for as long as there are streams.
	ResumeStore(local *log.Memory, finish log.Finish) (log.Store, []byte)
}

// loadStorage loads the storage. An error about a value of another type says what to write.
func (h *ResumeHandler) loadStorage(ctx caddy.Context) (Storage, error) {
	var named struct{ Module string }
	_ = json.Unmarshal(h.StorageRaw, &named) // LoadModule finds what is wrong
	if info, err := caddy.GetModule(storages + "." + named.Module); err == nil {
		if err := configjson.Check(h.StorageRaw, info.New()); err != nil {
			return nil, err
		}
	}
	module, err := ctx.LoadModule(h, "StorageRaw")
	if err != nil {
		return nil, err
	}
	return module.(Storage), nil
}

// CaddyModule returns the Caddy module information.
func (*ResumeHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.hermes_resume",
		New: func() caddy.Module { return new(ResumeHandler) },
	}
}

// UnmarshalJSON decodes the options strictly. Its errors say what to write for a value of another
// type.
func (h *ResumeHandler) UnmarshalJSON(b []byte) error {
	type fields ResumeHandler
	return configjson.Unmarshal(b, (*fields)(h))
}

// Provision compiles the options.
func (h *ResumeHandler) Provision(ctx caddy.Context) error {
	logger, process := ctx.Logger(), hermesapp.OfProcess()
	hermesapp.Register(ctx, collector{process})
	o := resume.DefaultOptions()
	o.Store, o.Secret, o.Runs = process.Logs, process.Secret, process.Runs
	o.Answered, o.Ended = answered, func(r *http.Request, e resume.Ended) { logEnd(logger, r, e) }
	o.Target, o.Detached = behalf.Target, behalf.OwnRequest
	app, err := hermesapp.Of(ctx)
	if err != nil {
		return err
	}
	h.configure(&o)
	o.MaxRequest = app.MaxRequest
	if h.Detach != nil {
		o.Detach = time.Duration(*h.Detach)
	}
	if h.Keep != nil {
		o.Keep = time.Duration(*h.Keep)
	}
	o.MaxStream = cmp.Or(h.MaxStream, o.MaxStream)
	o.MaxMemory = cmp.Or(h.MaxMemory, o.MaxMemory)
	o.MaxDetached = cmp.Or(h.MaxDetached, o.MaxDetached)
	if o.MaxStream > o.MaxMemory {
		logger.Warn("max_stream is larger than max_memory, which bounds all streams together; raise max_memory, or lower max_stream",
			zap.Int64("max_stream", o.MaxStream), zap.Int64("max_memory", o.MaxMemory))
	}
	if h.StorageRaw != nil {
		storage, err := h.loadStorage(ctx)
		if err != nil {
			return fmt.Errorf("loading the storage: %w", err)
		}
		o.Store, o.Secret = storage.ResumeStore(process.Logs, resume.Finish)
		o.Target = func(r *http.Request) (server, path string) { // replicas may listen at different ports
			_, path = behalf.Target(r)
			return "", path
		}
	}
	h.resume = resume.New(o)
	return nil
}

// Bounds of the sizes of this handler, in bytes. The lower one has room for a few segments of a log
// and a long event.
const (
	minResumeSize = 64 << 10
	maxResumeSize = 1 << 30
)

// Validate reports an option whose value is not allowed.
func (h *ResumeHandler) Validate() error {
	for name, value := range map[string]*caddy.Duration{"detach": h.Detach, "keep": h.Keep} {
		if value == nil {
			continue
		}
		if err := validDuration(name, time.Duration(*value)); err != nil {
			return err
		}
	}
	if err := h.validateConfigured(); err != nil {
		return err
	}
	for name, n := range map[string]int64{"max_stream": h.MaxStream, "max_memory": h.MaxMemory} {
		if n != 0 && (n < minResumeSize || n > maxResumeSize) {
			return fmt.Errorf("invalid %s %d: must be a size from 64KiB to 1GiB", name, n)
		}
	}
	if h.MaxDetached < 0 {
		return fmt.Errorf("invalid max_detached %d: must be 1 or more; for none, set detach 0s", h.MaxDetached)
	}
	return nil
}

// validDuration reports a duration that is not allowed.
func validDuration(name string, d time.Duration) error {
	switch {
	case d < 0:
		return fmt.Errorf("invalid %s %q: must be a duration such as 10m or 30s, and not negative", name, d)
	case d > 0 && d < time.Millisecond:
		return fmt.Errorf("invalid %s %q: must be at least 1ms; a number in JSON is nanoseconds, so write a string such as \"10m\"", name, d)
	}
	return nil
}

// ServeHTTP answers from the log of a stream if the request asks for that, and
// otherwise by next.
func (h *ResumeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return h.resume.Serve(w, r, next.ServeHTTP)
}
