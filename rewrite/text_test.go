package rewrite

import (
	"testing"
	"unicode/utf8"
)

func TestInvalidUTF8InContentStays(t *testing.T) {
	for _, bad := range []string{"\xff", "\xf0\x9f\x92", "a\xc3", "\xed\xa0\x80"} {
		if utf8.ValidString(bad) {
			t.Fatalf("%q is valid", bad)
		}
		in := role() + delta(`"content": "`+bad+"\\n`"+bad+` x"`) + text("x") + stop()
		same(t, repair(in), in, "bytes")
	}
}
