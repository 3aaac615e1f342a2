package marker

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// The paragraph with which an answer asks for an approval is one line (contract section 2):
//
//	`🔐 Approval needed` [approve or deny](https://…): `rm -rf x`
//	`🔐 Approval needed` reply `approve K7QF-2M9D` or `deny K7QF-2M9D`: `rm -rf x`
//
// It begins like a marker and ends with a backtick, so that a model's imitation of it is held
// back and stripped as imitated markers are, by a Table that WithApprovals returns.
const (
	approvalEmoji = "🔐"
	approvalLabel = "Approval needed"
	approvalHead  = "`" + approvalEmoji + " " + approvalLabel + "` "

	// The ways to answer, which follow the head, begin with these.
	linkBegins  = "[approve or deny]("
	replyBegins = "reply `approve "
)

// MaxShownCommand is the number of characters of a command that the paragraph shows.
const MaxShownCommand = 400

// ApprovalLine returns the paragraph for the command: url is the address of a page, and code that
// of a reply. Either may be empty.
func ApprovalLine(command, url, code string) string {
	var ways []string
	if url != "" {
		ways = append(ways, linkBegins+linkEscapes.Replace(url)+")")
	}
	if code != "" {
		ways = append(ways, fmt.Sprintf(replyBegins+"%s` or `deny %[1]s`", code))
	}
	return approvalHead + strings.Join(ways, " or ") + ": " + codeSpan(command)
}

// linkEscapes escapes what would end a link's address in Markdown.
var linkEscapes = strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "`", "%60", "\\", "%5C", " ", "%20", "\n", "%0A", "\r", "%0D")

// codeSpan returns the beginning of text as a code span in one line. Nothing in text ends the
// span, because its delimiters have more backticks than text has in a row. Characters that cannot
// be seen, or that change how others are read, are shown as Go's escapes.
func codeSpan(text string) string {
	var b strings.Builder
	n, run, longest := 0, 0, 0
	for _, r := range text {
		if n++; n > MaxShownCommand {
			b.WriteRune('…')
			break
		}
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
		switch {
		case unicode.IsPrint(r) && r != '\u2800' && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			b.WriteRune(r)
		default:
			escape := fmt.Sprintf("%+q", r) // with quotes
			b.WriteString(escape[1 : len(escape)-1])
		}
	}
	shown := b.String()
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
// returning true.
func MayAsk(b []byte) bool { return bytes.Contains(b, []byte(approvalLabel)) }

// FindApproval returns where the first paragraph in text[i:], the inside of a JSON string, begins
// and ends, without the newlines around it. Both are -1 if there is none. A paragraph that is not
// whole ends with its line. A line without a way to answer is no paragraph.
func FindApproval(text []byte, i int) (from, to int) {
	for i < len(text) {
		r, next := jsonspan.NextRune(text, i)
		if r == '`' {
			head := skip(text, i, approvalHead)
			if head >= 0 && (skip(text, head, linkBegins) >= 0 || skip(text, head, replyBegins) >= 0) {
				return i, approvalEnd(text, head)
			}
		}
		i = next
	}
	return -1, -1
}

// skip returns the index after want, if that stands at text[i:], and otherwise -1.
func skip(text []byte, i int, want string) int {
	for _, w := range want {
		if i >= len(text) {
			return -1
		}
		r, next := jsonspan.NextRune(text, i)
		if r != w {
			return -1
		}
		i = next
	}
	return i
}

// approvalEnd returns where the paragraph ends whose beginning ends at i: after the code span that
// a colon and a space precede, where another paragraph begins, or else at the end of the line.
func approvalEnd(text []byte, i int) int {
	var before [2]rune // the runes before the current one, or before the backticks that it ends
	opening := 0       // how many backticks the code span begins with, 0 before it
	run, last := 0, 0  // how many have come in a row, and where the last of them begins
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
		if r == '\n' {
			return i
		}
		if run > 0 {
			before[1] = '`'
		}
		before, run, i = [2]rune{before[1], r}, 0, next
	}
	return i
}

// Word returns the first word of text, the inside of a JSON string, if that is a reply to a
// request for approval and nothing else: approve or deny, a space and a code, with white space
// around them. Otherwise it returns nil.
func Word(text []byte) []byte {
	if len(text) > maxReplyText {
		return nil
	}
	whole := strings.TrimSpace(string(jsonspan.AppendText(nil, text)))
	word, code, _ := strings.Cut(whole, " ")
	if !strings.EqualFold(word, "approve") && !strings.EqualFold(word, "deny") || !isCode(code) {
		return nil
	}
	return []byte(word)
}

// maxReplyText is the length in bytes, as JSON, of the longest message that may be a reply.
const maxReplyText = 256

// isCode reports whether s has the form of a code: K7QF-2M9D.
func isCode(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if i == 4 && c != '-' || i != 4 && !letter {
			return false
		}
	}
	return len(s) == len("K7QF-2M9D")
}

// MayReply reports whether b, JSON, may have a reply in it. It is cheap, and errs only by
// returning true.
func MayReply(b []byte) bool {
	const before, after = len("K7QF"), len("-2M9D")
	for i := 0; ; i++ { // a hyphen is rarer than the letters of the words
		n := bytes.IndexByte(b[i:], '-')
		if n < 0 {
			return false
		}
		i += n
		if from := i - before; from > 0 && b[from-1] == ' ' && i+after <= len(b) && isCode(string(b[from:i+after])) {
			return true
		}
	}
}

// WithApprovals returns a Table that also knows the paragraph, whose imitations are stripped like
// those of markers. They start no tool.
func (t *Table) WithApprovals() *Table { return t.asking }

// IsApproval reports whether m, of a Table with approvals, is such a paragraph.
func (t *Table) IsApproval(m Marker) bool {
	return t.asking == t && isApproval(m) && t.byEmoji[approvalEmoji] == nil
}

// isApproval reports whether m begins as a paragraph does.
func isApproval(m Marker) bool {
	return string(jsonspan.AppendText(nil, m.Emoji)) == approvalEmoji && skip(m.Label, 0, approvalLabel+"` ") >= 0
}

// addApprovals adds the Table that WithApprovals returns.
func (t *Table) addApprovals() {
	asking := *t
	asking.asking = &asking
	t.asking = &asking
	if t.byEmoji[approvalEmoji] != nil { // a tool of the operator's
		return
	}
	first, _ := utf8.DecodeRuneInString(approvalEmoji)
	asking.beginnings = make(map[rune][]string, len(t.beginnings)+1)
	for r, b := range t.beginnings {
		asking.beginnings[r] = b
	}
	asking.beginnings[first] = append(append([]string(nil), t.beginnings[first]...), approvalEmoji+" ")
	asking.first[approvalEmoji[0]] = true
}
