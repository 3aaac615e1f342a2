package repair

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/internal/recording"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The signs in front of what became of a piece of the stream.
const (
	signSame    = "=" // left as it came
	signChanged = "~" // left changed, or something left with it
	signDropped = "-" // did not leave
	signHeld    = "." // waits
	signAdded   = "+" // a line that left instead of it
)

// explainer writes what became of a stream.
type explainer struct {
	out   io.Writer
	width int
	n     int // pieces so far
	err   error
}

// printf writes, until writing fails. All that is written goes through it, and what an
// argument says is printable.
func (e *explainer) printf(format string, args ...any) {
	for i, a := range args {
		if text, is := a.(string); is {
			args[i] = printable(text)
		}
	}
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.out, format, args...)
	}
}

// step writes what became of a piece.
func (e *explainer) step(s rewrite.Step) {
	if s.In == nil {
		e.printf("end\n")
	} else {
		e.n++
		e.lines(fmt.Sprintf("%5d  %s  ", e.n, sign(s)), s.In)
	}
	for _, n := range s.Notes {
		e.printf("          %s %s\n", section(n.Section), n.Text)
	}
	if string(s.Out) != string(s.In) {
		e.lines("       "+signAdded+"  ", s.Out)
	}
}

// sign returns the sign of a piece.
func sign(s rewrite.Step) string {
	switch {
	case s.Held:
		return signHeld
	case string(s.In) == string(s.Out):
		return signSame
	case len(s.Out) == 0:
		return signDropped
	}
	return signChanged
}

// section writes a section of the contract: §1, or a name as it is.
func section(name string) string {
	if name >= "0" && name <= "9" {
		return "§" + name
	}
	return "(" + name + ")"
}

// lines writes the lines of b that are not blank, the first one after prefix
// and the others below it.
func (e *explainer) lines(prefix string, b []byte) {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			continue
		}
		if e.width > 0 {
			line = withoutHead(line)
		}
		e.printf("%s%s\n", prefix, cut(line, e.width))
		if !strings.Contains(prefix, signAdded) {
			prefix = strings.Repeat(" ", utf8.RuneCountInString(prefix))
		}
	}
}

// withoutHead leaves out what all chunks of a stream begin with.
func withoutHead(line string) string {
	const head, choices = "data: {", `"choices"`
	i := strings.Index(line, choices)
	if !strings.HasPrefix(line, head) || i < 0 || !strings.Contains(line[:i], `"chat.completion.chunk"`) {
		return line
	}
	return head + "… " + line[i:]
}

// printable replaces what a terminal would act upon.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError // controls, ends of lines, and what turns text around
		}
		return r
	}, line)
}

// cut cuts a line to width runes, with an ellipsis; 0 leaves it.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}

// end writes how the stream ended.
func (e *explainer) end(s rewrite.Summary) {
	how := "well"
	if s.Code != "" {
		how = "in an error, " + s.Code
	}
	e.printf("\nended %s", how)
	for _, f := range []struct {
		name, value string
	}{{"finish_reason", s.FinishReason}, {"id", s.ID}, {"model", s.Model}} {
		if f.value != "" {
			e.printf(", %s %s", f.name, f.value)
		}
	}
	e.printf("; %d chunks, %d tools, %d imitations, %d stretches of reasoning\n", s.Chunks, s.Tools, s.Imitations, s.Reasoning)
	if s.ZeroUsagePassed {
		e.printf("it has text with a usage of zero tokens, which may be a crash: see zero_usage\n")
	}
}

// meta writes the meta data of the recording.
func (e *explainer) meta(m recording.Meta) {
	if m.Outcome != "" {
		e.printf("live, its outcome was %s\n", m.Outcome)
	}
	if m.Cause == recording.CauseClientGone {
		e.printf("the client left before upstream had ended: the recording ends there\n")
	}
	if m.Truncated {
		e.printf("the recording had become too large: it ends before the stream did\n")
	}
}

// answer writes what became of an answer that is not streamed.
func (e *explainer) answer(a rewrite.Answer) {
	switch {
	case !a.Completion && a.Code != "":
		e.printf("an error, and no chat completion: passes as it is\n")
	case !a.Completion:
		e.printf("no chat completion: passes as it is\n")
		return // nothing is known of how it ended
	case a.Code != "":
		e.printf("§4 the agent failed and said stop: status 502\n")
		e.lines("       "+signAdded+"  ", a.Body)
	case a.Changed:
		e.printf("§4 reasoning and markers leave the message\n")
		e.lines("       "+signAdded+"  ", a.Body)
	default:
		e.printf("nothing to repair: passes as it is\n")
	}
	e.end(a.Summary)
}
