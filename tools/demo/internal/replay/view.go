package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
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

// rows returns the rows of a text, wrapped to the width of the screen.
func (s Screen) rows(text string) []string {
	text = lipgloss.NewStyle().Width(s.width()).Render(text)
	if !s.ANSI {
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
	scenario            Scenario
	title               string // such as "1/5 one_tool: text with one tool"
	left, right         *Transcript
	leftHead, rightHead string
}

// picture lays out a play: both sides in columns, or one below the other on a narrow
// screen.
func (p play) picture(s Screen) []string {
	w := s.width()
	sides := table.New().Width(w).BorderRow(true).BorderLeft(false).BorderRight(false).BorderStyle(dim).
		Border(lipgloss.Border{Top: "─", Bottom: "─", Left: "│", MiddleTop: "┬", Middle: "┼", MiddleBottom: "┴"})
	ended := p.left.Ended && p.right.Ended
	leftHead, rightHead := bold.Render(printable(p.leftHead)), bold.Render(printable(p.rightHead))
	if w < minTwoColumns {
		for _, side := range []struct {
			head string
			t    *Transcript
		}{{leftHead, p.left}, {rightHead, p.right}} {
			sides.Row(side.head).Row(body(side.t, w))
			if ended {
				sides.Row(summary(p.scenario, side.t, w))
			}
		}
	} else {
		left := (w - len(" | ")) / 2
		right := w - left - len(" | ")
		sides.StyleFunc(func(_, column int) lipgloss.Style {
			if column == 0 {
				return plain.PaddingRight(1).Width(left + 1)
			}
			return plain.PaddingLeft(1).Width(right + 1)
		})
		sides.Row(leftHead, rightHead).Row(body(p.left, left), body(p.right, right))
		if ended {
			sides.Row(summary(p.scenario, p.left, left), summary(p.scenario, p.right, right))
		}
	}
	return s.rows(bold.Render(p.title) + "\n" + p.scenario.About + "\n" + sides.String())
}

// body shows the answer as a chat client does, w columns wide.
func body(t *Transcript, w int) string {
	var out []string
	blank := true // nothing, or a blank line, is above
	add := func(style lipgloss.Style, text string) {
		out = append(out, style.Width(w).Render(printable(text)))
		blank = false
	}
	for i, block := range t.Blocks {
		switch {
		case block.Tool != nil:
			add(bold, "["+strings.TrimSpace(block.Tool.Emoji+" "+block.Tool.Name+"  "+block.Tool.Label)+"]")
			add(progress(block.Tool))
			continue
		case block.Status != "":
			add(dim, "(status: "+block.Status+")")
			continue
		case block.Thought:
			add(dim, "(thought: "+strings.TrimSpace(block.Text)+")")
			continue
		}
		text := block.Text
		if i < len(t.Blocks)-1 || t.Ended {
			text = strings.TrimSuffix(text, "\n")
		}
		for line := range strings.SplitSeq(text, "\n") {
			switch empty := strings.TrimSpace(line) == ""; {
			case empty && blank: // paragraphs are one blank line apart, as in Markdown
			case empty:
				out, blank = append(out, ""), true
			case markerLine.MatchString(line):
				add(odd, line)
			default:
				add(plain, line)
			}
		}
	}
	if t.Err != nil {
		said := t.Err.Message
		if t.Err.Code != "" {
			said += " (" + t.Err.Code + ")"
		}
		add(bad, "Error: "+said)
	}
	if t.Broken != nil {
		add(bad, "Network error: "+describeBreak(t.Broken))
	}
	return strings.Join(out, "\n")
}

// progress says how far a tool is.
func progress(tool *Tool) (lipgloss.Style, string) {
	if tool.Ends == 0 {
		return dim, "   running"
	}
	style, end := good, "completed"
	if tool.Interrupted {
		style, end = odd, "interrupted"
	}
	return style, fmt.Sprintf("   running → %s (%.1f s)", end, tool.Ended.Sub(tool.Started).Seconds())
}

// summary says in short what a chat client made of the stream, w columns wide.
func summary(s Scenario, t *Transcript, w int) string {
	row := func(name string, style lipgloss.Style, text string) string {
		return lipgloss.JoinHorizontal(lipgloss.Top, style.Width(labelWidth).Render(name), style.Width(w-labelWidth).Render(text))
	}
	contentStyle, content := contentOf(s, t)
	toolStyle, tools := toolsOf(s, t)
	endStyle, end := endOf(s, t)
	return row("content", contentStyle, content) + "\n" + row("tools", toolStyle, tools) + "\n" + row("end", endStyle, end)
}

// contentOf describes the text of a stream.
func contentOf(s Scenario, t *Transcript) (lipgloss.Style, string) {
	text := fmt.Sprintf("%d characters", utf8.RuneCountInString(t.Content()))
	reasoning, _ := s.reasoning(t.Content())
	switch _, n := withoutMarkers(t.Content()); {
	case reasoning != "":
		return odd, text + ", tags in them"
	case keys.MatchString(t.Content()):
		return bad, text + ", a key in them"
	case n == 0:
		return plain, text + ", clean"
	case n == 1:
		return odd, text + ", 1 marker"
	default:
		return odd, fmt.Sprintf("%s, %d markers", text, n)
	}
}

// toolsOf says how many tools a stream shows.
func toolsOf(s Scenario, t *Transcript) (lipgloss.Style, string) {
	shown := t.Tools()
	if len(shown) == 0 {
		if s.Tools > 0 {
			return odd, fmt.Sprintf("none shown, %d ran", s.Tools)
		}
		return plain, "none"
	}
	ended, cut := 0, 0
	for _, tool := range shown {
		if tool.Interrupted {
			cut++
		} else {
			ended += min(tool.Ends, 1)
		}
	}
	text := fmt.Sprintf("%d started", len(shown))
	if ended > 0 || cut == 0 {
		text += fmt.Sprintf(", %d completed", ended)
	}
	if cut > 0 {
		text += fmt.Sprintf(", %d interrupted", cut)
	}
	return good, text
}

// endOf says how a stream ended.
func endOf(s Scenario, t *Transcript) (lipgloss.Style, string) {
	var parts []string
	if t.Err != nil {
		parts = append(parts, strings.TrimSpace("error "+t.Err.Code))
	}
	if t.Broken != nil {
		parts = append(parts, "broken connection")
	}
	finish, done := "no finish_reason", "no [DONE]"
	if t.Finish != "" {
		finish = "finish_reason " + t.Finish
	}
	if t.Done {
		done = "[DONE]"
	}
	text := strings.Join(append(parts, finish, done), ", ")
	switch {
	case t.Broken != nil:
		return bad, text
	case s.Code != "" && t.Err == nil:
		return bad, text + ": no error"
	}
	return plain, text
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
