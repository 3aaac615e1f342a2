package jsonspan

import (
	"math/rand/v2"
	"testing"
)

// plainFromByByte is plainFrom, byte by byte.
func plainFromByByte(b []byte, i int) int {
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

// TestEveryByteStopsPlainTextOrDoesNot: whatever stands before it and after it,
// which is looked at together with it.
func TestEveryByteStopsPlainTextOrDoesNot(t *testing.T) {
	for _, around := range []byte{' ', 'a', 0x7f, 0x80, 0x9f, 0xa2, 0xdc, 0xff, '!', '#', '[', ']'} {
		b := make([]byte, 24)
		for c := range 256 {
			for at := range b {
				for i := range b {
					b[i] = around
				}
				b[at] = byte(c)
				for from := range 10 {
					if got, want := NextSpecial(b, from), plainFromByByte(b, from); got != want {
						t.Fatalf("%#x at %d among %#x, from %d: %d, want %d", c, at, around, from, got, want)
					}
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	near := []byte{'"', '\\', 0, 0x1f, ' ', '!', '#', '[', ']', 0x80, 0xa0, 0xff, 'a', 'a', 'a', 'a'}
	for range 100000 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = near[r.IntN(len(near))]
		}
		if got, want := NextSpecial(b, 0), plainFromByByte(b, 0); got != want {
			t.Fatalf("%q: %d, want %d", b, got, want)
		}
	}
}

func TestScanTextEndsWhereTheStringDoes(t *testing.T) {
	for in, want := range map[string]struct {
		to          int
		newline, ok bool
	}{
		`abc"`:               {3, false, true},
		`"`:                  {0, false, true},
		`a\"b"`:              {4, false, true},
		`a\\"`:               {3, false, true},
		`a\nb"`:              {4, true, true},
		`a\u000ab"`:          {8, true, true},
		`a\u000Ab"`:          {8, true, true},
		`a\u00e9\/\b\f\r\t"`: {17, false, true},
		"a\nb\"":             {1, false, true}, // the byte that cannot be in one
		`abc`:                {3, false, true},
		`a\`:                 {1, false, false},
		`a\q"`:               {1, false, false},
		`a\u00"`:             {1, false, false},
		`a\u00zz"`:           {1, false, false},
	} {
		to, newline, ok := ScanText([]byte(in), 0)
		if to != want.to || newline != want.newline || ok != want.ok {
			t.Errorf("%q: %d %v %v, want %+v", in, to, newline, ok, want)
		}
	}
}
