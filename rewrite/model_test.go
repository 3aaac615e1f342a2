package rewrite

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// knownEmoji are the emoji of Hermes' tools, as the table of its markers has them.
var knownEmoji = strings.Fields("💻 ⚙️ 📖 ✍️ 🔧 🔎 🔍 📄 👁️ 🎨 🔊 🌐 📸 👆 ⌨️ 📜 ◀️ 🖼️ 🖥️ 🚪 📚 📝 📋 🧠 🐍 🔀 ⏰ ❓ 📨 🏠 🧪 ⚡")

// withoutImitations is contract section 1 for a whole text, line by line: a marker line of a known tool
// outside code fences goes, with its newline and one further newline if the text that follows begins with
// one. If it is indented, its indentation and its newline stay.
func withoutImitations(content string) string {
	var out strings.Builder
	fence := ""
	for content != "" {
		line, rest, ended := strings.Cut(content, "\n")
		if indent, ok := isImitation(line); ok && fence == "" {
			if line = indent; indent == "" {
				content = strings.TrimPrefix(strings.TrimLeft(rest, "\r"), "\n")
				continue
			}
		}
		fence = prosetest.FenceAfter(fence, line)
		out.WriteString(line)
		if ended {
			out.WriteByte('\n')
		}
		content = rest
	}
	return out.String()
}

// isImitation reports whether a line is the marker of a known tool, in at most 4 KiB, and how it is indented.
func isImitation(line string) (indent string, ok bool) {
	indent, ok = isMarkerLine(line)
	return indent, ok && len(line)-len(indent) <= 4096
}

// isMarkerLine reports whether a line is a backtick, a known emoji, a space, a label and a backtick, between white
// space of which at most three characters, and no tab, are in front. With a second marker in it, it is prose about
// tools.
func isMarkerLine(line string) (indent string, ok bool) {
	text := strings.TrimSpace(line)
	indent, _, _ = strings.Cut(line, "`")
	if !beginsMarker(text) || !strings.HasSuffix(text, "`") || strings.Contains(indent, "\t") || utf8.RuneCountInString(indent) > 3 {
		return "", false
	}
	_, label, _ := strings.Cut(text, " ")
	for i := range label {
		if beginsMarker(label[i:]) {
			return "", false
		}
	}
	return indent, len(label) > 1
}

// beginsMarker reports whether s begins with a backtick, a known emoji and a space.
func beginsMarker(s string) bool {
	emoji, _, ok := strings.Cut(s, " ")
	for _, e := range knownEmoji {
		bare := "`" + strings.TrimSuffix(e, "\ufe0f")
		if ok && (emoji == bare || emoji == bare+"\ufe0f" || emoji == bare+"\ufe0e") {
			return true
		}
	}
	return false
}

// withoutMarkers is contract section 5 for a whole text, a marker at a time: its line goes with the newline
// on both sides, but one stays if text follows that does not begin with one; at the start and at the end none
// stays. At the very start a further newline goes, as it does from a stream.
func withoutMarkers(text string) (string, int) {
	for n := 0; ; n++ {
		from, to, ok := firstMarker(text)
		if !ok {
			return text, n
		}
		before := strings.TrimSuffix(strings.TrimSuffix(text[:from], "\n"), "\r")
		newline := text[len(before):from]
		after := strings.TrimPrefix(text[to:], "\n")
		further := after[len(newlineAt.FindString(after)):]
		switch {
		case from == 0:
			text = further
		case after == "":
			text = before
		case further != after:
			text = before + newline + further
		default:
			if first, _, ok := firstMarker(after); before != "" || ok && first == 0 {
				before += newline // that marker's own, or what keeps the texts apart
			}
			text = before + after
		}
	}
}

var newlineAt = regexp.MustCompile(`^\r?\n`)

// firstMarker returns where the first marker line of a text is, without its newline.
func firstMarker(text string) (from, to int, ok bool) {
	fence := ""
	for from <= len(text) {
		line, _, _ := strings.Cut(text[from:], "\n")
		if _, ok := isMarkerLine(line); fence == "" && ok {
			return from, from + len(line), true
		}
		fence = prosetest.FenceAfter(fence, line)
		from += len(line) + 1
	}
	return 0, 0, false
}

// historyKind is a kind of message of a history.
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
		cards := carded(n, m.text, "ls", "")
		if n%2 == 1 { // the first has details
			cards = strings.Replace(cards, `\"ls\"}"`, `\"ls\", \"args\": {\"command\": \"ls\"}}"`, 1)
			cards = strings.Replace(cards, `"content": "completed"`, `"content": `+asciiJSON("x"+m.text), 1)
		}
		return cards
	case plainAnswer:
		return assistant(m.text)
	case namedAnswer:
		return strings.Replace(assistant(m.text), `{"role"`, `{"name": "x", "role"`, 1)
	case withOwn:
		return ownCall
	}
	return `{"role": "user", "content": ` + asciiJSON(m.text) + `}`
}

// withoutCards is contract section 5 for cards: the messages of an answer, each with cards except the last,
// are one.
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

var openingTag, closingTag = tagAfter("<"), tagAfter("</")

// tagAfter returns a function that returns the tag with which a text begins, whose letters are of any case, and ASCII.
func tagAfter(bracket string) func(text string) string {
	tag := regexp.MustCompile("^" + bracket + "(think|thinking|reasoning|thought|mm:think|reasoning_scratchpad)>")
	lower := func(r rune) rune {
		if r < utf8.RuneSelf {
			return unicode.ToLower(r)
		}
		return r
	}
	return func(text string) string {
		begins := text[:min(len(text), len("</reasoning_scratchpad>"))]
		return text[:len(tag.FindString(strings.Map(lower, begins)))]
	}
}

// paragraphEnds matches a paragraph break, or what may be one when the text ends within it.
var paragraphEnds = regexp.MustCompile(`^(\r?\n\r?\n|(\r?\n)?\r?\z)`)

// toolHere and reasoningHere stand in the text of withoutReasoning for a tool, and for upstream's own reasoning,
// an r.
const toolHere, reasoningHere = "\x00", "\x01"

// withoutReasoning is contract section 4 for a whole text: it returns the text without tags and tools, and the
// reasoning. Unless the answer is streamed, reasoning that no tag closes stays.
func withoutReasoning(text string, streamed bool) (content, reasoning string) {
	message := 0   // where, in content, what may open a message begins
	stray := false // a tool has ended a stretch, whose closing tag may come
	for text != "" {
		n := strings.IndexAny(text, toolHere+reasoningHere)
		switch n {
		case 0:
			if text[:1] == reasoningHere {
				rest := strings.NewReplacer(toolHere, "", reasoningHere, "").Replace(text)
				return content + rest, reasoning + strings.Repeat("r", strings.Count(text, reasoningHere))
			}
			stray = stray && breaks(content, message)
			message, text = len(content), text[1:]
			continue
		case -1:
			n = len(text)
		}
		said := text[:n]
		text = text[n:]
		for said != "" {
			if tag := closingTag(said); stray && tag != "" && fenceAfter(content) == "" && !strings.HasSuffix(content[message:], "`") {
				stray, said = false, said[len(tag):]
				if breaks(content, message) {
					said = strings.TrimLeftFunc(said, unicode.IsSpace)
				}
				continue
			}
			tag := openingTag(said)
			if tag == "" || !mayOpenAfter(content, message) {
				content, said = content+said[:1], said[1:]
				continue
			}
			n, closing := closingAt(said[len(tag):])
			if closing == 0 && !streamed {
				return content + said + text, reasoning
			}
			said = said[len(tag):]
			if strings.TrimSpace(reasoning) != "" && n > 0 {
				reasoning += "\n\n"
			}
			reasoning += said[:n]
			said = said[n+closing:]
			said = strings.TrimLeftFunc(said, unicode.IsSpace)
			message = len(content)
			stray = closing == 0 // and a tool follows, or the end
		}
	}
	return content, reasoning
}

// mayOpenAfter reports whether a tag may open after the content: only white space since the message began, or
// a paragraph break; at most three columns of indentation; no open fence.
func mayOpenAfter(content string, message int) bool {
	if !breaks(content, message) {
		return false
	}
	// The beginning of a message counts as one of a line.
	indent := content[max(message, strings.LastIndexByte(content, '\n')+1):]
	if len([]rune(indent)) > 3 || strings.Contains(indent, "\t") {
		return false
	}
	return fenceAfter(content) == ""
}

// breaks reports whether the content ends with a paragraph break, or has only white space since the message
// began.
func breaks(content string, message int) bool {
	white := content[len(strings.TrimRightFunc(content, unicode.IsSpace)):]
	return len(content)-len(white) <= message || strings.Count(white, "\n") >= 2
}

// fenceAfter returns the fence that is open after the lines of a text.
func fenceAfter(text string) (fence string) {
	lines := strings.Split(text, "\n")
	for _, line := range lines[:len(lines)-1] {
		fence = prosetest.FenceAfter(fence, line)
	}
	return fence
}

// closingAt returns the index of the closing tag that ends the reasoning at the beginning of text, and the
// length of that tag. If there is none, it returns the length of text and 0.
func closingAt(text string) (n, size int) {
	for i := range text {
		tag := closingTag(text[i:])
		if tag == "" {
			continue
		}
		before, rest := text[:i], text[i+len(tag):]
		switch {
		case fenceAfter(before) != "":
			if !paragraphEnds.MatchString(rest) {
				continue
			}
		case strings.HasSuffix(before, "`") && strings.HasPrefix(rest, "`"):
			continue
		}
		return i, len(tag)
	}
	return len(text), 0
}
