package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// toolNamesOfHermes is the table of Hermes' tools: emoji, label, name.
var toolNamesOfHermes = [][3]string{
	{"💻", "ls", "terminal"}, {"⚙️", "x", "process"}, {"📖", "x", "read_file"}, {"✍️", "x", "write_file"}, {"🔧", "x", "patch"}, {"🔎", "x", "search_files"},
	{"📄", "x", "web_extract"}, {"🎨", "x", "image_generate"}, {"🔊", "x", "text_to_speech"}, {"🌐", "x", "browser_navigate"}, {"📸", "x", "browser_snapshot"},
	{"👆", "x", "browser_click"}, {"📜", "x", "browser_scroll"}, {"◀️", "x", "browser_back"}, {"🖼️", "x", "browser_get_images"}, {"🖥️", "x", "browser_console"},
	{"🚪", "x", "browser_close"}, {"📝", "x", "skill_manage"}, {"📋", "x", "todo"}, {"🐍", "x", "execute_code"}, {"🔀", "x", "delegate_task"}, {"⏰", "x", "cronjob"},
	{"❓", "x", "clarify"}, {"📨", "x", "send_message"},
	// Without U+FE0F, and with it where the table has none.
	{"⚙", "x", "process"}, {"💻\ufe0f", "x", "terminal"},
	// A label that is itself a tool's name.
	{"🔍", "web_search", "web_search"}, {"🔍", "session_search", "session_search"}, {"👁️", "vision_analyze", "vision_analyze"}, {"👁️", "browser_vision", "browser_vision"},
	{"⌨️", "browser_type", "browser_type"}, {"⌨️", "browser_press", "browser_press"}, {"📚", "skills_list", "skills_list"}, {"📚", "skill_view", "skill_view"},
	{"🧠", "memory", "memory"}, {"🧠", "mixture_of_agents", "mixture_of_agents"}, {"🏠", "ha_get_state", "ha_get_state"}, {"🏠", "ha_call_service", "ha_call_service"},
	{"🧪", "rl_start_training", "rl_start_training"},
	// Labels that tell tools apart.
	{"🔍", `recall: "what was it"`, "session_search"}, {"🔍", "golang sse", "web_search"},
	{"🧠", `+user: "likes Go"`, "memory"}, {"🧠", `~memory: "x"`, "memory"}, {"🧠", `-memory: "x"`, "memory"},
	// What tells nothing.
	{"🦄", "x", "tool"}, {"⚡", "some_plugin_tool", "tool"}, {"é", "x", "tool"},
}

func TestToolComesFromEmojiAndLabel(t *testing.T) {
	for _, x := range toolNamesOfHermes {
		v := look(t, repair(markerChunk(x[0], x[1])+text("y")+stop()))
		s := v.starts()
		if len(s) != 1 || s[0].tool != x[2] || s[0].emoji != x[0] || s[0].label != x[1] {
			t.Errorf("%s %s: %+v, want %s", x[0], x[1], s, x[2])
		}
		if end := v.tools[len(v.tools)-1]; end.tool != x[2] {
			t.Errorf("%s %s: completed is of %s", x[0], x[1], end.tool)
		}
	}
}

func TestSharedEmojiWithATellingNothingLabelIsNotGuessedBeyondItsTools(t *testing.T) {
	for emoji, names := range map[string]string{
		"👁️": "vision_analyze browser_vision tool", "⌨️": "browser_type browser_press tool", "📚": "skills_list skill_view tool",
		"🏠": "ha_list_entities ha_get_state ha_list_services ha_call_service tool", "🔍": "web_search session_search tool", "🧠": "memory mixture_of_agents tool",
	} {
		s := look(t, repair(markerChunk(emoji, "some thing")+text("y")+stop())).starts()
		if !contains(strings.Fields(names), s[0].tool) {
			t.Errorf("%s is %s, want one of %s", emoji, s[0].tool, names)
		}
	}
}

func TestAddedEmojiNamesItsTool(t *testing.T) {
	tools, err := NewTools(map[string]string{"🛰️": "satellite", "💻": "my_shell", "é": "accent \"x\""})
	if err != nil {
		t.Fatal(err)
	}
	for marker, want := range map[[2]string]string{
		{"🛰️", "x"}: "satellite", {"🛰", "x"}: "satellite", {"💻", "ls"}: "my_shell", {"é", "x"}: "accent \"x\"", {"📖", "x"}: "read_file", {"🦄", "x"}: "tool",
	} {
		v := look(t, repairWith(markerChunk(marker[0], marker[1])+text("y")+stop(), Options{Tools: tools}))
		if s := v.starts(); len(s) != 1 || s[0].tool != want {
			t.Errorf("%v: %+v, want %s", marker, s, want)
		}
	}
	// Hermes' own table is not changed.
	if s := look(t, repair(markerChunk("💻", "ls")+text("y")+stop())).starts(); s[0].tool != "terminal" {
		t.Errorf("%+v", s)
	}
}

func TestToolsThatNoMarkerCanHaveAreRefused(t *testing.T) {
	for _, x := range [][2]string{
		{"", "x"}, {"abc", "x"}, {"a b", "x"}, {"🛰 x", "x"}, {"`🛰", "x"}, {"🛰\n", "x"}, {"🛰\u00a0", "x"}, {strings.Repeat("🛰", marker.MaxEmoji), "x"},
		{"🛰", ""}, {"🛰", "  "}, {"🛰", "_internal"},
	} {
		if _, err := NewTools(map[string]string{x[0]: x[1]}); err == nil {
			t.Errorf("%q → %q is accepted", x[0], x[1])
		}
		if err := CheckTool(x[0], x[1]); err == nil {
			t.Errorf("%q → %q is accepted by CheckTool", x[0], x[1])
		} else if s := err.Error(); s != strings.TrimSpace(s) || !strings.Contains(s, "want") && !strings.Contains(s, "never") {
			t.Errorf("%q → %q: %q does not say what is wanted", x[0], x[1], s)
		}
	}
	for _, x := range [][2]string{{"🛰", "satellite"}, {"🛰️", "s"}, {"👩\u200d💻", "coder"}, {"é", "x"}} {
		if err := CheckTool(x[0], x[1]); err != nil {
			t.Errorf("%q → %q: %v", x[0], x[1], err)
		}
	}
}

func TestLongestAddedEmojiIsKnown(t *testing.T) {
	emoji := strings.Repeat("🛰", marker.MaxEmoji/len("🛰"))
	tools, err := NewTools(map[string]string{emoji: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	v := look(t, repairWith(markerChunk(emoji, "x")+text("a\n`"+emoji+" y`\nb")+stop(), Options{Tools: tools}))
	if s := v.starts(); len(s) != 1 || s[0].tool != "fleet" || v.content != "a\nb" {
		t.Errorf("%+v, content %q", s, v.content)
	}
}

func TestOptionsListTheirValuesDefaultFirst(t *testing.T) {
	const want = "[envelope bare unnamed comment off] [strip keep trust] [extract keep drop] [split inline] [auto error pass] [error pass] [chunk comment]"
	if got := fmt.Sprint(ProgressForms(), ImitationsValues(), ReasoningValues(), ErrorFinishForms(), ZeroUsageValues(), EmptyAnswerValues(), KeepaliveForms()); got != want {
		t.Errorf("values %s, want %s", got, want)
	}
	// The zero value means the default.
	for _, r := range chats(t, "g0-v0.8.0", "g3-v0.20.3") {
		explicit := Options{
			Progress: ProgressForms()[0], Imitations: ImitationsValues()[0], ErrorFinish: ErrorFinishForms()[0], ZeroUsage: ZeroUsageValues()[0],
			KeepaliveForm: KeepaliveForms()[0], MaxFrame: DefaultMaxFrame, ParallelWindow: DefaultParallelWindow,
		}
		same(t, repairWith(r.body, explicit), repair(r.body), r.name()+": outputs")
	}
}

// Behind [DONE] no tool starts: an event of a tool is no chunk without choices,
// whatever else it says that it is.
func TestNoToolStartsBehindDone(t *testing.T) {
	const event = `{"tool": "terminal", "emoji": "💻", "label": "ls", "toolCallId": "call_1", "status": "running", "object": "chat.completion.chunk"}`
	in := role() + text("a") + stop()
	for _, late := range []string{named(progressEvent, event), "data: " + event + "\n\n"} {
		for _, o := range allOptions() {
			same(t, repairWith(in+late, o), repairWith(in, o), "a tool event behind [DONE]")
		}
	}
}

// A tool event with members of its own that those of a chunk would stand beside is
// wrapped like any other event.
func TestToolEventsHaveNoMemberTwice(t *testing.T) {
	event := named(progressEvent, `{"id": 7, "tool": "terminal", "emoji": "💻", "label": "ls", "object": "x", "created": "y", "m\u006fdel": null, "event": "start"}`)
	for _, o := range []Options{{}, {StatusLine: true}, {Progress: ProgressUnnamed}, {Progress: ProgressUnnamed, StatusLine: true}} {
		out := repairWith(role()+event+text("a")+stop(), o)
		look(t, out).checkLifecycle(t)
		for _, e := range decode(out) {
			if e.data == "[DONE]" {
				continue
			}
			seen := map[string]bool{}
			for _, key := range keysInOrder(t, e.data) {
				if seen[key] {
					t.Errorf("%+v: %s stands twice in %s", o, key, e.data)
				}
				seen[key] = true
			}
			if strings.Contains(e.data, `"running"`) && (!seen["hermes_id"] || !seen["hermes_event"] || seen["event"] != o.StatusLine) {
				t.Errorf("%+v: %s", o, e.data)
			}
		}
		same(t, repairWith(out, o), out, "twice and once")
	}
}

// An event of a tool whose members are of other types than they should be is one all
// the same: it says neither running nor completed without the other, and has the
// stream's form.
func TestOddToolEventsPairUp(t *testing.T) {
	for _, members := range []string{
		`"tool": 5, "toolCallId": 5, "status": "completed"`,
		`"tool": null, "toolCallId": null, "status": "completed"`,
		`"tool": 5, "emoji": null, "label": null, "toolCallId": 5, "status": "running"`,
		`"tool": null, "emoji": "💻", "label": "ls", "toolCallId": null`,
		`"tool": {}, "label": "ls", "status": 3`,
		`"label": "ls"`,
	} {
		in := role() + named(progressEvent, "{"+members+"}") + text("a") + stop()
		for _, o := range allOptions() {
			out := repairWith(in, o)
			v := look(t, out)
			v.checkLifecycle(t)
			if o.Progress == ProgressOff && strings.Contains(out, progressEvent) {
				t.Errorf("%s: a tool event although progress is off", members)
			}
			if o.Progress != ProgressOff && len(v.starts()) != 1 && !strings.Contains(members, "completed") {
				t.Errorf("%s: %d tools start:\n%s", members, len(v.starts()), out)
			}
			same(t, repairWith(out, o), out, "twice and once")
		}
	}
}
