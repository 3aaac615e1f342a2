package prose

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// State is how far a stream is in the text of its message. The zero value is at the
// start of a message.
type State struct {
	fence Fence // of the content
	tags  tags

	begun        bool // a character of content has left
	afterMarker  bool // a marker was dropped behind text: a newline goes before what follows
	newStretch   bool // the reasoning to come begins a stretch behind another
	dropNewlines int8 // how many newlines go with the marker line before
}

// Rules say what is looked for in a text, and how far.
type Rules struct {
	*contract.Options
	Finished bool // behind the finish chunk no marker starts a tool (contract section 2)
	Reasoned bool // reasoning has left before
	Sizes    Sizes
}

// Sizes says what a text costs that is taken apart (contract section 7). It is asked
// where one may be.
type Sizes interface {
	// Budget returns by how many bytes the text may become longer.
	Budget() int
	// PartSize returns how many bytes each further part of the text at in takes
	// beside its own.
	PartSize(in jsonspan.Span) int
	// ToolSize returns how many bytes an event of a tool takes beside what it says of
	// the tool.
	ToolSize() int
}

// trusts reports whether an imitated marker starts a tool.
func (o *Rules) trusts() bool { return o.Imitations == contract.ImitationsTrust && !o.Finished }

// Read follows the text data[in.From:in.To], the inside of a JSON string. last says
// that nothing may wait for what follows. r then has what the text is; it aliases data
// until the next Read.
func (t *State) Read(r *Reading, data []byte, in jsonspan.Span, o *Rules, last bool) {
	r.begin(t, data, in)
	if t.dropNewlines == 0 && !r.Suspects() && t.tags.idle() && !HasSigns(in.Of(data)) {
		t.readContent(r)
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

// Idle reports whether text without a backtick or a <, or reasoning that stands in a
// member of its own, leaves as it is, and changes no more than where lines begin.
func (t *State) Idle(r *Reading, reasoning bool) bool {
	return (t.begun || reasoning) && t.dropNewlines == 0 && !t.afterMarker && t.tags.idle() && !r.Suspects() && len(r.lead) == 0
}

// MidLine reports whether nothing opens and nothing is suspected up to the next
// newline, whatever comes: the line has begun with a word.
func (t *State) MidLine() bool { return midLine(&t.fence, &t.tags.opening) }

func midLine(f *Fence, o *opening) bool {
	return f.phase == fenceText && f.begun && o.blocked && o.newlines == 0
}

// Skim follows text, the inside of a JSON string, if all of it is sure to be
// content. It returns false, and has done nothing, if a line in it begins like a
// marker of one of the tools, or like a tag. The State must be idle.
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

// DropMarker records that a marker leaves the text with its newlines, of which one
// has to keep the texts around it apart.
func (t *State) DropMarker() {
	switch {
	case t.afterMarker:
		t.dropNewlines = 0 // the marker's first newline ended the line before
	case t.dropNewlines > 0:
		t.dropNewlines = 1 // and so here, where one has left before that line
	default:
		t.afterMarker = t.begun
	}
}

// SkipUnread records that something has passed unread, which may be text.
func (t *State) SkipUnexamined() { t.afterMarker, t.dropNewlines = false, 0 }

// BeginMessage records that a tool has started: a new message of the model may
// begin here.
func (t *State) BeginMessage() {
	if !t.tags.inside {
		t.tags.boundary()
	}
}

// Settle decides what waits in r as if the text ended here: Hermes writes text
// behind a tool, and behind all else that is no text, on a line of its own. It
// returns the reasoning that leaves of its own, the inside of a JSON string, nil
// for none. r then says what becomes of what is held, and has no parts but one
// that starts a tool.
func (t *State) Settle(r *Reading, o *Rules) (thought []byte) {
	r.begin(t, nil, jsonspan.Span{})
	if t.tags.pending() {
		if !t.tags.settle() {
			r.reasoned(o)
			if o.Reasoning != contract.ReasoningDrop {
				thought = r.pending
				if t.newStretch {
					t.newStretch = false
					thought = r.withBreak(thought)
				}
			}
		}
		r.pending = r.pending[:0]
	}
	switch {
	case !r.Suspects():
	case !r.suspicion.complete():
		t.clearLine(r)
	default:
		t.dropNewlines = 1 + t.furtherNewlines() // its own is yet to come
		starts := o.trusts()
		t.stripLine(r, starts)
		if starts {
			r.addTool(0)
		}
	}
	return thought
}

// Release lets what is held go: it is content, and waits no more.
func (t *State) Release(r *Reading) {
	r.begin(t, nil, jsonspan.Span{})
	t.clearLine(r)
}

// readContent follows a text that is sure to be content.
func (t *State) readContent(r *Reading) {
	text := r.in.Of(r.data)
	if len(text) == 0 {
		return
	}
	first, _ := jsonspan.NextRune(text, 0)
	t.leaves(r, first)
	if jsonspan.HasText(text) {
		r.spoke()
	}
	t.Skim(text, nil) // there is no backtick in it
}

// readText follows a text. The newline before an imitation has left already; the
// imitation goes with the newline after it, and one further newline if the text that
// follows begins with one (contract section 1).
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
				i = at
				continue
			}
		}
		switch {
		case t.dropNewlines > 0 && c == '\n':
			t.dropNewlines--
			r.cut(i, next)
		case r.Suspects() && c == '\n' && r.suspicion.complete():
			t.cutLine(r, o, next)
		case r.Suspects():
			if c == '\n' || !r.suspicion.line.Step(c, text[i:next], o.ToolTable()) {
				t.clearLine(r)
				t.sent(r, c)
			}
		// At the start of a line, and behind a marker that was dropped: there one begins.
		case c == '`' && o.Imitations != contract.ImitationsKeep && (t.fence.LineStart() || t.afterMarker) && !t.fence.Open():
			r.suspicion.begin(aMarker, i)
			t.dropNewlines = 0
		default:
			t.sent(r, c)
			t.dropNewlines = 0
		}
		i = next
	}
}

// endText decides what waits at the end of a text that is the last one, and else
// keeps it until more is known.
func (t *State) endText(r *Reading, o *Rules, last bool) {
	switch {
	case !r.Suspects():
	case !last:
		r.noteSuspicion()
	case r.suspicion.complete():
		t.cutLine(r, o, r.in.To)
		t.dropNewlines++ // its own newline is yet to come
	default:
		t.clearLine(r)
	}
	switch {
	case !t.tags.pending():
	case !last:
		// No frame is held for it: it is reasoning, or nothing.
		r.keepClosing()
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

// leaves records that content leaves which begins with the rune c. Behind a marker
// that was dropped a newline goes in front of it, unless it is one (contract
// section 1).
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

// newlineLeaves records that the newline leaves which goes behind a marker.
func (t *State) newlineLeaves() {
	t.afterMarker = false
	t.fence.Step('\n')
	t.tags.sent('\n')
}

// cutLine takes the line under suspicion, behind which is next, out of the text.
func (t *State) cutLine(r *Reading, o *Rules, next int) {
	r.cut(r.lineFrom(), next)
	t.dropNewlines = t.furtherNewlines()
	starts := o.trusts() && r.mayStart(o.Sizes)
	t.stripLine(r, starts)
	if starts {
		r.addTool(next)
	}
}

// clearLine lets the line under suspicion go: it is no marker and no tag.
func (t *State) clearLine(r *Reading) {
	first := '`'
	if r.suspicion.kind == aTag {
		first = '<'
		t.tags.matched = 0
	}
	if t.afterMarker && r.suspicion.beganBefore() {
		t.newlineLeaves() // it is held with the line
	}
	more := r.suspicion.size() > 1
	t.sent(r, first)
	if more {
		t.sent(r, 'x') // whatever it was, it makes no fence
	}
	if r.suspicion.beganBefore() {
		r.Held = Leaves
		r.Notes.Add(contract.SectionMarkers, "what was held back is text: it leaves")
	}
	r.suspicion.clear()
}

// stripLine takes the line under suspicion for an imitation, which starts a tool or
// does not.
func (t *State) stripLine(r *Reading, starts bool) {
	if !starts {
		r.Imitations++
	}
	r.Notes.Add(contract.SectionMarkers, "an imitated marker: stripped")
	r.strip()
	t.tags.boundary() // what follows may open a message
}

// furtherNewlines returns how many newlines go with an imitation behind its own:
// one, for the one before it has left. If that is yet to leave, the one behind takes
// its place.
func (t *State) furtherNewlines() int8 {
	if t.afterMarker {
		return 0
	}
	return 1
}

// HasSigns reports whether the inside of a JSON string has a backtick or a <, with
// which markers and tags begin, as they are or escaped.
func HasSigns(raw []byte) bool {
	if bytes.IndexByte(raw, '`') >= 0 || bytes.IndexByte(raw, '<') >= 0 {
		return true
	}
	for {
		i := bytes.Index(raw, []byte(`\u00`))
		if i < 0 {
			return false
		}
		raw = raw[i+len(`\u00`):]
		for _, end := range []string{`60`, `3c`, `3C`} {
			if bytes.HasPrefix(raw, []byte(end)) {
				return true
			}
		}
	}
}
