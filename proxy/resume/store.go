package resume

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Store keeps logs. NewMemory returns one in this process; one that replicas share
// lets each of them continue, repeat or cancel what another one runs. It is safe for
// concurrent use.
type Store interface {
	// Secret returns the key of the hashes in entries. It is the same for all that share
	// the store, and for as long as there are logs.
	Secret() []byte
	// Claim makes the log of an answer that upstream is about to be asked for, and
	// returns true. If there is a log with the Key of e, and that is not zero, it returns
	// that log and false: of any number of claims of a key, one is first. If that log cannot
	// be had now, the error is ErrTaken. With any other, there is none. The store tells
	// run what others want of it, until the log has ended.
	Claim(ctx context.Context, e Entry, run Run) (_ Log, first bool, _ error)
	// Find returns the log with the id, nil if there is none, and an error if that cannot be
	// told.
	Find(ctx context.Context, id string) (Log, error)
}

// A Digest is a hash.
type Digest [sha256.Size]byte

// An Entry says what a log is of, and what bounds it.
type Entry struct {
	// ID is the log's, as newID makes it.
	ID string
	// Owner is a keyed hash of the resource and of the credentials of the request: those
	// who have them may have the log.
	Owner Digest
	// Key is a keyed hash of Owner and of the idempotency key, zero for none.
	Key Digest
	// Body is a hash of the body of a request that has a key.
	Body Digest
	// Path is the path of the request, and Progress the value of its ProgressHeader:
	// Abandon needs them.
	Path, Progress string
	// Keep is how long the log is kept after its end.
	Keep time.Duration
	// MaxStream is the size in bytes from which on its oldest events go. It does not count
	// the largest event, if that is larger than half of it.
	MaxStream int64
	// MaxMemory is the size in bytes that all logs in memory may take, when this one
	// grows.
	MaxMemory int64
}

// A Run asks upstream for the answer that a log keeps. Its methods return at once, and
// may be called at any time, but with no lock held that methods of Log take.
type Run interface {
	// ReadersChanged tells that there is one reader more, or one less.
	ReadersChanged()
	// Cancel cancels upstream's request. The run ends the log then.
	Cancel(why Reason)
}

// A Log keeps an answer. Its run writes it: first Begin or Drop; behind Begin any number
// of Appends, and End. Anyone reads it.
type Log interface {
	// Entry returns what the log was claimed with.
	Entry() Entry

	// Begin says that the answer is an event stream with the fields of header.
	Begin(header http.Header) error
	// MakeRoom waits until what readers have not read stays when bytes are appended, and
	// returns how many may be. It waits for readers as long as they go on reading; if they
	// stop, as long as alone says that there are no others; and until ctx is done.
	MakeRoom(ctx context.Context, alone func() bool) (bytes int)
	// Append appends p, in which as many events end as there are ends. Each is the index
	// in p behind the event. It keeps neither.
	Append(p []byte, ends []int) error
	// End ends the log. If it is not whole, readers are cut off behind its last byte. The
	// store keeps it for Keep.
	End(whole bool)
	// Drop says that the answer is no event stream. The log goes, and its key is free.
	Drop()
	// Readers returns how many readers there are, wherever they are.
	Readers() int
	// Events returns how many events have ended, those that have gone included.
	Events() uint64
	// Each calls f with what is left of the log, piece by piece. f must not keep them.
	Each(f func(p []byte)) error

	// Cancel has the run cancelled, wherever it is. The log goes, and its key is free. It
	// returns ErrDropped if it has gone before.
	// Readers get what is still written to it.
	Cancel(ctx context.Context) error
	// Follow returns a reader at the beginning of the log. It gives up waiting when ctx
	// is done. It must be closed.
	Follow(ctx context.Context) (Reader, error)
}

// A Reader reads a log and waits for what comes. No two goroutines may use it at once.
type Reader interface {
	// Header waits for Begin and returns the fields, which the caller must not change, or
	// ErrDropped.
	Header() (http.Header, error)
	// Seek goes behind the event with the number n, 0 for the beginning: a *GoneError if
	// what is there has gone, ErrAhead if there is no such event yet.
	Seek(n uint64) error
	// Next waits for more and returns it: io.EOF behind the end of a log that is whole,
	// ErrBroken behind that of another, and a *GoneError if it has gone. The caller must
	// not change what it is given, which is valid until the next call.
	Next() ([]byte, error)
	// CaughtUp reports whether the reader has all that has come of a log that goes on. If
	// that cannot be told, it has not.
	CaughtUp() bool
	// SkipToEnd goes behind all that has come: the caller has got it elsewhere.
	SkipToEnd()
	// AtEnd reports whether the log is whole and has nothing behind where the reader is.
	AtEnd() bool
	// Close says that the reader is one no longer.
	Close()
}

// What a Store and a Reader may say.
var (
	// ErrDropped says that there is no log, because the answer is no event stream.
	ErrDropped = errors.New("the answer is no event stream")
	// ErrBroken says that the stream broke off.
	ErrBroken = errors.New("the stream broke off")
	// ErrTaken says that a key has a log, which cannot be had now.
	ErrTaken = errors.New("the key is in use, and its stream cannot be reached")
	// ErrAhead says that there is no such event yet.
	ErrAhead = errors.New("there is no such event yet")
)

// A GoneError says that events have gone, because the log grew too large.
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
	// ReasonNone means that it is not.
	ReasonNone Reason = iota
	// ReasonLeft means that its last client left, and it may not go on without one.
	ReasonLeft
	// ReasonExpired means that nobody has come back in time.
	ReasonExpired
	// ReasonMemory means that there was no room for it, while nobody listened.
	ReasonMemory
	// ReasonDeleted means that somebody asked for it.
	ReasonDeleted
	// ReasonShutdown means that the process ends.
	ReasonShutdown

	reasons // how many there are
)

// String returns the word for r in logs and metrics.
func (r Reason) String() string {
	return [...]string{"none", "left", "expired", "memory", "deleted", "shutdown"}[r]
}
