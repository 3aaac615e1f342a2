// Package prose decides which text of a message is content, reasoning between tags, or an
// imitated marker (contract sections 1 and 4).
//
// A State follows the message rune by rune, text by text: a text is the content of one
// chunk, the inside of a JSON string. State.Read fills the State's Reading with the parts
// of the text that are content or reasoning, and the fate of the texts that are held back.
// It writes nothing, ends no tool, and knows nothing of frames: the caller applies the
// Reading, in order, before the next Read. Split does the same to a complete text.
//
//	prose.go     State: the walk over a text; Split: a complete text
//	reading.go   Reading: the parts of a text, and Kept, the rest of one
//	tags.go      where reasoning begins and ends
//	fence.go     Fence: code blocks that are open
//
// Held texts are decided at most once a Read, before anything of the new text. At most
// marker.MaxHeldLine bytes are suspected at once; the caller bounds the frames around
// them. A Read takes time linear in the text, and uses the room of the last Reading again.
package prose

import (
	"bytes"
	"unicode"

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
	apart bool // upstream sends its reasoning apart from the text: tags are text

	begun        bool // a character of content has left
	afterMarker  bool // a marker was dropped after content: the next content needs a newline
	needsBreak   bool // the next reasoning follows an earlier stretch: a blank line separates them
	dropNewlines int8 // how many newlines after the last marker line are dropped

	suspicion suspicion // what the end of the text may be
	opened    int       // where in the text the last opening tag, or what may be one, begins
	pending   []byte    // a possible closing tag from earlier texts, as in the JSON
	lead      []byte    // pending that was no tag, and leaves before the reasoning after it
	dropped   []byte    // the reasoning that no tag has closed, with its tag, if reasoning is dropped

	Reading // of the last text

	// Notes collects the changes. It may be nil.
	Notes *contract.Notes
}

// Rules say what Read looks for in a text, and what it may cost.
type Rules struct {
	*contract.Options
	Finished bool // the finish chunk has left: no marker starts a tool (contract section 2)
	Reasoned bool // reasoning has left before
	Complete bool // for Split: no limits, marker lines stay, and a Reading ends after MaxStretches

	// What it costs to take a text apart, in bytes (contract section 7).
	Growth int // by how much the text may grow
	Part   int // the size of each further part, without the bytes of the text
	Tool   int // the size of a tool event, without the fields of the tool
}

// Read reads the text, the inside of a JSON string, and fills the Reading with its parts. last
// says that nothing may wait for the text that follows. Read returns how much it has read: all,
// unless o is for Split.
func (t *State) Read(text []byte, o *Rules, last bool) (n int) {
	t.begin(text)
	n = t.readText(o)
	t.endText(o, last)
	t.end(o.Reasoning == contract.ReasoningDrop)
	return n
}

// Waits reports whether text is held back that more text has to decide.
func (t *State) Waits() bool { return t.Suspects() || t.tags.pending() }

// Idle reports whether content without a backtick or a < leaves as it is and changes only
// where lines begin.
func (t *State) Idle() bool {
	return t.begun && t.dropNewlines == 0 && !t.afterMarker && !t.InTag() && !t.Suspects() && len(t.lead) == 0
}

// InTag reports whether the next text may begin in a tag, in reasoning, or with white space
// after a tag, which does not leave.
func (t *State) InTag() bool {
	return t.tags.inside() || t.tags.afterClosing || len(t.tags.seen) > 0
}

// MidLine reports whether the line has begun with a word, so that up to the next newline
// no marker, tag or fence can begin.
func (t *State) MidLine() bool {
	return t.fence.MidLine() && t.tags.blocked && t.tags.newlines == 0 && !t.tags.stray
}

// Skim reads text, the inside of a JSON string, if all of it is certain to be content that
// leaves as it is. Otherwise it returns false and changes nothing. The State must be idle.
func (t *State) Skim(text []byte, o *contract.Options) bool {
	before := *t
	t.Notes = nil // if the text changes, it is read again
	t.Read(text, &Rules{Options: o, Finished: true}, false)
	if len(t.Parts) > 1 || len(t.text) < len(text) || t.Waits() {
		*t = before
		return false
	}
	t.Notes, t.text, t.Parts[0].Kept = before.Notes, nil, Kept{} // they would keep the input alive
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
		t.fence.endLine() // TestRealMarkers
	}
}

// InReasoning reports whether the text is between tags.
func (t *State) InReasoning() bool { return t.tags.inside() }

// Unclosed reports whether the message has words in reasoning that no tag has closed. They may be
// its answer.
func (t *State) Unclosed() bool { return t.tags.words }

// TakeDropped returns the reasoning, with its tag, that was dropped and that no tag has closed: the
// inside of a JSON string, empty if there is none or if it was longer than MaxDropped.
func (t *State) TakeDropped() (text []byte) {
	if t.InReasoning() && t.Unclosed() {
		text, t.dropped = t.dropped, nil
	}
	return text
}

// Begun reports whether a character of content has left.
func (t *State) Begun() bool { return t.begun }

// Insert records that a paragraph of the sidecar's leaves here, with the blank lines around it.
func (t *State) Insert() {
	t.begun, t.afterMarker, t.dropNewlines = true, false, 0
	for _, r := range "\n\nx\n\n" {
		if t.fence.Step(r); !t.tags.inside() {
			t.tags.sent(r)
		}
	}
}

// Restart records that what follows leaves in a stream of its own. Reasoning goes on there.
func (t *State) Restart() {
	*t = State{tags: t.tags, apart: t.apart, needsBreak: t.needsBreak, pending: t.pending, lead: t.lead, dropped: t.dropped, Reading: t.Reading, Notes: t.Notes}
	if !t.tags.inside() {
		t.tags.newlines = 0
		t.tags.boundary()
	}
}

// SkipUnexamined records that bytes have passed unexamined, which may have been text.
func (t *State) SkipUnexamined() { t.afterMarker, t.dropNewlines = false, 0 }

// BeginMessage records that a tool has started, which ends the reasoning: a new message of the
// model may begin here. Nothing may wait for a closing tag.
func (t *State) BeginMessage() {
	t.tags.stray = t.tags.stray && !t.tags.blocked
	t.endStretch()
	t.tags.boundary()
	t.tags.words = false
}

// LeaveTags records that upstream has sent reasoning of its own, which ends that between tags: tags
// are text from here on. Nothing may wait for the rest of a tag.
func (t *State) LeaveTags() {
	t.endStretch()
	t.tags.stray, t.tags.afterClosing, t.apart = false, false, true
}

// Decide decides the text that is held back as if it ended here. The caller calls it before
// anything but text, because Hermes then begins the text that follows on a line of its own. Decide
// returns reasoning that has to leave in a delta of its own, the inside of a JSON string, or nil.
// The Reading then says what becomes of the held texts. Its only part is empty, and may start a
// tool.
func (t *State) Decide(o *Rules) (reasoning []byte) {
	t.begin(nil)
	t.endText(o, true)
	t.end(o.Reasoning == contract.ReasoningDrop)
	if o.Reasoning == contract.ReasoningDrop {
		return nil
	}
	return t.Parts[0].Front
}

// Release decides that the held texts are content.
func (t *State) Release() {
	t.begin(nil)
	t.clearLine()
}

// readText follows a text rune by rune. When an imitation is found, the newline before it
// has already left. The imitation goes with the newline after it, and with one further
// newline if there is one (contract section 1).
func (t *State) readText(o *Rules) (n int) {
	text, i := t.data, 0
	for i < len(text) {
		c, next := jsonspan.NextRune(text, i)
		if o.Reasoning != contract.ReasoningKeep && t.suspicion.size == 0 {
			if at, taken := t.readTag(o, i, next, c); taken {
				if i = at; o.Complete && t.Stretches == MaxStretches && !t.tags.inside() {
					return i
				}
				continue
			}
		}
		m, marked := t.suspicion.marker(c == '\n', o.Tools)
		switch {
		case t.dropNewlines > 0 && (c == '\n' || c == '\r'):
			if i = next; c == '\n' {
				t.dropNewlines--
			}
			continue
		case marked:
			t.cutLine(m, o) // and the newline c is read again
			continue
		case t.Suspects():
			if c == '\n' || !t.suspicion.step(c, text[i:next], o.Tools) {
				t.clearLine()
				t.sent(c)
			}
		// A line begins at its first rune, and after a marker that was dropped.
		case c == '`' && o.Imitations != contract.ImitationsKeep && !t.fence.Open() && t.mayMark():
			if !o.Complete {
				t.suspicion = suspicion{here: true, from: len(t.text), line: t.suspicion.line[:0], size: 1}
				t.dropNewlines = 0
			} else if _, to, ok := o.Tools.Line(text, next); ok {
				t.tags.boundary()
				next = to
			} else {
				t.sent(c)
			}
		default:
			t.sent(c)
			t.dropNewlines = 0
		}
		t.keep(i, next)
		i = next
	}
	return i
}

// mayMark reports whether a marker may begin here: at the start of a line, or after white space
// that Markdown does not show, which has left. More of it would make code of the line.
func (t *State) mayMark() bool {
	return t.afterMarker || t.fence.Blank() && t.tags.indent < 4
}

// endText deals with a suspicion at the end of a text: it waits for the next text, or is
// decided if this is the last.
func (t *State) endText(o *Rules, last bool) {
	m, marked := t.suspicion.marker(last, o.Tools)
	switch {
	case !t.Suspects():
	case marked:
		t.cutLine(m, o)
	case last:
		t.clearLine()
	case t.suspicion.tag:
		t.Notes.Add(contract.SectionReasoning, "may be a tag: held back")
	default:
		t.Notes.Add(contract.SectionMarkers, "may be an imitated marker: held back to the end of the line")
	}
	switch {
	case !t.tags.pending():
	case !last: // no frame is held for it: it leaves later, as reasoning, or never
		t.Notes.Add(contract.SectionReasoning, "may be a closing tag: held back")
		t.pending = append(t.pending, t.text[t.closing:]...)
		t.text = t.text[:t.closing]
	case t.tags.closes():
		t.closeStretch()
	default:
		t.noTag()
	}
}

// sent records that the rune c leaves as content. After a marker that was dropped it needs
// a newline in front, unless it begins one (contract section 1).
func (t *State) sent(c rune) {
	p := &t.Parts[len(t.Parts)-1]
	if t.begun = true; t.afterMarker && c != '\n' && c != '\r' {
		t.newlineLeaves()
		p.newline = true
	}
	t.afterMarker = false
	t.fence.Step(c)
	t.tags.sent(c)
	if !unicode.IsSpace(c) {
		t.Text, p.HasText = true, true
	}
}

// newlineLeaves records that a newline leaves in place of a marker that was dropped.
func (t *State) newlineLeaves() {
	t.afterMarker = false
	t.fence.Step('\n')
	t.tags.sent('\n')
}

// cutLine takes the suspected line, the imitated marker m, out of the text, with the newline after
// it, which is not there yet, and one further newline, because the newline before it has left. If that
// newline has not left yet, the further newline takes its place and stays. If white space has left
// in front of the marker, both stay: what follows would become more indented. The marker starts a
// tool if o trusts it and the text may grow by the cost.
func (t *State) cutLine(m marker.Marker, o *Rules) {
	t.Notes.Add(contract.SectionMarkers, "an imitated marker: removed")
	t.strip()
	t.tags.boundary() // what follows may open a message
	switch {
	case t.afterMarker:
		t.dropNewlines = 1
	case t.fence.LineStart():
		t.dropNewlines = 2
	default:
		t.dropNewlines = 0
	}
	cost := 2*o.Part + 2*o.Tool // its two events, and two parts of the text
	if o.Imitations != contract.ImitationsTrust || o.Tools.IsApproval(m) || o.Finished || o.Growth-t.grown < cost {
		t.Imitations++
		return
	}
	t.grown += cost
	t.Markers++
	t.add(false).Tool = &marker.Marker{Emoji: bytes.Clone(m.Emoji), Label: bytes.Clone(m.Label)}
}

// clearLine decides that the suspected text is content: neither a marker nor a tag.
func (t *State) clearLine() {
	first, more, held := '`', t.suspicion.size > 1, !t.suspicion.here
	if t.suspicion.tag {
		first = '<'
		t.tags.seen = t.tags.seen[:0]
	}
	if t.afterMarker && held {
		t.newlineLeaves() // the newline is held with the line
	}
	t.sent(first)
	if more {
		t.sent('x') // in place of the other runes, which make no fence
	}
	if held {
		t.Held = Leaves
		t.Notes.Add(contract.SectionMarkers, "what was held back is text: sent")
	}
	t.suspicion = suspicion{line: t.suspicion.line}
}

// Split takes the reasoning between tags out of a complete text. It returns the content
// that is left, the reasoning, and the number of its stretches. All texts are insides of
// JSON strings. A stretch that no tag closes stays in the content, with its tag.
//
// Split leaves the marker lines that o strips in the content. The caller removes them, so
// that a message may open after one.
func Split(text []byte, o *contract.Options) (content, reasoning []byte, stretches int) {
	var t State
	rules := Rules{Options: o, Complete: true}
	for len(text) > 0 {
		n := t.Read(text, &rules, true)
		stretches += t.Stretches
		for i, p := range t.Parts {
			if i == len(t.Parts)-1 && t.tags.inside() { // nothing closes it
				content = append(content, text[t.opened:]...)
				stretches--
			} else if p.Reasoning {
				reasoning = append(append(reasoning, p.Front...), p.Text...)
			} else {
				content = append(append(content, p.Front...), p.Text...)
			}
		}
		rules.Reasoned = rules.Reasoned || t.Reasoned
		text = text[n:]
	}
	return content, reasoning, stretches
}
