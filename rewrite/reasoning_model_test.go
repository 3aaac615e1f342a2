package rewrite

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

var openingTag = regexp.MustCompile(`(?i)^<(think|thinking|reasoning|thought|mm:think|reasoning_scratchpad)>`)

// paragraphEnds matches a paragraph break, or what may be one when the text ends
// within it.
var paragraphEnds = regexp.MustCompile(`^(\r?\n\r?\n|(\r?\n)?\r?\z)`)

// withoutReasoning is contract section 4 said for a whole text: it returns what
// is left of the text and what stood between tags.
func withoutReasoning(text string) (content, reasoning string) {
	message := 0 // where, in content, what may open a message begins
	for text != "" {
		tag := openingTag.FindString(text)
		if tag == "" || !mayOpenBehind(content, message) {
			content, text = content+text[:1], text[1:]
			continue
		}
		text = text[len(tag):]
		n := closingAt(text, "</"+tag[1:])
		if strings.TrimSpace(reasoning) != "" && n > 0 {
			reasoning += "\n\n"
		}
		reasoning += text[:n]
		if text = text[n:]; text != "" {
			text = text[len("</")+len(tag)-1:]
		}
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		message = len(content)
	}
	return content, reasoning
}

// mayOpenBehind tells whether a tag may open after the content: nothing but
// white space since the message began, or a paragraph break; at most three
// columns of indentation; no open fence.
func mayOpenBehind(content string, message int) bool {
	white := content[len(strings.TrimRightFunc(content, unicode.IsSpace)):]
	if len(content)-len(white) > message && strings.Count(white, "\n") < 2 {
		return false
	}
	// The beginning of a message counts as one of a line.
	indent := content[max(message, strings.LastIndexByte(content, '\n')+1):]
	if len([]rune(indent)) > 3 || strings.Contains(indent, "\t") {
		return false
	}
	return fenceBehind(content) == ""
}

// fenceBehind returns the fence that is open after the lines of a text.
func fenceBehind(text string) (fence string) {
	lines := strings.Split(text, "\n")
	for _, line := range lines[:len(lines)-1] {
		fence = prosetest.FenceAfter(fence, line)
	}
	return fence
}

// closingAt returns the index of the closing tag that ends the reasoning at the
// beginning of text, its length when there is none.
func closingAt(text, tag string) int {
	for i := range text {
		if len(text)-i < len(tag) || !strings.EqualFold(text[i:i+len(tag)], tag) {
			continue
		}
		before, behind := text[:i], text[i+len(tag):]
		switch {
		case fenceBehind(before) != "":
			if !paragraphEnds.MatchString(behind) {
				continue
			}
		case strings.HasSuffix(before, "`") && strings.HasPrefix(behind, "`"):
			continue
		}
		return i
	}
	return len(text)
}
