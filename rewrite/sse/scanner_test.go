package sse

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// Of lines that the scanner has seen no field is lost, and none is found twice.
func TestFieldsAreWhereTheScannerSawTheirLines(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	pieces := []string{"data: {\"a\":1}", "data:", "data", "event: x", "event:message", ": c", "id: 7", "\n", "\n", "\n", "\n\n", "\r", "\r\n", "\ufeff", "x"}
	for range 20000 {
		var in []byte
		for range 1 + r.IntN(14) {
			in = append(in, pieces[r.IntN(len(pieces))]...)
			if r.IntN(2) == 0 {
				in = append(in, '\n')
			}
		}
		c := Scanner{MaxFrame: 1 << 20, CommentUnits: r.IntN(2) == 0}
		for len(in) > 0 {
			n := 1 + r.IntN(len(in))
			c.Feed(in[:n])
			in = in[n:]
			for {
				u, b, ok := c.Next()
				if !ok {
					break
				}
				if u != UnitFrame {
					continue
				}
				var got, want Frame
				c.ParseFrame(&got, b)
				want.Parse(b)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%q: %+v, want %+v", b, got, want)
				}
			}
			c.Rest()
		}
	}
}
