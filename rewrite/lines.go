package rewrite

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"

// Most of what a text says is of no consequence: in a line that has begun with a
// word nothing opens and nothing is suspected, whatever comes, until it ends.

// midLine tells whether that is so for all text up to the next newline.
func midLine(f *fence, o *opening) bool {
	return f.phase == fenceText && f.begun && o.text && o.newlines == 0
}

func (s *Stream) midLine() bool { return midLine(&s.fence, &s.tags.opening) }

// readLines takes in text, the inside of a JSON string, that stays whatever
// follows, as readText would. It is false, and nothing has been taken in, when
// it has to be looked at: a line in it begins like a marker or a tag.
func (s *Stream) readLines(text []byte) bool {
	f, o := s.fence, s.tags.opening
	for i := 0; i < len(text); {
		if midLine(&f, &o) {
			if i = jsonspan.NextNewline(text, i); i == len(text) {
				break
			}
		}
		r, next := jsonspan.NextRune(text, i)
		switch {
		case f.open():
		case r == '`' && f.lineStart() && s.o.ToolTable().MayBegin(text[next:]), r == '<' && o.mayOpen():
			return false
		}
		f.step(r)
		o.sent(r)
		i = next
	}
	s.fence, s.tags.opening = f, o
	return true
}
