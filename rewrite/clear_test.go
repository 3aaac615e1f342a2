package rewrite

import (
	"fmt"
	"testing"
)

// TestNothingIsLeftInAStreamThatIsCleared, wherever it was: at the end of each recording,
// and in the middle.
func TestNothingIsLeftInAStreamThatIsCleared(t *testing.T) {
	want := fmt.Sprintf("%+v", Stream{})
	for _, r := range recordings(t) {
		for _, n := range []int{len(r.body), len(r.body) / 2} {
			s := New(new(Options), Params{Active: r.chat(), Usage: memory{}, ID: func() string { return "" }, OnTool: func(ToolEvent) {}})
			feedAll(s, r.body[:n], inOne)
			if n == len(r.body) {
				s.Finish(nil, CauseEOF)
			}
			s.Clear()
			if got := fmt.Sprintf("%+v", *s); got != want {
				t.Fatalf("%s, %d bytes: %s, want %s", r.name(), n, got, want)
			}
		}
	}
}
