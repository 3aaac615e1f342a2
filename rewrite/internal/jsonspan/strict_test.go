package jsonspan

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkText compares Text with what Value and ValidUTF8 say.
func checkText(t *testing.T, b []byte) {
	t.Helper()
	slow, fast := Reader{Data: b}, Reader{Data: b}
	want := slow.Value()
	if !want.IsString(b) || !utf8.Valid(want.Of(b)) {
		want, slow.Pos = Span{}, len(b)
	}
	got, unicode, tick := fast.Text()
	if got != want || fast.Pos != slow.Pos {
		t.Fatalf("%q: %v at %d, want %v at %d", b, got, fast.Pos, want, slow.Pos)
	}
	escaped, last := false, 0
	if want.Ok() {
		in := want.Inner().Of(b)
		for i, before := 0, 0; i < len(in); {
			u := strings.HasPrefix(string(in[i:]), `\u`)
			escaped = escaped || u
			if i > 0 && in[before] == '`' && (u || in[i] >= utf8.RuneSelf) {
				last = want.From + 1 + before
			}
			before = i
			_, i = NextRune(in, i)
		}
	}
	if unicode != escaped || tick != last {
		t.Fatalf("%q: escapes %v, a backtick at %d, want %d", b, unicode, tick, last)
	}
}

var textSeeds = []string{
	``, `"`, `""`, `"a"`, `"é€💻\ufffd"`, `"\"\\\/\b\f\n\r\t\u00e9\ud83d\udcbb"`, `"\u00"`, `"\u00zz"`, `"\q"`, `"\`, `"\u`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", `{}`, `nul`,
	"\"\xc3\"", "\"\xe2\x82\"", "\"\xf0\x9f\x92\"", "\"\xe2\x82\\n\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xed\x9f\xbf\"", "\"\xf4\x8f\xbf\xbf\"", "\"\xf4\x90\x80\x80\"", "\"\xe0\x9f\xbf\"", "\"\xe0\xa0\x80\"",
	"\"\xf0\x8f\xbf\xbf\"", "\"\xf0\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xff\"", "\"\x80\"", `"a" "b"`, `"a`,
	"\"`\"", "\"`💻 ` `\U00100000`\"", "\"``\\u00e9`\\n`\\n\"", "\"`é``\"", "\"`\x80\"", "\"`\xff\"", "\"`\x00\"", "\"\\`é\"", "\"`\\u00\"", "\"a`", "\"\\u0060é\"",
}

func TestTextIsAStringInUTF8(t *testing.T) {
	for _, s := range textSeeds {
		for n := range 40 { // wherever it stands
			pad := strings.Repeat("a", n)
			checkText(t, []byte(strings.Replace(s, `"`, `"`+pad, 1)+pad))
		}
	}
	for c := range 256 * 256 {
		checkText(t, []byte{'"', byte(c >> 8), byte(c), '"'})
		checkText(t, []byte{'"', 0xe2, byte(c >> 8), byte(c), '"'})
	}
	r := rand.New(rand.NewPCG(5, 6))
	near := []byte("\\\\\"``nu0aF\x1f \x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xe1\xec\xed\xef\xf0\xf1\xf4\xf5aaaaaaaa")
	for range 300000 {
		b := []byte{'"'}
		for range r.IntN(50) {
			if r.IntN(3) == 0 {
				b = utf8.AppendRune(b, rune(r.IntN(0x11000)))
				continue
			}
			b = append(b, near[r.IntN(len(near))])
		}
		checkText(t, append(b, '"'))
	}
}

func FuzzText(f *testing.F) {
	for _, s := range textSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkText(t, b)
		checkText(t, append(append([]byte(`"`), b...), `" and more than sixteen bytes`...))
	})
}
