// Package chat decides what becomes of each frame of a chat stream: it takes markers and
// reasoning out of the content, correlates the starts and ends of tools, and turns a
// crash into an error finish (wire contract, sections 1 to 4). Package encode writes the
// frames.
//
//	waiting.go    the error of a client that waits for its turn
//	frame.go      every unit of a stream: where it goes
//	chunks.go     chunks
//	large.go      frames that are larger than max_frame
//	events.go     what a frame is; upstream's tool events, other named events and errors
//	ending.go     finish chunks, verdicts and error finishes
//	text.go       the content of a chunk: read, held, applied, and frames that differ in nothing else
//	approvals.go  requests for approval, and answers that are split for a reply
//	stream.go     Stream: its state, and what all of these do with it
//	imitations.go which lines are imitated markers
//	tools.go      tools: which are open, and the transitions that follow
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

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/approval"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one chat stream, frame by frame. What leaves is appended to Out.Bytes,
// which the caller sets.
type Stream struct {
	Out *sse.Writer
	Now time.Time        // the time at which the current bytes came
	Sum contract.Summary // what Summary returns, but for the envelope

	// Finished says that the finish chunks of all choices have left: nothing may start a tool.
	// Done says that [DONE] has left: nothing leaves but a chunk of usage.
	Finished, Done bool

	// What the stream was given; it does not change.
	o      *contract.Options
	p      *contract.Params
	memory contract.UsageMemory // may be nil
	notes  *contract.Notes      // nil unless the stream is explained

	w         encode.Writer
	tools     tools
	text      text
	end       ending
	template  template
	approvals *approvals
	line      line

	imitations imitations

	// told says that the memory knows whether upstream reports its failures, and reports
	// that it does.
	told, reports bool

	x     *chunk.Object // the current frame, nil between reads; see Object
	rest  prose.Kept    // the rest of its content, once that has been read
	hold  hold
	large *largeFrame // the large frame under way, or nil

	nextKeepalive time.Time // from when on a comment of upstream's becomes a chunk
}

// text describes the text of the message so far, and the position of the stream in it.
type text struct {
	prose prose.State

	hasText          bool // a non-space character of content has left
	hasUnclosed      bool // a tool has ended reasoning that no tag had closed, whose words may be the answer
	answered         bool // the reasoning before is an answer: another sidecar says so, see finishChunk
	hasReasoning     bool // a non-space character of reasoning has left
	droppedReasoning bool // reasoning with a non-space character was dropped
	hasOther         bool // tool calls, a refusal and the like have left
	gaveUp           bool // upstream has said that the model stays silent; see saysSilence
	noReply          bool // the only text is Hermes' own word for such silence
}

// hold has the frames that are held back because their text may begin an imitation or a tag. They
// leave byte for byte, or without the text that was one. It is empty unless text is suspected. Its
// size is bounded by Stream.holdBytes.
type hold struct {
	whole    []byte // the frames, one after the other, with the edits made so far
	stripped []byte // the frames without the suspected text
	dropped  bool   // the last frame is not in stripped: without the suspected text it says nothing
}

// largeFrame is a large frame while it comes.
type largeFrame struct {
	x      chunk.Object // its beginning, with the values that came whole
	tail   []byte       // its last bytes
	finish string       // the finish reason that stands in it, or ""
	kind   kind         // kindError for a chunk with an error, too
	drop   bool         // nothing of it leaves
}

// kind is the kind of a frame.
type kind uint8

const (
	kindOther   kind = iota
	kindTool         // a tool event
	kindChunk        // a chunk
	kindError        // an error of upstream's that is not in a chunk
	kindWrapped      // a named event with the members of a chunk, which another sidecar has added
	kindNamed        // another named event
)

// approvals are the requests for approval in a stream. They are nil without Params.Approvals.
type approvals struct {
	*approval.Requests

	elsewhere bool                     // another sidecar asks: the paragraphs are that one's
	request   contract.ApprovalRequest // of the current frame, as upstream sent it
	asks      bool                     // request has to be asked about
}

// line is the status line that says that a command waits.
type line struct {
	shown bool
	tool  string // the id of the tool that waits, empty if that is not certain
}

// ending is how the stream ends (contract section 3).
type ending struct {
	manyChoices  bool   // a choice other than the first has come
	failed       bool   // an error has left
	begun, ended uint64 // the choices that have begun and those that have finished, as bits
	usage        []byte // upstream's, for an error finish
	errorSent    []byte // the message, a JSON string, of an error frame that has left
}

// MaxUsage is the length in bytes up to which upstream's usage is kept for an error
// finish.
const MaxUsage = 4 << 10

func (e *ending) allEnded() bool { return e.begun&^e.ended == 0 }

// update records which choices the chunk x begins and ends, and its usage.
func (s *Stream) update(x *chunk.Object) {
	e, c := &s.end, &x.C
	e.manyChoices = e.manyChoices || c.ManyChoices
	e.begun |= c.Begun
	e.ended |= c.Ended
	if !c.Usage.IsObject(x.F.Data) {
		return
	}
	if !(c.Finish.Ok() && e.allEnded()) && c.Usage.To-c.Usage.From <= MaxUsage {
		e.usage = append(e.usage[:0], jsonspan.Finite(jsonspan.OneLine(x.Value(c.Usage)))...)
	}
	s.Sum.InputTokens, s.Sum.OutputTokens = c.Tokens.Input, c.Tokens.Output
}

// maxGrowth is the number of bytes by which what leaves for a frame may exceed three
// times its length, with the ends of the open tools (contract section 7). All that is
// written for a frame beside text and reasoning, such as an error finish, takes the rest
// of the contract's 256 KiB.
const maxGrowth = 236 << 10

// MaxTemplate is the length in bytes of the longest template.
const MaxTemplate = 1 << 10

// template is the last frame without its text, if the frame left as it came and another
// one of its kind changes nothing but where lines begin. Most frames of an answer differ
// in nothing but their text, and need not be parsed: see Stream.Pass.
type template struct {
	around []byte // the bytes after the text and, from head on, those before it
	head   int    // 0 if there is no template
}

// Init makes s the Stream of a response, which writes to out.
func (s *Stream) Init(out *sse.Writer, o *contract.Options, p *contract.Params, notes *contract.Notes) {
	s.Out, s.o, s.p, s.memory, s.notes = out, o, p, p.Usage, notes
	s.imitations = imitations{auto: o.AutoImitations(), tools: o.Tools}
	if p.Approvals != nil {
		s.initApprovals(p.Approvals)
	}
	s.w = encode.NewWriter(out, o, p)
	s.tools.size = s.w.EndSize
	s.text.prose.Notes = notes
}

// initApprovals makes the stream ask by about its requests, and strip imitations of the paragraph.
func (s *Stream) initApprovals(by contract.Approvals) {
	s.approvals = &approvals{Requests: approval.New(by)}
	s.setTools()
}

// EndRead releases the current frame, so that a stream that waits takes no memory for one.
func (s *Stream) EndRead() {
	s.x, s.rest, s.text.prose.Reading = nil, prose.Kept{}, prose.Reading{}
}

// Object returns the object of the current frame. The caller parses its F before Frame.
func (s *Stream) Object() *chunk.Object {
	if s.x == nil {
		s.x = &chunk.Object{Notes: s.notes}
	}
	return s.x
}

// Summary returns the summary of the stream so far.
func (s *Stream) Summary() contract.Summary {
	sum := s.Sum
	if e := &s.w.Env; e.FromChunk {
		sum.ID, sum.Model = jsonspan.Unquote(e.ID), jsonspan.Unquote(e.Model)
	}
	return sum
}

// setReportsFailures records, once, that upstream reports its failures itself, or that it
// is too old to. The third rule of the false stop depends on that.
func (s *Stream) setReportsFailures(does bool) {
	if s.memory != nil && (!s.told || s.reports != does) {
		s.told, s.reports = true, does
		s.memory.ReportsFailures(does)
	}
}

// apply writes the transitions, and reports each to the notes and to OnTool.
func (s *Stream) apply(changes []encode.Transition) {
	for i := range changes {
		c := &changes[i]
		name, verb := jsonspan.Unquote(c.Name), " starts: "
		if c.Completed {
			verb = " has ended: "
		}
		s.notes.Add(contract.SectionTools, "tool ", name, verb, c.Source.Reason())
		if s.p.OnTool != nil {
			s.p.OnTool(contract.ToolEvent{ID: jsonspan.Unquote(c.ID), Name: name, Completed: c.Completed, Source: c.Source})
		}
		if c.Completed {
			c.Approval = cmp.Or(s.toolDone(c.ID), c.Approval)
		}
		s.w.Transition(c)
		switch {
		case !c.Completed, s.line.tool != "" && s.line.tool != c.ID:
		case c.Card, c.Left:
			s.takeBack()
		default: // its own status line is in the place of that one
			s.line = line{}
		}
	}
}

// endTools ends all open tools, as the stream is about to end.
func (s *Stream) endTools(interrupted bool) {
	s.apply(s.tools.endAll(interrupted))
	s.takeBack()
}

// takeBack hides the status line that says that a command waits, if it is shown (contract section 2).
func (s *Stream) takeBack() {
	if s.line.shown {
		s.line = line{}
		s.w.TakeBack()
	}
}

// toolDone records that the tool with the id has ended, so that it needs no approval any more. It
// returns what became of the requests for which it waited.
func (s *Stream) toolDone(id string) contract.ApprovalOutcome {
	if s.approvals == nil {
		return ""
	}
	return s.approvals.Ended(id)
}

// startTool starts the tool of c, and writes its start. A tool without an id, or with that of
// another tool, gets one of ours.
func (s *Stream) startTool(c encode.Transition) {
	s.Sum.Tools++
	if s.text.answered = false; s.text.prose.Unclosed() && s.o.Reasoning != contract.ReasoningDrop {
		s.text.hasUnclosed, s.tools.onTool = true, false
	}
	if c.ID == "" {
		c.ID = s.newCallID("")
	} else if taken, _ := s.tools.taken(c.ID); taken && !c.Left {
		c.UpstreamID, c.ID = c.ID, s.newCallID(c.ID)
	}
	c.Card = !c.Left && len(c.ID) <= encode.MaxCardID &&
		(s.w.HasCards() || c.Event != nil && c.In != contract.ProgressBare && encode.HasCard(c.Event))
	s.w.Show(&c.Tool)
	s.apply(s.tools.start(c, s.Now, s.o.ParallelWindow))
}

// newCallID returns an id for the tool that starts now. upstreamID is as for CallID. Upstream may use
// any id, that of ours as well.
func (s *Stream) newCallID(upstreamID string) string {
	for {
		id := s.w.CallID(upstreamID, s.Sum.Tools)
		if taken, _ := s.tools.taken(id); !taken {
			return id
		}
		upstreamID = id
	}
}

// updateEnvelope takes over the values of the chunk. If they are longer than before, fewer tools
// may be open: the surplus ends with the old values.
func (s *Stream) updateEnvelope() {
	old, e := s.w.Env, s.w.EnvelopeOf(s.Object())
	s.w.Env = e
	if ends := s.tools.bound(); len(ends) > 0 {
		s.w.Env = old
		s.apply(ends)
		s.w.Env = e
	}
}
