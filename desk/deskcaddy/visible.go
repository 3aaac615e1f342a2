package deskcaddy

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// part is a part of a text: as it is, or marked.
type part struct {
	Text   string
	Marked bool
}

// visible splits text into parts in which each character can be seen: characters that show nothing,
// change how others are shown, or are drawn over them, are replaced by their names and marked. So
// texts that differ only in such characters look different.
func visible(text string) (parts []part) {
	plain := 0 // where the next unmarked part begins
	var s stack
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		covers := s.add(r)
		name, after := "", ""
		switch {
		case r == utf8.RuneError && size == 1:
			name = fmt.Sprintf("[byte %02X]", text[i])
		case r == '\n':
			name, after = "↵", "\n"
		case !rewrite.IsSeen(r), covers:
			name = fmt.Sprintf("[U+%04X]", r)
		}
		if name != "" {
			if plain < i {
				parts = append(parts, part{Text: text[plain:i]})
			}
			plain = i + size
			if n := len(parts) - 1; n >= 0 && parts[n].Marked && after == "" {
				parts[n].Text += name // 64 KiB of them are one part
			} else {
				parts = append(parts, part{name, true})
			}
			if after != "" {
				parts = append(parts, part{Text: after})
			}
		}
		i += size
	}
	if plain < len(text) {
		parts = append(parts, part{Text: text[plain:]})
	}
	return parts
}

// hides reports whether text has characters that visible marks, other than line ends.
func hides(text string) bool {
	return slices.ContainsFunc(visible(text), func(p part) bool { return p.Marked && p.Text != "↵" })
}

// maxMarks is how many marks a letter may have: Vietnamese, Thai and Arabic put two on one.
const maxMarks = 2

// stack is the letter before a character, with the marks on it.
type stack struct {
	letter bool
	marks  int
}

// add adds r, the next character, and reports whether it is a mark that is drawn over another
// character, or that no script puts there.
func (s *stack) add(r rune) bool {
	if !unicode.In(r, unicode.Mn, unicode.Me) {
		s.letter, s.marks = unicode.In(r, unicode.L, unicode.Mc), 0
		return false
	}
	s.marks++
	s.letter = s.letter && s.marks <= maxMarks && !unicode.In(r, unicode.Me, overlays) // or else its name is before the next mark
	return !s.letter
}

// overlays are the marks that strike out, slash or enclose the character before them: those of Unicode's
// combining class 1, and those for symbols.
var overlays = &unicode.RangeTable{
	R16: []unicode.Range16{{0x0334, 0x0338, 1}, {0x1cd4, 0x1cd4, 1}, {0x1ce2, 0x1ce8, 1}, {0x20d0, 0x20ff, 1}},
	R32: []unicode.Range32{{0x10a39, 0x10a39, 1}, {0x16af0, 0x16af4, 1}, {0x1bc9e, 0x1bc9e, 1}, {0x1d167, 0x1d169, 1}},
}
