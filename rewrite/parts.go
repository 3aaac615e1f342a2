package rewrite

// part is a stretch of a chunk's content that is all text or all reasoning.
// Where a tag stands between two, or a marker that is trusted, the chunk is
// taken apart: clients that get both in one delta drop one of them.
type part struct {
	from      int        // where it begins in the data
	cuts      int        // how many cuts stand before it
	reasoning bool       // it stood between tags
	spoke     bool       // a non-space character is in it, or in what has left since the part before
	starts    bool       // a tool starts before it
	tool      toolFields // of this one
}

// kept is what is left of a chunk's content: a part of it without the cuts.
type kept struct {
	span
	cuts []span
}

// left returns how many bytes are.
func (k kept) left() int {
	n := k.to - k.from
	for _, c := range k.cuts {
		n -= c.to - c.from
	}
	return n
}

// appendTo appends it to dst. It stands in data.
func (k kept) appendTo(dst, data []byte) []byte {
	at := k.from
	for _, c := range k.cuts {
		dst = append(dst, data[at:c.from]...)
		at = c.to
	}
	return append(dst, data[at:k.to]...)
}

// begin begins a part at the index from of the data.
func (s *Stream) begin(from int, reasoning bool) *part {
	s.parts = append(s.parts, part{from: from, cuts: len(s.cuts), reasoning: reasoning})
	return &s.parts[len(s.parts)-1]
}

// cut takes data[from:to] out of the part under way. Cuts come in order; what
// one leaves no byte before the next is one.
func (s *Stream) cut(from, to int) {
	n := len(s.cuts)
	switch {
	case from >= to:
	case n > s.parts[len(s.parts)-1].cuts && s.cuts[n-1].to == from:
		s.cuts[n-1].to = to
	default:
		s.cuts = append(s.cuts, span{from, to})
	}
}

// spoken notes that a non-space character leaves.
func (s *Stream) spoken() {
	if n := len(s.parts); n > 0 {
		s.parts[n-1].spoke = true
	}
}

// kept returns what is left of the part i of the content at in.
func (s *Stream) kept(in span, i int) kept {
	k := kept{span{s.parts[i].from, in.to}, s.cuts[s.parts[i].cuts:]}
	if i+1 < len(s.parts) {
		k.to = s.parts[i+1].from
		k.cuts = s.cuts[s.parts[i].cuts:s.parts[i+1].cuts]
	}
	return k
}

// writeParts writes the content at in but for the last part that has anything
// in it, which it returns: with that the chunk itself leaves.
func (s *Stream) writeParts(in span) (last part, k kept) {
	n := len(s.parts)
	for n > 1 && !s.parts[n-1].starts && s.kept(in, n-1).left() == 0 {
		n--
	}
	since := s.said.sinceTool // what the frame says, of which nothing has been written
	for i := range s.parts[:n] {
		p := &s.parts[i]
		if p.starts {
			s.startDerived(&p.tool, SourceImitation)
		}
		if p.spoke {
			s.inferEnds()
		}
		if i < n-1 {
			s.writePart(in, p, s.kept(in, i))
		}
	}
	last, k = s.parts[n-1], s.kept(in, n-1) // what follows is cut
	if n > 1 {
		s.said.sinceTool = since
	}
	return last, k
}

// writePart writes one part of several: as a copy of the chunk where nothing
// else is in that, and nothing large, or as a chunk of our own.
func (s *Stream) writePart(in span, p *part, k kept) {
	lead := s.takeLead()
	if p.reasoning && k.left()+len(lead) > 0 {
		s.note(sectionReasoning, "reasoning: leaves the content")
	}
	if k.left()+len(lead) == 0 || p.reasoning && s.o.Reasoning == ReasoningDrop {
		return
	}
	if !s.droppable() || len(s.f.raw)-(in.to-in.from) > maxEnvelope {
		s.writeDelta(p.reasoning, lead, k)
		return
	}
	s.edits = s.edits[:0]
	s.keep(in, k, lead, p.reasoning)
	s.writeEdited()
}

// writeDelta writes a chunk of our own with what is kept of the chunk s.c behind
// lead. The chunk's role comes first, and may come again.
func (s *Stream) writeDelta(reasoning bool, lead []byte, k kept) {
	s.writeOwn(s.c.role.of(s.f.data), s.c.repeat.of(s.f.data), reasoning, lead, k)
}

// writeOwn writes a chunk of our own with what is kept of the frame s.f behind
// lead. Where upstream repeats the content, it does.
func (s *Stream) writeOwn(role, repeat []byte, reasoning bool, lead []byte, k kept) {
	s.writeLF()
	s.out = append(s.out, "data: {"...)
	s.out = append(s.envelope().appendHead(s.out), `[{"index":0,`...)
	if len(repeat) > 0 && !reasoning {
		s.out = append(s.out, `"text":"`...)
		s.out = append(k.appendTo(s.out, s.f.data), `",`...)
	}
	s.out = append(s.out, `"delta":{`...)
	if len(role) > 0 {
		s.out = append(append(append(s.out, `"role":`...), role...), ',')
	}
	if reasoning {
		s.out = append(s.out, `"reasoning_content":"`...)
	} else {
		s.out = append(s.out, `"content":"`...)
	}
	s.out = append(s.out, lead...)
	s.out = k.appendTo(s.out, s.f.data)
	s.out = append(s.out, "\"},\"finish_reason\":null}]}\n\n"...)
}

// keep adds the edits that leave nothing of the content at in but k, behind
// lead, and have it be reasoning. Where the chunk repeats its content, the
// repeat follows.
func (s *Stream) keep(in span, k kept, lead []byte, reasoning bool) {
	shift := s.c.repeat.from - s.c.content.from
	if s.c.repeat.ok() && shift < 0 { // edits are cheapest in order
		s.keepRepeat(in, k, lead, reasoning, shift)
	}
	if reasoning {
		s.edit(s.c.contentKey.from, s.c.contentKey.to, []byte("reasoning_content"))
	}
	s.keepAt(in, k, lead, 0)
	if s.c.repeat.ok() && shift > 0 {
		s.keepRepeat(in, k, lead, reasoning, shift)
	}
}

// keepRepeat does to the repeat what keep does to the content: of reasoning
// nothing stays.
func (s *Stream) keepRepeat(in span, k kept, lead []byte, reasoning bool, shift int) {
	if reasoning {
		k, lead = nothing(in), nil
	}
	s.keepAt(in, k, lead, shift)
}

// keepNothing adds the edits that leave nothing of the content at in.
func (s *Stream) keepNothing(in span) { s.keep(in, nothing(in), nil, false) }

// nothing returns nothing of the content at in.
func nothing(in span) kept { return kept{span{in.to, in.to}, nil} }

// keepAt adds the edits that leave nothing but k behind lead, for a copy of the
// content at in that stands shift bytes further on.
func (s *Stream) keepAt(in span, k kept, lead []byte, shift int) {
	cut := func(from, to int, with []byte) {
		if from < to || len(with) > 0 {
			s.edit(from+shift, to+shift, with)
		}
	}
	cut(in.from, k.from, lead)
	for _, c := range k.cuts {
		cut(c.from, c.to, nil)
	}
	cut(k.to, in.to, nil)
}
