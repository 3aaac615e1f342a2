package resume

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"
)

// A Store keeps logs, each of which is the answer to one request. A [Memory] keeps them in this
// process. With a store that replicas share, each replica can continue, repeat and cancel the
// streams of the others. A Store is safe for concurrent use.
type Store interface {
	// Claim makes a log for e and returns its writer. If e.Key is not zero and a log has it
	// already, Claim returns the entry of that log and no writer: of any number of claims of a key,
	// one gets a writer. If e.Takes is set, or KeyKeep has passed since the end of that log, the
	// new log gets the key instead. The error is ErrTaken if the log with the key cannot be reached
	// now, and ErrUnsure if there may be such a log and the request must not run without knowing;
	// any other error means that there is none. Until the log has ended, the store calls the
	// functions of run.
	Claim(ctx context.Context, e Entry, run Run) (Entry, Writer, error)
	// Find returns the entry of the log with the id. The error is ErrDropped if there is none.
	Find(ctx context.Context, id string) (Entry, error)
	// Read returns a reader of the events after number n. It counts as a reader of the log until it
	// is closed. When ctx is done, it no longer waits, and returns only the parts that are there.
	Read(ctx context.Context, id string, n uint64) Reader
	// Delete deletes the log with the id, frees its key and cancels its run, in any replica.
	// Readers still get the events that are written to it, and its run may still read it. It
	// returns ErrDropped if there is no such log.
	Delete(ctx context.Context, id string) error
}

// A Writer writes a log, for one run: any number of Appends, and End.
type Writer interface {
	// Append appends p, and keeps neither its data nor its ends. The log begins with the first
	// part, which alone has a header. Before older events are deleted, Append waits for readers
	// that have not read them, as long as they go on reading or there is only one, and until ctx is
	// done.
	Append(ctx context.Context, p Part) error
	// End ends the log as Whole, Broken or, if it has not begun, as Dropped. The store keeps the
	// log for Entry.Keep, unless it is Dropped.
	End(how State)
}

// A Reader reads a log and waits for more. It must be used by one goroutine at a time.
type Reader interface {
	// Next waits for the next part and returns it, valid until the next call. The caller must not
	// change it. The first part has the header of the answer and no data; io.EOF comes with it if
	// the log is whole and there is nothing to read. If there is no first part, the error is
	// ErrDropped, ErrAhead, or a *GoneError with the status of the answer in the part. Later errors
	// are io.EOF at the end of a log that is whole, ErrBroken at the end of another, and a
	// *GoneError if the next events were deleted.
	Next() (Part, error)
	// Close closes the reader.
	Close()
}

// A Part is a part of a log.
type Part struct {
	Header http.Header // of the answer; nil in all parts but the first
	Status int         // of an answer that is no event stream, with its header
	Data   []byte
	Ends   []int // the indexes in Data after events; readers do not set it
}

// Pieces returns an iterator over the data in pieces of at most the given size, and whether an
// event ends after each. No event ends within a piece.
func (p Part) Pieces(most int) iter.Seq2[[]byte, bool] {
	return func(yield func(b []byte, ends bool) bool) {
		from := 0
		for i := range len(p.Ends) + 1 {
			to, ends := len(p.Data), i < len(p.Ends)
			if ends {
				to = p.Ends[i]
			}
			for ; to-from > most; from += most {
				if !yield(p.Data[from:from+most], false) {
					return
				}
			}
			if (ends || from < to) && !yield(p.Data[from:to], ends) {
				return
			}
			from = to
		}
	}
}

// A Run asks upstream for the answer that a log keeps. Stores call its functions in order,
// and may hold locks: the functions return at once and call no store.
type Run struct {
	// ReadersChanged says that the log has n readers, in all replicas.
	ReadersChanged func(n int)
	// Cancel cancels upstream's request. The run then ends the log.
	Cancel func(why Reason)
}

// A State says how far a log is.
type State uint8

// The states of a log.
const (
	Claimed State = iota // the answer has not begun
	Begun                // the answer is of a kind that is kept, such as an event stream
	Whole                // the answer has come to its end
	Broken               // the answer has broken off
	Dropped              // the answer is not kept
)

// A Digest is a hash.
type Digest [sha256.Size]byte

// NewSecret returns a random value of Options.Secret.
func NewSecret() []byte {
	secret := make([]byte, len(Digest{}))
	_, _ = rand.Read(secret) // never fails
	return secret
}

// An Entry describes a log and its bounds.
type Entry struct {
	// ID is the id of the log, as NewID makes it. With a Key, the Place of ID is the KeyPlace.
	ID string
	// Owner is a keyed hash of the resource and of the credentials of the request: clients with the
	// same hash may have the log.
	Owner Digest
	// Key is a keyed hash of Owner and of the idempotency key, zero for none.
	Key Digest
	// Body is a hash of the body of a request that has a key.
	Body Digest
	// Path is the path of the request, and Progress the value of its ProgressHeader.
	// Finish needs them.
	Path, Progress string
	// Plain says that the log has the events of a run of Hermes', whose ids are plain numbers.
	Plain bool `json:",omitzero"`
	// Takes says that the log gets the key even if another log has it. That log stays.
	Takes bool
	// KeyKeep is how long after the end of the log the key leads to it, if that is less than Keep;
	// 0 means Keep.
	KeyKeep time.Duration
	// Frees says that the Key is of Options.Key, and free when a client has been sent all.
	Frees bool `json:",omitzero"`
	// Keep, MaxStream and MaxMemory are those of the Options.
	Keep                 time.Duration
	MaxStream, MaxMemory int64
	// Of is the ID of the log that this one is another name of, "" if it is a log of its own.
	// Another name has an answer without a header and events. Cancelled is the response with that
	// name, JSON, that answers a request to cancel it.
	Of, Cancelled string
}

// Errors of stores and readers.
var (
	// ErrDropped means that there is no log, or none any more: the answer is no event stream,
	// or the log was deleted.
	ErrDropped = errors.New("the answer is no event stream")
	// ErrBroken means that the stream broke off.
	ErrBroken = errors.New("the stream broke off")
	// ErrTaken means that a key has a log that cannot be reached now.
	ErrTaken = errors.New("the key is in use, and its stream cannot be reached")
	// ErrUnsure means that it is not known whether a key has a log.
	ErrUnsure = errors.New("it is not known whether the key is in use")
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
