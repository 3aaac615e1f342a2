package rewrite

import (
	"slices"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// readText follows the content at in, takes imitations out of it by adding to
// s.cuts, and leaves s.line active when the last line may yet be one. The
// newline before an imitation has left already; the imitation goes with the
// newline after it, and one further newline if the text that follows begins
// with one (contract section 1).
func (s *Stream) readText(in jsonspan.Span) {
	text := s.f.Data[:in.To]
	for i := in.From; i < in.To; {
		if s.midLine() && s.eat == 0 && !s.owed && !s.line.Active() && s.tags.idle() {
			from := i
			i = jsonspan.NextNewline(text, i)
			if jsonspan.HasText(text[from:i]) {
				s.speaks()
			}
			if i == in.To {
				break
			}
		}
		r, next := jsonspan.NextRune(text, i)
		if s.takesTags() && (!s.line.Active() || s.line.Phase == marker.InTag) {
			if at, taken := s.readTag(in, i, next, r); taken {
				i = at
				continue
			}
		}
		switch {
		case s.eat > 0 && r == '\n':
			s.eat--
			s.cut(i, next)
		case s.line.Active() && r == '\n' && s.line.Complete():
			s.cutLine(in, next)
		case s.line.Active():
			if r == '\n' || !s.line.Step(r, text[i:next], s.o.ToolTable()) {
				s.clearLine()
				s.sent(r)
			}
		case r == '`' && s.suspects():
			s.line.Start(i, marker.InEmoji)
			s.lineHere = true
			s.eat = 0
		default:
			s.sent(r)
			s.eat = 0
		}
		i = next
	}
}

// readPlain is readText for content that is sure to stay.
func (s *Stream) readPlain(text []byte) {
	if len(text) == 0 {
		return
	}
	first, _ := jsonspan.NextRune(text, 0)
	s.begins(first)
	if jsonspan.HasText(text) {
		s.speaks()
	}
	s.readLines(text)
}

// suspects tells whether a backtick that comes now may begin an imitation: at
// the start of a line, and behind a marker that was dropped, for there a line
// begins.
func (s *Stream) suspects() bool {
	return s.o.Imitations != ImitationsKeep && (s.fence.lineStart() || s.owed) && !s.fence.open()
}

// sent notes that the rune r of the content leaves.
func (s *Stream) sent(r rune) {
	s.begins(r)
	s.fence.step(r)
	s.tags.sent(r)
	if !jsonspan.IsSpace(r) {
		s.speaks()
	}
}

// begins notes that text leaves which begins with the rune r. Behind a marker that
// was dropped a newline goes in front of it, unless it is one (contract section 1).
func (s *Stream) begins(r rune) {
	s.said.begun = true
	if !s.owed {
		return
	}
	if r == '\n' {
		s.owed = false
		return
	}
	s.paid()
	s.parts[len(s.parts)-1].newline = true
}

// paid notes that the newline leaves which was owed.
func (s *Stream) paid() {
	s.owed = false
	s.fence.step('\n')
	s.tags.sent('\n')
}

// speaks notes that a non-space character of the content leaves.
func (s *Stream) speaks() {
	s.said.text, s.said.sinceTool = true, true
	s.spoken()
}

// cutLine takes the line under suspicion, behind which is next, out of the content
// at in.
func (s *Stream) cutLine(in jsonspan.Span, next int) {
	from := in.From
	if s.lineHere {
		from = s.line.From
	}
	s.cut(from, next)
	s.eat = s.further()
	starts := s.trusts() && s.mayStart(in)
	s.stripLine(starts)
	if starts {
		s.said.sinceTool = false
		s.room = slices.Grow(s.room, in.To-from) // for this and those to come
		p := s.begin(next, false)
		p.starts, p.tool = true, s.lineTool()
	}
}

// lineTool returns the tool that the line stands for which has been stripped.
func (s *Stream) lineTool() toolFields {
	return s.startedBy(s.line.Tool())
}

// clearLine lets the line under suspicion go: it is no marker.
func (s *Stream) clearLine() {
	first := '`'
	if s.line.Phase == marker.InTag {
		first = '<'
		s.tags.matched = 0
	}
	if s.owed && !s.hold.empty() {
		s.paid() // it is held with the line
	}
	s.sent(first)
	if s.line.Size > 1 {
		s.sent('x') // whatever it was, it makes no fence
	}
	s.line.Phase = marker.None
	s.lineHere = false
	if !s.hold.empty() {
		s.note(contract.SectionMarkers, "what was held back is text: it leaves")
		s.inferEnds() // before the text: TestTrustedToolEndsBeforeHeldText
		s.out = s.hold.release(s.out)
	}
}

// trusts tells whether a marker that the text has starts a tool. Behind the finish
// chunk none does (contract section 2).
func (s *Stream) trusts() bool {
	return s.o.Imitations == ImitationsTrust && !s.finished
}

// stripLine takes the line under suspicion, as far as it is held, for an
// imitation, which starts a tool or does not.
func (s *Stream) stripLine(starts bool) {
	if starts {
		s.sum.Markers++
	} else {
		s.sum.Imitations++
	}
	s.note(contract.SectionMarkers, "an imitated marker: stripped")
	s.out = s.hold.strip(s.out, s.line.From)
	s.line.Phase = marker.None
	s.lineHere = false
	s.tags.boundary() // what follows may open a message
}

// further returns how many newlines go with an imitation behind its own: one, for
// the one before it has left. Where that is owed yet, the one behind takes its
// place.
func (s *Stream) further() int8 {
	if s.owed {
		return 0
	}
	return 1
}

// settle decides the line under suspicion as if it ended here: Hermes writes
// text behind a tool, and behind all else that is no text, on a line of its
// own. What is held leaves.
func (s *Stream) settle() {
	s.settleThought()
	switch {
	case !s.line.Active():
		return
	case !s.line.Complete():
		s.clearLine()
		return
	}
	s.eat = 1 + s.further() // its own is yet to come
	starts := s.trusts()
	s.stripLine(starts)
	if starts {
		t := s.lineTool()
		s.startDerived(&t, SourceImitation)
		s.said.sinceTool = false
	}
}
