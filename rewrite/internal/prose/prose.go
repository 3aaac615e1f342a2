package prose

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// State is the position of a stream in the text of its message. The zero value is at the
// start of a message. Only content that leaves moves the fence and the opening of tags:
// markers and reasoning do not.
type State struct {
	fence Fence // of the content
	tags  tags

	begun        bool // a character of content has left
	afterMarker  bool // a marker was dropped behind content: the next content needs a newline
	newStretch   bool // the reasoning to come begins a stretch behind another
	dropNewlines int8 // how many newlines behind the last marker line are dropped
}

// Rules say what Read looks for in a text, and what it may cost.
type Rules struct {
	*contract.Options
	Finished bool  // the finish chunk has left: no marker starts a tool (contract section 2)
	Reasoned bool  // reasoning has left before
	Sizes    Sizes // nil for Split: no limit, marker lines stay, and a Reading ends behind MaxStretches
}

// Sizes says what it costs to take a text apart (contract section 7). Read asks only if
// it may have to.
type Sizes interface {
	// Budget returns the number of bytes by which the text may grow.
	Budget() int
	// PartSize returns the number of bytes that each further part of the text at in
	// takes, without the bytes of the text.
	PartSize(in jsonspan.Span) int
	// ToolSize returns the number of bytes that a tool event takes, without the fields of
	// the tool.
	ToolSize() int
}

// trusts reports whether an imitated marker starts a tool.
func (o *Rules) trusts() bool { return o.Imitations == contract.ImitationsTrust && !o.Finished }

// Read follows the text data[in.From:in.To], the inside of a JSON string, and fills r
// with what the text is. last says that nothing may wait for the text that follows. r
// aliases data until the next Read.
func (t *State) Read(r *Reading, data []byte, in jsonspan.Span, o *Rules, last bool) {
	r.begin(t, data, in)
	if t.dropNewlines == 0 && !r.Suspects() && t.tags.idle() && !HasSigns(in.Of(data)) {
		if text := in.Of(data); len(text) > 0 {
			first, _ := jsonspan.NextRune(text, 0)
			t.leaves(r, first)
			if jsonspan.HasText(text) {
				r.spoke()
			}
			t.Skim(text, nil) // all of it is content; without tools, because there is no backtick
		}
	} else {
		t.readText(r, o)
		t.endText(r, o, last)
	}
	r.splitMarkers()
	t.newStretch = r.Parts[len(r.Parts)-1].breaks
	r.HeldNewline = t.afterMarker && r.suspicion.here
}

// Waits reports whether something in r waits to be decided.
func (t *State) Waits(r *Reading) bool { return r.Suspects() || t.tags.pending() }

// Idle reports whether content without a backtick or a < leaves as it is and changes only
// where lines begin. If reasoning is true it reports the same of reasoning in a member of
// its own.
func (t *State) Idle(r *Reading, reasoning bool) bool {
	return (t.begun || reasoning) && t.dropNewlines == 0 && !t.afterMarker && t.tags.idle() && !r.Suspects() && len(r.lead) == 0
}

// InTag reports whether the next text may begin in a tag, in reasoning, or with white space
// behind a tag, which does not leave.
func (t *State) InTag() bool { return !t.tags.idle() }

// MidLine reports whether the line has begun with a word, so that up to the next newline
// no marker, tag or fence can begin.
func (t *State) MidLine() bool { return midLine(&t.fence, &t.tags.opening) }

func midLine(f *Fence, o *opening) bool {
	return f.MidLine() && o.blocked && o.newlines == 0
}

// Skim follows text, the inside of a JSON string, if all of it is certain to be
// content. If a line in it begins like a marker of one of the tools, or like a tag, it
// returns false and changes nothing. The State must be idle.
func (t *State) Skim(text []byte, tools *marker.Table) bool {
	f, o := t.fence, t.tags.opening
	for i := 0; i < len(text); {
		if midLine(&f, &o) {
			if i = jsonspan.NextNewline(text, i); i == len(text) {
				break
			}
		}
		c, next := jsonspan.NextRune(text, i)
		switch {
		case f.Open():
		case c == '`' && f.LineStart() && tools.MayBegin(text[next:]), c == '<' && o.mayOpen():
			return false
		}
		f.Step(c)
		o.sent(c)
		i = next
	}
	t.fence, t.tags.opening = f, o
	return true
}

// DropMarker records that a marker is dropped with its newlines. One newline has to keep
// the texts around it apart.
func (t *State) DropMarker() {
	switch {
	case t.afterMarker:
		t.dropNewlines = 0 // the marker's first newline ended the line before
	case t.dropNewlines > 0:
		t.dropNewlines = 1 // the same, but a newline has left before that line
	case t.begun:
		t.afterMarker = true
		t.fence.endLine() // TestMarkerEndsTheLineThatClosesAFence
	}
}

// SkipUnexamined records that bytes have passed unexamined, which may have been text.
func (t *State) SkipUnexamined() { t.afterMarker, t.dropNewlines = false, 0 }

// BeginMessage records that a tool has started, so that a new message of the model may
// begin here.
func (t *State) BeginMessage() {
	if !t.tags.inside {
		t.tags.boundary()
	}
}

// Settle decides what waits in r as if the text ended here. The caller settles before
// anything but text, because Hermes writes text behind that on a line of its own. Settle
// returns reasoning that has to leave in a delta of its own, the inside of a JSON string,
// or nil. r then says what becomes of the held texts. Its only part is empty, and may
// start a tool.
func (t *State) Settle(r *Reading, o *Rules) (reasoning []byte) {
	r.begin(t, nil, jsonspan.Span{})
	if t.tags.pending() && !t.tags.settle() {
		t.clearClosing(r, o)
		if reasoning = t.Front(r, 0, &Kept{}); o.Reasoning == contract.ReasoningDrop {
			reasoning = nil
		}
	}
	r.pending = r.pending[:0]
	switch {
	case !r.Suspects():
	case r.suspicion.complete():
		t.cutLine(r, 0, o.trusts())
		t.dropNewlines++ // its own newline has not come yet
	default:
		t.clearLine(r)
	}
	return reasoning
}

// Release decides that the held texts are content.
func (t *State) Release(r *Reading) {
	r.begin(t, nil, jsonspan.Span{})
	t.clearLine(r)
}

// readText follows a text rune by rune. When an imitation is found, the newline before it
// has already left. The imitation goes with the newline behind it, and with one further
// newline if there is one (contract section 1).
func (t *State) readText(r *Reading, o *Rules) {
	in := r.in
	text := r.data[:in.To]
	for i := in.From; i < in.To; {
		if t.MidLine() && t.dropNewlines == 0 && !t.afterMarker && !r.Suspects() && t.tags.idle() {
			from := i
			i = jsonspan.NextNewline(text, i)
			if jsonspan.HasText(text[from:i]) {
				r.spoke()
			}
			if i == in.To {
				break
			}
		}
		c, next := jsonspan.NextRune(text, i)
		if o.Reasoning != contract.ReasoningKeep && r.suspicion.kind != aMarker {
			if at, taken := t.readTag(r, o, i, next, c); taken {
				if i = at; o.Sizes == nil && r.Stretches == MaxStretches && !t.tags.inside {
					r.in.To = i
					return
				}
				continue
			}
		}
		switch {
		case t.dropNewlines > 0 && c == '\n':
			t.dropNewlines--
			r.cut(i, next)
		case r.Suspects() && c == '\n' && r.suspicion.complete():
			t.cutLine(r, next, r.mayStart(o))
		case r.Suspects():
			if c == '\n' || !r.suspicion.line.Step(c, text[i:next], o.ToolTable()) {
				t.clearLine(r)
				t.sent(r, c)
			}
		// A line begins at its first rune, and behind a marker that was dropped.
		case c == '`' && o.Imitations != contract.ImitationsKeep && (t.fence.LineStart() || t.afterMarker) && !t.fence.Open():
			if o.Sizes != nil {
				r.suspicion.begin(aMarker, i)
				t.dropNewlines = 0
			} else if to, ok := r.suspicion.line.ReadWhole(text, next, o.ToolTable()); ok {
				t.tags.boundary()
				next = to
			} else {
				t.sent(r, c)
			}
		default:
			t.sent(r, c)
			t.dropNewlines = 0
		}
		i = next
	}
}

// endText deals with what is suspected at the end of a text. It waits for the next text,
// or is decided if this is the last.
func (t *State) endText(r *Reading, o *Rules, last bool) {
	switch {
	case !r.Suspects():
	case !last && r.suspicion.kind == aTag:
		r.Notes.Add(contract.SectionReasoning, "may be a tag: held back")
	case !last:
		r.Notes.Add(contract.SectionMarkers, "may be an imitated marker: held back to the end of the line")
	case r.suspicion.complete():
		t.cutLine(r, r.in.To, r.mayStart(o))
		t.dropNewlines++ // its own newline has not come yet
	default:
		t.clearLine(r)
	}
	switch {
	case !t.tags.pending():
	case !last: // no frame is held for it: it leaves later, as reasoning, or never
		r.Notes.Add(contract.SectionReasoning, "may be a closing tag: held back")
		r.cut(r.closing, r.in.To)
		r.pending = append(r.pending, r.data[r.closing:r.in.To]...)
	case t.tags.settle():
		t.closeStretch(r, r.in.To)
	default:
		t.clearClosing(r, o)
	}
}

// sent records that the rune c leaves as content.
func (t *State) sent(r *Reading, c rune) {
	t.leaves(r, c)
	t.fence.Step(c)
	t.tags.sent(c)
	if !jsonspan.IsSpace(c) {
		r.spoke()
	}
}

// leaves records that content leaves that begins with the rune c. Behind a marker that
// was dropped it needs a newline in front, unless c is one (contract section 1).
func (t *State) leaves(r *Reading, c rune) {
	t.begun = true
	switch {
	case !t.afterMarker:
	case c == '\n':
		t.afterMarker = false
	default:
		t.newlineLeaves()
		r.Parts[len(r.Parts)-1].newline = true
	}
}

// newlineLeaves records that the newline leaves that stands for a marker that was
// dropped.
func (t *State) newlineLeaves() {
	t.afterMarker = false
	t.fence.Step('\n')
	t.tags.sent('\n')
}

// cutLine takes the suspected line, which ends at next, out of the text. It is an
// imitation, with the newline behind it and one further newline, because the newline
// before it has left. If that has not left yet, the one behind takes its place and stays.
// starts says that the imitation starts a tool.
func (t *State) cutLine(r *Reading, next int, starts bool) {
	r.cut(r.suspicion.from, next)
	r.Notes.Add(contract.SectionMarkers, "an imitated marker: stripped")
	r.strip()
	t.tags.boundary() // what follows may open a message
	if t.dropNewlines = 1; t.afterMarker {
		t.dropNewlines = 0
	}
	if starts {
		r.addTool(next)
	} else {
		r.Imitations++
	}
}

// clearLine decides that what is suspected is content: neither a marker nor a tag.
func (t *State) clearLine(r *Reading) {
	first, more := '`', r.suspicion.kind == aMarker && r.suspicion.line.Size() > 1
	if r.suspicion.kind == aTag {
		first = '<'
		t.tags.matched = 0
	}
	if t.afterMarker && r.suspicion.beganBefore() {
		t.newlineLeaves() // the newline is held with the line
	}
	t.sent(r, first)
	if more {
		t.sent(r, 'x') // in place of the other runes, which make no fence
	}
	if r.suspicion.beganBefore() {
		r.Held = Leaves
		r.Notes.Add(contract.SectionMarkers, "what was held back is text: it leaves")
	}
	r.suspicion.clear()
}

// HasSigns reports whether the inside of a JSON string has a backtick or a <, escaped or
// not. Markers and tags begin with them.
func HasSigns(raw []byte) bool {
	if bytes.IndexByte(raw, '`') >= 0 || bytes.IndexByte(raw, '<') >= 0 {
		return true
	}
	for {
		_, after, ok := bytes.Cut(raw, []byte(`\u00`))
		if !ok {
			return false
		}
		switch string(after[:min(len(after), 2)]) {
		case "60", "3c", "3C":
			return true
		}
		raw = after
	}
}
