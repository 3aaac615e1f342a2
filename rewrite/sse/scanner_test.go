package sse

import (
	"slices"
	"testing"
)

// FuzzScanner: the units of a stream, joined, are the stream, whatever the limit of a frame is, and they are the same
// however the stream is cut.
func FuzzScanner(f *testing.F) {
	for _, in := range []string{
		"data: a\n\ndata: b\n\n", "data: a\r\n\rdata: b\n\r\n", "data: a\r\r\ndata: b\n\r", "\ufeff\ufeffdata: a\n\ndata: b\n\n", ": c\n: d\r\n:\r\rdata: b\n\n",
		"data: a\n: inside\ndata: b\n\n", "data:\n\ndata\n\ndata: \n\n", "event: x\n\n\n\n\r\r\r\ndata: z\n\n", "data: a\n\ndata: cut\r", "\xef\xbb", "\r", "\r\n", "", "data: \xff\x00\n\n",
		"\ufeffdata: a\r\n\r\n: c\n\ndata: b\rdata\n\n",
	} {
		for _, limit := range []byte{1, 5, 12, 255} {
			f.Add([]byte(in), byte(0), limit, limit == 12)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, cut, limit byte, comments bool) {
		units := func(n int) (kinds []Unit, joined []byte) {
			c := Scanner{MaxFrame: int(limit), CommentUnits: comments}
			for part := range slices.Chunk(in, n) {
				c.Feed(part)
				for {
					u, b, ok := c.Next()
					if !ok {
						break
					}
					if u != UnitRaw { // which leaves in as many parts as it comes in
						kinds = append(kinds, u)
					}
					joined = append(joined, b...)
				}
				c.Rest()
			}
			return kinds, append(joined, c.Tail()...)
		}
		whole, joined := units(max(1, len(in)))
		parts, again := units(1 + int(cut)%16)
		if string(joined) != string(in) || string(again) != string(in) {
			t.Fatalf("the units are %q, cut otherwise %q, want %q", joined, again, in)
		}
		if !slices.Equal(whole, parts) {
			t.Fatalf("units %v, cut otherwise %v", whole, parts)
		}
	})
}
