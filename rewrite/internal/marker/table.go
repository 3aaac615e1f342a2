package marker

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

// UnknownTool is the name of a tool whose emoji, or whose label, says too little.
const UnknownTool = "tool"

// Table knows which tool an emoji in a marker stands for (contract section 2). It does
// not change once made, and may be used by many goroutines.
type Table struct {
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

// Hermes is the table of Hermes' own tools.
var Hermes = mustTable()

func mustTable() *Table {
	t, err := NewTable(nil)
	if err != nil {
		panic(err)
	}
	return t
}

// NewTable returns Hermes' own table with the emoji in added, each for the tool that it
// is mapped to. An emoji that Hermes uses is taken over. It returns the error of
// CheckTool for an emoji that no marker can have, and for an empty or internal name.
func NewTable(added map[string]string) (*Table, error) {
	t := &Table{
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

// CheckTool returns an error that says why emoji cannot stand for the tool name in a
// marker, or nil if it can.
func CheckTool(emoji, name string) error {
	if !isMarkerToken(emoji) {
		return fmt.Errorf("emoji %q: want one token with a non-ASCII character and without white space or backticks", emoji)
	}
	if len(emoji) > MaxEmoji {
		return fmt.Errorf("emoji %q: want at most %d bytes", emoji, MaxEmoji)
	}
	if strings.TrimSpace(name) == "" {
		return errors.New("tool name is empty: want the name that the tool's events shall carry")
	}
	if strings.HasPrefix(name, "_") {
		return fmt.Errorf("tool name %q: names that begin with _ are internal and never appear", name)
	}
	return nil
}

// MaxEmoji is the length in bytes of the longest emoji that can be known.
const MaxEmoji = 64

// isMarkerToken reports whether s can be the emoji of a marker.
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
	name := UnknownTool
	if len(names) == 1 {
		name = names[0]
	}
	quoted, _ := json.Marshal(name) // a string cannot fail
	return toolNames{names, string(quoted)}
}

// Name returns the name, as a JSON string, of the tool that emoji and label in a
// marker stand for, or UnknownTool. Both are insides of JSON strings.
func (t *Table) Name(emoji, label []byte) string {
	var bare [MaxEmoji + 8]byte
	emoji = appendEmoji(bare[:0], emoji)
	n, ok := t.byEmoji[string(emoji)]
	if !ok {
		return `"` + UnknownTool + `"`
	}
	if len(n.names) < 2 || len(label) > MaxTellingLabel {
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

// MaxTellingLabel is the length in bytes up to which a label is read to tell
// tools apart.
const MaxTellingLabel = 64 << 10

// isMemoryLabel reports whether a label is one of the memory tool's, +x: ", ~x: "
// or -x: ".
func isMemoryLabel(s []byte) bool {
	if len(s) == 0 || !strings.ContainsRune("+~-", rune(s[0])) {
		return false
	}
	target, _, ok := bytes.Cut(s[1:], []byte(`: "`))
	return ok && len(target) > 0 && !bytes.ContainsAny(target, " \t")
}

// begins reports whether s is the beginning of a known emoji and a space, and whether
// it begins with all of them. It has at least one rune, and only whole ones.
func (t *Table) begins(s []byte) (partly, wholly bool) {
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

// MayBegin reports whether what stands behind a backtick may be the emoji of a
// known tool. It is cheap, and may be wrong in saying so.
func (t *Table) MayBegin(text []byte) bool {
	return len(text) == 0 || text[0] == '\\' || t.first[text[0]]
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
