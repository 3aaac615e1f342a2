package marker

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzLine: a line has no more characters than it may have, and none that is not seen but in an emoji; what is seen
// stays.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"ls -la", "rm \u202efdp\u2069 שלום", "a\nb\x00\x7f", "👩🏽\u200d💻 ❤️\u200d🔥 x\u200d💻", "💻\u200d", "\xff\xfe", strings.Repeat("é\n", 150), "⚙️\ufe0f"} {
		f.Add(s, byte(80))
		f.Add(s, byte(7))
	}
	f.Fuzz(func(t *testing.T, text string, most byte) {
		n := 16 + int(most)
		line := Line(text, n)
		if got := utf8.RuneCountInString(line); got > n || !utf8.ValidString(line) {
			t.Fatalf("%d characters of %d: %q", got, n, line)
		}
		last := rune(0)
		for _, r := range line {
			part := r == '\u200d' && !unicode.IsLetter(last) && last > unicode.MaxASCII || (r == '\ufe0e' || r == '\ufe0f') && last > unicode.MaxASCII
			if !part && (!unicode.IsPrint(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Bidi_Control)) {
				t.Fatalf("%q in %q", r, line)
			}
			last = r
		}
		if seen := strings.IndexFunc(text, func(r rune) bool { return !IsSeen(r) }) < 0; seen && utf8.ValidString(text) && utf8.RuneCountInString(text) <= n && line != text {
			t.Fatalf("%q becomes %q", text, line)
		}
		if cut := strings.HasSuffix(line, "…"); !cut && utf8.RuneCountInString(text) > n {
			t.Fatalf("%q is cut to %q without an ellipsis", text, line)
		}
	})
}
