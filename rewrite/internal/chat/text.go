package chat

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// text is what the message has said so far, and where in its text the stream is.
type text struct {
	prose prose.State

	hasText          bool // a non-space character of content has left
	hasReasoning     bool // a non-space character of reasoning has left
	droppedReasoning bool // reasoning with a non-space character was dropped
	hasOther         bool // tool calls, a refusal and the like have left
	gaveUp           bool // upstream has said that the model stays silent; see tellsSilence
	noReply          bool // the only text is Hermes' own word for that

	unexamined int32 // the number of frames that passed unexamined
	markers    int32 // the number of markers that started a tool
	imitations int32 // the number of markers that were stripped and started none
	stretches  int32 // the number of stretches of reasoning between tags
}

// maxGrowth is the number of bytes by which what leaves for a frame may exceed three
// times its length, with the ends of the open tools (contract section 7). All that is
// written for a frame beside text and reasoning, such as an error finish, takes the rest
// of the contract's 256 KiB.
const maxGrowth = 236 << 10

// sizes implements prose.Sizes for the content of x. No tool starts or ends while the
// content is read.
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

func (s *sizes) ToolSize() int {
	f := s.w.toolHead()
	n := len(f.event) + ownSize
	if s.w.hasCards() {
		n += f.empty.To - f.empty.From + cardSize + 2*MaxCardLabel
	}
	return n
}

// rules returns what Read looks for in the content of the frame in k.
func (t *text) rules(w *writer, l *tools, k *Work, finished bool) prose.Rules {
	k.sizes = sizes{w, l, &k.Object}
	return prose.Rules{Options: w.o, Finished: finished, Reasoned: t.hasReasoning, Sizes: &k.sizes}
}

// read takes imitations and reasoning out of the content of the chunk in k, and returns
// what becomes of the chunk: it is held or dropped, or the caller shall forward it with
// its edits. last says that nothing may wait for the text that follows.
func (t *text) read(w *writer, l *tools, k *Work, finished, last bool) sse.Fate {
	x, r := &k.Object, &k.reading
	in := x.C.Content.Inner()
	o := t.rules(w, l, k, finished)
	t.prose.Read(r, x.F.Data, in, &o, last)
	first := r.Text && !t.hasText
	if r.Whole() { // as almost all
		x.Rest = r.Part(0)
		if r.Text {
			l.inferEnds(w)
			t.hasText, l.textSince = true, true
			t.noReply = first && t.gaveUp && saysNoReply(&x.Rest, x.F.Data)
		}
		return sse.Forwarded
	}
	t.apply(w, l, k)
	reasoning, kept := t.writeParts(w, l, k, first && r.Held != prose.Leaves)
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
		w.Out.BeginOwn() // parts may have left
		w.Out.Drop()
		return sse.Dropped
	}
	x.Rest = kept
	x.KeepContent(&kept, reasoning && left > 0)
	return sse.Forwarded
}

// apply records what the Reading says, and releases or strips what is held.
func (t *text) apply(w *writer, l *tools, k *Work) {
	r := &k.reading
	t.hasText = t.hasText || r.Text
	t.hasReasoning = t.hasReasoning || r.Reasoned
	t.droppedReasoning = t.droppedReasoning || r.Dropped
	t.stretches += int32(r.Stretches)
	t.markers += int32(len(r.Tools))
	t.imitations += int32(r.Imitations)
	switch r.Held {
	case prose.Leaves:
		l.inferEnds(w) // before the text: TestTrustedToolEndsBeforeHeldText
		l.textSince = true
		w.Out.Bytes = k.hold.release(w.Out.Bytes)
	case prose.Stripped:
		w.Out.Bytes = k.hold.strip(w.Out.Bytes)
	}
}

// settle decides what waits for more text, as if the text ended here.
func (t *text) settle(w *writer, l *tools, k *Work, finished bool) {
	r := &k.reading
	if !t.prose.Waits(r) {
		return
	}
	o := t.rules(w, l, k, finished)
	if reasoning := t.prose.Settle(r, &o); reasoning != nil {
		w.reasoning(reasoning)
	}
	t.apply(w, l, k)
	if n := r.Parts[len(r.Parts)-1].Tool; n > 0 {
		t.startTrusted(w, l, k, n)
	}
}

// startTrusted starts the tool n of the Reading, from 1 on.
func (t *text) startTrusted(w *writer, l *tools, k *Work, n int) {
	x, m := &k.Object, &k.reading.Tools[n-1]
	room := len(x.Room())
	f := markerFields(x, w.o.ToolTable(), m.Emoji, m.Label)
	l.startDerived(w, x, &f, contract.SourceImitation)
	x.Rollback(room) // there may be many
}

// writeParts writes the parts of the content up to the last one with anything in it. It
// returns what is left of that one, which leaves with the chunk itself, and whether it is
// reasoning. first says that no text has left before.
func (t *text) writeParts(w *writer, l *tools, k *Work, first bool) (reasoning bool, kept prose.Kept) {
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
		kept = r.Part(i)
		kept.Front = t.prose.Front(r, i, &kept)
		if p.Spoke && !p.Reasoning {
			t.noReply, first = first && t.gaveUp && saysNoReply(&kept, k.Object.F.Data), false
		}
		if i < n-1 {
			t.writePart(w, &k.Object, p.Reasoning, &kept)
		}
	}
	return r.Parts[n-1].Reasoning, kept
}

// writePart writes one of several parts, as a copy of the chunk x if possible, or else as
// a chunk of our own.
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

// holdFrame holds the chunk in k with nothing of its content but kept, whose end may be
// an imitation or a tag.
func (t *text) holdFrame(w *writer, l *tools, k *Work, kept *prose.Kept) {
	x, h := &k.Object, &k.hold
	w.Out.BeginOwn() // parts may have left
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
			h.from -= len(kept.Front) // the newline is part of the line
		}
	}
	h.buf = x.Edits.Append(h.buf, &x.F)
	h.addText(f)
	w.Out.Hold()
	t.boundHold(w, l, k)
}

// forwardQuiet forwards bytes that say nothing. They decide nothing about what is held,
// and wait behind it.
func (t *text) forwardQuiet(w *writer, l *tools, k *Work, b []byte) {
	if k.hold.empty() {
		w.Out.Unit(b)
		return
	}
	w.Out.Hold()
	k.hold.add(b)
	t.boundHold(w, l, k)
}

// boundHold releases what is held if that becomes larger than a frame may be.
func (t *text) boundHold(w *writer, l *tools, k *Work) {
	if n := len(k.hold.buf); n > w.o.FrameLimit() {
		t.prose.Release(&k.reading)
		t.apply(w, l, k)
		w.Out.Forward(w.Out.Bytes[len(w.Out.Bytes)-n:])
	}
}
