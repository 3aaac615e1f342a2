package marker

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// FuzzWhole: a marker that is the whole content of a chunk is what Hermes' own pattern matches, whose newlines may be
// CR LF, if its emoji is a token.
func FuzzWhole(f *testing.F) {
	hermes := regexp.MustCompile("(?s)^\r?\n`([^\\s`]+) (.*?)`\r?\n")
	for _, content := range []string{
		"\n`💻 ls -la`\n", "\n`🦄 `\n", "\n`💻 ``\n", "\n`x💻  a\tb `\n", "\n`🧪 lr=1\n\"2\"\\`\n", "\n`👩\u200d💻 code\n\n``\n",
		"\r\n`💻 ls`\r\n", "\r\n`💻 ls`\n", "\n`💻 a\r`\r\n", "\r`💻 ls`\n", "\r\r\n`💻 ls`\n", "\n`💻 ls`\r", "\n`💻 ls` \n", "\r\n`💻 a`\r\n`💻 b`\r\n",
		"\n`ls -la`\n", "\n`💻`\n", "\n`💻\tls`\n", "\n`\u00a0💻 ls`\n", "\n`a`💻 ls`\n",
		"\n`💻 ls`", "`💻 ls`\n", "x\n`💻 ls`\n", "\n`💻 ls`\nx", "\n`💻 ls\n", "\n`💻 a`\n`💻 b`\n", "", "\n", "\n`", "\n``\n",
	} {
		plain := string(jsonspan.Inside(jsonspan.Quote(content)))
		f.Add([]byte(plain))
		f.Add([]byte(strings.NewReplacer(`\n`, `\u000a`, `\r`, `\u000D`, "`", `\u0060`, " ", `\u0020`, "💻", `\ud83d\udcbb`).Replace(plain)))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		if !jsonspan.Valid(slices.Concat([]byte{'"'}, s, []byte{'"'})) {
			t.Skip()
		}
		text := func(inner []byte) string { return string(jsonspan.AppendText(nil, inner)) }
		said := text(s)
		found := hermes.FindStringSubmatch(said)
		m, ok := Whole(s)
		switch want := found != nil && found[0] == said && isToken(found[1]); {
		case ok != want:
			t.Fatalf("%s: %v, want %v", s, ok, want)
		case ok && (text(m.Emoji) != found[1] || text(m.Label) != found[2]):
			t.Fatalf("%s: %s, %s, want %s, %s", s, m.Emoji, m.Label, found[1], found[2])
		case Begins(s) != (strings.HasPrefix(said, "\n`") || strings.HasPrefix(said, "\r\n`")):
			t.Fatalf("%s: begins %v", s, Begins(s))
		}
	})
}

// A line is the marker of a known tool if a label follows its emoji, a backtick ends it, and no
// second marker begins in it. Where next is 0, it is none.
func TestLine(t *testing.T) {
	for _, c := range []struct {
		line, emoji, label string
		next               int
	}{
		{line: `💻 ls`, next: 0},
		{"💻 ls`", "💻", "ls", 8},
		{"💻 ls`\\nx", "💻", "ls", 10},
		{`💻\u0020ls\u0060\u000Ax`, "💻", "ls", 24},
		{"⚙️ a`b``\\n", "⚙️", "a`b`", 14},
		{"⚙ x`", "⚙", "x", 6},
		{"💻 ls` \\t\\u00a0\\r\\nx", "💻", "ls", 21}, {"💻 a`  b` ", "💻", "a`  b", 12}, {line: "💻 ls` x"}, {line: "💻 ` \\n"}, {"💻\ufe0e ls`", "💻\ufe0e", "ls", 11},
		{line: "💻 ls`x"}, {line: "💻 ls\\n`"}, {line: "💻 `"}, {line: "💻`"}, {line: "💻"}, {line: ""}, {line: "🦄 x`"}, {line: "x💻 ls`"},
		{line: "💻 a` and `📖 b`"}, {line: "💻 a` and ``📖 b`"},
		{"💻 a` and `📖b`", "💻", "a` and `📖b", 19},
	} {
		m, next, ok := Hermes.Line([]byte("`"+c.line), 1)
		if next = max(next-1, 0); next != c.next || ok != (next > 0) || string(m.Emoji) != c.emoji || string(m.Label) != c.label {
			t.Errorf("%s: %s, %s, %d, want %s, %s, %d", c.line, m.Emoji, m.Label, next, c.emoji, c.label, c.next)
		}
	}
}

// What follows a backtick may become the opening of a marker as long as it agrees with an emoji.
func TestOpening(t *testing.T) {
	for text, want := range map[string]struct {
		next   int
		partly bool
	}{
		"": {0, true}, "💻": {0, true}, "💻 ": {5, true}, "💻 x": {5, true}, "💻x": {}, "x": {}, "⚙": {0, true}, "⚙\ufe0f": {0, true},
		`\u2699 x`: {7, true}, `\ud83d\udcbb\ufe0f `: {19, true}, `\ud83d`: {0, true}, `\uD83D`: {0, true}, `\udcbb`: {}, `\ud83a`: {}, `\ufffd`: {}, `\ud83dx`: {}, `💻\ud83d`: {}, "\xf0\x9f": {}, "�": {},
		"⚙\ufe0e ": {7, true}, "💻\ufe0e": {0, true}, "💻\ufe0d ": {},
	} {
		if next, partly := Hermes.Opening([]byte(text), 0); next != want.next || partly != want.partly {
			t.Errorf("%s: %d, %v, want %d, %v", text, next, partly, want.next, want.partly)
		}
	}
}
