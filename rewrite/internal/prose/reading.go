package prose

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Reading is what a State has found in a text, and what waits for the texts to come.
// The zero value is ready for use.
//
// Only what waits counts between two texts. If nothing waits (see Waits), the next text
// may be read into any other Reading, and another stream may use this one.
type Reading struct {
	// What waits.
	suspicion suspicion // what the end of the text may be
	pending   []byte    // what may be a closing tag, from earlier texts, as in the JSON
	lead      []byte    // pending that was no tag, and leaves before the reasoning to come

	// What the text is.
	Held        HeldFate // what becomes of the texts that are held
	HeldNewline bool     // a newline goes in front of what is suspected, and is held with it
	Parts       []Part   // at least one
	Tools       []Tool   // the tools that Parts name
	Text        bool     // a non-space character leaves as content
	Reasoned    bool     // a non-space character leaves as reasoning
	Dropped     bool     // a non-space character of reasoning does not leave
	Imitations  int      // the number of markers that are taken out and start no tool
	Stretches   int      // the number of stretches of reasoning that begin

	// Notes collects what is done.
	Notes *contract.Notes

	data    []byte
	in      jsonspan.Span   // the text in data
	cuts    []jsonspan.Span // what is taken out of it, in order
	closing int             // where in it what may be a closing tag begins
	grown   int             // the number of bytes by which the text has grown
	room    []byte          // the bytes of fronts and tools
	spare   []byte          // for looksLikeMarker
}

// HeldFate is what becomes of texts that have been held back.
type HeldFate uint8

// What may become of held texts.
const (
	StaysHeld HeldFate = iota
	Leaves             // they are content
	Stripped           // they leave without what is suspected
)

// Part is a stretch of a text that is all content or all reasoning. A text is taken apart
// at tags and at markers that start a tool, because clients that get content and reasoning
// in one delta drop one of them.
type Part struct {
	from      int  // where it begins in the data
	cuts      int  // how many cuts there are before it
	newline   bool // a newline goes in front of it
	breaks    bool // it begins a stretch of reasoning behind another, and nothing of it has left
	Reasoning bool // it stood between tags
	Spoke     bool // a non-space character is in it, or has left since the part before
	Tool      int  // the tool of Tools, from 1 on, that starts before it; 0 if none does
}

// Tool is what a marker that starts a tool says: insides of JSON strings, valid until
// the next text.
type Tool struct{ Emoji, Label []byte }

// Waits reports whether something waits for the texts to come.
func (r *Reading) Waits() bool { return r.Suspects() || len(r.pending) > 0 || len(r.lead) > 0 }

// Whole reports whether the text leaves as it came, as content, and decides nothing else.
func (r *Reading) Whole() bool {
	p := &r.Parts[0]
	return len(r.Parts) == 1 && len(r.cuts) == 0 && len(r.lead) == 0 && !p.newline && !p.Reasoning && r.Held == StaysHeld && !r.Suspects()
}

// Suspects reports whether the text has to be held back, because its end may be an
// imitated marker or a tag.
func (r *Reading) Suspects() bool { return r.suspicion.kind != nothing }

// Suspected returns where what is suspected begins in the data, now that the caller holds
// the text. It returns false if that began in an earlier text, which is already held.
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

// Front returns what goes in front of k, which is left of the part i: a newline, or
// reasoning from earlier texts, behind a paragraph break if a stretch begins. It must be
// called once for each part that leaves, in order.
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
		return r.commit(append(append(r.room, BreakInJSON...), lead...)) // contract section 4
	}
	return lead
}

// Trim gives back all room but that of what waits.
func (r *Reading) Trim() {
	*r = Reading{suspicion: r.suspicion, pending: r.pending, lead: r.lead, Notes: r.Notes}
}

// begin begins a text. Its first part is reasoning if t is inside a tag.
func (r *Reading) begin(t *State, data []byte, in jsonspan.Span) {
	r.data, r.in, r.closing, r.suspicion.from = data, in, in.From, in.From
	r.Held, r.HeldNewline, r.Parts, r.cuts, r.room, r.Tools = StaysHeld, false, r.Parts[:0], r.cuts[:0], r.room[:0], r.Tools[:0]
	r.Text, r.Reasoned, r.Dropped = false, false, false
	r.Imitations, r.Stretches, r.grown = 0, 0, 0
	r.add(in.From, t.tags.inside).breaks = t.newStretch
}

// strip ends the suspicion, which was right.
func (r *Reading) strip() {
	if r.suspicion.beganBefore() {
		r.Held = Stripped
	}
	r.suspicion.clear()
}

// commit keeps what has been appended to r.room until the next text, and returns it.
func (r *Reading) commit(appended []byte) []byte {
	added := appended[len(r.room):]
	r.room = appended
	return added
}

// growth returns the number of bytes by which the text may still grow.
func (r *Reading) growth(s Sizes) int { return s.Budget() - r.grown }

// mayStart reports whether one more marker may start a tool, and takes what that costs
// from the budget: its two events, and two parts of the text.
func (r *Reading) mayStart(o *Rules) bool {
	if !o.trusts() {
		return false
	}
	n := 2*o.Sizes.PartSize(r.in) + 2*o.Sizes.ToolSize()
	if r.growth(o.Sizes) < n {
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

// reasoned records that a non-space character of reasoning leaves, or is dropped.
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

// addTool begins a part at the index from of the data. The tool of the suspected line
// starts before it.
func (r *Reading) addTool(from int) {
	r.room = slices.Grow(r.room, r.suspicion.line.Size()+max(r.in.To-from, 0)) // for all tools to come
	emoji, label := r.suspicion.line.Tool()
	emoji = r.commit(append(r.room, emoji...))
	label = r.commit(append(r.room, label...))
	r.Tools = append(r.Tools, Tool{emoji, label})
	r.add(from, false).Tool = len(r.Tools)
}

// cut takes data[from:to] out of the current part. Cuts come in order. Two that touch
// become one.
func (r *Reading) cut(from, to int) {
	n := len(r.cuts)
	switch {
	case from >= to:
	case n > r.Parts[len(r.Parts)-1].cuts && r.cuts[n-1].To == from:
		r.cuts[n-1].To = to
	default:
		if n == contract.MaxIdleItems { // there will be many: room for all of them, once
			r.cuts = slices.Grow(r.cuts, (len(r.data)-from)/len("a`💻 x`"))
		}
		r.cuts = append(r.cuts, jsonspan.Span{From: from, To: to})
	}
}

// splitMarkers splits changed parts that look like a marker that is the whole content of
// a chunk. A sidecar behind this one would start a tool for such a chunk. The newline
// that it begins with becomes a part of its own.
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

// looksLikeMarker reports whether k, which is left of the part i, looks like a marker
// without what is suspected, which does not leave.
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

// suspicion is what the end of a text may be, so that the text has to be held back. The
// zero value suspects nothing.
type suspicion struct {
	kind suspect
	here bool        // what is suspected begins in the current text, not in a held one
	from int         // where it begins in the data, as far as it is in the current text
	line marker.Line // what may be an imitated marker
}

// suspect is a kind of suspicion.
type suspect uint8

const (
	nothing suspect = iota
	aMarker
	aTag
)

// begin suspects that a marker or a tag begins at i.
func (s *suspicion) begin(kind suspect, i int) {
	s.kind, s.here, s.from = kind, true, i
	if kind == aMarker {
		s.line.Start()
	}
}

// clear ends the suspicion.
func (s *suspicion) clear() { s.kind, s.here = nothing, false }

// beganBefore reports whether what is suspected begins in a held text.
func (s *suspicion) beganBefore() bool { return s.kind != nothing && !s.here }

// complete reports whether the suspected line is a marker if it ends here.
func (s *suspicion) complete() bool { return s.kind == aMarker && s.line.Complete() }

// Kept is what is left of a text: Front, and then a span of the text without the cuts.
type Kept struct {
	jsonspan.Span
	Cuts  []jsonspan.Span
	Front []byte
}

// NewlineInJSON and BreakInJSON are a newline and a paragraph break, inside a JSON
// string.
var NewlineInJSON, BreakInJSON = []byte(`\n`), []byte(`\n\n`)

// Len returns how many bytes are left.
func (k *Kept) Len() int {
	n := len(k.Front) + k.To - k.From
	for _, c := range k.Cuts {
		n -= c.To - c.From
	}
	return n
}

// AppendTo appends what is left of the text in data to dst.
func (k *Kept) AppendTo(dst, data []byte) []byte {
	dst = append(dst, k.Front...)
	at := k.From
	for _, c := range k.Cuts {
		dst = append(dst, data[at:c.From]...)
		at = c.To
	}
	return append(dst, data[at:k.To]...)
}

// first returns the position of the first byte of the text that is left.
func (k *Kept) first() int {
	at := k.From
	for _, c := range k.Cuts {
		if c.From > at {
			break
		}
		at = c.To
	}
	return at
}
