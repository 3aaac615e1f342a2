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

// signAdded is in front of a line that left in place of a piece of the stream.
const signAdded = "+"

// explainer writes what became of a stream.
type explainer struct {
	out   io.Writer
	width int
	n     int // pieces so far
	err   error
}

// printf writes, unless writing has failed before. All output goes through it, and it makes the
// strings among args printable.
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

// printStep writes what became of a piece.
func (e *explainer) printStep(s rewrite.Step) {
	if s.In == nil {
		e.printf("end\n")
	} else {
		e.n++
		e.printLines(fmt.Sprintf("%5d  %s  ", e.n, sign(s)), s.In)
	}
	for _, n := range s.Notes {
		section := "(" + n.Section + ")"
		if n.Section >= "0" && n.Section <= "9" { // of the contract
			section = "§" + n.Section
		}
		e.printf("          %s %s\n", section, n.Text)
	}
	if string(s.Out) != string(s.In) {
		e.printLines("       "+signAdded+"  ", s.Out)
	}
}

// sign returns the sign in front of a piece.
func sign(s rewrite.Step) string {
	switch {
	case s.Held:
		return "." // it waits
	case string(s.In) == string(s.Out):
		return "=" // it left as it came
	case len(s.Out) == 0:
		return "-" // it did not leave
	}
	return "~" // it left changed, or something left with it
}

// printLines writes the lines of b that are not blank, the first one after prefix and the others
// indented like it. If there is a width, it leaves out the members that all chunks of a stream
// begin with, and cuts each line to the width.
func (e *explainer) printLines(prefix string, b []byte) {
	for _, line := range strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' || r == '\r' }) {
		const head, choices = "data: {", `"choices"`
		i := strings.Index(line, choices)
		if e.width > 0 && strings.HasPrefix(line, head) && i > 0 && strings.Contains(line[:i], `"chat.completion.chunk"`) {
			line = head + "… " + line[i:]
		}
		if e.width > 0 && utf8.RuneCountInString(line) > e.width {
			line = string([]rune(line)[:e.width-1]) + "…"
		}
		e.printf("%s%s\n", prefix, line)
		if !strings.Contains(prefix, signAdded) {
			prefix = strings.Repeat(" ", utf8.RuneCountInString(prefix))
		}
	}
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

// printEnd writes how the stream ended.
func (e *explainer) printEnd(s rewrite.Summary) {
	how := "well"
	if s.Code != "" {
		how = "in an error, " + s.Code
	}
	e.printf("\nended %s", how)
	for _, f := range [][2]string{{"finish_reason", s.FinishReason}, {"id", s.ID}, {"model", s.Model}} {
		if f[1] != "" {
			e.printf(", %s %s", f[0], f[1])
		}
	}
	e.printf("; %d chunks, %d tools, %d imitations, %d stretches of reasoning\n", s.Chunks, s.Tools, s.Imitations, s.Reasoning)
	if s.ZeroUsagePassed {
		e.printf("the answer has text and a usage of zero tokens, which may be a crash: see zero_usage\n")
	}
}

// printMeta writes the meta data of the recording.
func (e *explainer) printMeta(m recording.Meta) {
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

// printAnswer writes what became of an answer that is not streamed.
func (e *explainer) printAnswer(a rewrite.Answer) {
	switch {
	case !a.Completion && a.Code != "":
		e.printf("an error, not a chat completion: passes unchanged\n")
	case !a.Completion:
		e.printf("not a chat completion: passes unchanged\n")
		return // nothing is known of how it ended
	case a.Code != "" || a.Changed:
		did := "reasoning and markers are removed from the message"
		if a.Code != "" {
			did = "the agent failed and said stop: status 502"
		}
		e.printf("§4 %s\n", did)
		e.printLines("       "+signAdded+"  ", a.Body)
	default:
		e.printf("nothing to repair: passes unchanged\n")
	}
	e.printEnd(a.Summary)
}
