package prose

import (
	"slices"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Reading is the result of reading a text: its parts, in order, and what becomes of the texts that
// are held.
type Reading struct {
	Held       HeldFate // what becomes of the texts that are held
	Parts      []Part   // at least one
	Text       bool     // a non-space character leaves as content
	Reasoned   bool     // a non-space character is reasoning
	Markers    int      // the number of markers that are taken out and start a tool of Parts
	Imitations int      // the number of those that start no tool
	Stretches  int      // the number of stretches of reasoning that begin

	data    []byte // the text, while it is read
	text    []byte // the texts of the parts, one after another
	copied  bool   // text is a copy in room, and not the beginning of data
	room    []byte
	closing int // where in text a possible closing tag begins
	grown   int // the number of bytes by which the text has grown
}

// HeldFate says what becomes of texts that have been held back.
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
	Kept                     // what leaves, valid until the next text
	from      int            // where it begins in the texts of the parts
	newline   bool           // a newline goes in front of it
	breaks    bool           // it begins a stretch of reasoning after another, and nothing of it has left
	Reasoning bool           // it stood between tags
	HasText   bool           // a non-space character is in it, or has left since the part before
	Tool      *marker.Marker // of the tool that starts before it, nil if none does
}

// Suspects reports whether the text has to be held back, because its end may be an
// imitated marker or a tag.
func (t *State) Suspects() bool { return t.suspicion.size > 0 || t.suspicion.tag }

// Suspected returns how many bytes at the end of the text are suspected, now that the caller
// holds it. here is false if these begin in an earlier text, which is already held. newline says
// that a newline goes in front of them, and is held with them.
func (t *State) Suspected() (n int, here, newline bool) {
	here = t.suspicion.here
	t.suspicion.here = false
	return len(t.text) - t.suspicion.from, here, here && t.afterMarker
}

// begin begins a text. Its first part is reasoning if t is inside a tag.
func (t *State) begin(text []byte) {
	clear(t.Parts) // they would keep earlier texts alive
	t.Reading = Reading{Parts: t.Parts[:0], data: text, room: t.room}
	t.suspicion.from = 0
	t.add(t.tags.inside()).breaks = t.needsBreak
}

// keep adds the bytes data[from:to] to the current part. The texts of the parts are copied once
// they are not the beginning of the text any more.
func (t *State) keep(from, to int) {
	switch {
	case t.copied:
		t.text = append(t.text, t.data[from:to]...)
	case from == len(t.text):
		t.text = t.data[:to]
	default:
		t.room = append(slices.Grow(t.room[:0], len(t.data)), t.text...)
		t.text, t.copied = append(t.room, t.data[from:to]...), true
	}
}

// strip ends the suspicion, which was right, and takes the suspected text out.
func (t *State) strip() {
	t.text = t.text[:t.suspicion.from]
	if !t.suspicion.here {
		t.Held = Stripped
	}
	t.suspicion = suspicion{line: t.suspicion.line}
}

// recordReasoning records a non-space character of reasoning.
func (t *State) recordReasoning() {
	t.Reasoned, t.Parts[len(t.Parts)-1].HasText, t.tags.words = true, true, true
}

// add begins a part.
func (t *State) add(reasoning bool) *Part {
	t.Parts = append(t.Parts, Part{from: len(t.text), Reasoning: reasoning})
	return &t.Parts[len(t.Parts)-1]
}

// end gives the parts their texts: a part may begin with a newline, or with reasoning from earlier
// texts, after a paragraph break if a stretch begins (contract section 4). end splits changed
// parts that look like a marker that is the whole content of a chunk, because a sidecar after this
// one would start a tool for such a chunk. The newline that such a part begins with becomes one of
// its own. drop says that reasoning is dropped.
func (t *State) end(drop bool) {
	changed := len(t.Parts) > 1 || len(t.text) < len(t.data) || t.Parts[0].newline || t.Suspects()
	for i := 0; i < len(t.Parts); i++ {
		p, to := &t.Parts[i], len(t.text)
		if i+1 < len(t.Parts) {
			to = t.Parts[i+1].from
		}
		p.Kept = Kept{Front: t.lead, Text: t.text[p.from:to]}
		if drop {
			t.keepDropped(p, i == 0)
		}
		leaves := p.Text
		if i+1 == len(t.Parts) && t.suspicion.here {
			leaves = t.text[p.from:t.suspicion.from]
		}
		switch {
		case p.newline:
			p.Front, leaves = NewlineInJSON, slices.Concat(NewlineInJSON, leaves)
		case p.breaks && p.Len() > 0:
			p.Front, p.breaks = slices.Concat(BreakInJSON, t.lead), false
		}
		t.lead = t.lead[:0]
		if !changed || p.Reasoning {
			continue
		}
		if _, ok := marker.Whole(leaves); ok {
			n := 0
			for r := ' '; !p.newline && r != '\n'; {
				r, n = jsonspan.NextRune(p.Text, n)
			}
			p.Text = p.Text[:n]
			t.Parts = slices.Insert(t.Parts, i+1, Part{from: p.from + n})
		}
	}
	t.needsBreak = t.Parts[len(t.Parts)-1].breaks
	t.data = nil
}

// MaxDropped is the length in bytes, as JSON, of the longest reasoning that is kept while it is
// dropped, because its tag may never be closed.
const MaxDropped = 64 << 10

// keepDropped keeps the reasoning in p, which is dropped, until a tag closes it. goesOn says that it
// goes on with the text that it keeps.
func (t *State) keepDropped(p *Part, goesOn bool) {
	switch {
	case !p.Reasoning:
		t.dropped = nil
		return
	case !goesOn:
		t.dropped = []byte(t.tags.opening)
	}
	if len(t.dropped)+p.Len() > MaxDropped {
		t.dropped = nil
		return
	}
	if len(t.dropped) > 0 { // otherwise it was too long
		t.dropped = append(append(t.dropped, p.Front...), p.Text...)
	}
}

// suspicion says what the end of a text may be, so that the text has to be held back. The zero
// value suspects nothing.
type suspicion struct {
	here   bool   // the suspected text begins in the current text, not in a held one
	from   int    // where it begins in the texts of the parts, as far as it is in the current text
	line   []byte // what may be an imitated marker, as in the JSON, after the backtick
	size   int    // the length of that line as text, with the backtick; 0 if there is none
	opened bool   // there were a known emoji and a space
	tag    bool   // a tag is suspected
}

// step adds the rune r, which is raw in the JSON, to the suspected line. It reports whether the
// line may still be a marker.
func (s *suspicion) step(r rune, raw []byte, tools *marker.Table) bool {
	s.line = append(s.line, raw...)
	size := s.size + utf8.RuneLen(r)
	may := size <= marker.MaxHeldLine
	if !s.opened {
		var next int
		next, may = tools.Opening(s.line, 0)
		s.opened = next > 0
	}
	if may {
		s.size = size
	}
	return may
}

// marker returns the marker that the suspected line is. ok is false if the line has not ended, or
// is no marker.
func (s *suspicion) marker(ended bool, tools *marker.Table) (m marker.Marker, ok bool) {
	if ended && s.opened {
		m, _, ok = tools.Line(s.line, 0)
	}
	return m, ok
}

// Kept is the rest of a text: Front, and then Text.
type Kept struct{ Front, Text []byte }

// NewlineInJSON and BreakInJSON are a newline and a paragraph break, inside a JSON
// string.
var NewlineInJSON, BreakInJSON = []byte(`\n`), []byte(`\n\n`)

// Len returns how many bytes are left.
func (k *Kept) Len() int { return len(k.Front) + len(k.Text) }

// Bytes returns a copy of the rest.
func (k *Kept) Bytes() []byte { return slices.Concat(k.Front, k.Text) }
