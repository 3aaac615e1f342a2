package log

import (
	"context"
	"encoding/json"
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
	// change it. The first part has the header of the answer and no data, and io.EOF if
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

// A Finish returns the part that completes the log with the entry e, whose run was cancelled or is
// gone, and the state in which the log ends. last is the number of its last event. rest yields its
// bytes; after an error it yields no more.
type Finish func(e Entry, last uint64, why Reason, rest iter.Seq2[[]byte, error]) (p Part, how State, err error)

// A State says how far a log is.
type State uint8

// The states of a log.
const (
	Claimed State = iota // the answer has not begun
	Begun                // the answer is of a kind that is kept, such as an event stream
	Whole                // the answer has ended
	Broken               // the answer has broken off
	Dropped              // the answer is not kept
)

// An Entry describes a log and its bounds.
type Entry struct {
	// ID is the id of the log, as NewID makes it. With a Key, the Place of ID is the KeyPlace.
	ID string
	// Key is the hash that leads to the log, zero for none.
	Key Digest
	// Takes says that the log gets the key even if another log has it. That log stays.
	Takes bool `json:"-"`
	// Keep is how long the log is kept after its end, and KeyKeep how long the key leads to it, if
	// that is less; 0 means Keep.
	Keep, KeyKeep time.Duration
	// MaxStream is the size in bytes above which the oldest events are deleted, except that one
	// event may be larger than half of it. MaxMemory is what all logs in memory may take.
	MaxStream, MaxMemory int64
	// Weak says that the answer can be had again from the one who gave it: the log goes before
	// others if memory lacks, and is dropped if its run is gone.
	Weak bool `json:",omitzero"`
	// Once says that nobody wants an answer again that breaks off: if the run is gone, the log is
	// deleted, and its key is free.
	Once bool `json:",omitzero"`
	// Empty says that the log never has events: only the entry matters.
	Empty bool `json:",omitzero"`
	// About is what the one who claims the log knows about it, JSON. Stores return it as it is.
	About json.RawMessage `json:",omitempty"`
}

// Errors of stores and readers.
var (
	// ErrDropped means that there is no log, or none any more: the answer is no event stream,
	// or the log was deleted.
	ErrDropped = errors.New("the answer is not an event stream")
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
)

// Reasons is how many values a Reason has.
const Reasons = int(ReasonShutdown) + 1

// String returns the word for r in logs and metrics.
func (r Reason) String() string {
	return [...]string{"none", "left", "expired", "memory", "deleted", "shutdown"}[r]
}
