package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// maxGrowth is the number of bytes by which what leaves for a frame may exceed three
// times its length, with the ends of the open tools (contract section 7). All that is
// written for a frame beside text and reasoning, such as an error finish, takes the rest
// of the contract's 256 KiB.
const maxGrowth = 236 << 10

// rules returns what to look for in the content of the frame in s.x.
func (s *Stream) rules() prose.Rules {
	return prose.Rules{Options: s.o, Finished: s.end.finished, Reasoned: s.text.hasReasoning, Limits: prose.Limits{
		Growth: maxGrowth - s.tools.endCost(s.endSize(0)),
		Part:   s.partSize(),
		Tool:   s.w.StartSize(),
	}}
}

// partSize returns the number of bytes that each further part of the content takes,
// without the bytes of the text.
func (s *Stream) partSize() int {
	if s.x.CanCopy() {
		in := s.x.C.Content.Inner()
		return len(s.x.F.Raw) - (in.To - in.From) + len("reasoning_content") + len(prose.BreakInJSON)
	}
	return s.w.DeltaSize()
}

// readContent takes imitations and reasoning out of the content of the chunk, and reports
// whether the caller forwards it with its edits: otherwise it is held or dropped. last says that
// nothing may wait for the text that follows.
func (s *Stream) readContent(last bool) bool {
	x, t := &s.x, &s.text
	r := &t.prose
	in := x.C.Content.Inner()
	rules := s.rules()
	r.Read(x.F.Data, in, &rules, last)
	first := r.Text && !t.hasText && r.Held != prose.Leaves
	s.applyReading()
	reasoning, kept := s.writeParts(first)
	if r.Suspects() {
		s.holdFrame(&kept)
		return false
	}
	left := kept.Len()
	if reasoning && left > 0 {
		s.notes.Add(contract.SectionReasoning, "reasoning: leaves the content")
		drop := s.o.Reasoning == contract.ReasoningDrop
		if drop || x.C.Beside == chunk.BesideMore || x.C.Finish.Ok() || x.HasError() {
			if !drop {
				s.w.Delta(x, true, &kept) // it gets a delta of its own (contract section 4)
			}
			kept, left = prose.Kept{}, 0
		}
	}
	if in.Ok() && left == 0 && x.Droppable() {
		s.Out.BeginOwn() // parts may have left
		s.Out.Drop()
		return false
	}
	s.rest = kept
	x.KeepContent(&kept, reasoning && left > 0)
	return true
}

// applyReading records what the text is, and releases or strips the held frames.
func (s *Stream) applyReading() {
	t := &s.text
	r := &t.prose
	t.hasText = t.hasText || r.Text
	t.hasReasoning = t.hasReasoning || r.Reasoned
	t.droppedReasoning = t.droppedReasoning || r.Dropped
	t.stretches += r.Stretches
	t.markers += len(r.Tools)
	t.imitations += r.Imitations
	switch r.Held {
	case prose.Leaves:
		s.apply(s.tools.inferEnds()) // before the text: TestTrustedToolEndsBeforeHeldText
		s.tools.textSince = true
		s.Out.Bytes = s.hold.release(s.Out.Bytes)
	case prose.Stripped:
		s.Out.Bytes = s.hold.strip(s.Out.Bytes)
	}
}

// decideHeld decides what waits for more text, as if the text ended here.
func (s *Stream) decideHeld() {
	r := &s.text.prose
	if !r.Waits() {
		return
	}
	rules := prose.Rules{Options: s.o, Finished: s.end.finished} // without limits: s.x need not be the frame that is held
	if reasoning := r.Decide(&rules); reasoning != nil {
		s.w.Reasoning(reasoning)
	}
	s.applyReading()
	if n := r.Parts[len(r.Parts)-1].Tool; n > 0 {
		s.startTrusted(n)
	}
}

// startTrusted starts the tool n of the text, from 1 on.
func (s *Stream) startTrusted(n int) {
	m := &s.text.prose.Tools[n-1]
	s.startMarked(m.Emoji, m.Label, contract.SourceImitation)
}

// startMarked starts the tool that a marker stands for. emoji and label are insides of
// JSON strings.
func (s *Stream) startMarked(emoji, label []byte, source contract.ToolSource) {
	s.usage.setReportsFailures(false)
	t := encode.Tool{Name: s.o.Tools.Name(emoji, label), Emoji: `"` + string(emoji) + `"`, Label: `"` + string(label) + `"`}
	s.startTool(encode.Transition{Tool: t, Source: source}, true)
}

// writeParts writes the parts of the content up to the last one with anything in it. It
// returns the rest of that one, which leaves with the chunk itself, and whether it is
// reasoning. first says that no text has left before.
func (s *Stream) writeParts(first bool) (reasoning bool, kept prose.Kept) {
	t := &s.text
	r := &t.prose
	n := len(r.Parts)
	for n > 1 && r.Parts[n-1].Tool == 0 {
		if last := r.Part(n - 1); last.Len() > 0 {
			break
		}
		n--
	}
	for i := range r.Parts[:n] {
		p := &r.Parts[i]
		if p.Tool > 0 {
			s.startTrusted(p.Tool)
		}
		if p.HasText {
			s.apply(s.tools.inferEnds())
			s.tools.textSince = s.tools.textSince || !p.Reasoning
		}
		kept = r.Part(i)
		kept.Front = r.Front(i, &kept)
		if p.HasText && !p.Reasoning {
			t.noReply, first = first && t.gaveUp && saysNoReply(&kept, s.x.F.Data), false
		}
		if i < n-1 && kept.Len() > 0 {
			s.writePart(p.Reasoning, &kept)
		}
	}
	return r.Parts[n-1].Reasoning, kept
}

// writePart writes one of several parts, as a copy of the chunk if possible, or else as a
// chunk of our own.
func (s *Stream) writePart(reasoning bool, kept *prose.Kept) {
	x := &s.x
	if reasoning {
		s.notes.Add(contract.SectionReasoning, "reasoning: leaves the content")
	}
	switch {
	case reasoning && s.o.Reasoning == contract.ReasoningDrop:
	case !x.CanCopy():
		s.w.Delta(x, reasoning, kept)
	default:
		x.KeepContent(kept, reasoning)
		s.w.Object(x)
	}
}

// holdFrame holds the chunk with nothing of its content but kept, whose end may be an
// imitation or a tag.
func (s *Stream) holdFrame(kept *prose.Kept) {
	x, h, r := &s.x, &s.hold, &s.text.prose
	s.Out.BeginOwn() // parts may have left
	if r.HeldNewline {
		kept.Front = prose.NewlineInJSON // it is part of the suspected line
	}
	x.KeepContent(kept, false)
	start := len(h.buf)
	at := func(v jsonspan.Span) jsonspan.Span {
		return jsonspan.Span{From: start + x.Edits.MovedBefore(&x.F, v.From+1), To: start + x.Edits.Moved(&x.F, v.To-1)}
	}
	f := heldFrame{drop: x.Droppable()}
	f.texts[1] = at(x.C.Content)
	if from, here := r.Suspected(); here {
		h.clear = kept.Len() - (x.C.Content.To - 1 - from)
		if r.HeldNewline {
			h.clear -= len(kept.Front)
		}
	}
	if x.C.Repeat.Ok() {
		if f.texts[0] = at(x.C.Repeat); x.C.Content.From < x.C.Repeat.From {
			f.texts[0], f.texts[1] = f.texts[1], f.texts[0]
		}
	}
	h.buf = x.Edits.Append(h.buf, &x.F)
	f.end = len(h.buf)
	h.frames = append(h.frames, f)
	s.Out.Hold()
	s.boundHold()
}

// Quiet forwards bytes that say nothing to clients. They decide nothing about what is
// held, and wait after it.
func (s *Stream) Quiet(b []byte) {
	if s.hold.empty() {
		s.Out.Unit(b)
		return
	}
	s.Out.Hold()
	s.hold.add(b)
	s.boundHold()
}

// boundHold releases the held frames if they are larger than a frame may be.
func (s *Stream) boundHold() {
	if n := len(s.hold.buf); n > s.o.MaxFrame {
		s.text.prose.Release()
		s.applyReading()
		s.Out.Forward(s.Out.Bytes[len(s.Out.Bytes)-n:])
	}
}
