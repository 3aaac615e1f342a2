package proxy

import (
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Observer observes the requests of a Proxy and their answers, for logs, metrics,
// traces, recordings and the like. It is called from several goroutines. Every request
// that it is given is the client's.
type Observer interface {
	// Request is called before r goes on, if its body was read and markers have been removed from
	// its history, if that has got records, or if it asks for something that Hermes ignores.
	Request(r *http.Request, read rewrite.Healed)
	// Begin is called when an answer to r has turned out to be a stream that is guarded: of chat
	// completions, of a response or of a run.
	//
	// For a request for chat completions it is also called right before End if only the end is
	// observed: of a stream that has passed because it is compressed, an error instead of an
	// answer, a client that has left before there was an answer, and an answer that is not
	// streamed.
	//
	// It must not return nil.
	Begin(r *http.Request, b Begun) AnswerObserver
}

// Begun describes an answer that an Observer begins to observe.
type Begun struct {
	// Since is when the request came.
	Since time.Time
	// Kind is the kind of the answer.
	Kind Kind
	// Upstream is the one that answers, as Options.Upstream names it. It is empty for a
	// stream that begins before upstream has the request (Request.Send).
	Upstream string
	// Status and Header are those of a stream. Header must not be kept.
	Status int
	Header http.Header
	// Raw says that AnswerObserver.Raw will get all bytes of the stream.
	Raw bool
}

// Kind is the kind of an answer.
type Kind string

const (
	// KindChat is a stream of chat completions, or an error instead of one.
	KindChat Kind = "chat"
	// KindOther is a stream of another kind that the engine knows: of a
	// response or of a run.
	KindOther Kind = "other"
	// KindWhole is an answer that is not streamed, or an error instead of one; see Result.Whole.
	KindWhole Kind = "whole"
)

// Summarizer summarizes a stream so far.
type Summarizer interface {
	// Summary is too expensive to be called for each chunk.
	Summary() rewrite.Summary
}

// AnswerObserver observes one answer. Its methods are called one at a
// time, while the answer waits: they must not block, nor use the answer.
type AnswerObserver interface {
	// Raw is called with bytes of the stream, as upstream has sent them, if
	// Options.ObserveRaw is set. b must not be kept.
	Raw(b []byte)
	// Read is called when bytes of the stream were read, at the time now. chunks is the number of
	// chunks that are complete, or of events in a stream of another kind. s must not be kept.
	Read(now time.Time, chunks int, s Summarizer)
	// Tool is called when a tool starts or ends.
	Tool(now time.Time, e rewrite.ToolEvent)
	// End is called once, at the end, with the request that Begin was called with. The client has
	// been sent everything by then, except the end of the body, and no write waits.
	End(r *http.Request, res Result)
}

// The outcomes of a stream that are no error code of package rewrite.
const (
	// OutcomeOK is a stream that ended well.
	OutcomeOK = "ok"
	// OutcomeClientGone is a stream whose client left before its end.
	OutcomeClientGone = "client_gone"
	// OutcomeEncoded is a stream that upstream has compressed although it was asked not to: it has
	// passed unchanged.
	OutcomeEncoded = "passed_encoded"
)

// Result is the result of a stream that has ended, or of the answer instead of one.
type Result struct {
	rewrite.Summary
	// Outcome is OutcomeOK, OutcomeClientGone, or the code of the error that
	// the client was sent.
	Outcome string
	// Upstream is the one that answered, as Options.Upstream names it.
	Upstream string
	// Duration is the time since the request came.
	Duration time.Duration
	// Status is the HTTP status that the client was sent.
	Status int
	// Cause is how upstream ended, CauseEOF for an answer that was no stream.
	Cause rewrite.Cause
	// Whole says that the answer was not streamed, or that the request did not ask for a stream:
	// the answer has been repaired, or an error was sent instead.
	Whole bool
	// Err is the error that the next handler returned, or the value that it panicked with as an
	// error; nil for neither.
	Err error
}
