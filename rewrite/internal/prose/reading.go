package prose

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Reading is what a State has found in a text, and what waits for the texts to come.
// The zero value is ready for use. Between two texts only what waits counts: without
// it (see Waits) one Reading is as good as another, for whatever stream.
type Reading struct {
	// What waits.
	suspicion suspicion // what the end of the text may be
	pending   []byte    // what may be a closing tag, from texts before, as in the JSON
	lead      []byte    // what was none, and goes in front of the reasoning to come

	// What the text is.
	Held        HeldFate // what becomes of the texts that are held
	HeldNewline bool     // a newline goes in front of the text from Suspected on, and is held with it
	Parts       []Part   // at least one
	Tools       []Tool   // the tools that Parts name
	Text        bool     // a non-space character leaves as content
	Reasoned    bool     // one leaves as reasoning
	Dropped     bool     // one does not leave: it is reasoning
	Imitations  int      // markers that are taken out and start no tool
	Stretches   int      // of reasoning that begin

	// Notes are told what is done.
	Notes *contract.Notes

	data    []byte
	in      jsonspan.Span   // the text in data
	cuts    []jsonspan.Span // what leaves it, in order
	closing jsonspan.Span   // what may be a closing tag
	grown   int             // by how many bytes the text has become longer
	room    []byte          // of fronts and tools
	spare   []byte
}

// Held is what becomes of texts that have been held back.
type HeldFate uint8

// What may become of them.
const (
	StaysHeld HeldFate = iota
	Leaves             // they are content
	Stripped           // from where the suspicion began on they go
)

// Part is a stretch of a text that is all content or all reasoning. Where a tag
// stands between two, or a marker that starts a tool, the text is taken apart:
// clients that get both in one delta drop one of them.
type Part struct {
	from      int // where it begins in the data
	cuts      int // how many cuts stand before it
	newline   bool
	breaks    bool // it begins a stretch of reasoning behind another, and nothing of it has left
	Reasoning bool // it stood between tags
	Spoke     bool // a non-space character is in it, or in what has left since the part before
	Tool      int  // the tool of Tools, from 1 on, that starts before it, 0 for none
}

// Tool is what a marker says that starts a tool: insides of JSON strings, valid until
// the next text.
type Tool struct{ Emoji, Label []byte }

// Waits reports whether something waits for the texts to come.
func (r *Reading) Waits() bool { return r.Suspects() || len(r.pending) > 0 || len(r.lead) > 0 }

// Suspects reports whether the end of the text may be an imitated marker or a tag, so
// that it has to be held back.
func (r *Reading) Suspects() bool { return r.suspicion.kind != nothing }

// Suspected returns where what is suspected begins in the data. It returns false if
// that is in a text before, which is held already. The text is held now.
func (r *Reading) Suspected() (from int, here bool) {
	from, here = r.suspicion.from, r.suspicion.here
	r.suspicion.here = false
	return from, here
}

// Part returns what is left of the part i, without what goes in front of it.
func (r *Reading) Part(i int) Kept {
	k := Kept{Span: jsonspan.Span{From: r.Parts[i].from, To: r.in.To}, Cuts: r.cuts[r.Parts[i].cuts:]}
	if i+1 < len(r.Parts) {
		k.To = r.Parts[i+1].from
		k.Cuts = r.cuts[r.Parts[i].cuts:r.Parts[i+1].cuts]
	}
	return k
}

// Front returns what goes in front of the part i, of which k is left: a newline, or
// reasoning from texts before, behind a paragraph break where a stretch begins. It
// must be asked once of each part that leaves, in order.
func (t *State) Front(r *Reading, i int, k *Kept) []byte {
	p, lead := &r.Parts[i], r.lead
	r.lead = r.lead[:0]
	switch {
	case p.newline:
		return NewlineInJSON
	case p.breaks && k.Len()+len(lead) > 0:
		p.breaks = false
		if i == len(r.Parts)-1 {
			t.newStretch = false
		}
		return r.withBreak(lead)
	}
	return lead
}

// Forget lets go of the text. Nothing waits.
func (r *Reading) Forget() {
	r.data, r.closing, r.suspicion.here, r.Notes = nil, jsonspan.Span{}, false, nil
	r.Parts, r.Tools, r.room = r.Parts[:0], r.Tools[:0], r.room[:0]
	if cap(r.pending)+cap(r.lead) > maxIdleBuffer {
		r.pending, r.lead = nil, nil
	}
}

// Trim gives back what a large text took and the next need not.
func (r *Reading) Trim() {
	if cap(r.cuts) > maxIdleItems || cap(r.Parts) > maxIdleItems || cap(r.Tools) > maxIdleItems {
		r.cuts, r.Parts, r.Tools = nil, nil, nil
	}
	if cap(r.room)+cap(r.spare) > maxIdleBuffer {
		r.room, r.spare = nil, nil
	}
}

// Bounds on what is kept for the next text.
const (
	maxIdleBuffer = 16 << 10 // bytes
	maxIdleItems  = 256      // of a list
)

// begin begins with a text, of which the first part is what t says.
func (r *Reading) begin(t *State, data []byte, in jsonspan.Span) {
	r.data, r.in = data, in
	r.Held, r.HeldNewline, r.Parts, r.cuts, r.room, r.Tools = StaysHeld, false, r.Parts[:0], r.cuts[:0], r.room[:0], r.Tools[:0]
	r.Text, r.Reasoned, r.Dropped = false, false, false
	r.Imitations, r.Stretches, r.grown = 0, 0, 0
	r.add(in.From, t.tags.inside).breaks = t.newStretch
}

// strip ends the suspicion: it was right.
func (r *Reading) strip() {
	if r.suspicion.beganBefore() {
		r.Held = Stripped
	}
	r.suspicion.clear()
}

// noteSuspicion notes that the text is held.
func (r *Reading) noteSuspicion() {
	if r.suspicion.kind == aTag {
		r.Notes.Add(contract.SectionReasoning, "may be a tag: held back")
	} else {
		r.Notes.Add(contract.SectionMarkers, "may be an imitated marker: held back to the end of the line")
	}
}

// lineFrom returns where what is suspected begins in the text: at its start if it
// began in one before.
func (r *Reading) lineFrom() int {
	if r.suspicion.here {
		return r.suspicion.from
	}
	return r.in.From
}

// suspectClosing records that what may be a closing tag goes on at i.
func (r *Reading) suspectClosing(i int) {
	if !r.closing.Ok() { // where it began in a text before, that is the start
		r.closing = jsonspan.Span{From: i, To: r.in.To}
	}
}

// closingFrom returns where that begins in the text: at its start if it began in
// one before.
func (r *Reading) closingFrom() int {
	if r.closing.Ok() {
		return r.closing.From
	}
	return r.in.From
}

// keepClosing takes what may be a closing tag at the end of the text out of it until
// more is known.
func (r *Reading) keepClosing() {
	r.Notes.Add(contract.SectionReasoning, "may be a closing tag: held back")
	from := r.closingFrom()
	r.cut(from, r.in.To)
	r.pending = append(r.pending, r.data[from:r.in.To]...)
	r.closing = jsonspan.Span{}
}

// keep keeps room, which is r.room and more, and returns what is more. That stays
// valid until the next text.
func (r *Reading) commit(room []byte) []byte {
	more := room[len(r.room):]
	r.room = room
	return more
}

// withBreak returns reasoning with a paragraph break in front of it (contract
// section 4).
func (r *Reading) withBreak(reasoning []byte) []byte {
	return r.commit(append(append(r.room, BreakInJSON...), reasoning...))
}

// growth returns how many bytes longer the text may yet become.
func (r *Reading) growth(s Sizes) int { return s.Budget() - r.grown }

// mayStart reports whether one more marker may start a tool: its events are longer
// than it is, and so are the parts of the text around it.
func (r *Reading) mayStart(s Sizes) bool {
	n := 2*s.PartSize(r.in) + 2*s.ToolSize()
	if r.growth(s) < n {
		return false
	}
	r.grown += n
	return true
}

// spoke records that a non-space character leaves as content.
func (r *Reading) spoke() {
	r.Text = true
	r.Parts[len(r.Parts)-1].Spoke = true
}

// reasons records that reasoning with a non-space character leaves, or is dropped.
func (r *Reading) reasoned(o *Rules) {
	if o.Reasoning == contract.ReasoningDrop {
		r.Dropped = true
	} else {
		r.Reasoned = true
	}
	r.Parts[len(r.Parts)-1].Spoke = true
}

// add begins a part at the index from of the data.
func (r *Reading) add(from int, reasoning bool) *Part {
	r.Parts = append(r.Parts, Part{from: from, cuts: len(r.cuts), Reasoning: reasoning})
	return &r.Parts[len(r.Parts)-1]
}

// addTool begins a part at the index from of the data, before which the tool starts
// whose marker was the line under suspicion.
func (r *Reading) addTool(from int) {
	r.room = slices.Grow(r.room, r.suspicion.line.Size()+max(r.in.To-from, 0)) // for this and those to come
	emoji, label := r.suspicion.line.Tool()
	emoji = r.commit(append(r.room, emoji...))
	label = r.commit(append(r.room, label...))
	r.Tools = append(r.Tools, Tool{emoji, label})
	r.add(from, false).Tool = len(r.Tools)
}

// cut takes data[from:to] out of the part under way. Cuts come in order; what
// one leaves no byte before the next is one.
func (r *Reading) cut(from, to int) {
	n := len(r.cuts)
	switch {
	case from >= to:
	case n > r.Parts[len(r.Parts)-1].cuts && r.cuts[n-1].To == from:
		r.cuts[n-1].To = to
	default:
		if n == maxIdleItems { // there will be many: room for all of them, once
			r.cuts = slices.Grow(r.cuts, (len(r.data)-from)/len("a`💻 x`"))
		}
		r.cuts = append(r.cuts, jsonspan.Span{From: from, To: to})
	}
}

// splitMarkers has no part that has changed look like a tool's marker, whole in a
// chunk of its own: whoever comes behind us would start a tool for it. The newline
// that it begins with gets a chunk of its own.
func (r *Reading) splitMarkers() {
	if len(r.Parts) == 1 && len(r.cuts) == 0 && !r.Parts[0].newline && !r.Suspects() {
		return
	}
	for i := 0; i < len(r.Parts); i++ {
		if r.Parts[i].Reasoning {
			continue
		}
		k := r.Part(i)
		if !r.looksLikeMarker(i, k) {
			continue
		}
		cuts, at := r.Parts[i].cuts, k.From
		if !r.Parts[i].newline {
			for at = k.first(); cuts < len(r.cuts) && r.cuts[cuts].From < at; cuts++ {
			}
			_, at = jsonspan.NextRune(r.data, at)
		}
		i++
		r.Parts = slices.Insert(r.Parts, i, Part{from: at, cuts: cuts})
	}
}

// looksLikeMarker reports whether what leaves of the part i, which is k, looks like
// a marker. What is suspected does not leave.
func (r *Reading) looksLikeMarker(i int, k Kept) bool {
	if i == len(r.Parts)-1 && r.suspicion.here {
		k.To = r.suspicion.from
	}
	if r.Parts[i].newline {
		k.Front = NewlineInJSON
	} else if at := k.first(); at >= k.To || r.data[at] != '\\' {
		return false
	}
	r.spare = k.AppendTo(r.spare[:0], r.data)
	_, ok := marker.Whole(r.spare)
	return ok
}
