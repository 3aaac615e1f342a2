package resume

import (
	"crypto/rand"
	"crypto/sha256"
	stdlog "log"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// Headers of requests and answers.
const (
	// KeyHeader is the key of a request that may be sent again
	// (draft-ietf-httpapi-idempotency-key-header).
	KeyHeader = "Idempotency-Key"
	// DetachHeader is how long upstream's request may go on without a client, at most
	// Options.Detach.
	DetachHeader = "X-Hermes-Detach"
	// StreamHeader is the id of the stream, in its answer.
	StreamHeader = "X-Hermes-Stream"
	// ReplayedHeader is `true` in an answer to a key that was used before.
	ReplayedHeader = "Idempotency-Replayed"
	// LastEventHeader is the last event that a client has received, as EventSource and
	// fetch-event-source send it.
	LastEventHeader = "Last-Event-Id"
)

// Options configure which answers can be resumed, and for how long. Start from DefaultOptions: Key is
// the only function that may be nil; Store, Secret and Runs must be set.
type Options struct {
	// Detach is how long upstream's request goes on without a client. A request may ask
	// for less (DetachHeader).
	Detach time.Duration
	// Keep is how long a log is kept after its end.
	Keep time.Duration
	// Always treats every POST of JSON as if it asked for a log, for Detach and without a key.
	Always bool
	// AlwaysFor does the same for the POSTs of some APIs, each with its own time in place of Detach,
	// which it cannot exceed. The time 0 excludes an API from Always. The default is none.
	AlwaysFor map[API]time.Duration
	// Key returns the values that make up the key of r, a POST of JSON without a key of its own,
	// nil for no key. If Key is nil, the default, such a POST has no key. When a client has been
	// sent the whole answer, its log is deleted, and the key is free.
	Key func(r *http.Request) []string
	// KeyBody makes the body a part of such a key, so that another body makes another request, not
	// an error.
	KeyBody bool
	// MaxRequest returns the size in bytes above which a request passes untouched, and its answer
	// is not kept. It is called for each request that is read.
	MaxRequest func() int64
	// MaxStream is the size in bytes above which the oldest events of a log are deleted. It
	// does not count the largest event, if that is larger than half of it.
	MaxStream int64
	// MaxMemory is the size in bytes that the logs in memory may take together.
	MaxMemory int64
	// MaxDetached is how many runs of the process may go on without a client. One more ends with its
	// client. As many again may after a split, until a client asks for the rest. One more is not
	// split.
	MaxDetached int

	// Store keeps the logs. The default is a log.Memory of its own.
	Store log.Store
	// Secret is the key of the hashes in entries, the same for all that share the Store.
	Secret []byte
	// Runs is the set that runs belong to. The default is one of its own.
	Runs *Runs
	// Answered is called when the answer to r, from a log, is over for its client, also because the
	// client has left. It is called in the goroutine of r.
	Answered func(r *http.Request, how How)
	// Ended is called when the run for the request r is over. Nothing else uses r any more. The
	// default only logs panics.
	Ended func(r *http.Request, e Ended)
	// Target returns the server that received r, and the path that its client requested, which
	// handlers in front may have rewritten. Requests with another server or path get other logs. By
	// default the server is always the same, and the path is that of r.
	Target func(r *http.Request) (server, path string)
	// Detached returns a form of r, the request of a run, that shares nothing with the request of
	// its first client. The answer goes to w. By default own is r, which is a clone. When the next
	// handler has returned, returned is called in the goroutine of the first client, if that is
	// still there. It may copy to the client's request what handlers have set in own.
	Detached func(r *http.Request, w http.ResponseWriter) (own *http.Request, returned func())
}

// Defaults of Options.
const (
	DefaultDetach    = 10 * time.Minute
	DefaultKeep      = 5 * time.Minute
	DefaultMaxStream = 16 << 20 // in bytes; an event of Hermes with a picture has 7 MB
	DefaultMaxMemory = 64 << 20 // in bytes

	// DefaultMaxDetached leaves room for clients that are there: Hermes admits ten runs, and works
	// at the same time on as many as its machine has cores, plus four.
	DefaultMaxDetached = 4
)

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	return Options{
		Detach: DefaultDetach, Keep: DefaultKeep,
		MaxStream: DefaultMaxStream, MaxMemory: DefaultMaxMemory, MaxDetached: DefaultMaxDetached,
		MaxRequest: func() int64 { return proxy.DefaultMaxRequest },
		Store:      log.NewMemory(), Secret: NewSecret(), Runs: new(Runs),
		Answered: func(*http.Request, How) {}, Ended: logPanic,
		Target: func(r *http.Request) (server, path string) { return "", r.URL.Path },
		Detached: func(r *http.Request, _ http.ResponseWriter) (*http.Request, func()) {
			return r, func() {}
		},
	}
}

// Ended describes a run that is over.
type Ended struct {
	// Stream says that its answer was an event stream.
	Stream bool
	// Reason says why it was cancelled, ReasonNone if it was not.
	Reason log.Reason
	// Events is the number of its events.
	Events uint64
	// Detach is how long it might have gone on without a client. Detached is how long it did at the
	// end, 0 if it has a client.
	Detach, Detached time.Duration
	// Err is what the next handler returned.
	Err error
	// Panicked is what it panicked with, and the stack, if there was no client in whose goroutine
	// the panic could go on. It is nil for http.ErrAbortHandler.
	Panicked error
}

// logPanic logs a panic, as net/http does.
func logPanic(r *http.Request, e Ended) {
	if e.Panicked == nil {
		return
	}
	logf := stdlog.Printf
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ErrorLog != nil {
		logf = s.ErrorLog.Printf
	}
	logf("http: panic serving %v: %v", r.RemoteAddr, e.Panicked)
}

// An API is one of Hermes' ways to begin a stream.
type API string

// The APIs that Options.AlwaysFor may name.
const (
	APIChat      API = "chat"      // POST /v1/chat/completions
	APIResponses API = "responses" // POST /v1/responses
	APISessions  API = "sessions"  // POST /api/sessions/{id}/chat/stream
	APIRuns      API = "runs"      // POST /v1/runs
)

// APIs returns all APIs.
func APIs() []API { return []API{APIChat, APIResponses, APISessions, APIRuns} }

// NewSecret returns a random value of Options.Secret.
func NewSecret() []byte {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// A Next is the handler that Serve calls for answers. It may return an error.
type Next func(http.ResponseWriter, *http.Request) error
