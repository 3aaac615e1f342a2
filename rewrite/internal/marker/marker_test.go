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
