package prose

import (
	"bytes"
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Reading is what a State has found in a text: its parts, in order, and what becomes of
// the texts that are held.
type Reading struct {
	Held        HeldFate // what becomes of the texts that are held
	HeldNewline bool     // a newline goes in front of the suspected text, and is held with it
	Parts       []Part   // at least one
	Tools       []Tool   // the tools that Parts name
	Text        bool     // a non-space character leaves as content
	Reasoned    bool     // a non-space character leaves as reasoning
	Dropped     bool     // a non-space character of reasoning does not leave
	Imitations  int      // the number of markers that are taken out and start no tool
	Stretches   int      // the number of stretches of reasoning that begin

	data    []byte
	in      jsonspan.Span   // the text in data
	cuts    []jsonspan.Span // the spans that are taken out of it, in order
	closing int             // where in it a possible closing tag begins
	grown   int             // the number of bytes by which the text has grown
	spare   []byte          // for looksLikeMarker
}

// HeldFate is what becomes of texts that have been held back.
type HeldFate uint8

// The fates of held texts.
const (
	StaysHeld HeldFate = iota
	Leaves             // they are content
	Stripped           // they leave without the suspected text
)

// Part is a stretch of a text that is all content or all reasoning. A text is taken apart
// at tags and at markers that start a tool, because clients that get content and reasoning
// in one delta drop one of them.
type Part struct {
	from      int  // where it begins in the data
	cuts      int  // how many cuts there are before it
	newline   bool // a newline goes in front of it
	breaks    bool // it begins a stretch of reasoning after another, and nothing of it has left
	Reasoning bool // it stood between tags
	HasText   bool // a non-space character is in it, or has left since the part before
	Tool      int  // the tool of Tools, from 1 on, that starts before it; 0 if none does
}

// Tool is what a marker that starts a tool says: insides of JSON strings, valid until
// the next text.
type Tool struct{ Emoji, Label []byte }

// Suspects reports whether the text has to be held back, because its end may be an
// imitated marker or a tag.
func (t *State) Suspects() bool { return t.suspicion.kind != nothing }

// Suspected returns where the suspected text begins in the data, now that the caller holds
// the text. It returns false if that began in an earlier text, which is already held.
func (t *State) Suspected() (from int, here bool) {
	from, here = t.suspicion.from, t.suspicion.here
	t.suspicion.here = false
	return from, here
}

// Part returns the rest of the part i, without the bytes that go in front of it.
func (t *State) Part(i int) Kept {
	k := Kept{Span: jsonspan.Span{From: t.Parts[i].from, To: t.in.To}, Cuts: t.cuts[t.Parts[i].cuts:]}
	if i+1 < len(t.Parts) {
		k.To = t.Parts[i+1].from
		k.Cuts = t.cuts[t.Parts[i].cuts:t.Parts[i+1].cuts]
	}
	return k
}

// Front returns what goes in front of k, which is left of the part i: a newline, or
// reasoning from earlier texts, after a paragraph break if a stretch begins. It must be
// called once for each part that leaves, in order.
func (t *State) Front(i int, k *Kept) []byte {
	p, lead := &t.Parts[i], t.lead
	t.lead = t.lead[:0]
	switch {
	case p.newline:
		return NewlineInJSON
	case p.breaks && k.Len()+len(lead) > 0:
		p.breaks = false
		if i == len(t.Parts)-1 {
			t.needsBreak = false
		}
		return slices.Concat(BreakInJSON, lead) // contract section 4
	}
	return lead
}

// begin begins a text. Its first part is reasoning if t is inside a tag.
func (t *State) begin(data []byte, in jsonspan.Span) {
	t.Reading = Reading{
		Parts: t.Parts[:0], Tools: t.Tools[:0], cuts: t.cuts[:0], spare: t.spare,
		data: data, in: in, closing: in.From,
	}
	t.suspicion.from = in.From
	t.add(in.From, t.tags.inside()).breaks = t.needsBreak
}

// strip ends the suspicion, which was right.
func (t *State) strip() {
	if t.suspicion.beganBefore() {
		t.Held = Stripped
	}
	t.suspicion.clear()
}

// mayStart reports whether one more marker may start a tool, and takes what that costs
// from the budget: its two events, and two parts of the text.
func (t *State) mayStart(o *Rules) bool {
	n := 2*o.Limits.Part + 2*o.Limits.Tool
	if o.Imitations != contract.ImitationsTrust || o.Finished || o.Limits.Growth-t.grown < n {
		return false
	}
	t.grown += n
	return true
}

// recordText records that a non-space character leaves as content.
func (t *State) recordText() {
	t.Text = true
	t.Parts[len(t.Parts)-1].HasText = true
}

// recordReasoning records that a non-space character of reasoning leaves, or is dropped.
func (t *State) recordReasoning(o *Rules) {
	if o.Reasoning == contract.ReasoningDrop {
		t.Dropped = true
	} else {
		t.Reasoned = true
	}
	t.Parts[len(t.Parts)-1].HasText = true
}

// add begins a part at the index from of the data.
func (t *State) add(from int, reasoning bool) *Part {
	t.Parts = append(t.Parts, Part{from: from, cuts: len(t.cuts), Reasoning: reasoning})
	return &t.Parts[len(t.Parts)-1]
}

// addTool begins a part at the index from of the data. The tool of the suspected line
// starts before it.
func (t *State) addTool(from int) {
	emoji, label := t.suspicion.line.Tool()
	t.Tools = append(t.Tools, Tool{bytes.Clone(emoji), bytes.Clone(label)})
	t.add(from, false).Tool = len(t.Tools)
}

// cut takes data[from:to] out of the current part. Cuts come in order. Two that touch
// become one.
func (t *State) cut(from, to int) {
	n := len(t.cuts)
	switch {
	case from >= to:
	case n > t.Parts[len(t.Parts)-1].cuts && t.cuts[n-1].To == from:
		t.cuts[n-1].To = to
	default:
		t.cuts = append(t.cuts, jsonspan.Span{From: from, To: to})
	}
}

// splitMarkers splits changed parts that look like a marker that is the whole content of
// a chunk. A sidecar after this one would start a tool for such a chunk. The newline
// that it begins with becomes a part of its own.
func (t *State) splitMarkers() {
	if len(t.Parts) == 1 && len(t.cuts) == 0 && !t.Parts[0].newline && !t.Suspects() {
		return
	}
	for i := 0; i < len(t.Parts); i++ {
		if t.Parts[i].Reasoning {
			continue
		}
		k := t.Part(i)
		if !t.looksLikeMarker(i, k) {
			continue
		}
		cuts, at := t.Parts[i].cuts, k.From
		if !t.Parts[i].newline {
			for at = k.first(); cuts < len(t.cuts) && t.cuts[cuts].From < at; cuts++ {
			}
			_, at = jsonspan.NextRune(t.data, at)
		}
		i++
		t.Parts = slices.Insert(t.Parts, i, Part{from: at, cuts: cuts})
	}
}

// looksLikeMarker reports whether k, which is left of the part i, looks like a marker
// without the suspected text, which does not leave.
func (t *State) looksLikeMarker(i int, k Kept) bool {
	if i == len(t.Parts)-1 && t.suspicion.here {
		k.To = t.suspicion.from
	}
	if t.Parts[i].newline {
		k.Front = NewlineInJSON
	} else if at := k.first(); at >= k.To || t.data[at] != '\\' {
		return false
	}
	t.spare = k.AppendTo(t.spare[:0], t.data)
	_, ok := marker.Whole(t.spare)
	return ok
}

// suspicion is what the end of a text may be, so that the text has to be held back. The
// zero value suspects nothing.
type suspicion struct {
	kind suspect
	here bool        // the suspected text begins in the current text, not in a held one
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

// beganBefore reports whether the suspected text begins in a held one.
func (s *suspicion) beganBefore() bool { return s.kind != nothing && !s.here }

// complete reports whether the suspected line is a marker if it ends here.
func (s *suspicion) complete() bool { return s.kind == aMarker && s.line.Complete() }

// Kept is the rest of a text: Front, and then a span of the text without the cuts.
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

// AppendTo appends the rest of the text in data to dst.
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
