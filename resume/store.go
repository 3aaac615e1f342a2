package resume

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Store keeps logs. A [Memory] keeps them in this process; with a store that replicas
// share, each of them continues, repeats or cancels what another one runs. A Store is safe
// for concurrent use.
type Store interface {
	// Secret returns the key of the hashes in entries, which is the same for all that share
	// the store.
	Secret() []byte
	// Claim makes a log for e and returns its writer. If there is a log with e.Key already,
	// and that is not zero, Claim returns that log and no writer: of any number of claims
	// of a key, one gets a writer. The error is ErrTaken if that log cannot be had now; any
	// other error means that there is none. Until the log has ended, the store calls run.
	Claim(ctx context.Context, e Entry, run Run) (Log, Writer, error)
	// Find returns the log with the id, or nil if there is none.
	Find(ctx context.Context, id string) (Log, error)
}

// A Log is an answer that a Store keeps, as its readers see it.
type Log interface {
	// Entry returns what the log was claimed with.
	Entry() Entry
	// Read returns a reader of the events after the number n, which counts as one until it
	// is closed. It stops waiting when ctx is done.
	Read(ctx context.Context, n uint64) Reader
	// Delete deletes the log, frees its key and cancels its run, wherever that is. Readers
	// still get what is written to it. It returns ErrDropped if there was no log any more.
	Delete(ctx context.Context) error
}

// A Writer writes a log, for one run: first Begin, then any number of Appends, and End.
type Writer interface {
	// Begin says that the answer is an event stream with the fields of header.
	Begin(header http.Header) error
	// Append appends p. Each of ends is the index in p after an event. Append keeps neither.
	// Before older events are deleted, it waits for readers that have not read them: as
	// long as they go on reading or there is only one reader, and until ctx is done.
	Append(ctx context.Context, p []byte, ends []int) error
	// Each calls f with the rest of the log, piece by piece. f must not keep them.
	Each(f func(p []byte)) error
	// End ends the log as Whole, Broken or, without a Begin, as Dropped. The store keeps it
	// for Entry.Keep, unless it is Dropped.
	End(how State)
}

// A Reader reads a log and waits for more. It must be used by one goroutine at a time.
type Reader interface {
	// Start waits until the log begins. It returns the fields of the answer, which the
	// caller must not change, and whether the log is whole and there is nothing to read.
	// The error is ErrDropped, a *GoneError, or ErrAhead.
	Start() (header http.Header, atEnd bool, err error)
	// Next waits for more and returns it, valid until the next call. The caller must not
	// change it. The error is io.EOF at the end of a log that is whole, ErrBroken at the
	// end of another, and a *GoneError if what comes next has been deleted.
	Next() ([]byte, error)
	// Close ends the reading.
	Close()
}

// A Run asks upstream for the answer that a log keeps. Stores call its methods in order, and
// may hold locks: the methods return at once and call no store.
type Run interface {
	// ReadersChanged says that the log has n readers, wherever they are.
	ReadersChanged(n int)
	// Cancel cancels upstream's request. The run then ends the log.
	Cancel(why Reason)
}

// A State is how far a log is.
type State uint8

// The states of a log.
const (
	Claimed State = iota // the answer has not begun
	Begun                // it is an event stream
	Whole                // a stream that has come to its end
	Broken               // a stream that has broken off
	Dropped              // it is no event stream
)

// A Digest is a hash.
type Digest [sha256.Size]byte

// An Entry says what a log is of, and what bounds it.
type Entry struct {
	// ID is the log's, as newID makes it.
	ID string
	// Owner is a keyed hash of the resource and of the credentials of the request: clients
	// with the same may have the log.
	Owner Digest
	// Key is a keyed hash of Owner and of the idempotency key, zero for none.
	Key Digest
	// Body is a hash of the body of a request that has a key.
	Body Digest
	// Path is the path of the request, and Progress the value of its ProgressHeader.
	// Abandon needs them.
	Path, Progress string
	// Keep is how long the log is kept after its end.
	Keep time.Duration
	// MaxStream is the size in bytes above which the oldest events of the log are deleted.
	// It does not count the largest event, if that is larger than half of it.
	MaxStream int64
	// MaxMemory is the size in bytes that all logs in memory may take when this one grows.
	MaxMemory int64
}

// Errors of stores and readers.
var (
	// ErrDropped means that there is no log, because the answer is no event stream.
	ErrDropped = errors.New("the answer is no event stream")
	// ErrBroken means that the stream broke off.
	ErrBroken = errors.New("the stream broke off")
	// ErrTaken means that a key has a log, which cannot be had now.
	ErrTaken = errors.New("the key is in use, and its stream cannot be reached")
	// ErrAhead means that there is no such event yet.
	ErrAhead = errors.New("there is no such event yet")
)

// A GoneError means that events were deleted because the log grew too large.
type GoneError struct {
	// First is the number of the first event that is there, or will be.
	First uint64
}

// Error implements error.
func (e *GoneError) Error() string {
	return fmt.Sprintf("the events before the number %d are no longer kept", e.First)
}

// A Reason says why a run is cancelled.
type Reason uint8

// Why runs are cancelled.
const (
	ReasonNone     Reason = iota // it is not cancelled
	ReasonLeft                   // its last client left, and it may not go on without one
	ReasonExpired                // no client came back in time
	ReasonMemory                 // there was no room for it, and it had no client
	ReasonDeleted                // a client deleted it
	ReasonShutdown               // the process ends

	reasons // how many there are
)

// String returns the word for r in logs and metrics.
func (r Reason) String() string {
	return [...]string{"none", "left", "expired", "memory", "deleted", "shutdown"}[r]
}
