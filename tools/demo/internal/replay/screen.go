package replay

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// The widths of a screen, in columns.
const (
	defaultWidth  = 100 // of a file, which has none of its own
	maxWidth      = 120 // longer lines are hard to read
	minTwoColumns = 72  // for the sides to stand beside each other
	minWidth      = 24  // the least that is reckoned with
)

// style is what a line looks like on a terminal.
type style string

// The styles, as the parameters of the escape sequence that selects them.
const (
	plain style = ""
	bold  style = "1"
	dim   style = "2"
	good  style = "32"
	bad   style = "31"
	odd   style = "33"
)

// line is a line of text on one side of the screen.
type line struct {
	text  string
	style style
}

// A Screen says what the output can show.
type Screen struct {
	Width  int // columns; 0 means those of a file
	Height int // rows of a terminal, 0 for a file
	// ANSI says that the output is a terminal: streams are drawn as they
	// arrive, and in colours. Without it the output is plain text, each
	// scenario once.
	ANSI bool
}

// width is the number of columns that are used.
func (s Screen) width() int {
	return min(max(cmp.Or(s.Width, defaultWidth), minWidth), maxWidth)
}

// twoColumns says that the sides stand beside each other.
func (s Screen) twoColumns() bool { return s.width() >= minTwoColumns }

// side is the number of columns that each side has.
func (s Screen) side() int {
	if !s.twoColumns() {
		return s.width()
	}
	return (s.width() - len(" | ")) / 2
}

// paint gives a text its style.
func (s Screen) paint(text string, st style) string {
	if !s.ANSI || st == plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// full lays out lines over the whole width.
func (s Screen) full(lines ...line) []string {
	var out []string
	for _, l := range lines {
		for _, part := range wrap(l.text, s.width()) {
			out = append(out, s.paint(part, l.style))
		}
	}
	return out
}

// rule is a horizontal line that crosses the one between the columns, in
// front of which it has the rune at.
func (s Screen) rule(at string) string {
	if !s.twoColumns() {
		return s.paint(strings.Repeat("─", s.side()), dim)
	}
	bar := strings.Repeat("─", s.side()+1)
	return s.paint(bar+at+bar, dim)
}

// beside lays out two lists of lines in two columns. The lines have to fit.
func (s Screen) beside(left, right []line) []string {
	var out []string
	for i := range max(len(left), len(right)) {
		var l, r line
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		gap := pad("", s.side()-columns(l.text)+1)
		row := s.paint(l.text, l.style) + gap + s.paint("│", dim)
		if r.text != "" {
			row += " " + s.paint(r.text, r.style)
		}
		out = append(out, row)
	}
	return out
}

// painter draws a picture again and again in the same place of a terminal.
type painter struct {
	w      io.Writer
	height int // rows of the terminal, 0 for unknown
	shown  int // rows of the picture that are there now
}

// draw replaces the picture. A picture that is higher than the terminal shows
// its lower end; the last one is drawn whole.
func (p *painter) draw(rows []string, last bool) error {
	if p.height > 1 && len(rows) >= p.height && !last {
		rows = rows[len(rows)-p.height+1:]
	}
	var b strings.Builder
	if p.shown > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.shown)
	}
	for _, row := range rows {
		b.WriteString(row + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	p.shown = len(rows)
	if last {
		p.shown = 0
	}
	_, err := io.WriteString(p.w, b.String())
	return err
}
