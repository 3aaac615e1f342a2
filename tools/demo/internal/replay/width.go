package replay

import (
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// columns returns how many columns of a terminal s takes.
func columns(s string) int { return uniseg.StringWidth(s) }

// wrap breaks a line of text at spaces so that no part takes more than max
// columns; a word that is longer is cut.
func wrap(text string, max int) []string {
	text = printable(text)
	var lines []string
	for {
		head, rest := breakLine(text, max)
		lines = append(lines, strings.TrimRight(head, " "))
		if rest == "" {
			return lines
		}
		text = rest
	}
}

// breakLine cuts off what fits into max columns, at least one character as a reader sees
// it (a grapheme cluster).
func breakLine(text string, max int) (head, rest string) {
	space, used := 0, 0
	for i := 0; i < len(text); {
		first, _, w, _ := uniseg.FirstGraphemeClusterInString(text[i:], -1)
		if first == " " && strings.TrimSpace(text[:i]) != "" {
			space = i
		}
		if used+w > max && i > 0 {
			if space > 0 {
				i = space
			}
			return text[:i], strings.TrimLeft(text[i:], " ")
		}
		used += w
		i += len(first)
	}
	return text, ""
}

// pad fills s with spaces up to n columns.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-columns(s)))
}

// printable makes text safe for a terminal: control characters, which could
// move the cursor or worse, become spaces.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
