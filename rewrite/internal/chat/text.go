package chat

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// readContent takes imitations and reasoning out of the content of the chunk x. It returns the rest
// of the content, and whether the caller forwards the chunk with its edits: otherwise it is held or
// dropped. last says that nothing may wait for the text that follows.
func (s *Stream) readContent(x *chunk.Object, last bool) (rest prose.Kept, leaves bool) {
	r, in := &s.prose, x.C.Content.Inner()
	s.upstream.lookUp(in.Of(x.F.Data))
	part := s.w.DeltaSize() // what each further part takes, without the bytes of the text
	if x.CanCopy() {
		part = len(x.F.Raw) - (in.To - in.From) + len("reasoning_content") + len(prose.BreakInJSON)
	}
	rules := prose.Rules{Options: s.upstream.o, Finished: s.Finished, Reasoned: s.answer.hasReasoning,
		Growth: maxGrowth - s.tools.endCost(), Part: part, Tool: s.w.StartSize()}
	r.Read(in.Of(x.F.Data), &rules, last)
	first := r.Text && !s.answer.hasText && r.Held != prose.Leaves
	s.applyReading()
	rest, reasoning := s.writeParts(x, first)
	if r.Suspects() {
		s.Out.BeginOwn() // parts may have left
		before := s.hold.frame(x, rest, r)
		s.memory.hold(&before, &rest)
		s.holdBytes(nil)
		return rest, false
	}
	if in.Ok() && rest.Len() == 0 && x.Droppable() {
		s.Out.BeginOwn() // parts may have left
		s.Out.Drop()
		return rest, false
	}
	if !reasoning {
		s.memory.say(&rest)
	}
	x.KeepContent(&rest, reasoning)
	return rest, true
}

// applyReading records what the text is, and releases or strips the held frames.
func (s *Stream) applyReading() {
	a, r := &s.answer, &s.prose
	a.hasText = a.hasText || r.Text
	drop := s.o.Reasoning == contract.ReasoningDrop
	a.hasReasoning = a.hasReasoning || r.Reasoned && !drop
	a.droppedReasoning = a.droppedReasoning || r.Reasoned && drop
	s.Sum.Reasoning += r.Stretches
	s.Sum.Markers += r.Markers
	s.Sum.Imitations += r.Imitations
	s.memory.decide(r.Held)
	switch r.Held {
	case prose.Leaves:
		s.tools.infer() // before the text: TestTagsAndTheirNeighbours
		a.onTool = false
		s.Out.Bytes, s.hold = append(s.Out.Bytes, s.hold.whole...), hold{}
	case prose.Stripped:
		s.Out.Bytes, s.hold = append(s.Out.Bytes, s.hold.stripped...), hold{}
	}
}

// decideHeld decides what waits for more text, as if the text ended here. Whoever writes anything but
// text calls it first; if nothing waits, it does nothing.
func (s *Stream) decideHeld() {
	r := &s.prose
	if !r.Waits() {
		return
	}
	rules := prose.Rules{Options: s.upstream.o, Finished: s.Finished} // without limits: the current frame need not be the one that is held
	if reasoning := r.Decide(&rules); len(reasoning) > 0 {
		s.w.Delta(&chunk.Object{}, true, &prose.Kept{Front: reasoning})
	}
	s.applyReading()
	if m := r.Parts[len(r.Parts)-1].Tool; m != nil {
		s.startMarked(m, contract.SourceImitation)
	}
}

// leaveTags records that upstream has sent reasoning of its own: tags in the text are text from here
// on (contract section 4).
func (s *Stream) leaveTags() {
	if s.prose.InTag() { // a held line is not decided: the text may go on in the same chunk
		s.decideHeld()
	}
	s.prose.LeaveTags()
}

// startMarked starts the tool that the marker m stands for.
func (s *Stream) startMarked(m *marker.Marker, source contract.ToolSource) {
	s.upstream.setReportsFailures(false)
	s.startTool(encode.Transition{Source: source, Tool: encode.Tool{
		Name: s.upstream.o.Tools.Name(m.Emoji, m.Label), Emoji: `"` + string(m.Emoji) + `"`, Label: `"` + string(m.Label) + `"`,
		Inferred: true,
	}})
}

// writeParts writes the parts of the content of the chunk x before the last one that is not empty: as copies of
// the chunk if possible, or else as chunks of our own. It returns that last part, which leaves
// with the chunk itself, and whether it is reasoning. Reasoning also leaves in a chunk of its own
// if the chunk says more than that (contract section 4). first says that no text has left before.
func (s *Stream) writeParts(x *chunk.Object, first bool) (kept prose.Kept, reasoning bool) {
	a, r := &s.answer, &s.prose
	n := len(r.Parts)
	for n > 1 && r.Parts[n-1].Tool == nil && r.Parts[n-1].Len() == 0 {
		n--
	}
	for i := range r.Parts[:n] {
		p := &r.Parts[i]
		if p.Tool != nil {
			s.startMarked(p.Tool, contract.SourceImitation)
		}
		if p.HasText {
			s.tools.infer()
			a.onTool = a.onTool && p.Reasoning
		}
		kept = p.Kept
		if p.HasText && !p.Reasoning {
			a.noReply, first = first && a.gaveUp && saysNoReply(&kept), false
		}
		if kept.Len() > 0 && p.Reasoning {
			s.notes.Add(contract.SectionReasoning, "reasoning: removed from the content")
		}
		switch {
		case kept.Len() == 0, p.Reasoning && s.o.Reasoning == contract.ReasoningDrop:
		case i == n-1 && !(p.Reasoning && (!x.C.OnlyText || x.C.Finish.Ok() || x.HasError())):
			return kept, p.Reasoning
		default:
			if !p.Reasoning {
				s.memory.say(&kept)
			}
			s.writePart(x, p.Reasoning, &kept)
		}
	}
	return prose.Kept{}, false
}

// writePart writes a part of the content of the chunk x.
func (s *Stream) writePart(x *chunk.Object, reasoning bool, kept *prose.Kept) {
	if !x.CanCopy() {
		s.w.Delta(x, reasoning, kept)
		return
	}
	x.KeepContent(kept, reasoning)
	s.w.Object(x)
}

// hold has the frames that are held back because their text may begin an imitation or a tag. They
// leave byte for byte, or without the text that was one. It is empty unless text is suspected. Its
// size is bounded by Stream.holdBytes.
type hold struct {
	whole    []byte // the frames, one after the other, with the edits made so far
	stripped []byte // the frames without the suspected text
	dropped  bool   // the last frame is not in stripped: without the suspected text it says nothing
}

// frame adds the chunk x with nothing of its content but kept, whose end r suspects.
// It returns the text before the suspected one.
func (h *hold) frame(x *chunk.Object, kept prose.Kept, r *prose.State) (before prose.Kept) {
	if n, here, newline := r.Suspected(); here {
		before = prose.Kept{Front: kept.Front, Text: kept.Text[:len(kept.Text)-n]}
		if newline {
			before.Front, kept.Front = nil, prose.NewlineInJSON // it is part of the suspected line
		}
	}
	h.dropped = before.Len() == 0 && x.Droppable() && x.C.Content.Inner().Ok()
	if !h.dropped {
		x.KeepContent(&before, false)
		h.stripped = x.Edits.Append(h.stripped, &x.F)
		x.Edits.Reset()
	}
	x.KeepContent(&kept, false)
	h.whole = x.Edits.Append(h.whole, &x.F)
	return before
}

// bytes adds b, which has no text, after the last frame.
func (h *hold) bytes(b []byte) {
	h.whole = append(h.whole, b...)
	if !h.dropped {
		h.stripped = append(h.stripped, b...)
	}
}

// Quiet forwards bytes that say nothing to clients. They decide nothing about the text
// that is held, and wait after it.
func (s *Stream) Quiet(b []byte) {
	if len(s.hold.whole) == 0 {
		s.Out.Unit(b)
		return
	}
	s.hold.dropped = false
	s.holdBytes(b)
}

// holdBytes holds b, which has no text, after the held frames. It releases them if they are
// larger than a frame may be.
func (s *Stream) holdBytes(b []byte) {
	s.Out.Hold()
	s.hold.bytes(b)
	if n := len(s.hold.whole); n > s.o.MaxFrame {
		s.prose.Release()
		s.applyReading()
		s.Out.Forward(s.Out.Bytes[len(s.Out.Bytes)-n:])
	}
}

// MaxTemplate is the length in bytes of the longest template.
const MaxTemplate = 1 << 10

// template is the last frame without its text, if the frame left as it came and another
// one of its kind changes nothing but where lines begin. Most frames of an answer differ
// in nothing but their text, and need not be parsed: see Stream.Pass.
type template struct {
	around []byte // the bytes after the text and, from head on, those before it
	head   int    // 0 if there is no template
}

// learn makes the frame x, which is about to leave, the template: if it says nothing but its
// content, and if at most MaxTemplate bytes are around that.
func (p *template) learn(x *chunk.Object) {
	c, raw := &x.C, x.F.Raw
	if !x.Droppable() || !c.Content.Ok() || c.Repeat.Ok() || c.ChoiceErrors || raw[len(raw)-1] != '\n' || !x.Edits.Empty() {
		return
	}
	from, to := x.F.At(c.Content.Inner().From), x.F.At(c.Content.Inner().To)
	if from+len(raw)-to <= MaxTemplate {
		p.around, p.head = append(append(p.around[:0], raw[to:]...), raw[:from]...), len(raw)-to
	}
}

// text returns the text of the frame b with its quotes, or nil if b does not match the template.
func (p *template) text(b []byte) []byte {
	if p.head == 0 || !bytes.HasPrefix(b, p.around[p.head:]) {
		return nil
	}
	from := len(p.around) - p.head
	to := jsonspan.SkipString(b, from-1) - 1
	if to < from || !bytes.Equal(b[to:], p.around[:p.head]) {
		return nil
	}
	return b[from-1 : to+1]
}

// Pass forwards the frame b if it matches the template and has a text that changes nothing but
// where lines begin. Otherwise it returns false, and the frame has to be handled. Pass does what
// Frame would do: TestAlikeChangesNothing.
func (s *Stream) Pass(b []byte) bool {
	quoted := s.template.text(b)
	if quoted == nil {
		return false
	}
	text := jsonspan.Inside(quoted)
	switch {
	case !jsonspan.Valid(quoted) || redact.MaySay(text):
		return false
	case s.prose.MidLine() && jsonspan.NextNewline(text, 0) == len(text): // no line begins
	case marker.Begins(text) || !s.prose.Skim(text, s.upstream.o):
		return false
	}
	s.Sum.Frames++
	s.Sum.Chunks++
	s.memory.sayText(text)
	s.Out.Next(sse.UnitFrame)
	s.Out.Unit(b)
	return true
}

// saysNoReply reports whether the text that k keeps is one that Hermes sends in
// place of an answer: "⚠️ No reply: …" in the operator's language, or "(empty)".
func saysNoReply(k *prose.Kept) bool {
	inner := k.Bytes()
	r, _ := jsonspan.NextRune(inner, 0)
	return r == '⚠' || jsonspan.Spells(inner, "(empty)")
}
