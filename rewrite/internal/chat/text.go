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

// readContent takes imitations and reasoning out of the content of the chunk, and reports
// whether the caller forwards it with its edits: otherwise it is held or dropped. last says that
// nothing may wait for the text that follows.
func (s *Stream) readContent(last bool) bool {
	x, t := s.Object(), &s.text
	r := &t.prose
	in := x.C.Content.Inner()
	s.askSendsEvents(in.Of(x.F.Data))
	part := s.w.DeltaSize() // what each further part takes, without the bytes of the text
	if x.CanCopy() {
		part = len(x.F.Raw) - (in.To - in.From) + len("reasoning_content") + len(prose.BreakInJSON)
	}
	rules := prose.Rules{Options: s.o, Finished: s.Finished, Reasoned: t.hasReasoning,
		Growth: maxGrowth - s.tools.endCost(), Part: part, Tool: s.w.StartSize()}
	r.Read(in.Of(x.F.Data), &rules, last)
	first := r.Text && !t.hasText && r.Held != prose.Leaves
	s.applyReading()
	kept, reasoning := s.writeParts(first)
	if r.Suspects() {
		s.holdFrame(&kept)
		return false
	}
	if in.Ok() && kept.Len() == 0 && x.Droppable() {
		s.Out.BeginOwn() // parts may have left
		s.Out.Drop()
		return false
	}
	s.rest = kept
	x.KeepContent(&kept, reasoning)
	return true
}

// applyReading records what the text is, and releases or strips the held frames.
func (s *Stream) applyReading() {
	t := &s.text
	r := &t.prose
	t.hasText = t.hasText || r.Text
	drop := s.o.Reasoning == contract.ReasoningDrop
	t.hasReasoning = t.hasReasoning || r.Reasoned && !drop
	t.droppedReasoning = t.droppedReasoning || r.Reasoned && drop
	s.Sum.Reasoning += r.Stretches
	s.Sum.Markers += len(r.Tools)
	s.Sum.Imitations += r.Imitations
	switch r.Held {
	case prose.Leaves:
		s.apply(s.tools.inferEnds()) // before the text: TestTrustedToolEndsBeforeHeldText
		s.tools.onTool = false
		s.Out.Bytes, s.hold = append(s.Out.Bytes, s.hold.whole...), hold{}
	case prose.Stripped:
		s.Out.Bytes, s.hold = append(s.Out.Bytes, s.hold.stripped...), hold{}
	}
}

// saysOther records that something other than text has left.
func (s *Stream) saysOther() { s.text.hasOther, s.tools.onTool = true, false }

// decideHeld decides what waits for more text, as if the text ended here.
func (s *Stream) decideHeld() {
	r := &s.text.prose
	if !r.Waits() {
		return
	}
	rules := prose.Rules{Options: s.o, Finished: s.Finished} // without limits: the current frame need not be the one that is held
	if reasoning := r.Decide(&rules); len(reasoning) > 0 {
		s.w.Delta(&chunk.Object{}, true, &prose.Kept{Front: reasoning})
	}
	s.applyReading()
	s.startTrusted(r.Parts[len(r.Parts)-1].Tool)
}

// leaveTags records that upstream has sent reasoning of its own: tags in the text are text from here
// on (contract section 4).
func (s *Stream) leaveTags() {
	if r := &s.text.prose; r.InTag() { // a held line is not decided: the text may go on in the same chunk
		s.decideHeld()
	}
	s.text.prose.LeaveTags()
}

// startTrusted starts the tool n of the text, from 1 on, or none if n is 0.
func (s *Stream) startTrusted(n int) {
	if n > 0 {
		s.startMarked(&s.text.prose.Tools[n-1], contract.SourceImitation)
	}
}

// startMarked starts the tool that the marker m stands for.
func (s *Stream) startMarked(m *marker.Marker, source contract.ToolSource) {
	s.setReportsFailures(false)
	s.startTool(encode.Transition{Source: source, Tool: encode.Tool{
		Name: s.o.Tools.Name(m.Emoji, m.Label), Emoji: `"` + string(m.Emoji) + `"`, Label: `"` + string(m.Label) + `"`,
		Inferred: true,
	}})
}

// writeParts writes the parts of the content before the last one that is not empty: as copies of
// the chunk if possible, or else as chunks of our own. It returns that last part, which leaves
// with the chunk itself, and whether it is reasoning. Reasoning leaves in a chunk of its own, too,
// if the chunk says more than that (contract section 4). first says that no text has left before.
func (s *Stream) writeParts(first bool) (kept prose.Kept, reasoning bool) {
	x, t := s.Object(), &s.text
	r := &t.prose
	n := len(r.Parts)
	for n > 1 && r.Parts[n-1].Tool == 0 && r.Parts[n-1].Len() == 0 {
		n--
	}
	for i := range r.Parts[:n] {
		p := &r.Parts[i]
		s.startTrusted(p.Tool)
		if p.HasText {
			s.apply(s.tools.inferEnds())
			s.tools.onTool = s.tools.onTool && p.Reasoning
		}
		kept = p.Kept
		if p.HasText && !p.Reasoning {
			t.noReply, first = first && t.gaveUp && saysNoReply(&kept), false
		}
		if kept.Len() > 0 && p.Reasoning {
			s.notes.Add(contract.SectionReasoning, "reasoning: leaves the content")
		}
		switch {
		case kept.Len() == 0, p.Reasoning && s.o.Reasoning == contract.ReasoningDrop:
		case i == n-1 && !(p.Reasoning && (!x.C.OnlyText || x.C.Finish.Ok() || x.HasError())):
			return kept, p.Reasoning
		case x.CanCopy():
			x.KeepContent(&kept, p.Reasoning)
			s.w.Object(x)
		default:
			s.w.Delta(x, p.Reasoning, &kept)
		}
	}
	return prose.Kept{}, false
}

// holdFrame holds the chunk with nothing of its content but kept, whose end may be an
// imitation or a tag.
func (s *Stream) holdFrame(kept *prose.Kept) {
	x, h, r := s.Object(), &s.hold, &s.text.prose
	s.Out.BeginOwn()      // parts may have left
	var before prose.Kept // what is before the suspected text
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
	x.KeepContent(kept, false)
	h.whole = x.Edits.Append(h.whole, &x.F)
	s.holdBytes(nil)
}

// Quiet forwards bytes that say nothing to clients. They decide nothing about what is
// held, and wait after it.
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
	h := &s.hold
	s.Out.Hold()
	h.whole = append(h.whole, b...)
	if !h.dropped {
		h.stripped = append(h.stripped, b...)
	}
	if n := len(h.whole); n > s.o.MaxFrame {
		s.text.prose.Release()
		s.applyReading()
		s.Out.Forward(s.Out.Bytes[len(s.Out.Bytes)-n:])
	}
}

// learn makes the frame, which is about to leave, the template: if it says nothing but its
// content, if at most MaxTemplate bytes are around that, if nothing waits, and if more text
// changes no state.
func (s *Stream) learn() {
	x, t, p := s.Object(), &s.text, &s.template
	c, raw := &x.C, x.F.Raw
	switch {
	case !x.Droppable(), !c.Content.Ok(), c.Repeat.Ok(), c.ChoiceErrors, raw[len(raw)-1] != '\n', !x.Edits.Empty(),
		!t.hasText, s.tools.onTool, t.noReply, s.Finished, s.Done, len(s.tools.open) > 0,
		len(s.hold.whole) > 0, !t.prose.Idle():
		return
	}
	from, to := x.F.At(c.Content.Inner().From), x.F.At(c.Content.Inner().To)
	if from+len(raw)-to <= MaxTemplate {
		p.around, p.head = append(append(p.around[:0], raw[to:]...), raw[:from]...), len(raw)-to
	}
}

// Pass forwards the frame b if it matches the template and has a text that changes nothing but
// where lines begin. Otherwise it returns false, and the frame has to be handled. Pass does what
// Frame would do: TestAlikeChangesNothing.
func (s *Stream) Pass(b []byte) bool {
	p, prose := &s.template, &s.text.prose
	if p.head == 0 || !bytes.HasPrefix(b, p.around[p.head:]) {
		return false
	}
	from := len(p.around) - p.head
	to := jsonspan.SkipString(b, from-1) - 1
	if to < from || !bytes.Equal(b[to:], p.around[:p.head]) {
		return false
	}
	text := b[from:to]
	switch {
	case !jsonspan.Valid(b[from-1:to+1]) || redact.MaySay(text):
		return false
	case prose.MidLine() && jsonspan.NextNewline(text, 0) == len(text): // no line begins
	case marker.Begins(text) || !prose.Skim(text, s.o):
		return false
	}
	s.Sum.Frames++
	s.Sum.Chunks++
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
