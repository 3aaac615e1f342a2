package deskcaddy

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestHiddenCharactersAreSeen: those that show nothing are named and marked; text is as it is.
func TestHiddenCharactersAreSeen(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"rm -rf victim":             "rm -rf victim",
		"grün 文字 עברית 🙂":           "grün 文字 עברית 🙂",
		"rm \u202etxt.exe":          "rm {[U+202E]}txt.exe",
		"[U+202E]":                  "[U+202E]",
		"\x1b[2Jls":                 "{[U+001B]}[2Jls",
		"a\x00\x07b":                "a{[U+0000][U+0007]}b",
		"a\tb":                      "a{[U+0009]}b",
		"a\r\nb":                    "a{[U+000D]}{↵}\nb",
		"\n":                        "{↵}\n",
		"a\nb\n\nc":                 "a{↵}\nb{↵}\n{↵}\nc",
		"↵":                         "↵",
		"a\u00a0b\u2003c":           "a{[U+00A0]}b{[U+2003]}c",
		"z\u200bw\u200dj\ufeff":     "z{[U+200B]}w{[U+200D]}j{[U+FEFF]}",
		"\u2066\u2067\u2068\u2069":  "{[U+2066][U+2067][U+2068][U+2069]}",
		"\u00ad\u061c\u180e\u2028":  "{[U+00AD][U+061C][U+180E][U+2028]}",
		"\u115f\u3164\uffa0\u2800":  "{[U+115F][U+3164][U+FFA0][U+2800]}",
		"a\ufe0fb\U000e0100":        "a{[U+FE0F]}b{[U+E0100]}",
		"a\u2d7fb\ufffcc\U0001107f": "a{[U+2D7F]}b{[U+FFFC]}c{[U+1107F]}", // blank, but no space
		"\U00013441\U00013442\U00016fe4\U0001d159": "{[U+13441][U+13442][U+16FE4][U+1D159]}",
		"\U000e0041\U000e0020":                     "{[U+E0041][U+E0020]}",
		"\u0085\u009b":                             "{[U+0085][U+009B]}",
		"\ue000\ufdd0\U0010ffff":                   "{[U+E000][U+FDD0][U+10FFFF]}",
		"a\xff\xc3":                                "a{[byte FF][byte C3]}",
		"\ufffd":                                   "\ufffd",
		// Marks: those that a script puts on a letter, and others, which cover what is before them.
		"cafe\u0301 e\u0302\u0301 กำที่ שָׁ \u0915\u093e\u0902 ": "cafe\u0301 e\u0302\u0301 กำที่ שָׁ \u0915\u093e\u0902 ",
		"rm\u0336 -r\u0335f /\u0338\u0337\u0334 x":               "rm{[U+0336]} -r{[U+0335]}f /{[U+0338][U+0337][U+0334]} x",
		"a\u20d0\u20d2\u20dd\u20e0\u20e3\u20e5\u20f0\u20ff":      "a{[U+20D0][U+20D2][U+20DD][U+20E0][U+20E3][U+20E5][U+20F0][U+20FF]}",
		"a\u0488\u1abe\U0001d167\U00016af0\u1cd4\u1ce2":          "a{[U+0488][U+1ABE][U+1D167][U+16AF0][U+1CD4][U+1CE2]}",
		"a\u0301\u0302\u0303\u0304b\u0301":                       "a\u0301\u0302{[U+0303][U+0304]}b\u0301",
		"-\u0301 1\u0302 \u0301x":                                "-{[U+0301]} 1{[U+0302]} {[U+0301]}x",
		"a\u200b\u0301":                                          "a{[U+200B][U+0301]}",
		"\u0301":                                                 "{[U+0301]}",
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
	for _, seed := range []string{"rm -rf", "\u202e\n", "a\xff[U+202E]", "↵\n", "a\u0336\u0301\u0301\u0301"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var back strings.Builder
		for _, p := range visible(text) {
			for _, r := range p.Text {
				if r != '\n' && !rewrite.IsSeen(r) || unicode.In(r, unicode.Me, overlays) {
					t.Errorf("%q shows %q", text, p.Text)
				}
			}
			if piles.MatchString(p.Text) {
				t.Errorf("%q shows marks without a letter, or many on one: %q", text, p.Text)
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

// piles matches marks that stand on no letter, and more than two of them.
var piles = regexp.MustCompile(`(^|[^\p{L}\p{Mc}\p{Mn}])\p{Mn}|\p{Mn}{3}`)

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
