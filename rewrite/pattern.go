package rewrite

// pattern is a frame of text or reasoning that left as it came: what stands
// before and behind its text. The frames of an answer are alike but for that,
// so that the next one need not be read again: see Stream.alike.
//
// Every unit that is not alike takes the pattern away. So nothing has happened
// since the frame that it was learnt from, but for more frames like it.
type pattern struct {
	head, tail []byte // up to the text, from its closing quote on
	reasoning  bool   // it is reasoning, in a member of its own
	known      bool
}

// maxPattern is the length in bytes up to which head and tail are remembered.
const maxPattern = maxHead

// learn remembers the frame raw, whose text is at in.
func (p *pattern) learn(raw []byte, in span, reasoning bool) {
	if len(raw)-(in.to-in.from) > maxPattern {
		return
	}
	p.head = append(p.head[:0], raw[:in.from]...)
	p.tail = append(p.tail[:0], raw[in.to:]...)
	p.reasoning, p.known = reasoning, true
}

// match returns the text of the frame that b begins with, and what is in it. It
// is false when that frame is not like the pattern, or not complete.
func (p *pattern) match(b []byte) (in span, has textClass, ok bool) {
	from := len(p.head)
	if !p.known || len(b) < from || string(b[:from]) != string(p.head) {
		return in, 0, false
	}
	to, has := scanText(b, from)
	if len(b)-to < len(p.tail) || string(b[to:to+len(p.tail)]) != string(p.tail) {
		return in, 0, false
	}
	return span{from, to}, has, true
}

// textClass says what is in the inside of a JSON string, as it is or escaped.
type textClass uint8

const (
	hasNewline textClass = 1 << iota
	hasSign              // a backtick or a <, with which markers and tags begin
	hasEscape            // a backslash, while it is scanned
	hasEnd               // the closing quote, or what cannot be in a string
)

// classes is the class of each byte.
var classes = func() (c [256]textClass) {
	for b := range ' ' {
		c[b] = hasEnd
	}
	c['"'], c['\\'], c['`'], c['<'] = hasEnd, hasEscape, hasSign, hasSign
	return c
}()

// scanText returns where the inside of the JSON string ends that begins at from,
// or the first byte that cannot be in one, and what is in it.
func scanText(b []byte, from int) (to int, has textClass) {
	for i := from; i < len(b); i++ {
		c := classes[b[i]]
		if c == 0 {
			continue
		}
		if c == hasEnd {
			return i, has
		}
		if c == hasEscape {
			c = escapeClass(b[i:])
			i++
		}
		has |= c
	}
	return len(b), has
}

// escapeClass returns the class of the escape that b begins with.
func escapeClass(b []byte) textClass {
	switch {
	case len(b) < 2:
	case b[1] == 'n':
		return hasNewline
	case b[1] == 'u' && len(b) >= 6 && b[2] == '0' && b[3] == '0':
		switch r, _ := hex4(b, 2); r {
		case '\n':
			return hasNewline
		case '`', '<':
			return hasSign
		}
	}
	return 0
}

// alike forwards the next frame when it is like the one before it, and its text
// is sure to stay and to be of no consequence beyond where its lines begin. What
// it does is what frame would do, without looking at the JSON. It is false when
// the frame has to be looked at: TestAlikeChangesNothing.
func (s *Stream) alike() bool {
	p := &s.pattern
	if !p.known || !s.scan.between() {
		return false
	}
	b := s.scan.ahead()
	in, has, ok := p.match(b)
	n := in.to + len(p.tail)
	switch {
	case !ok || n > s.scan.max:
		return false
	case p.reasoning, has&hasNewline == 0 && s.midLine():
	case has&hasSign != 0:
		return false
	default:
		s.f.data = b[:n]
		s.readPlain(in)
	}
	s.sum.Frames++
	s.sum.Chunks++
	s.fate = fateForward
	s.out = append(s.out, b[:n]...)
	s.scan.skip(n)
	return true
}

// midLine tells whether text without a newline changes nothing: it stands in a
// line that is neither a fence nor the place for a tag, whatever follows.
func (s *Stream) midLine() bool {
	return s.fence.phase == fenceText && s.fence.begun && s.tags.text && s.tags.newlines == 0
}

// learnText remembers the frame s.f, which leaves as it came, when text like its
// own says nothing more than it has.
func (s *Stream) learnText(in span) {
	if s.c.reasoning || s.c.other || !s.tags.idle() || s.eat > 0 || s.gap || len(s.lead) > 0 {
		return
	}
	if s.said.text && s.said.sinceTool {
		s.learn(in, false)
	}
}

// learnReasoning is learnText for a chunk that has reasoning and nothing else.
func (s *Stream) learnReasoning() {
	c := &s.c
	if s.said.reasoning && s.c.thought.ok() && !c.content.ok() && !c.other && !c.text {
		s.learn(c.thought.inner(), true)
	}
}

// learn remembers the frame s.f, whose text is at in of its data, when all is
// known of it.
func (s *Stream) learn(in span, reasoning bool) {
	c, data := &s.c, s.f.data
	raw := s.f.raw
	if !s.f.plain || raw[len(raw)-1] != '\n' || len(s.edits) > 0 || s.explains() {
		return
	}
	if !c.index || c.finish.ok() || c.usage.set(data) || c.err.set(data) || c.hermes.ok() || c.repeat.ok() || !s.env.same(c, data) {
		return
	}
	if s.finished || s.done || len(s.tools.open) > 0 || s.line.active() || !s.hold.empty() || s.tags.pending() {
		return
	}
	at := s.f.at(in.from)
	s.pattern.learn(raw, span{at, at + in.to - in.from}, reasoning)
}
