package approvalcaddy

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHiddenCharactersAreSeen: those that show nothing are named and marked; text is as it is.
func TestHiddenCharactersAreSeen(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"rm -rf victim":            "rm -rf victim",
		"grün 文字 עברית 🙂":          "grün 文字 עברית 🙂",
		"rm \u202etxt.exe":         "rm {[U+202E]}txt.exe",
		"[U+202E]":                 "[U+202E]",
		"\x1b[2Jls":                "{[U+001B]}[2Jls",
		"a\x00\x07b":               "a{[U+0000][U+0007]}b",
		"a\tb":                     "a{[U+0009]}b",
		"a\r\nb":                   "a{[U+000D]}{↵}\nb",
		"\n":                       "{↵}\n",
		"a\nb\n\nc":                "a{↵}\nb{↵}\n{↵}\nc",
		"↵":                        "↵",
		"a\u00a0b\u2003c":          "a{[U+00A0]}b{[U+2003]}c",
		"z\u200bw\u200dj\ufeff":    "z{[U+200B]}w{[U+200D]}j{[U+FEFF]}",
		"\u2066\u2067\u2068\u2069": "{[U+2066][U+2067][U+2068][U+2069]}",
		"\u00ad\u061c\u180e\u2028": "{[U+00AD][U+061C][U+180E][U+2028]}",
		"\u115f\u3164\uffa0\u2800": "{[U+115F][U+3164][U+FFA0][U+2800]}",
		"a\ufe0fb\U000e0100":       "a{[U+FE0F]}b{[U+E0100]}",
		"\U000e0041\U000e0020":     "{[U+E0041][U+E0020]}",
		"\u0085\u009b":             "{[U+0085][U+009B]}",
		"\ue000\ufdd0\U0010ffff":   "{[U+E000][U+FDD0][U+10FFFF]}",
		"a\xff\xc3":                "a{[byte FF][byte C3]}",
		"\ufffd":                   "\ufffd",
	} {
		var got strings.Builder
		for _, p := range visible(text) {
			if p.Marked {
				got.WriteString("{" + p.Text + "}")
			} else {
				got.WriteString(p.Text)
			}
		}
		if got.String() != want {
			t.Errorf("%q: %q, want %q", text, got.String(), want)
		}
	}
}

// FuzzVisible: what is shown has no hidden character but the newlines of the text, and no two
// texts look the same.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"rm -rf", "\u202e\n", "a\xff[U+202E]", "↵\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var back strings.Builder
		for _, p := range visible(text) {
			for _, r := range p.Text {
				if r != '\n' && isHidden(r) {
					t.Errorf("%q shows %q", text, p.Text)
				}
			}
			if !utf8.ValidString(p.Text) || p.Text == "" {
				t.Errorf("%q: the part %q", text, p.Text)
			}
			if !p.Marked {
				back.WriteString(p.Text)
			} else if p.Text == "↵" {
				continue
			} else {
				back.WriteString(unmark(t, p.Text))
			}
		}
		if back.String() != text {
			t.Errorf("%q is shown as %q", text, back.String())
		}
	})
}

// unmark returns what marked names stand for.
func unmark(t *testing.T, names string) string {
	t.Helper()
	var b strings.Builder
	for name := range strings.SplitSeq(strings.Trim(names, "[]"), "][") {
		var n int
		if _, err := fmt.Sscanf(name, "U+%X", &n); err == nil {
			b.WriteRune(rune(n))
		} else if _, err := fmt.Sscanf(name, "byte %X", &n); err == nil {
			b.WriteByte(byte(n))
		} else {
			t.Errorf("the name %q", name)
		}
	}
	return b.String()
}
