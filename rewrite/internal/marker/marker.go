// Package marker recognizes the tool markers that Hermes writes into the text of an
// answer (contract sections 1 and 2). A marker is a line with an emoji and a label
// between backticks:
//
//	\n`💻 ls -la`\n
//
// Whole reads the whole content of one chunk. Such a marker starts a tool, whatever its
// emoji. Table.Line reads a line of text, which may end with white space. Such a line is an
// imitation, and counts only if the Table knows its emoji, for which Table.Opening looks.
//
// All read the inside of a JSON string as it stands, escapes included, in linear time. The
// caller knows where lines begin and which of them are code.
package marker

import (
	"bytes"
	"regexp"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// MaxHeldLine is the length in bytes up to which a line may be an imitated marker. It
// bounds the text that is held back (contract section 1).
const MaxHeldLine = 4 << 10

// Marker is a tool marker. Its fields are insides of JSON strings.
type Marker struct{ Emoji, Label []byte }

// whole is Hermes' own pattern, \A\n`([^\s`]+) (.*)`\n, where the dot matches newlines, for
// the inside of a JSON string. A carriage return may be in front of either newline. The label
// ends with the first backtick before a newline.
var whole = func() *regexp.Regexp {
	const newline, tick, space = `(?:\\r|\\u000[dD])?(?:\\n|\\u000[aA])`, "(?:`|\\\\u0060)", `(?: |\\u0020)`
	const text = `((?:[^\\]|\\[^u]|\\u[0-9a-fA-F]{4})*?)`
	return regexp.MustCompile("(?s)^" + newline + tick + text + space + text + tick + newline)
}()

// Whole reads s, the inside of a JSON string, as a marker that is the whole content of
// a chunk. It returns false if s is anything else.
//
// Such a marker is a newline, a backtick, a token with a non-ASCII rune, a space, a label
// of any kind, a backtick and a newline (contract section 1). A backtick and a newline
// inside the label mean that a hop has merged more than a marker into the chunk. The
// caller then looks at its lines one by one.
func Whole(s []byte) (m Marker, ok bool) {
	if !Begins(s) {
		return m, false
	}
	found := whole.FindSubmatch(s)
	if found == nil || len(found[0]) < len(s) || !isToken(string(jsonspan.AppendText(nil, found[1]))) {
		return m, false
	}
	return Marker{Emoji: found[1], Label: found[2]}, true
}

// Begins reports whether s, the inside of a JSON string, begins with a newline, LF or CR LF, and a
// backtick.
func Begins(s []byte) bool {
	if len(s) == 0 || s[0] != '\\' { // as most texts
		return false
	}
	var room [64]byte
	text := jsonspan.AppendText(room[:0], s[:min(len(s), len(`\u000d\u000a\u0060`))])
	return bytes.HasPrefix(bytes.TrimPrefix(text, []byte("\r")), []byte("\n`"))
}

// Line reads the line in text, the inside of a JSON string, whose first rune, a backtick,
// ends at i. It reports whether that line is the marker of a known tool: a label follows, and
// a backtick ends it, with nothing but white space after it. next is where the next line begins.
func (t *Table) Line(text []byte, i int) (m Marker, next int, ok bool) {
	label, _ := t.Opening(text, i)
	if label == 0 {
		return m, 0, false
	}
	tick := 0 // where the last rune that is no white space begins, if that is a backtick
	for next = label; next < len(text); {
		r, end := jsonspan.NextRune(text, next)
		if r == '\n' {
			next = end
			break
		}
		if r == '`' {
			if another, _ := t.Opening(text, end); another > 0 { // it is prose about tools
				return m, 0, false
			}
			tick = next
		} else if !unicode.IsSpace(r) {
			tick = 0
		}
		next = end
	}
	if tick <= label {
		return m, 0, false
	}
	emoji := bytes.TrimSuffix(bytes.TrimSuffix(text[i:label], []byte(" ")), []byte(`\u0020`))
	m = Marker{Emoji: emoji, Label: text[label:tick]}
	if t.asks() && isLock(emoji) && !isApproval(m) {
		return Marker{}, 0, false // the emoji is that of no tool
	}
	return m, next, true
}
