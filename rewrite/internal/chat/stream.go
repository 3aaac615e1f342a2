package chat

import (
	"bytes"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Stream repairs one chat stream, frame by frame. What leaves is appended to Out.Bytes,
// which the caller sets with Begin.
type Stream struct {
	// Out is what leaves.
	Out *sse.Writer
	// Frames counts complete frames with data.
	Frames int

	// What the stream was given; it does not change.
	o      *contract.Options
	onTool func(contract.ToolEvent) // may be nil
	notes  *contract.Notes          // nil unless the stream is explained

	now        time.Time // the time of the last Begin
	w          encode.Writer
	usage      usage
	tools      tools
	text       text
	end        ending
	template   template
	chunks     int // the number of chunks that have come
	keepalives int

	x     chunk.Object // the current frame
	rest  prose.Kept   // of its content, once that has been read
	hold  hold
	large *largeFrame // the one that comes, or nil
}

// text is what the message has said so far, and where in its text the stream is.
type text struct {
	prose prose.State

	hasText          bool // a non-space character of content has left
	hasReasoning     bool // a non-space character of reasoning has left
	droppedReasoning bool // reasoning with a non-space character was dropped
	hasOther         bool // tool calls, a refusal and the like have left
	gaveUp           bool // upstream has said that the model stays silent; see saysSilence
	noReply          bool // the only text is Hermes' own word for that

	unexamined int // the number of frames that passed unexamined
	markers    int // the number of markers that started a tool
	imitations int // the number of markers that were stripped and started none
	stretches  int // the number of stretches of reasoning between tags
}

// ending is how the stream ends (contract section 3). After finished nothing may start a
// tool; after done nothing leaves but a chunk of usage.
type ending struct {
	manyChoices     bool   // a choice other than the first has come
	finished        bool   // the finish chunks of all choices have left
	failed          bool   // an error has left
	done            bool   // [DONE] has left
	usageReported   bool   // the model was known to report usage when the finish chunk came
	zeroUsagePassed bool   // text with usage 0/0/0 has passed
	begun, ended    uint64 // the choices that have begun and those that have finished, as bits
	usage           []byte // upstream's, for an error finish
	errorSent       []byte // the message, a JSON string, of an error frame that has left

	finishReason  string // the one that was sent
	code          string // the code of the error that the stream ended with
	input, output int64  // tokens, as upstream reported last
}

// MaxUsage is the length in bytes up to which upstream's usage is kept for an error
// finish.
const MaxUsage = 4 << 10

// fail records that the stream does not end well. The first code counts.
func (e *ending) fail(code string) {
	e.failed = true
	if e.code == "" {
		e.code = code
	}
}

// finish records a finish chunk with the reason.
func (e *ending) finish(reason string) {
	e.finished, e.finishReason = e.allEnded(), reason
}

// allEnded reports whether all choices that have begun have finished.
func (e *ending) allEnded() bool { return e.begun&^e.ended == 0 }

// keepError keeps the message of an error that leaves.
func (e *ending) keepError(message []byte) {
	e.errorSent = bytes.Clone(jsonspan.Truncate(message, contract.MaxMessage))
}

// update records which choices the chunk x begins and ends, and its usage.
func (e *ending) update(x *chunk.Object) {
	c := &x.C
	e.manyChoices = e.manyChoices || c.ManyChoices
	e.begun |= c.Begun
	e.ended |= c.Ended
	if !c.Usage.IsObject(x.F.Data) {
		return
	}
	if !(c.Finish.Ok() && e.allEnded()) && c.Usage.To-c.Usage.From <= MaxUsage {
		e.usage = append(e.usage[:0], jsonspan.OneLine(x.Value(c.Usage))...)
	}
	e.input, e.output = c.Tokens.Input, c.Tokens.Output
}

// MaxTemplate is the length in bytes of the longest template.
const MaxTemplate = 1 << 10

// template is the last frame without its text, if the frame left as it came and another
// one of its kind changes nothing but where lines begin. Most frames of an answer differ
// in nothing but their text, and need not be parsed: see Stream.Pass.
type template struct {
	around    []byte // the bytes after the text and, from head on, those before it
	head      int    // 0 if there is no template
	reasoning bool   // the text is reasoning in a member of its own
}

// Init makes s the Stream of a response, which writes to out.
func (s *Stream) Init(out *sse.Writer, o *contract.Options, p *contract.Params, notes *contract.Notes) {
	s.Out, s.o, s.onTool, s.notes = out, o, p.OnTool, notes
	s.w = encode.NewWriter(out, o, p, notes)
	s.usage.memory = p.Usage
	s.x.Notes, s.text.prose.Notes = notes, notes
}

// Trim gives back large room, so that one large frame does not cost memory for as long as
// its stream lasts.
func (s *Stream) Trim() {
	s.x = chunk.Object{Notes: s.notes}
	s.rest = prose.Kept{}
	s.text.prose.Trim()
}

// Continue begins with a stream that so far was not one of chat completions. code is the
// code of the error that it has ended with, or empty.
func (s *Stream) Continue(code string) { s.end.code = code }

// Begin sets what leaves to be appended to dst, and the time.
func (s *Stream) Begin(dst []byte, now time.Time) { s.Out.Bytes, s.now = dst, now }

// Object returns the object of the current frame. The caller parses its F before Frame.
func (s *Stream) Object() *chunk.Object { return &s.x }

// Finished reports whether a finish chunk has left.
func (s *Stream) Finished() bool { return s.end.finished }

// Done reports whether [DONE] has left.
func (s *Stream) Done() bool { return s.end.done }

// Chunks returns how many chunks have come.
func (s *Stream) Chunks() int { return s.chunks }

// Unexamined returns how many frames passed unexamined.
func (s *Stream) Unexamined() int { return s.text.unexamined }

// Summary returns what can be said of the stream so far.
func (s *Stream) Summary() contract.Summary {
	e, t := &s.end, &s.text
	sum := contract.Summary{
		FinishReason: e.finishReason, Code: e.code,
		Frames: s.Frames, Chunks: s.chunks, Tools: s.tools.count, Markers: t.markers, Imitations: t.imitations, Reasoning: t.stretches,
		Unexamined: t.unexamined, Keepalives: s.keepalives, InputTokens: e.input, OutputTokens: e.output,
		UsageReported: e.usageReported, ZeroUsagePassed: e.zeroUsagePassed,
	}
	if e := &s.w.Env; e.FromChunk {
		sum.ID, sum.Model = jsonspan.Unquote(e.ID), jsonspan.Unquote(e.Model)
	}
	return sum
}

// apply writes the transitions, and reports each to the notes and to OnTool.
func (s *Stream) apply(changes []encode.Transition) {
	for i := range changes {
		c := &changes[i]
		if s.notes != nil {
			verb := " starts: "
			if c.Completed {
				verb = " has ended: "
			}
			s.notes.Add(contract.SectionTools, "tool "+jsonspan.Unquote(c.Name)+verb+c.Source.Reason())
		}
		if s.onTool != nil {
			s.onTool(contract.ToolEvent{ID: jsonspan.Unquote(c.ID), Name: jsonspan.Unquote(c.Name), Completed: c.Completed, Source: c.Source})
		}
		s.w.Transition(c)
	}
}

// endSize returns how many bytes it takes at most to complete a tool, if the envelope becomes
// longer by that many bytes.
func (s *Stream) endSize(longer int) endSize {
	return func(t *encode.Tool) int { return s.w.EndSize(t, longer) }
}

// startTool starts the tool of c, and writes its start. A tool without an id gets one of
// ours. inferred says that upstream will not say when it ends.
func (s *Stream) startTool(c encode.Transition, inferred bool) {
	t := openTool{inferred: inferred, derived: c.ID == ""}
	if t.derived {
		c.ID = s.w.CallID(s.tools.count + 1)
	}
	c.Card = !c.Left && len(c.ID) <= encode.MaxCardID &&
		(s.w.HasCards() || c.Event != nil && c.In != contract.ProgressBare && encode.HasCard(c.Event))
	s.apply(s.tools.start(c, t, s.now, s.o.ParallelWindow, s.endSize(0)))
}

// updateEnvelope takes over the values of the chunk.
func (s *Stream) updateEnvelope() {
	if s.w.Env.Same(&s.x) {
		return
	}
	e := s.w.EnvelopeOf(&s.x)
	if longer := e.Len() - s.w.Env.Len(); longer > 0 {
		s.apply(s.tools.bound(s.endSize(longer)))
	}
	s.w.Env = e
}
