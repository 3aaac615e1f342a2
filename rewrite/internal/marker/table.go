package marker

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// hermesTools maps each emoji of Hermes' markers, without variation selector, to the tools that use
// it. If several tools do, the label may say which one it is; Name does not distinguish
// the rl_* tools and those of plugins.
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
	"🧠": {"mixture_of_agents", "memory"},
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

// UnknownTool stands for the name of a tool if its emoji and label do not tell it. It is a JSON string.
const UnknownTool = `"tool"`

// Table maps emoji in markers to tools (contract section 2), and says which lines of a text are imitations.
// Nothing changes it, and any number of goroutines may use it.
type Table struct {
	*emojis
	asks  bool // the paragraph of an approval is known; see WithApprovals
	quiet bool // no line is the imitation of a marker; see WithoutImitations
}

// emojis are the emoji of a Table.
type emojis struct {
	byEmoji    map[string][]string // the names of tools, JSON strings, by their emoji without variation selector
	beginnings map[rune][]beginning
	first      [256]bool // the first bytes of beginnings: hardly any backtick in code has one after it
}

// beginning is the beginning of an imitation after the backtick.
type beginning struct {
	text string // an emoji, with or without a variation selector, and a space
	asks bool   // of the paragraph of an approval
}

// begin adds the beginnings with the emoji, one for each of the blanks.
func (e *emojis) begin(emoji, blanks string, asks bool) {
	for _, spelling := range spellings(emoji) {
		r, _ := utf8.DecodeRuneInString(spelling)
		for _, blank := range blanks {
			e.beginnings[r] = append(e.beginnings[r], beginning{spelling + string(blank), asks})
		}
		e.first[spelling[0]] = true
	}
}

// Hermes is the table of Hermes' own tools.
var Hermes, _ = NewTable(nil) // nothing is added that could be refused

// NewTable returns Hermes' own table with the emoji in added, each for the tool that it
// is mapped to. An added emoji replaces Hermes' own use of it. NewTable returns the error
// of CheckTool for an emoji that no marker can have, and for an empty or internal name.
func NewTable(added map[string]string) (*Table, error) {
	t := &Table{emojis: &emojis{byEmoji: map[string][]string{}, beginnings: map[rune][]beginning{}}}
	add := func(emoji string, names ...string) {
		quoted := make([]string, len(names))
		for i, name := range names {
			b, _ := json.Marshal(name) // a string cannot fail
			quoted[i] = string(b)
		}
		t.byEmoji[bare(emoji)] = quoted
	}
	for emoji, names := range hermesTools {
		add(emoji, names...)
	}
	for emoji, name := range added {
		if err := CheckTool(emoji, name); err != nil {
			return nil, err
		}
		add(emoji, name)
	}
	for emoji := range t.byEmoji {
		t.begin(emoji, " ", false)
	}
	if t.byEmoji[approvalEmoji] == nil {
		t.begin(approvalEmoji, blanks, true)
	}
	return t, nil
}

// bare returns the emoji without the variation selectors for text and for emoji.
func bare(emoji string) string {
	return strings.Map(func(r rune) rune {
		if r == '\ufe0e' || r == '\ufe0f' {
			return -1
		}
		return r
	}, emoji)
}

// spellings returns the emoji with and without a variation selector, after its first rune or at its
// end.
func spellings(emoji string) []string {
	_, n := utf8.DecodeRuneInString(emoji)
	all := []string{emoji}
	for _, selector := range []string{"\ufe0e", "\ufe0f"} {
		all = append(all, emoji[:n]+selector+emoji[n:])
		if n < len(emoji) {
			all = append(all, emoji+selector)
		}
	}
	return all
}

// WithoutImitations returns a Table that names tools as t does, but knows no line of text as an
// imitation of a marker (contract section 1, imitations auto). That of the paragraph of an approval is
// one if t knows it.
func (t *Table) WithoutImitations() *Table {
	return &Table{emojis: t.emojis, asks: t.asks, quiet: true}
}

// CheckTool returns an error that says why emoji cannot stand for the tool with the name
// in a marker, or nil if it can.
func CheckTool(emoji, name string) error {
	if !isToken(emoji) {
		return fmt.Errorf("emoji %q: must be one token with a non-ASCII character and without white space or backticks", emoji)
	}
	if len(emoji) > MaxEmoji {
		return fmt.Errorf("emoji %q: must be at most %d bytes long", emoji, MaxEmoji)
	}
	if strings.TrimSpace(name) == "" {
		return errors.New("tool name is empty: must be the name for the tool's events")
	}
	if strings.HasPrefix(name, "_") {
		return fmt.Errorf("tool name %q: names that begin with _ are internal and never appear", name)
	}
	return nil
}

// isToken reports whether s may be the emoji of a marker: it has a non-ASCII rune, and neither
// white space nor backticks.
func isToken(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r == '`' || unicode.IsSpace(r) })
}

// MaxEmoji is the length in bytes of the longest emoji that a Table may have.
const MaxEmoji = 64

// Name returns the name, a JSON string, of the tool that a marker with the emoji and the
// label stands for, or UnknownTool. Both are insides of JSON strings.
func (t *Table) Name(emoji, label []byte) string {
	key := bare(string(jsonspan.AppendText(nil, emoji)))
	names := t.byEmoji[key]
	switch {
	case len(names) == 1:
		return names[0]
	case len(names) == 0 || len(label) > MaxTellingLabel:
		return UnknownTool
	}
	text := string(jsonspan.AppendText(nil, label))
	switch second := secondTool[key]; {
	case slices.Contains(names, `"`+text+`"`):
		return `"` + text + `"`
	case second == nil:
		return UnknownTool
	case second.MatchString(text):
		return names[1]
	}
	return names[0]
}

// MaxTellingLabel is the length in bytes up to which Name reads a label to tell tools
// with the same emoji apart.
const MaxTellingLabel = 64 << 10

// secondTool matches the labels of the second of two tools with the same emoji.
var secondTool = map[string]*regexp.Regexp{
	"🔍": regexp.MustCompile(`^recall: "`),
	"🧠": regexp.MustCompile(`^[+~-][^ \t]+: "`), // +x: ", ~x: " or -x: "
}

// Opening returns the index after the emoji of a known tool and a space at text[i:], which follows
// a backtick in the inside of a JSON string. It returns 0 if they are not there. partly reports
// whether they are there, or would be if text went on. It may go on with the other half of a pair
// of surrogates.
func (t *Table) Opening(text []byte, i int) (next int, partly bool) {
	if i < len(text) && text[i] != '\\' && !t.first[text[i]] {
		return 0, false
	}
	var room [2 * MaxEmoji]byte
	var beginnings []beginning // with the first rune
	s := room[:0]
	for i < len(text) {
		r, end := jsonspan.NextRune(text, i)
		if r == utf8.RuneError && end == len(text) {
			return 0, t.goesOn(s, text[i:])
		}
		if len(s) == 0 {
			beginnings = t.beginnings[r]
		}
		i = end
		s = utf8.AppendRune(s, r)
		partly = false
		for _, m := range beginnings {
			switch {
			case !t.knows(m):
			case string(s) == m.text:
				return i, true
			default:
				partly = partly || len(s) < len(m.text) && m.text[:len(s)] == string(s)
			}
		}
		if !partly {
			return 0, false
		}
	}
	return 0, true
}

// knows reports whether a line that begins with m may be an imitation.
func (t *Table) knows(m beginning) bool { return m.asks && t.asks || !m.asks && !t.quiet }

// goesOn reports whether raw, if it is the escape of half a pair of surrogates, may go on after s as
// the opening of a marker: upstream may cut its text within a pair.
func (t *Table) goesOn(s, raw []byte) bool {
	half, ok := jsonspan.Hex4(raw, len(`\u`))
	if !ok || raw[0] != '\\' || !utf16.IsSurrogate(half) {
		return false
	}
	for _, beginnings := range t.beginnings {
		for _, m := range beginnings {
			rest, ok := strings.CutPrefix(m.text, string(s))
			r, _ := utf8.DecodeRuneInString(rest)
			if high, _ := utf16.EncodeRune(r); ok && high == half && t.knows(m) {
				return true
			}
		}
	}
	return false
}
