package replay

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// labelWidth is the width in columns of the names in a summary.
const labelWidth = 9

// play is a scenario and what both sides have received of it.
type play struct {
	scenario            Scenario
	title               string // such as "1/5 one_tool: text with one tool"
	left, right         *Transcript
	leftHead, rightHead string
}

// picture lays out a play.
func (p play) picture(s Screen) []string {
	rows := s.full(line{p.title, bold}, line{p.scenario.About, plain})
	w := s.side()
	left, right := body(p.left, w), body(p.right, w)
	var leftSum, rightSum []line
	if p.left.Ended && p.right.Ended {
		leftSum, rightSum = level(summary(p.scenario, p.left, w), summary(p.scenario, p.right, w), s.twoColumns())
	}
	if !s.twoColumns() {
		rows = append(rows, stacked(s, p.leftHead, left, leftSum)...)
		return append(rows, stacked(s, p.rightHead, right, rightSum)...)
	}
	rows = append(rows, s.rule("┬"))
	rows = append(rows, s.beside(hang(p.leftHead, w, 0, bold), hang(p.rightHead, w, 0, bold))...)
	rows = append(rows, s.rule("┼"))
	rows = append(rows, s.beside(left, right)...)
	if leftSum != nil {
		rows = append(rows, s.rule("┼"))
		rows = append(rows, s.beside(leftSum, rightSum)...)
	}
	return append(rows, s.rule("┴"))
}

// stacked lays out one side over the whole width.
func stacked(s Screen, head string, text, sum []line) []string {
	rule := []string{s.rule("")}
	rows := slices.Concat(rule, s.full(line{head, bold}), rule, s.full(text...))
	if sum != nil {
		rows = append(append(rows, ""), s.full(sum...)...)
	}
	return rows
}

// body lays out the answer as a chat client shows it.
func body(t *Transcript, w int) []line {
	var out []line
	blank := true // nothing, or a blank line, is above
	for i, block := range t.Blocks {
		if block.Tool != nil {
			out = append(out, card(block.Tool, w)...)
			blank = false
			continue
		}
		if block.Status != "" {
			out = append(out, hang("(status: "+block.Status+")", w, 1, dim)...)
			blank = false
			continue
		}
		if block.Thought {
			out = append(out, hang("(thought: "+strings.TrimSpace(block.Text)+")", w, 1, dim)...)
			blank = false
			continue
		}
		text := block.Text
		if i < len(t.Blocks)-1 {
			text = strings.TrimSuffix(text, "\n")
		}
		for part := range strings.SplitSeq(text, "\n") {
			empty := strings.TrimSpace(part) == ""
			if empty && blank {
				continue // paragraphs are one blank line apart, as in Markdown
			}
			blank = empty
			st := plain
			if markerLine.MatchString(part) {
				st = odd
			}
			out = append(out, hang(part, w, 0, st)...)
		}
	}
	if len(out) > 0 && out[len(out)-1].text == "" && t.Ended {
		out = out[:len(out)-1]
	}
	if t.Err != nil {
		said := t.Err.Message
		if t.Err.Code != "" {
			said += " (" + t.Err.Code + ")"
		}
		out = append(out, hang("Error: "+said, w, 2, bad)...)
	}
	if t.Broken != nil {
		out = append(out, hang("Network error: "+describeBreak(t.Broken), w, 2, bad)...)
	}
	return out
}

// card lays out a tool card.
func card(tool *Tool, w int) []line {
	title := strings.TrimSpace(tool.Emoji + " " + tool.Name + "  " + tool.Label)
	out := hang("["+title+"]", w, 1, bold)
	if tool.Ends == 0 {
		return append(out, hang("   running", w, 3, dim)...)
	}
	end, st := "completed", good
	if tool.Interrupted {
		end, st = "interrupted", odd
	}
	took := fmt.Sprintf("   running → %s (%.1f s)", end, tool.Ended.Sub(tool.Started).Seconds())
	return append(out, hang(took, w, 3, st)...)
}

// level joins the rows of two summaries. When they stand beside each other,
// rows of the same name begin at the same height.
func level(left, right [][]line, beside bool) (l, r []line) {
	for i := range left {
		l, r = append(l, left[i]...), append(r, right[i]...)
		for beside && len(l) < len(r) {
			l = append(l, line{})
		}
		for beside && len(r) < len(l) {
			r = append(r, line{})
		}
	}
	return l, r
}

// summary says in short what a chat client made of the stream: the lines of
// each row.
func summary(s Scenario, t *Transcript, w int) [][]line {
	content := fmt.Sprintf("%d characters", utf8.RuneCountInString(t.Content()))
	contentStyle := plain
	reasoning, _ := s.reasoning(t.Content())
	switch _, n := withoutMarkers(t.Content()); {
	case reasoning != "":
		content, contentStyle = content+", tags in them", odd
	case keys.MatchString(t.Content()):
		content, contentStyle = content+", a key in them", bad
	case n == 0:
		content += ", clean"
	case n == 1:
		content, contentStyle = content+", 1 marker", odd
	default:
		content, contentStyle = fmt.Sprintf("%s, %d markers", content, n), odd
	}
	tools, toolStyle := "none", plain
	if n := len(t.Tools()); n > 0 {
		ended, cut := 0, 0
		for _, tool := range t.Tools() {
			if tool.Interrupted {
				cut++
			} else {
				ended += min(tool.Ends, 1)
			}
		}
		tools, toolStyle = fmt.Sprintf("%d started", n), good
		if ended > 0 || cut == 0 {
			tools += fmt.Sprintf(", %d completed", ended)
		}
		if cut > 0 {
			tools += fmt.Sprintf(", %d interrupted", cut)
		}
	} else if real, _ := s.tools(); len(real) > 0 {
		tools, toolStyle = fmt.Sprintf("none shown, %d ran", len(real)), odd
	}
	end, endStyle := ending(s, t)
	row := func(name, text string, st style) []line {
		return hang(pad(name, labelWidth)+text, w, labelWidth, st)
	}
	return [][]line{row("content", content, contentStyle), row("tools", tools, toolStyle), row("end", end, endStyle)}
}

// ending says how a stream ended.
func ending(s Scenario, t *Transcript) (string, style) {
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
		return text, bad
	case s.Code != "" && t.Err == nil:
		return text + ": no error", bad
	}
	return text, plain
}

// describeBreak says how a connection ended.
func describeBreak(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed in the middle of the answer"
	}
	return err.Error()
}

// hang breaks text into lines of at most w columns and indents all but the
// first.
func hang(text string, w, indent int, st style) []line {
	if indent >= w/2 {
		indent = 0
	}
	var out []line
	first, rest := breakLine(printable(text), w)
	out = append(out, line{strings.TrimRight(first, " "), st})
	if rest == "" {
		return out
	}
	for _, part := range wrap(rest, w-indent) {
		out = append(out, line{strings.Repeat(" ", indent) + part, st})
	}
	return out
}
