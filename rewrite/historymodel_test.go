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

// historyKind is what a message of a history is.
type historyKind byte

const (
	aUsers      historyKind = iota // a user's
	withCard                       // the assistant's, with a card
	withCards                      // the assistant's, with two
	plainAnswer                    // the assistant's
	namedAnswer                    // the assistant's, with a member more
	withOwn                        // the assistant's, with a client's own call
)

type historyMessage struct {
	kind historyKind
	text string
}

// wire returns the message as JSON, with the messages of its tools. n makes ids.
func (m historyMessage) wire(n int) string {
	switch m.kind {
	case withCard:
		return carded(n, m.text, m.text)
	case withCards:
		return carded(n, m.text, "ls", "")
	case plainAnswer:
		return assistant(m.text)
	case namedAnswer:
		return strings.Replace(assistant(m.text), `{"role"`, `{"name": "x", "role"`, 1)
	case withOwn:
		return ownCall
	}
	return `{"role": "user", "content": ` + asciiJSON(m.text) + `}`
}

// withoutCards is contract section 5 said for cards: the messages of an answer, which has
// cards but after its last text, are one.
func withoutCards(all []historyMessage) (left []historyMessage) {
	for len(all) > 0 {
		n := 0
		for n < len(all) && (all[n].kind == withCard || all[n].kind == withCards) {
			n++
		}
		if n == 0 {
			left, all = append(left, all[0]), all[1:]
			continue
		}
		if n < len(all) && all[n].kind == plainAnswer {
			n++
		}
		text := ""
		for _, m := range all[:n] {
			if text != "" && m.text != "" && !strings.HasSuffix(text, "\n") && !strings.HasPrefix(m.text, "\n") {
				text += "\n\n"
			}
			text += m.text
		}
		if text = strings.TrimSpace(text); text != "" {
			left = append(left, historyMessage{plainAnswer, text})
		}
		all = all[n:]
	}
	return left
}
