package replay

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Runes that join others into one character on the screen.
const (
	zeroWidthJoiner   = '\u200d'
	emojiPresentation = '\ufe0f' // variation selector 16
	softHyphen        = '\u00ad'
)

// cluster returns the first character of s as a reader sees it, with the
// runes that join it, and how many columns of a terminal it takes. It knows
// the sequences that emoji are made of, not all of Unicode's grapheme rules.
func cluster(s string) (first string, columns int) {
	r, n := utf8.DecodeRuneInString(s)
	columns = runeWidth(r)
	if regionalIndicator(r) {
		if next, m := utf8.DecodeRuneInString(s[n:]); regionalIndicator(next) {
			return s[:n+m], 2
		}
	}
	for n < len(s) {
		next, m := utf8.DecodeRuneInString(s[n:])
		switch {
		case next == emojiPresentation:
			columns = 2
		case next == zeroWidthJoiner:
			_, joined := utf8.DecodeRuneInString(s[n+m:])
			m += joined
		case runeWidth(next) > 0 && !skinTone(next):
			return s[:n], columns
		}
		n += m
	}
	return s, columns
}

// runeWidth is how many columns a rune takes on its own.
func runeWidth(r rune) int {
	if r <= unicode.MaxASCII {
		return 1
	}
	if r != softHyphen && unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

func regionalIndicator(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

func skinTone(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }

// columns is how many columns of a terminal s takes.
func columns(s string) int {
	n := 0
	for s != "" {
		first, w := cluster(s)
		n += w
		s = s[len(first):]
	}
	return n
}

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

// breakLine cuts off what fits into max columns, at least one character.
func breakLine(text string, max int) (head, rest string) {
	space, used := 0, 0
	for i := 0; i < len(text); {
		first, w := cluster(text[i:])
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
