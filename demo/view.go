package demo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// The widths of a screen, in columns.
const (
	defaultWidth  = 100 // of a file, which has none of its own
	maxWidth      = 120 // longer lines are hard to read
	minTwoColumns = 72  // for the sides to stand beside each other
	minWidth      = 24  // narrower screens are drawn as wide as this
	labelWidth    = 9   // of the names in a summary
)

var (
	plain = lipgloss.NewStyle()
	bold  = plain.Bold(true)
	dim   = plain.Faint(true)
	good  = plain.Foreground(lipgloss.Green)
	bad   = plain.Foreground(lipgloss.Red)
	odd   = plain.Foreground(lipgloss.Yellow)
)

// A screen says what the output can show.
type screen struct {
	columns int // 0 for a file
	rows    int // of a terminal, 0 for a file
	// ansi says that the output is a terminal: streams are drawn as they
	// arrive, and in colours. Without it the output is plain text, each
	// scenario once.
	ansi bool
}

// terminal returns the screen of the file: with escape sequences only if it is a terminal and
// NO_COLOR (no-color.org) is not set.
func terminal(f *os.File) screen {
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil || w <= 0 {
		w, _ = strconv.Atoi(os.Getenv("COLUMNS")) // not set or no number: 0, the default
		return screen{columns: w}
	}
	// One column stays free: some terminals wrap a line that fills the last.
	return screen{columns: w - 1, rows: h, ansi: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// width returns the number of columns that are used.
func (s screen) width() int {
	return min(max(cmp.Or(s.columns, defaultWidth), minWidth), maxWidth)
}

// wrap returns the rows of a text, wrapped to the width of the screen.
func (s screen) wrap(text string) []string {
	text = lipgloss.NewStyle().Width(s.width()).Render(text)
	if !s.ansi {
		text = ansi.Strip(text)
	}
	rows := strings.Split(text, "\n")
	for i, row := range rows {
		rows[i] = strings.TrimRight(row, " ")
	}
	return rows
}

// play is a scenario and what both sides have received of it.
type play struct {
	scenario
	title               string // such as "1/5 one_tool: text with one tool"
	left, right         *transcript
	leftHead, rightHead string
}

// picture lays out a play: both sides in columns, or one below the other on a narrow
// screen.
func (p play) picture(s screen) []string {
	w := s.width()
	cells := func(head string, t *transcript, w int) []string {
		all := []string{bold.Render(printable(head)), t.body(w)}
		if p.left.ended && p.right.ended {
			all = append(all, p.summary(t, w))
		}
		return all
	}
	sides := table.New().Width(w).BorderRow(true).BorderLeft(false).BorderRight(false).BorderStyle(dim).
		Border(lipgloss.Border{Top: "─", Bottom: "─", Left: "│", MiddleTop: "┬", Middle: "┼", MiddleBottom: "┴"})
	if w < minTwoColumns {
		for _, cell := range append(cells(p.leftHead, p.left, w), cells(p.rightHead, p.right, w)...) {
			sides.Row(cell)
		}
	} else {
		leftWidth := (w - len(" | ")) / 2
		rightWidth := w - leftWidth - len(" | ")
		sides.StyleFunc(func(_, column int) lipgloss.Style {
			if column == 0 {
				return plain.PaddingRight(1).Width(leftWidth + 1)
			}
			return plain.PaddingLeft(1).Width(rightWidth + 1)
		})
		right := cells(p.rightHead, p.right, rightWidth)
		for i, left := range cells(p.leftHead, p.left, leftWidth) {
			sides.Row(left, right[i])
		}
	}
	return s.wrap(bold.Render(p.title) + "\n" + p.About + "\n" + sides.String())
}

// body shows the answer as a chat client does, w columns wide.
func (t *transcript) body(w int) string {
	var out []string
	add := func(style lipgloss.Style, text string) {
		out = append(out, style.Width(w).Render(printable(text)))
	}
	for i, block := range t.blocks {
		switch block.kind {
		case card:
			tool := block.tool
			add(bold, "["+strings.TrimSpace(tool.emoji+" "+tool.name+"  "+tool.label)+"]")
			add(tool.progress())
			continue
		case status:
			add(dim, "(status: "+block.text+")")
			continue
		case thought:
			add(dim, "(thought: "+strings.TrimSpace(block.text)+")")
			continue
		}
		text := block.text
		if i < len(t.blocks)-1 || t.ended {
			text = strings.TrimSuffix(text, "\n")
		}
		for line := range strings.SplitSeq(text, "\n") {
			switch {
			case strings.TrimSpace(line) == "":
				if len(out) > 0 && out[len(out)-1] != "" { // paragraphs are one blank line apart, as in Markdown
					out = append(out, "")
				}
			case markerLine.MatchString(line):
				add(odd, line)
			default:
				add(plain, line)
			}
		}
	}
	if t.err != nil {
		code := ""
		if t.err.Code != "" {
			code = " (" + t.err.Code + ")"
		}
		add(bad, "Error: "+t.err.Message+code)
	}
	if t.broken != nil {
		add(bad, "Network error: "+describeBreak(t.broken))
	}
	return strings.Join(out, "\n")
}

// progress returns the state of the tool, and the style to show it in.
func (t *tool) progress() (lipgloss.Style, string) {
	style, end := good, "completed"
	switch {
	case t.ends == 0:
		return dim, "   running"
	case t.interrupted:
		style, end = odd, "interrupted"
	}
	return style, fmt.Sprintf("   running → %s (%.1f s)", end, t.ended.Sub(t.started).Seconds())
}

// summary says in short what a chat client made of the stream, w columns wide.
func (s scenario) summary(t *transcript, w int) string {
	row := func(name string, style lipgloss.Style, text string) string {
		text = style.Width(w - labelWidth).Render(text)
		return lipgloss.JoinHorizontal(lipgloss.Top, style.Width(labelWidth).Render(name), text)
	}
	contentStyle, content := describeContent(t.text(said))
	toolStyle, tools := s.describeTools(t.tools())
	endStyle, end := s.describeEnd(t)
	return row("content", contentStyle, content) + "\n" + row("tools", toolStyle, tools) + "\n" + row("end", endStyle, end)
}

// describeContent describes the text of a stream.
func describeContent(text string) (lipgloss.Style, string) {
	length := fmt.Sprintf("%d characters, ", utf8.RuneCountInString(text))
	reasoning, _ := cutReasoning(text)
	switch _, n := withoutMarkers(text); {
	case reasoning != "":
		return odd, length + "tags in them"
	case keys.MatchString(text):
		return bad, length + "a key in them"
	case n == 0:
		return plain, length + "clean"
	case n == 1:
		return odd, length + "1 marker"
	default:
		return odd, fmt.Sprintf("%s%d markers", length, n)
	}
}

// describeTools says how many tools a stream shows.
func (s scenario) describeTools(shown []*tool) (lipgloss.Style, string) {
	switch {
	case len(shown) == 0 && s.Tools > 0:
		return odd, fmt.Sprintf("none shown, %d ran", s.Tools)
	case len(shown) == 0:
		return plain, "none"
	}
	completed, interrupted := 0, 0
	for _, tool := range shown {
		if tool.interrupted {
			interrupted++
		} else {
			completed += min(tool.ends, 1)
		}
	}
	text := fmt.Sprintf("%d started", len(shown))
	if completed > 0 || interrupted == 0 {
		text += fmt.Sprintf(", %d completed", completed)
	}
	if interrupted > 0 {
		text += fmt.Sprintf(", %d interrupted", interrupted)
	}
	return good, text
}

// describeEnd says how a stream ended.
func (s scenario) describeEnd(t *transcript) (lipgloss.Style, string) {
	style, text, end := plain, "", "no [DONE]"
	if t.err != nil {
		text = strings.TrimSpace("error "+t.err.Code) + ", "
	}
	if t.done {
		end = "[DONE]"
	}
	switch {
	case t.broken != nil:
		style, text = bad, text+"broken connection, "
	case s.Code != "" && t.err == nil:
		style, end = bad, end+": no error"
	}
	if t.finish == "" {
		return style, text + "no finish_reason, " + end
	}
	return style, text + "finish_reason " + t.finish + ", " + end
}

// describeBreak says how a connection ended.
func describeBreak(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed in the middle of the answer"
	}
	return err.Error()
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
	text := ""
	if p.shown > 0 {
		text = ansi.CursorUp(p.shown)
	}
	for _, row := range rows {
		text += row + ansi.EraseLineRight + "\n"
	}
	p.shown = len(rows)
	if last {
		p.shown = 0
	}
	_, err := io.WriteString(p.w, text+ansi.EraseScreenBelow)
	return err
}
