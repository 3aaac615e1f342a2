// Package contract is the vocabulary of the engine: the types and words of the wire
// contract that every package below rewrite may know. It decides nothing about a stream.
// Package rewrite has the same types for its callers, and documents them.
package contract

// Bounds that streams of every kind keep to (contract section 7).
const (
	// MaxOpenTools is the number of tools of a stream that may be open at once. One more
	// completes the one that has been open longest, so that each running keeps its one
	// completed and no frame is lost.
	MaxOpenTools = 256
	// MaxOpenBytes is the number of bytes that the events may take that complete the open
	// tools. It is bounded because one delta may complete all of them.
	MaxOpenBytes = 128 << 10
	// MaxMessage is the length in bytes up to which the message of an error is kept.
	MaxMessage = 4 << 10
)

// MaxIdleItems is the number of items up to which a list is kept from one frame for the
// next.
const MaxIdleItems = 256
