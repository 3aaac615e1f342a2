// Package chat decides what becomes of each frame of a chat stream: it takes markers and
// reasoning out of the content, correlates the starts and ends of tools, and turns a
// crash into an error finish (wire contract, sections 1 to 4). Package encode writes the
// frames.
//
//	frame.go      every unit of a stream, where it goes, and what leaves without one
//	chunks.go     chunks
//	large.go      frames that are larger than max_frame
//	events.go     what a frame is; upstream's tool events, other named events and errors
//	ending.go     finish chunks, verdicts and error finishes
//	text.go       the content of a chunk: read, held, applied, and frames that differ in nothing else
//	approvals.go  requests for approval, and answers that are split for a reply
//	stream.go     Stream: its state, and what all of these do with it
//	upstream.go   upstream: the server that answers, as far as it is known
//	details.go    what tools were given and what they returned
//	memory.go     the memory of the answer, for the records of later requests
//	own.go        frames of the sidecar's own without a Stream: an answer, a keepalive, a refusal, a status that is over
//	tools.go      tools: which are open, and the transitions that follow; toolWriter writes them
//
// Each file knows those below it.
//
// A frame takes one of two ways. If it differs from the one before in nothing but its
// text, Pass forwards it. Otherwise Frame parses it, and asks the parts of the stream:
// tools and the prose of the message return values, which know nothing of frames. Stream
// hands these values to its encode.Writer, in order.
//
// A Stream takes about 1.3 KiB, and what it remembers: the values of the envelope, a
// template of at most MaxTemplate bytes, open tools, at most MaxToolIDs ids
// of tools, upstream's usage and error, and the held frames.
package chat

import (
	"cmp"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/requests"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one chat stream, frame by frame. What leaves is appended to Out.Bytes,
// which the caller sets. The current frame also belongs to the caller, who hands it to each
// step that needs it.
type Stream struct {
	Out *sse.Writer
	Now time.Time        // the time at which the current bytes came
	Sum contract.Summary // what Summary returns, but for the envelope and the tools

	// Finished says that the finish chunks of all choices have left: nothing may start a tool.
	// Done says that [DONE] has left: nothing leaves but a chunk of usage.
	Finished, Done bool

	// What the stream was given; it does not change.
	o     *contract.Options // but for Tools, which upstream has
	p     *contract.Params
	notes *contract.Notes // nil unless the stream is explained

	w        encode.Writer
	tools    toolWriter
	prose    prose.State // the position of the stream in the text of its message
	answer   answer
	end      ending
	upstream upstream
	template template
	hold     hold
	large    *largeFrame // the large frame under way, or nil

	memory *remembered // nil without Params.Remember

	nextKeepalive time.Time // from when on a comment of upstream's becomes a chunk
}

// maxGrowth is the number of bytes by which what leaves for a frame may exceed three
// times its length, with the ends of the open tools (contract section 7). All that is
// written for a frame beside text and reasoning, such as an error finish, takes the rest
// of the contract's 256 KiB.
const maxGrowth = 236 << 10

// Init makes s the Stream of a response, which writes to out.
func (s *Stream) Init(out *sse.Writer, o *contract.Options, p *contract.Params, notes *contract.Notes) {
	s.Out, s.o, s.p, s.notes = out, o, p, notes
	s.w = encode.NewWriter(out, o, p)
	s.tools = toolWriter{
		tools: tools{size: s.w.EndSize}, w: &s.w, p: p, window: o.ParallelWindow, notes: notes, requests: requests.New(p.Approvals),
	}
	s.upstream = upstream{o: o, memory: cmp.Or[contract.UsageMemory](p.Usage, noMemory{}), auto: o.AutoImitations(), tools: o.Tools}
	if p.Approvals != nil {
		s.upstream.setApprovals(true)
	}
	s.end = ending{notes: notes, sum: &s.Sum, inline: o.ErrorFinish == contract.ErrorFinishInline}
	if p.Remember != nil {
		s.memory = &remembered{remember: p.Remember, results: p.Results}
		s.tools.memory = s.memory
	}
	s.prose.Notes = notes
}

// EndRead releases the texts of the current read, so that a stream that waits takes no memory for them.
// Before the finish leaves, the answer is remembered: the client may send its next request at once.
func (s *Stream) EndRead() {
	s.prose.Reading = prose.Reading{}
	if s.Finished {
		s.memory.tell()
	}
}

// Summary returns the summary of the stream so far.
func (s *Stream) Summary() contract.Summary {
	sum := s.Sum
	sum.Tools = s.tools.started
	if e := &s.w.Env; e.FromChunk {
		sum.ID, sum.Model = jsonspan.Unquote(e.ID), jsonspan.Unquote(e.Model)
	}
	return sum
}

// startTool starts the tool of c.
func (s *Stream) startTool(c encode.Transition) {
	s.answer.toolStarts(c.Name, s.prose.Unclosed() && s.o.Reasoning != contract.ReasoningDrop)
	s.tools.begin(c, s.Now)
}
