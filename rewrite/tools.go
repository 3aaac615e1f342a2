package rewrite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// hermesTools maps the emoji of Hermes' markers, without U+FE0F, to the tools
// that have it. Where several have, the label may tell which one it is; the
// rl_* tools and those of plugins are not told apart.
var hermesTools = map[string][]string{
	"💻": {"terminal"},
	"⚙": {"process"},
	"📖": {"read_file"},
	"✍": {"write_file"},
	"🔧": {"patch"},
	"🔎": {"search_files"},
	"🔍": {"web_search", "session_search"},
	"📄": {"web_extract"},
	"👁": {"vision_analyze", "browser_vision"},
	"🎨": {"image_generate"},
	"🔊": {"text_to_speech"},
	"🌐": {"browser_navigate"},
	"📸": {"browser_snapshot"},
	"👆": {"browser_click"},
	"⌨": {"browser_type", "browser_press"},
	"📜": {"browser_scroll"},
	"◀": {"browser_back"},
	"🖼": {"browser_get_images"},
	"🖥": {"browser_console"},
	"🚪": {"browser_close"},
	"📚": {"skills_list", "skill_view"},
	"📝": {"skill_manage"},
	"📋": {"todo"},
	"🧠": {"memory", "mixture_of_agents"},
	"🐍": {"execute_code"},
	"🔀": {"delegate_task"},
	"⏰": {"cronjob"},
	"❓": {"clarify"},
	"📨": {"send_message"},
	"🏠": {"ha_list_entities", "ha_get_state", "ha_list_services", "ha_call_service"},
	"🧪": {
		"rl_list_environments", "rl_select_environment", "rl_get_current_config", "rl_edit_config",
		"rl_start_training", "rl_check_status", "rl_stop_training", "rl_get_results", "rl_list_runs",
		"rl_test_inference",
	},
	"⚡": nil,
}

// unknownTool is the name of a tool whose emoji says too little.
const unknownTool = "tool"

// Tools know which tool an emoji in a marker stands for (contract section 2).
// They do not change once made.
type Tools struct {
	byEmoji map[string]toolNames
	markers map[rune][]string // what an imitation begins with: emoji, with and without U+FE0F, and a space; by its first rune
	first   [256]bool         // the bytes that markers begin with
}

// toolNames are the names of the tools that share an emoji, and the first of
// them as a JSON string.
type toolNames struct {
	names  []string
	quoted string
}

var hermesOnly = mustTools()

func mustTools() *Tools {
	t, err := NewTools(nil)
	if err != nil {
		panic(err)
	}
	return t
}

// NewTools returns Hermes' own table with the emoji in added, each for the tool
// that it is mapped to. An emoji that Hermes uses is taken over. It refuses an
// emoji that no marker can have and an empty or internal tool name.
func NewTools(added map[string]string) (*Tools, error) {
	t := &Tools{
		byEmoji: make(map[string]toolNames, len(hermesTools)+len(added)),
		markers: make(map[rune][]string),
	}
	for emoji, names := range hermesTools {
		t.byEmoji[emoji] = newToolNames(names)
	}
	for emoji, name := range added {
		if err := CheckTool(emoji, name); err != nil {
			return nil, err
		}
		t.byEmoji[bareEmoji(emoji)] = newToolNames([]string{name})
	}
	for emoji := range t.byEmoji {
		first, rest := splitRune(emoji)
		for _, m := range []string{emoji + " ", first + "\ufe0f" + rest + " ", emoji + "\ufe0f "} {
			r, _ := utf8.DecodeRuneInString(m)
			t.markers[r] = append(t.markers[r], m)
			t.first[m[0]] = true
		}
	}
	return t, nil
}

// CheckTool tells why emoji cannot stand for the tool name in a marker, nil
// when it can.
func CheckTool(emoji, name string) error {
	if !isMarkerToken(emoji) {
		return fmt.Errorf("emoji %q: want one token with a non-ASCII character and without white space or backticks", emoji)
	}
	if len(emoji) > maxEmoji {
		return fmt.Errorf("emoji %q: want at most %d bytes", emoji, maxEmoji)
	}
	if strings.TrimSpace(name) == "" {
		return errors.New("tool name is empty: want the name that the tool's events shall carry")
	}
	if strings.HasPrefix(name, "_") {
		return fmt.Errorf("tool name %q: names that begin with _ are internal and never appear", name)
	}
	return nil
}

// maxEmoji is the length in bytes of the longest emoji that can be known.
const maxEmoji = 64

// isMarkerToken tells whether s can be the emoji of a marker.
func isMarkerToken(s string) bool {
	ascii := true
	for _, r := range s {
		if r == '`' || jsonspan.IsSpace(r) {
			return false
		}
		ascii = ascii && r <= unicode.MaxASCII
	}
	return !ascii
}

func newToolNames(names []string) toolNames {
	name := unknownTool
	if len(names) == 1 {
		name = names[0]
	}
	quoted, _ := json.Marshal(name) // a string cannot fail
	return toolNames{names, string(quoted)}
}

// name returns the name, as a JSON string, of the tool that emoji and label in a
// marker stand for. label is the inside of a JSON string.
func (t *Tools) name(emoji, label []byte) string {
	n, ok := t.byEmoji[string(emoji)]
	if !ok {
		return `"` + unknownTool + `"`
	}
	if len(n.names) < 2 || len(label) > maxTellingLabel {
		return n.quoted
	}
	text := label
	if bytes.IndexByte(label, '\\') >= 0 {
		var room [256]byte
		text = jsonspan.AppendText(room[:0], label)
	}
	for _, name := range n.names {
		if string(text) == name {
			return `"` + name + `"`
		}
	}
	switch string(emoji) {
	case "🔍":
		if bytes.HasPrefix(text, []byte(`recall: "`)) {
			return `"session_search"`
		}
		return `"web_search"`
	case "🧠":
		if isMemoryLabel(text) {
			return `"memory"`
		}
		return `"mixture_of_agents"`
	}
	return n.quoted
}

// maxTellingLabel is the length in bytes up to which a label is read to tell
// tools apart.
const maxTellingLabel = 64 << 10

// isMemoryLabel tells whether a label is one of the memory tool's, +x: ", ~x: "
// or -x: ".
func isMemoryLabel(s []byte) bool {
	if len(s) == 0 || !strings.ContainsRune("+~-", rune(s[0])) {
		return false
	}
	target, _, ok := bytes.Cut(s[1:], []byte(`: "`))
	return ok && len(target) > 0 && !bytes.ContainsAny(target, " \t")
}

// begins tells whether s is the beginning of an emoji that is known and a
// space, or begins with one. It has a rune at least, and whole ones.
func (t *Tools) begins(s []byte) (partly, wholly bool) {
	r, _ := utf8.DecodeRune(s)
	for _, m := range t.markers[r] {
		switch {
		case len(s) >= len(m):
			if string(s[:len(m)]) == m {
				return true, true
			}
		case m[:len(s)] == string(s):
			partly = true
		}
	}
	return partly, false
}

// bareEmoji returns s without the variation selector U+FE0F.
func bareEmoji(s string) string { return strings.ReplaceAll(s, "\ufe0f", "") }

func splitRune(s string) (string, string) {
	for i := range s {
		if i > 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}
