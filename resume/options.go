package resume

import (
	"log"
	"net/http"
	"time"
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
	// lastEventHeader is the last event that a client has received, as EventSource and
	// fetch-event-source send it.
	lastEventHeader = "Last-Event-Id"
)

// Options say which answers may be resumed, and for how long. In the zero value no
// stream goes on without a client, and no log is kept; DefaultOptions has the defaults.
type Options struct {
	// Detach is how long upstream's request goes on without a client. A request may ask
	// for less (DetachHeader).
	Detach time.Duration
	// Keep is how long a log is kept after its end.
	Keep time.Duration
	// Always has every POST of JSON treated as one that asks, for Detach and without a
	// key.
	Always bool
	// MaxRequest returns the size in bytes above which a request passes untouched, and its
	// answer is not kept. It is asked with each request that is read. Nil means
	// proxy.DefaultMaxRequest.
	MaxRequest func() int64
	// MaxStream is the size in bytes above which the oldest events of a log are deleted. It
	// does not count the largest event, if that is larger than half of it. Zero means
	// DefaultMaxStream.
	MaxStream int64
	// MaxMemory is the size in bytes that the logs in memory may take together. Zero means
	// DefaultMaxMemory.
	MaxMemory int64
	// MaxDetached is how many runs of the process may go on without a client. One more
	// ends with its client.
	MaxDetached int

	// Store keeps the logs. Nil means a Memory of its own.
	Store Store
	// Secret is the key of the hashes in entries, the same for all that share the Store. Nil
	// means one of its own.
	Secret []byte
	// Runs is the set that runs belong to. Nil means one of its own.
	Runs *Runs
	// Observer is told of answers and runs. Nil means that only panics are logged.
	Observer Observer
	// Asked returns the server that a request has come to, and the path that its client
	// asked for, which handlers in front may have rewritten. Logs of others are not this
	// request's. Nil means that the one is always the same, and the other r's own.
	Asked func(r *http.Request) (server, path string)
	// Detached returns r, the request of a run, with w for its answer, in a form that
	// shares nothing with the request of its first client. Nil means that r shares
	// nothing as it is: it is a clone. The function returned is called in the goroutine of the
	// first client, if that is still there, when the next handler has returned. It may copy
	// to the client's request what handlers have set in the run's.
	Detached func(r *http.Request, w http.ResponseWriter) (own *http.Request, returned func())
}

// Defaults of Options.
const (
	DefaultDetach    = 10 * time.Minute
	DefaultKeep      = 5 * time.Minute
	DefaultMaxStream = 16 << 20 // in bytes; an event with a picture of Hermes' has 7 MB
	DefaultMaxMemory = 64 << 20 // in bytes

	// DefaultMaxDetached leaves room for clients that are there: Hermes admits ten runs, and
	// works at the same time on as many as its machine has cores, and four.
	DefaultMaxDetached = 4
)

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	return Options{
		Detach: DefaultDetach, Keep: DefaultKeep,
		MaxStream: DefaultMaxStream, MaxMemory: DefaultMaxMemory, MaxDetached: DefaultMaxDetached,
	}
}

// An Observer is told of what becomes of answers that may be resumed. It is used by many
// requests at once.
type Observer interface {
	// Answered tells that the answer to r, from a log, is over for its client. It is
	// called in the goroutine of r.
	Answered(r *http.Request, a Answered)
	// Ended tells that a run is over, whose request was r. It is used by nothing else any
	// more.
	Ended(r *http.Request, e Ended)
}

// Answered is what a client was given of a log.
type Answered struct {
	// Replayed says that the client had sent a request with this key before, or another
	// client had, or that it asked for the stream from its beginning.
	Replayed bool
	// Continued says that it asked for what comes after an event.
	Continued bool
	// Bytes is how many it was sent.
	Bytes int64
	// Err is nil if it has got all of it. Otherwise it has left or, with a *GoneError,
	// was too slow, or upstream broke off.
	Err error
}

// Ended is what became of a run.
type Ended struct {
	// Stream says that its answer was an event stream.
	Stream bool
	// Reason says why it was cancelled, ReasonNone if it was not.
	Reason Reason
	// Events is how many there were.
	Events uint64
	// Detached is how long it last went on without a client, 0 if it has one.
	Detached time.Duration
	// Err is what the next handler returned.
	Err error
	// Panicked is what it panicked with, and the stack, if there was no client whose
	// request could go on with that. It is nil for http.ErrAbortHandler.
	Panicked error
}

// unobserved is the Observer of a Resume without one. It logs panics, as net/http does.
type unobserved struct{}

func (unobserved) Answered(*http.Request, Answered) {}

func (unobserved) Ended(r *http.Request, e Ended) {
	if e.Panicked == nil {
		return
	}
	logf := log.Printf
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ErrorLog != nil {
		logf = s.ErrorLog.Printf
	}
	logf("http: panic serving %v: %v", r.RemoteAddr, e.Panicked)
}
