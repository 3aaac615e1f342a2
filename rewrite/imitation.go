package rewrite

import "unicode/utf8"

// maxHeldLine is how many bytes of text a line may have and still be taken for
// an imitation; so many are held back at most (contract section 1).
const maxHeldLine = 4 << 10

// candidate is a line that has begun like the marker of a known tool: a
// backtick at the start of a line outside code fences, a known emoji, a space.
// Its text is held back until the line ends.
type candidate struct {
	phase candidatePhase
	from  int    // where its backtick is, in the data of its frame or in the hold
	size  int    // bytes of text so far
	begin []byte // the text behind the backtick, while the emoji is compared
	after int    // runes behind the space
	tick  bool   // the last rune was a backtick

	emoji, label []byte // as in the JSON, for ImitationsTrust
}

type candidatePhase uint8

const (
	candidateNone candidatePhase = iota
	candidateEmoji
	candidateLabel
)

// active tells whether a line is under suspicion.
func (c *candidate) active() bool { return c.phase != candidateNone }

// start begins a candidate whose backtick is at from.
func (c *candidate) start(from int) {
	*c = candidate{
		phase: candidateEmoji, from: from, size: 1,
		begin: c.begin[:0], emoji: c.emoji[:0], label: c.label[:0],
	}
}

// step takes the next rune in, which is not a newline, and its bytes in the
// JSON. It is false when the line is no marker.
func (c *candidate) step(r rune, raw []byte, tools *Tools) bool {
	if c.size += utf8.RuneLen(r); c.size > maxHeldLine {
		return false
	}
	if c.phase == candidateLabel {
		c.after++
		c.tick = r == '`'
		c.label = append(c.label, raw...)
		return true
	}
	c.begin = utf8.AppendRune(c.begin, r)
	partly, wholly := tools.begins(c.begin)
	if wholly {
		c.phase = candidateLabel
		return true
	}
	c.emoji = append(c.emoji, raw...)
	return partly
}

// complete tells whether the line, if it ended here, would be a marker: it has
// a label and closes with a backtick.
func (c *candidate) complete() bool {
	return c.phase == candidateLabel && c.tick && c.after > 1
}

// readText follows the content at in, takes imitations out of it by adding to
// s.cuts, and leaves s.line active when the last line may yet be one. The
// newline before an imitation has left already; the imitation goes with the
// newline after it, and one further newline if the text that follows begins
// with one (contract section 1).
func (s *Stream) readText(in span) {
	text := s.f.data[:in.to]
	for i := in.from; i < in.to; {
		r, next := nextRune(text, i)
		switch {
		case s.eat > 0 && r == '\n':
			s.eat--
			s.cuts = append(s.cuts, span{i, next})
		case s.line.active() && r == '\n':
			s.endLine(in, next)
		case s.line.active():
			if !s.line.step(r, text[i:next], s.o.tools()) {
				s.clearLine()
			}
		case r == '`' && s.suspects():
			s.eat = 0
			s.line.start(i)
			s.lineHere = true
		default:
			s.eat = 0
			s.sent(r)
		}
		s.fence.step(r)
		i = next
	}
}

// suspects tells whether a backtick that comes now may begin an imitation.
func (s *Stream) suspects() bool {
	return s.o.Imitations != ImitationsKeep && s.fence.lineStart() && !s.fence.open()
}

// sent notes that the rune r of the content leaves.
func (s *Stream) sent(r rune) {
	if s.said.text && s.said.sinceTool || isSpace(r) {
		return
	}
	s.said.text, s.said.sinceTool = true, true
}

// endLine ends the line under suspicion before next, in the content at in.
func (s *Stream) endLine(in span, next int) {
	if !s.line.complete() {
		s.clearLine()
		return
	}
	from := in.from
	if s.lineHere {
		from = s.line.from
	}
	if next > from {
		s.cuts = append(s.cuts, span{from, next})
	}
	s.eat = 1
	s.stripLine()
}

// clearLine lets the line under suspicion go: it is no marker.
func (s *Stream) clearLine() {
	s.sent('`')
	s.line.phase = candidateNone
	s.lineHere = false
	s.out = s.hold.release(s.out)
}

// stripLine takes the line under suspicion, as far as it is held, for an
// imitation.
func (s *Stream) stripLine() {
	s.sum.Imitations++
	s.said.imitation = true
	s.out = s.hold.strip(s.out, s.line.from)
	s.line.phase = candidateNone
	s.lineHere = false
	if s.o.Imitations == ImitationsTrust {
		s.said.sinceTool = false
		s.trusted = append(s.trusted, s.startedBy(s.line.emoji, s.line.label[:len(s.line.label)-1]))
	}
}

// settle decides the line under suspicion as if it ended here: Hermes writes
// text behind a tool, and behind all else that is no text, on a line of its
// own. What is held leaves.
func (s *Stream) settle() {
	if !s.line.active() {
		return
	}
	if !s.line.complete() {
		s.clearLine()
		return
	}
	s.eat = 2 // the line's own newline is yet to come
	s.stripLine()
	s.startTrusted()
}
