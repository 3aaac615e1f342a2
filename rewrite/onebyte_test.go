package rewrite

import "testing"

// TestFramesThatDifferInOneByte leave as if they were read, wherever that byte is, and so
// do those behind them: in one read, and frame by frame.
func TestFramesThatDifferInOneByte(t *testing.T) {
	alike := 0
	for _, frame := range []string{text(`a\n`), reasoning("\u00e9"), markerChunk("\U0001f4bb", "ls")} {
		before := role() + texts("a", "b") + frame + frame
		for i := range frame {
			for _, b := range []string{"", "\"", "1"} {
				in := before + frame[:i] + b + frame[i+1:] + frame + text("c")
				cuts := []int{len(before), len(frame) - 1 + len(b), len(frame)}
				byPiece := func(n int) int {
					if len(cuts) > 0 {
						n, cuts = min(n, cuts[0]), cuts[1:]
					}
					return n
				}
				for _, cut := range []cutter{inOne, byPiece} {
					if alike += follow(t, in, Options{}, chatParams, cut, CauseAborted); t.Failed() {
						t.Fatalf("%q in the place of %q", b, frame[i])
					}
				}
			}
		}
	}
	if alike == 0 {
		t.Error("every frame has been read")
	}
}
