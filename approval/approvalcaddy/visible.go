package approvalcaddy

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// part is a part of a text: as it is, or marked.
type part struct {
	Text   string
	Marked bool
}

// visible splits text into parts in which each character can be seen: characters that show nothing,
// or change how others are shown, are replaced by their names and marked. So texts that differ only
// in such characters look different.
func visible(text string) (parts []part) {
	plain := 0 // where the next unmarked part begins
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		name, after := "", ""
		switch {
		case r == utf8.RuneError && size == 1:
			name = fmt.Sprintf("[byte %02X]", text[i])
		case r == '\n':
			name, after = "↵", "\n"
		case isHidden(r):
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

// isHidden reports whether r shows nothing of its own: control and direction characters, spaces
// other than U+0020, fillers, variation selectors, and unassigned code points.
func isHidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800'
}
