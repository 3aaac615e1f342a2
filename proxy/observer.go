package proxy

import (
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Observer is told what becomes of the streams of a Proxy while they run, for
// metrics, traces and the like. It is called from several goroutines.
type Observer interface {
	// Begin is called when an answer has turned out to be a stream whose end
	// is seen to, and right before End for what is told at its end alone: a
	// stream that is compressed, and an error in the stead of a stream. The
	// request is the client's; it came at the time since. kind says what the
	// stream is.
	Begin(r *http.Request, since time.Time, kind Kind) StreamObserver
}

// Kind is what a stream is one of.
type Kind string

const (
	// KindChat is a stream of chat completions.
	KindChat Kind = "chat"
	// KindOther is a stream of another kind that the engine knows: of a
	// response or of a run.
	KindOther Kind = "other"
)

// Summarizer says what can be said of a stream so far.
type Summarizer interface {
	// Summary costs enough not to be called for each chunk.
	Summary() rewrite.Summary
}

// StreamObserver is told what becomes of one stream. Its methods are called one
// at a time, while the stream waits: they must not block, nor use the stream.
type StreamObserver interface {
	// Read is called when bytes of the stream have come at the time now, with
	// which as many chunks are complete, or events of a stream of another kind.
	// s must not be kept.
	Read(now time.Time, chunks int, s Summarizer)
	// Tool is called when a tool starts or ends.
	Tool(now time.Time, e rewrite.ToolEvent)
	// End is called at the end, once.
	End(Result)
}

// observe begins to tell of the stream, once it is one to be told of.
func (rw *responseWriter) observe() {
	if rw.seen != nil || rw.p.o.Observer == nil || !rw.guarded() {
		return
	}
	kind := KindOther
	if rw.engine.Active() {
		kind = KindChat
	}
	rw.seen = rw.p.o.Observer.Begin(rw.r, rw.since, kind)
}

// observeEnd tells of the end of the stream. One that has not begun for the
// observer is an error in the stead of one, or compressed: it begins now.
func (rw *responseWriter) observeEnd(res Result) {
	if rw.seen == nil && rw.p.o.Observer != nil && !res.Whole {
		rw.seen = rw.p.o.Observer.Begin(rw.r, rw.since, KindChat)
	}
	if rw.seen != nil {
		rw.seen.End(res)
	}
}

// readCame tells of bytes.
func (rw *responseWriter) readCame(now time.Time) {
	rw.observe()
	if rw.seen != nil {
		rw.seen.Read(now, rw.engine.Chunks(), rw.engine)
	}
}

// onTool returns what tells of tools, nil when there is nobody to tell.
func (rw *responseWriter) onTool() func(rewrite.ToolEvent) {
	if rw.p.o.Observer == nil {
		return nil
	}
	return func(e rewrite.ToolEvent) {
		rw.observe() // a tool may come in the read with which the stream becomes ours
		if rw.seen != nil {
			rw.seen.Tool(rw.since.Add(rw.age()), e)
		}
	}
}
