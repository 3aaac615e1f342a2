package doctor

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Words are what a finding says: constants of this package, or what say returns. What an
// agent says is a string and does not become words by itself, so the compiler refuses it
// where it would reach a report as it came.
type words string

// find adds a finding.
func (e *examination) find(check string, level Level, says, why words) {
	e.Findings = append(e.Findings, Finding{Check: check, Level: level, Says: string(says), Why: string(why)})
}

// An editor makes what others say fit for a report.
type editor struct {
	key string // which is in no report, "" for none
}

// say returns format with args. Those that are neither numbers nor words are said.
func (e editor) say(format words, args ...any) words {
	for i, a := range args {
		switch a.(type) {
		case words, int, int64:
		default:
			args[i] = e.said(fmt.Sprint(a))
		}
	}
	return words(fmt.Sprintf(string(format), args...))
}

// quoted returns the text in quotes, after a colon and a space, or "" for nothing.
func (e editor) quoted(text string) words {
	if text == "" {
		return ""
	}
	return e.say(": “%s”", text)
}

// maxSaid is how much of what others say a finding repeats, in bytes.
const maxSaid = 200

// said returns what upstream, or an error about it, says in a form that a report may
// have: without the key, without other secrets, short and printable.
func (e editor) said(text string) string {
	if e.key != "" {
		text = strings.ReplaceAll(text, e.key, "[redacted]")
	}
	return printable(bounded.Text(rewrite.Redact(bounded.Text(text, maxProbe)), maxSaid))
}

// printable replaces what a terminal would act upon.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}
