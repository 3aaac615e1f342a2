package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// text is what upstream has said so far, and how far the text of its message is.
type text struct {
	prose prose.State

	hasText          bool // content with a non-space character, and it was sent
	hasReasoning     bool // reasoning with one, and it was sent
	droppedReasoning bool // reasoning with one, and it was not sent
	hasOther         bool // tool calls, a refusal and the like

	unexamined int32 // frames that passed unexamined
	markers    int32 // that have left the text, of tools
	imitations int32 // that have left the text and were no tool
	stretches  int32 // of reasoning that have left the text
}

// maxGrowth is by how many bytes a frame may leave longer than three times what it
// was, with the ends of the tools that are open (contract section 7). What beside
// text and reasoning is written of one frame, such as an error finish, takes the
// rest of the contract's 256 KiB.
const maxGrowth = 236 << 10

// sizes implements prose.Sizes for the content of x. No tool starts or ends while that is
// read.
type sizes struct {
	w *writer
	l *tools
	x *chunk.Object
}

func (s *sizes) Budget() int { return maxGrowth - s.l.endCost(s.w, 0) }

func (s *sizes) PartSize(in jsonspan.Span) int {
	if s.x.CanCopy() {
		return len(s.x.F.Raw) - (in.To - in.From) + len("reasoning_content") + len(prose.BreakInJSON)
	}
	return s.w.envelope().Len() + ownSize
}

func (s *sizes) ToolSize() int { return len(s.w.toolHead().event) + ownSize }

// rules returns what is looked for in the content of the frame in k.
func (t *text) rules(w *writer, l *tools, k *Work, finished bool) prose.Rules {
	k.sizes = sizes{w, l, &k.Object}
	return prose.Rules{Options: w.o, Finished: finished, Reasoned: t.hasReasoning, Sizes: &k.sizes}
}

// read takes imitations and reasoning out of the content of the chunk in k, and says
// whether the chunk is held back, is dropped, or leaves with the edits that it has got.
// last says that nothing may wait for what follows.
func (t *text) read(w *writer, l *tools, k *Work, finished, last bool) sse.Fate {
	x, r := &k.Object, &k.reading
	in := x.C.Content.Inner()
	o := t.rules(w, l, k, finished)
	t.prose.Read(r, x.F.Data, in, &o, last)
	t.apply(w, l, k)
	reasoning, kept := t.writeParts(w, l, k)
	if r.Suspects() {
		t.holdFrame(w, l, k, &kept)
		return sse.Held
	}
	left := kept.Len()
	if reasoning && left > 0 {
		w.notes.Add(contract.SectionReasoning, "reasoning: leaves the content")
		if !x.C.OnlyContentRole || x.C.Finish.Ok() || x.HasError() || w.o.Reasoning == contract.ReasoningDrop {
			if w.o.Reasoning != contract.ReasoningDrop {
				w.delta(x, true, &kept) // it gets a delta of its own (contract section 4)
			}
			kept, left = x.NoContent(), 0
		}
	}
	if in.Ok() && left == 0 && x.Droppable() {
		w.Out.BeginOwn() // of the parts that have left
		w.Out.Drop()
		return sse.Dropped
	}
	x.Rest = kept
	x.KeepContent(&kept, reasoning && left > 0)
	return sse.Forwarded
}

// apply records what k.text says, and does to what is held what it says.
func (t *text) apply(w *writer, l *tools, k *Work) {
	r := &k.reading
	t.hasText = t.hasText || r.Text
	t.hasReasoning = t.hasReasoning || r.Reasoned
	t.droppedReasoning = t.droppedReasoning || r.Dropped
	t.stretches += int32(r.Stretches)
	if n := len(r.Tools); n+r.Imitations > 0 {
		t.markers += int32(n)
		t.imitations += int32(r.Imitations)
	}
	switch r.Held {
	case prose.Leaves:
		l.inferEnds(w) // before the text: TestTrustedToolEndsBeforeHeldText
		l.textSince = true
		w.Out.Bytes = k.hold.release(w.Out.Bytes)
	case prose.Stripped:
		w.Out.Bytes = k.hold.strip(w.Out.Bytes)
	}
}

// settle decides what waits for more text as if the text ended here.
func (t *text) settle(w *writer, l *tools, k *Work, finished bool) {
	r := &k.reading
	if !t.prose.Waits(r) {
		return
	}
	o := t.rules(w, l, k, finished)
	if thought := t.prose.Settle(r, &o); thought != nil {
		w.reasoning(thought)
	}
	t.apply(w, l, k)
	if n := r.Parts[len(r.Parts)-1].Tool; n > 0 {
		t.startTrusted(w, l, k, n)
	}
}

// startTrusted starts the tool that the marker n of the text stands for.
func (t *text) startTrusted(w *writer, l *tools, k *Work, n int) {
	x, m := &k.Object, &k.reading.Tools[n-1]
	room := len(x.Room())
	f := markerFields(x, w.o.ToolTable(), m.Emoji, m.Label)
	l.startDerived(w, x, &f, contract.SourceImitation)
	x.Rollback(room) // there may be many
}

// writeParts writes the content but for the last part that has anything in it: what is
// left of that, which may be reasoning, leaves with the chunk itself.
func (t *text) writeParts(w *writer, l *tools, k *Work) (reasoning bool, kept prose.Kept) {
	r := &k.reading
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
			t.startTrusted(w, l, k, p.Tool)
		}
		if p.Spoke {
			l.inferEnds(w)
			l.textSince = l.textSince || !p.Reasoning
		}
		kept = r.Part(i) // what follows the last is cut
		kept.Front = t.prose.Front(r, i, &kept)
		if i < n-1 {
			t.writePart(w, &k.Object, p.Reasoning, &kept)
		}
	}
	return r.Parts[n-1].Reasoning, kept
}

// writePart writes one part of several: as a copy of the chunk if nothing else is in
// that, and nothing large, or as a chunk of our own.
func (t *text) writePart(w *writer, x *chunk.Object, reasoning bool, kept *prose.Kept) {
	switch {
	case kept.Len() == 0:
		return
	case reasoning:
		w.notes.Add(contract.SectionReasoning, "reasoning: leaves the content")
		if w.o.Reasoning == contract.ReasoningDrop {
			return
		}
	}
	if !x.CanCopy() {
		w.delta(x, reasoning, kept)
		return
	}
	x.Edits.Reset()
	x.KeepContent(kept, reasoning)
	w.object(x)
}

// holdFrame keeps the chunk back with nothing of its content but kept, whose end may be
// an imitation, or a tag.
func (t *text) holdFrame(w *writer, l *tools, k *Work, kept *prose.Kept) {
	x, h := &k.Object, &k.hold
	w.Out.BeginOwn() // of the parts that have left
	if k.reading.HeldNewline {
		kept.Front = prose.NewlineInJSON
	}
	x.KeepContent(kept, false)
	x.RedactError()
	start := len(h.buf)
	at := func(v jsonspan.Span) jsonspan.Span {
		return jsonspan.Span{From: start + x.Edits.MovedBefore(&x.F, v.From), To: start + x.Edits.Moved(&x.F, v.To)}
	}
	f := heldFrame{text: at(x.C.Content.Inner()), drop: x.Droppable()}
	if x.C.Repeat.Ok() {
		f.repeat = at(x.C.Repeat.Inner())
	}
	if from, here := k.reading.Suspected(); here {
		h.from = start + x.Edits.Moved(&x.F, from)
		if k.reading.HeldNewline {
			h.from -= len(kept.Front) // which goes with the line
		}
	}
	h.buf = x.Edits.Append(h.buf, &x.F)
	h.addText(f)
	w.Out.Hold()
	t.boundHold(w, l, k)
}

// forwardQuiet writes bytes that say nothing. They do not decide what is held, and keep
// their place behind it.
func (t *text) forwardQuiet(w *writer, l *tools, k *Work, b []byte) {
	if k.hold.empty() {
		w.Out.Unit(b)
		return
	}
	w.Out.Hold()
	k.hold.add(b)
	t.boundHold(w, l, k)
}

// boundHold lets what is held go if too much waits for its end.
func (t *text) boundHold(w *writer, l *tools, k *Work) {
	if n := len(k.hold.buf); n > w.o.FrameLimit() {
		t.prose.Release(&k.reading)
		t.apply(w, l, k)
		w.Out.Forward(w.Out.Bytes[len(w.Out.Bytes)-n:])
	}
}
