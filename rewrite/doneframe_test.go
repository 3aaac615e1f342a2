package rewrite

import "testing"

// TestDoneIsBehindWhiteSpaceOfJSON: what has another character in front, such as a form
// feed, is no [DONE], and passes as any frame that is no JSON.
func TestDoneIsBehindWhiteSpaceOfJSON(t *testing.T) {
	in := role() + text("x")
	for data, want := range map[string]bool{"data: [DONE]\n\n": true, "data: \t[DONE] \n\n": true, "data:\f[DONE]\n\n": false, "data:\u00a0[DONE]\n\n": false} {
		s := New(&Options{}, chatParams)
		s.Feed(nil, []byte(in), epoch)
		if out := s.Feed(nil, []byte(data), epoch); s.Done() != want || !want && string(out) != data {
			t.Errorf("%q: done %v, %q leaves", data, s.Done(), out)
		}
	}
}
