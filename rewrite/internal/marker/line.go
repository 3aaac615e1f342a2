package marker

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxShown is the number of characters that a status line, a card or the paragraph of an approval shows
// of a text of upstream's.
const MaxShown = 200

// Line returns the beginning of a text of upstream's in one line of at most n characters, so that what
// users read, and approve by, looks like what runs (contract section 2). Characters that cannot be seen,
// or that change how others are read, are shown as Go's escapes, except those that are part of an emoji.
// A line that is cut ends with an ellipsis.
func Line(text string, n int) string {
	if isPlain(text) && len(text) <= n {
		return text
	}
	l := shownLine{b: make([]byte, 0, min(2*len(text), utf8.UTFMax*n)), most: n}
	for _, r := range text {
		if l.add(r); l.runes > n {
			break
		}
	}
	l.join(0)
	if l.runes > n {
		return string(append(l.b[:l.fits], "…"...))
	}
	return string(l.b)
}

// Text returns a text of upstream's with all its lines and tabs, so that it looks like what it is, as Line
// does.
func Text(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j := range parts {
			parts[j] = Line(parts[j], math.MaxInt/utf8.UTFMax)
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// BeginsWithEmoji reports whether the text begins with an emoji and has a space behind it, as the name of a
// card has.
func BeginsWithEmoji(text string) bool {
	emoji, _, ok := strings.Cut(text, " ")
	r, _ := utf8.DecodeRuneInString(emoji)
	return ok && isSymbol(r)
}

// isPlain reports whether each byte of the text is a character that is seen.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// shownLine is a line that is written rune by rune.
type shownLine struct {
	b     []byte
	most  int  // the number of characters that it may have
	runes int  // the number of characters in b
	fits  int  // the length of b up to which an ellipsis may follow
	last  rune // the last rune in b, 0 for an escape
	joins bool // a joiner precedes the next rune, which says whether it is part of an emoji
}

const zeroWidthJoiner = '\u200d'

// add adds a rune of the text.
func (l *shownLine) add(r rune) {
	l.join(r)
	switch {
	case r == zeroWidthJoiner && (isSymbol(l.last) || unicode.Is(unicode.Variation_Selector, l.last)):
		l.joins = true
		return
	case IsSeen(r), (r == '\ufe0e' || r == '\ufe0f') && isSymbol(l.last):
		l.b = utf8.AppendRune(l.b, r)
		l.runes++
		l.last = r
	default:
		l.escape(r)
	}
	l.mark()
}

// join adds the joiner that waits for the rune next, if there is one.
func (l *shownLine) join(next rune) {
	switch {
	case !l.joins:
		return
	case isSymbol(next):
		l.b = utf8.AppendRune(l.b, zeroWidthJoiner)
		l.runes++
	default:
		l.escape(zeroWidthJoiner)
	}
	l.joins = false
	l.mark()
}

// escape adds Go's escape for the rune.
func (l *shownLine) escape(r rune) {
	from := len(l.b)
	l.b = strconv.AppendQuoteRuneToASCII(l.b, r)
	copy(l.b[from:], l.b[from+1:]) // without its quotes
	l.b = l.b[:len(l.b)-2]
	l.runes += len(l.b) - from
	l.last = 0
}

// mark records that the line may be cut here.
func (l *shownLine) mark() {
	if l.runes < l.most {
		l.fits = len(l.b)
	}
}

// IsSeen reports whether the rune is seen, and changes nothing of how others are read.
func IsSeen(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, blank)
}

// blank are the letters, marks and symbols that fonts draw as nothing: blanks of Braille, of hieroglyphs
// and of music, joiners, a filler, and what stands for an object.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{{0x2800, 0x2800, 1}, {0x2d7f, 0x2d7f, 1}, {0xfffc, 0xfffc, 1}},
	R32: []unicode.Range32{{0x1107f, 0x1107f, 1}, {0x13441, 0x13442, 1}, {0x16fe4, 0x16fe4, 1}, {0x1d159, 0x1d159, 1}},
}

// isSymbol reports whether the rune may be an emoji, which a selector or a joiner follows.
func isSymbol(r rune) bool {
	return r > unicode.MaxASCII && r != utf8.RuneError && (unicode.In(r, unicode.S, unicode.P) || r == 'ℹ')
}
