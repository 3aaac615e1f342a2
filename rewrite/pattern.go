package rewrite

// pattern is the shape of a frame with text or reasoning: what stands before and
// behind its text, and what that says. The frames of an answer are alike but for
// their text, so that their JSON need not be read again: see Stream.alike and
// Stream.recognise.
type pattern struct {
	head, tail []byte // up to the text, from its closing quote on
	known      bool
	reasoning  bool     // the text is reasoning, in a member of its own
	valid      bool     // a frame like it was well-formed JSON
	calm       bool     // the frame before was like it, left as it came, and so may the next
	data       dataLine // where its data is
	behind     int      // bytes behind its data
	text       span     // of the text, in the data
	c          chunk    // of the frame that it was learnt from

	unused, wait int // frames learnt in vain, and how many are not to be learnt
}

// maxPattern is the length in bytes up to which head and tail are remembered.
const maxPattern = 1 << 10

// maxPatternWait is how many frames at most are let pass before one is learnt
// again in a stream whose frames are never alike.
const maxPatternWait = 64

// learn remembers the frame f with the chunk c, whose text is at in of the data.
// It is false when it does not.
func (p *pattern) learn(f *frame, c *chunk, in span, reasoning bool) bool {
	if p.wait > 0 {
		p.wait--
		return false
	}
	at := f.lines[0].raw
	from, to := at+in.from, at+in.to
	if from+len(f.raw)-to > maxPattern {
		return false
	}
	if p.unused++; p.unused > 8 {
		p.wait = min(p.unused, maxPatternWait)
	}
	p.head, p.tail = append(p.head[:0], f.raw[:from]...), append(p.tail[:0], f.raw[to:]...)
	p.data, p.behind = f.lines[0], len(f.raw)-at-len(f.data)
	p.text, p.reasoning, p.known, p.valid = in, reasoning, true, false
	p.c = *c
	return true
}

// match returns where the text is of the frame that b begins with, and what is
// in it. It is false when that frame is not like the pattern, or not complete.
func (p *pattern) match(b []byte) (in span, has textClass, ok bool) {
	from := len(p.head)
	if !p.known || len(b) < from || string(b[:from]) != string(p.head) {
		return in, 0, false
	}
	to, has := scanText(b, from)
	if has&hasFault != 0 || len(b)-to < len(p.tail) || string(b[to:to+len(p.tail)]) != string(p.tail) {
		return in, 0, false
	}
	p.unused, p.wait = 0, 0
	return span{from, to}, has, true
}

// textClass says what is in the inside of a JSON string, as it is or escaped.
type textClass uint8

const (
	hasNewline textClass = 1 << iota
	hasSign              // a backtick or a <, with which markers and tags begin
	hasFault             // an escape that JSON does not know
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
	if len(b) < 2 {
		return hasFault
	}
	switch b[1] {
	case 'n':
		return hasNewline
	case '"', '\\', '/', 'b', 'f', 'r', 't':
		return 0
	case 'u':
		r, ok := hex4(b, 2)
		switch {
		case !ok:
			return hasFault
		case r == '\n':
			return hasNewline
		case r == '`' || r == '<':
			return hasSign
		}
		return 0
	}
	return hasFault
}

// chunk returns the chunk of a frame like the pattern, whose text is longer by
// more than the one it was learnt from.
func (p *pattern) chunk(room *chunk, more int) {
	*room = p.c
	room.shut += more
	for _, v := range [...]*span{
		&room.id, &room.object, &room.created, &room.model, &room.choices, &room.usage, &room.err, &room.tool, &room.emoji, &room.label, &room.callID,
		&room.status, &room.statusLine, &room.delta, &room.content, &room.contentKey, &room.thought, &room.role,
	} {
		if v.from > p.text.to {
			v.from += more
		}
		if v.to > p.text.to {
			v.to += more
		}
	}
}

// alike forwards the next frame when it is like the one before it, and its text
// is sure to stay and to be of no consequence beyond where its lines begin. What
// it does is what frame would do, without looking at the JSON. It is false when
// the frame has to be looked at: TestAlikeChangesNothing.
func (s *Stream) alike() bool {
	p := &s.pattern
	if !p.calm || !s.scan.between() {
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

// recognise reads the frame raw into s.f and s.c by the pattern. It is false when
// it is not like that.
func (s *Stream) recognise(raw []byte) bool {
	p := &s.pattern
	in, _, ok := p.match(raw)
	if !ok || in.to+len(p.tail) != len(raw) {
		return false
	}
	f := &s.f
	f.raw, f.data = raw, raw[p.data.raw:len(raw)-p.behind]
	f.event, f.named, f.has, f.plain = nil, span{}, true, true
	f.lines = append(f.lines[:0], p.data)
	p.chunk(&s.c, in.to-in.from-(p.text.to-p.text.from))
	text := hasText(in.of(raw))
	if p.reasoning {
		s.c.reasoning = text
	} else {
		s.c.text = text
	}
	return true
}

// learn remembers the frame s.f with the chunk s.c, when those that are like it
// differ in nothing but their text.
func (s *Stream) learn() {
	c, data := &s.c, s.f.data
	if s.known || s.explains() || !s.f.plain || s.f.raw[len(s.f.raw)-1] != '\n' || !c.index || c.other || c.repeat.ok() || c.finish.ok() || c.usage.set(data) || c.err.set(data) || c.hermes.ok() {
		return
	}
	switch {
	case c.content.ok() && c.thoughts == 0:
		s.known = s.pattern.learn(&s.f, c, c.content.inner(), false)
	case !c.content.ok() && c.thoughts == 1:
		s.known = s.pattern.learn(&s.f, c, c.thought.inner(), true)
	}
}

// calm notes that the frame s.f leaves as it came, and tells the pattern whether
// another like it will: text or reasoning like its own says nothing more than it
// has.
func (s *Stream) calm() {
	p := &s.pattern
	said := s.said.text && s.said.sinceTool
	if p.reasoning {
		said = s.said.reasoning
	}
	p.calm = s.known && said && len(s.edits) == 0 && s.env.same(&s.c, s.f.data) && !s.finished && !s.done &&
		len(s.tools.open) == 0 && !s.line.active() && s.hold.empty() && s.tags.idle() && s.eat == 0 && !s.gap && len(s.lead) == 0
}
