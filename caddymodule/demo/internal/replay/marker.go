package replay

import (
	"regexp"
	"strings"
	"unicode"
)

// markerChunk matches the content of a chunk with which Hermes v0.7 and v0.8
// announce a tool: a marker and nothing else, on a line of its own.
var markerChunk = regexp.MustCompile("(?s)\\A\n`([^\\s`]+) (.*)`\n\\z")

// markerLine matches a line that a reader would take for a marker.
var markerLine = regexp.MustCompile("\\A`([^\\s`]+) .*`\\z")

// marker is a tool as Hermes announces it in the text of its answer.
type marker struct {
	emoji, label string
}

// parseMarker returns the marker that is the whole content of a chunk.
func parseMarker(content string) (marker, bool) {
	m := markerChunk.FindStringSubmatch(content)
	if m == nil || ascii(m[1]) {
		return marker{}, false
	}
	return marker{emoji: m[1], label: m[2]}, true
}

// isMarkerLine says that a line of text looks like a marker, real or imitated.
func isMarkerLine(line string) bool {
	m := markerLine.FindStringSubmatch(line)
	return m != nil && !ascii(m[1])
}

// markerLines counts the lines of text that look like markers.
func markerLines(text string) int {
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		if isMarkerLine(line) {
			n++
		}
	}
	return n
}

// withoutMarkers removes the lines that look like markers.
func withoutMarkers(text string) string {
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		if !isMarkerLine(line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// ascii says that s is plain ASCII, which no emoji is.
func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}
