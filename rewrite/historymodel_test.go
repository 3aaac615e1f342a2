package rewrite

import (
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// withoutMarkers is contract section 5 said for a whole text, a marker at a
// time: its line goes with the newline on both sides, but one stays where text
// follows that does not begin with one; at the start and at the end none does.
// At the very start a further newline goes, as it does from a stream.
func withoutMarkers(text string) (string, int) {
	for n := 0; ; n++ {
		from, to, ok := firstMarker(text)
		if !ok {
			return text, n
		}
		before, after := text[:from], text[to:]
		after = strings.TrimPrefix(after, "\n")
		text = strings.TrimSuffix(before, "\n")
		switch {
		case before == "":
			after = strings.TrimPrefix(after, "\n")
		case after == "" || strings.HasPrefix(after, "\n"):
		case isFirstMarker(after) || text != "":
			text += "\n" // that marker's own, or what keeps the texts apart
		}
		text += after
	}
}

// firstMarker returns where the first marker line of a text is, without its
// newline.
func firstMarker(text string) (from, to int, ok bool) {
	fence := ""
	for from <= len(text) {
		line, _, _ := strings.Cut(text[from:], "\n")
		if fence == "" && isMarkerLine(line) {
			return from, from + len(line), true
		}
		fence = prosetest.FenceAfter(fence, line)
		from += len(line) + 1
	}
	return 0, 0, false
}

func isFirstMarker(text string) bool {
	from, _, ok := firstMarker(text)
	return ok && from == 0
}
