package replay

import (
	"regexp"
	"slices"
	"strings"
)

// markerLine matches a line that a reader would take for a marker, real or
// imitated: what stands before the label has a character beyond ASCII.
var markerLine = regexp.MustCompile("(?s)\\A`([^\\s`]*[^\\x00-\\x7f][^\\s`]*) (.*)`\\z")

// marker is a tool as Hermes announces it in the text of its answer.
type marker struct {
	emoji, label string
}

// parseMarker returns the marker with which Hermes v0.7 and v0.8 announce a tool: it is
// the whole content of a chunk, on a line of its own.
func parseMarker(content string) (marker, bool) {
	line, before := strings.CutPrefix(content, "\n")
	line, behind := strings.CutSuffix(line, "\n")
	m := markerLine.FindStringSubmatch(line)
	if m == nil || !before || !behind {
		return marker{}, false
	}
	return marker{emoji: m[1], label: m[2]}, true
}

// withoutMarkers removes the lines that look like markers, real or imitated, and returns
// how many there were.
func withoutMarkers(text string) (rest string, n int) {
	lines := strings.Split(text, "\n")
	kept := slices.DeleteFunc(slices.Clone(lines), markerLine.MatchString)
	return strings.Join(kept, "\n"), len(lines) - len(kept)
}
