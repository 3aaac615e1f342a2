package rewrite

import (
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// knownEmoji are the emoji of Hermes' tools, as the table of its markers has
// them.
var knownEmoji = strings.Fields("💻 ⚙️ 📖 ✍️ 🔧 🔎 🔍 📄 👁️ 🎨 🔊 🌐 📸 👆 ⌨️ 📜 ◀️ 🖼️ 🖥️ 🚪 📚 📝 📋 🧠 🐍 🔀 ⏰ ❓ 📨 🏠 🧪 ⚡")

// withoutImitations is contract section 1 said for a whole text, line by line:
// a marker line of a known tool outside code fences goes, with its newline and
// one further newline if the text that follows begins with one.
func withoutImitations(content string) string {
	var out strings.Builder
	fence := ""
	for content != "" {
		line, rest, ended := strings.Cut(content, "\n")
		if fence == "" && isImitation(line) {
			content = strings.TrimPrefix(rest, "\n")
			continue
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

// isImitation tells whether a line is the marker of a known tool, in at most
// 4 KiB.
func isImitation(line string) bool { return len(line) <= 4096 && isMarkerLine(line) }

// isMarkerLine tells whether a line is a backtick, a known emoji, a space, a
// label and a backtick. With a second marker in it, it is prose about tools.
func isMarkerLine(line string) bool {
	if !beginsMarker(line) || !strings.HasSuffix(line, "`") {
		return false
	}
	_, label, _ := strings.Cut(line, " ")
	for i := range label {
		if beginsMarker(label[i:]) {
			return false
		}
	}
	return len(label) > 1
}

// beginsMarker tells whether s begins with a backtick, a known emoji and a
// space.
func beginsMarker(s string) bool {
	emoji, _, ok := strings.Cut(s, " ")
	for _, e := range knownEmoji {
		bare := "`" + strings.TrimSuffix(e, "\ufe0f")
		if ok && (emoji == bare || emoji == bare+"\ufe0f") {
			return true
		}
	}
	return false
}
