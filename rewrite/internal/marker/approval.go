package marker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// The paragraph with which an answer asks for an approval is one line (contract section 2):
//
//	`🔐 Approval needed` [approve or deny](https://…): `rm -rf x`
//	`🔐 Approval needed` reply `approve K7QF-2M9D` or `deny K7QF-2M9D`: `rm -rf x`
//	`🔐 Approval needed` reply `deny K7QF-2M9D`: `?`
//	`🔐 Approval needed` nobody can answer here now, so the command does not run: `rm -rf x`
//
// It begins like a marker and ends with a backtick, so that a model's imitation of it is held
// back and stripped as imitated markers are, by a Table that WithApprovals returns.
const (
	approvalEmoji = "🔐"
	approvalLabel = "Approval needed"
	approvalHead  = "`" + approvalEmoji + " " + approvalLabel + "` "

	// The ways to answer, which follow the head, begin with these.
	linkBegins   = "[approve or deny]("
	replyBegins  = "reply `approve "
	denyBegins   = "reply `deny "
	nobodyBegins = "nobody can answer here now"
)

// beginWays reports whether ways to answer begin at text[i:].
func beginWays(text []byte, i int) bool {
	return slices.ContainsFunc([]string{linkBegins, replyBegins, denyBegins, nobodyBegins}, func(want string) bool { return skip(text, i, want) >= 0 })
}

// Ways are the ways to answer that a paragraph offers. If there are none, it says so.
type Ways struct {
	URL      string // of a page; "" for none
	Code     string // of a reply; "" for none
	DenyOnly bool   // a reply may only deny
}

// ApprovalLine returns the paragraph for the command.
func ApprovalLine(command string, w Ways) string {
	var ways []string
	if w.URL != "" {
		ways = append(ways, linkBegins+linkEscapes.Replace(w.URL)+")")
	}
	switch {
	case w.Code == "":
	case w.DenyOnly:
		ways = append(ways, denyBegins+w.Code+"`")
	default:
		ways = append(ways, fmt.Sprintf(replyBegins+"%s` or `deny %[1]s`", w.Code))
	}
	if ways == nil {
		ways = []string{nobodyBegins + ", so the command does not run"}
	}
	return approvalHead + strings.Join(ways, " or ") + ": " + codeSpan(Line(command, MaxShown))
}

// AdviceLine returns the paragraph that says how to reply with the code. More may be added to what
// to write.
func AdviceLine(code, more string) string {
	return approvalHead + fmt.Sprintf(replyBegins+"%s` or `deny %[1]s` and nothing else%s: your message was not sent to the agent, which still waits.", code, more)
}

// linkEscapes escapes what would end a link's address in Markdown.
var linkEscapes = strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "`", "%60", "\\", "%5C", " ", "%20", "\n", "%0A", "\r", "%0D")

// codeSpan returns text, one line, as a code span. Nothing in text ends the span, because its
// delimiters have more backticks than text has in a row.
func codeSpan(shown string) string {
	run, longest := 0, 0
	for _, r := range shown {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	if strings.Trim(shown, " ") == "" {
		return "`?`"
	}
	if strings.Trim(shown, " `") != shown {
		shown = " " + shown + " " // of which Markdown takes one on each side
	}
	ticks := strings.Repeat("`", longest+1)
	return ticks + shown + ticks
}

// MayAsk reports whether b, JSON, may have a paragraph in it. It is cheap, and errs only by
// returning true, unless a client escapes single letters of the label: that client fools itself.
// If b may have an escaped backtick, it returns true.
func MayAsk(b []byte) bool { return bytes.Contains(b, []byte("Approval")) || mayEscape(b) }

// mayEscape reports whether b may have the escape of a backtick, or that of an A or a p in the label:
// all three are rare.
func mayEscape(b []byte) bool {
	for i := 0; ; i++ {
		n := bytes.IndexByte(b[i:], '0')
		if n < 0 {
			return false
		}
		i += n
		for _, digits := range []string{"0060", "0041pproval", "0070"} {
			if bytes.HasPrefix(b[i:], []byte(digits)) {
				return true
			}
		}
	}
}

// FindApproval returns where the first paragraph in text[i:], the inside of a JSON string, begins
// and ends, without the newlines around it. Both are -1 if there is none. A paragraph that is not
// whole ends with its line. A line without a way to answer is no paragraph. One that only looks
// like a paragraph, because its white space is of another kind or it has characters that are not
// seen, is one.
func FindApproval(text []byte, i int) (from, to int) {
	from, ways := nextApproval(text, i)
	if ways < 0 {
		return -1, -1
	}
	return from, approvalEnd(text, ways)
}

// nextApproval returns where the first paragraph in text[i:] begins, and the ways to answer in it.
// Both are -1 if there is none.
func nextApproval(text []byte, i int) (from, ways int) {
	for i < len(text) {
		if text[i] != '`' && text[i] != '\\' {
			i++
			continue
		}
		r, next := jsonspan.NextRune(text, i)
		if r == '`' {
			ways := skip(text, i, approvalHead)
			if ways >= 0 && beginWays(text, ways) {
				return i, ways
			}
		}
		i = next
	}
	return -1, -1
}

// skip returns the index after want, if that stands at text[i:], and otherwise -1. Any white space
// within a line stands for a space. Characters that are not seen stand for nothing, but not within a word.
func skip(text []byte, i int, want string) int {
	word := false // a letter came before
	for _, w := range want {
		next, spaced := i, false
		if letter := w >= 'a' && w <= 'z'; !letter || !word {
			next, spaced = skipBlank(text, i)
			word = letter || w >= 'A' && w <= 'Z'
		}
		switch {
		case w == ' ' && spaced:
			i = next
			continue
		case w == ' ', spaced, next == len(text):
			return -1
		}
		r, after := jsonspan.NextRune(text, next)
		if r != w {
			return -1
		}
		i = after
	}
	return i
}

// skipBlank returns the index after the unseen characters at text[i:] and the white space of its line,
// and whether there was any white space.
func skipBlank(text []byte, i int) (next int, spaced bool) {
	for next = i; next < len(text); {
		r, end := jsonspan.NextRune(text, next)
		if !isBlank(r) && !isUnseen(r) {
			break
		}
		spaced, next = spaced || isBlank(r), end
	}
	return next, spaced
}

// isBlank reports whether r is white space within a line.
func isBlank(r rune) bool { return strings.ContainsRune(blanks, r) }

// approvalEnd returns where the paragraph ends whose beginning ends at i: after the code span that
// a colon and a space precede, where another paragraph begins, or else at the end of the line.
func approvalEnd(text []byte, i int) int {
	var before [2]rune // the runes before the current one, or before the backticks that it ends
	opening := 0       // how many backticks the code span begins with, 0 before it
	run, last := 0, 0  // how many there are in a row, and where the last of them begins
	for i < len(text) {
		r, next := jsonspan.NextRune(text, i)
		switch {
		case r == '`' && opening <= 1 && skip(text, i, approvalHead) >= 0: // more backticks may enclose one
			return i
		case r == '`':
			run, last, i = run+1, i, next
			continue
		case run > 0 && run == opening:
			if skip(text, last, approvalHead) >= 0 { // it is another paragraph's
				return last
			}
			return i
		case run > 0 && opening == 0 && before == [2]rune{':', ' '}:
			opening = run
		}
		switch {
		case r == '\n':
			return i
		case isBlank(r):
			r = ' '
		}
		if run > 0 {
			before[1] = '`'
		}
		if r != ' ' || before[1] != ' ' {
			before = [2]rune{before[1], r}
		}
		run, i = 0, next
	}
	return i
}

// WithApprovals returns a Table that also knows the paragraph, whose imitations are stripped like
// those of markers. They start no tool.
func (t *Table) WithApprovals() *Table { return &Table{emojis: t.emojis, asks: true, quiet: t.quiet} }

// knowsApprovals reports whether t knows the paragraph, whose emoji an operator may have given to a tool.
func (t *Table) knowsApprovals() bool { return t.asks && t.byEmoji[approvalEmoji] == nil }

// IsApproval reports whether m, of a Table with approvals, is such a paragraph.
func (t *Table) IsApproval(m Marker) bool { return t.knowsApprovals() && isApproval(m) }

// isApproval reports whether m begins as a paragraph does.
func isApproval(m Marker) bool {
	label, _ := skipBlank(m.Label, 0)
	return isLock(m.Emoji) && skip(m.Label, label, approvalLabel+"` ") >= 0
}

// isLock reports whether emoji is that of the paragraph.
func isLock(emoji []byte) bool {
	return strings.TrimFunc(string(jsonspan.AppendText(nil, emoji)), func(r rune) bool { return isBlank(r) || isUnseen(r) }) == approvalEmoji
}

// blanks are the characters for which isBlank is true.
const blanks = " \t\v\f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u2800\u3000"
