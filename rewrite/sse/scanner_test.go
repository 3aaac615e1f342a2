package sse

import "testing"

// However a stream is cut into units, and whatever the limit of a frame is, they are the stream.
func TestUnitsJoinedAreTheStream(t *testing.T) {
	for _, in := range []string{
		"data: a\n\ndata: b\n\n", "data: a\r\n\rdata: b\n\r\n", "data: a\r\r\ndata: b\n\r", "\ufeff\ufeffdata: a\n\ndata: b\n\n", ": c\n: d\r\n:\r\rdata: b\n\n",
		"data: a\n: inside\ndata: b\n\n", "data:\n\ndata\n\ndata: \n\n", "event: x\n\n\n\n\r\r\r\ndata: z\n\n", "data: a\n\ndata: cut\r", "\xef\xbb", "\r", "\r\n", "", "data: \xff\x00\n\n",
	} {
		for _, limit := range []int{1, 5, 12, 1000} {
			sc := Scanner{MaxFrame: limit}
			var out []byte
			for i := range len(in) {
				sc.Feed([]byte{in[i]})
				for {
					_, b, ok := sc.Next()
					if !ok {
						break
					}
					out = append(out, b...)
				}
				sc.Rest()
			}
			if got := string(append(out, sc.Tail()...)); got != in {
				t.Errorf("limit %d: %q, want %q", limit, got, in)
			}
		}
	}
}
