package rewrite

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/tidwall/gjson"
)

func TestDerivedIDsAreUniqueAndTheSameOnEveryReplica(t *testing.T) {
	in := role() + markerChunk("💻", "ls") + text("\n\nx") + strings.Repeat(markerChunk("💻", "the same label"), 200) + text("x") + stop()
	a := look(t, repair(in))
	a.checkLifecycle(t)
	b, _ := run(in, Options{}, Params{Active: true, ID: always("another"), Created: 5}, oneByte, CauseEOF)
	seen := map[string]bool{}
	for i, e := range look(t, b).tools {
		equal(t, e.id, a.tools[i].id, "the id of another replica")
		seen[e.id] = true
	}
	equal(t, len(seen), 201, "ids")
	if other := look(t, repair(strings.ReplaceAll(in, "chatcmpl-1", "chatcmpl-2"))).tools[0].id; seen[other] {
		t.Errorf("two completions share the id %s", other)
	}
	equal(t, look(t, repair(turn(g1("terminal", "💻", "ls")))).tools[0].id, a.tools[0].id, "the id of G1")
	v := look(t, repair(markerChunk("💻", "a")+markerChunk("📖", "b")+markerChunk("🐍", "c")+text("x")+stop()))
	for i := range 3 {
		equal(t, v.tools[i+3].id, v.tools[i].id, "the tools end in their order")
	}
}

func TestLifecycle(t *testing.T) {
	bare := Options{Progress: ProgressBare}
	event := func(members string) string { return named(progressEvent, "{"+members+"}") }
	a, b := g2Start("terminal", "💻", "a", "call_1"), g2End("terminal", "call_1")
	orphan, internal := g2End("terminal", "call_9"), g1("_thinking", "💭", "hm")+g2Start("_x", "💭", "hm", "c")+g2End("_x", "c")
	odd := event(`"tool": "terminal", "toolCallId": "call_1", "status": "paused"`)
	endless := event(`"toolCallId": "call_1", "status": "completed"`)
	ends := func(tool string) string { return event(`"tool": "` + tool + `", "status": "completed"`) }
	rows := map[string]row{
		"nothing is inferred from text on G2": {
			in:    turn(a, text("x"), reasoning("y"), g2Start("terminal", "💻", "b", "call_2"), text("z"), g2End("terminal", "call_2"), b, text("end")),
			story: "other running text reasoning running text completed completed text finish done",
		},
		"two generations": {in: turn(markerChunk("💻", "a"), g2Start("read_file", "📖", "b", "c"), text("x"), g2End("read_file", "c")),
			story: "other running running completed text completed finish done"},
		"duplicates":     {in: turn(a, a, b, b, text("x"), b), o: bare, out: turn(a, b, text("x"))},
		"orphans":        {in: turn(orphan, text("x"), g2End("terminal", "call_8")), out: turn(text("x"))},
		"internal tools": {in: turn(internal, text("x")), out: turn(text("x"))},
		"an escaped underscore": {in: turn(event(`"tool": "\u005fthinking", "emoji": "x", "label": "hm"`), text("x")),
			out: turn(text("x"))},
		"after the finish": {in: role() + text("x") + finishChunk("stop", realUsage) + a + b + doneFrame,
			out: turn(text("x"))},
		"an end without its name": {in: turn(a, endless, text("x")),
			story: "other running completed text finish done"},
		"an orphan without its name": {in: turn(endless, text("x")), out: turn(text("x"))},
		// An end without an id is of the first open tool of its name.
		"ends without ids": {
			in:    turn(g1("terminal", "💻", "a"), g1("read_file", "📖", "b"), ends("read_file"), ends("read_file"), ends("other"), ends("terminal"), text("x")),
			story: "other running running completed completed text finish done",
		},
		"an unknown status, bare": {in: turn(a, odd, b, text("x")), o: bare, out: passes},
		"an unknown status": {in: turn(a, odd, b, text("x")),
			story: "other running paused completed text finish done"},
		"neither a name nor an id": {in: turn(event(`"percent": 5`), text("x")), o: bare, out: passes},
		"neither, in an envelope": {in: turn(event(`"percent": 5`), text("x")),
			out: turn(event(envelopeWritten+`,"percent": 5`), text("x"))},
	}
	for _, start := range []string{markerChunk("💻", "ls"), g1("terminal", "💻", "ls")} {
		for then, story := range map[string]string{
			text("x"):                                          "completed text",
			reasoning("x") + text("y"):                         "completed reasoning text",
			delta(`"reasoning": "x"`) + text("y"):              "completed reasoning text",
			texts("\n\n", " \t\u00a0", "x"):                    "text text completed text",
			reasoning(" \n") + delta("") + comment + text("x"): "reasoning other completed text",
		} {
			rows[start+then] = row{in: start + then + stop(), story: "running " + story + " finish done"}
		}
	}
	check(t, rows)
	said := turn(strings.Replace(text("a"), `"choices"`, `"tool": "x", "choices"`, 1))
	same(t, repair(said), said, "bytes of a chunk with members of a tool")
}

// Tools without ids run in parallel if each starts within the window after the one before.
func TestToolsWithoutIDsRunInParallelInsideTheWindow(t *testing.T) {
	const ms, apart, together = time.Millisecond, "running completed running completed text", "running running completed completed text"
	g0 := func(label string) string { return markerChunk("💻", label) }
	g1s := func(label string) string { return g1("terminal", "💻", label) }
	g2s := func(label string) string { return g2Start("terminal", "💻", label, label) }
	internal := func(label string) string { return g1("_thinking", "💭", label) }
	for _, c := range []struct {
		window, between time.Duration
		starts          []func(string) string
		want            string
	}{
		{0, 0, nil, together},
		{0, 499 * ms, nil, together},
		{0, 500 * ms, nil, apart},
		{0, time.Hour, nil, apart},
		{time.Second, 999 * ms, nil, together},
		{time.Second, time.Second, nil, apart},
		{-1, 0, nil, apart},
		{0, 400 * ms, []func(string) string{g0, g0, g0, g0, g0}, strings.Repeat("running ", 5) + strings.Repeat("completed ", 5) + "text"},
		{0, time.Hour, []func(string) string{g2s, g2s}, "running running text completed completed"},
		{0, time.Hour, []func(string) string{g1s, internal}, "running completed text"},
	} {
		all := [][]func(string) string{c.starts}
		if c.starts == nil {
			all = [][]func(string) string{{g0, g0}, {g1s, g1s}}
		}
		for _, starts := range all {
			s := New(&Options{ParallelWindow: c.window}, chatParams)
			var out []byte
			for i, start := range starts {
				out = s.Feed(out, []byte(start(fmt.Sprint(i))), epoch.Add(time.Duration(i)*c.between))
			}
			out = s.Feed(out, []byte(text("x")+stop()), epoch.Add(24*time.Hour))
			v := look(t, string(s.Finish(out, CauseEOF)))
			v.checkLifecycle(t)
			equal(t, v.story(), c.want+" finish done", fmt.Sprintf("window %v, starts %v apart", c.window, c.between))
		}
	}
}

// The names of tools by emoji and label: those of Hermes' table, and those that operators add.
func TestToolComesFromEmojiAndLabel(t *testing.T) {
	longest := strings.Repeat("🛰", marker.MaxEmoji/len("🛰"))
	added, err := NewTools(map[string]string{
		"🛰️": "satellite", "💻": "my_shell", "é": "accent \"x\"", "🔍": "my_search", "🧠": "my_memory",
		"❤\u200d🔥": "fire", longest: "fleet",
	})
	if err != nil {
		t.Fatal(err)
	}
	selector, err := NewTools(map[string]string{"❤\ufe0f\u200d🔥": "fire"})
	if err != nil {
		t.Fatal(err)
	}
	recall := `recall: "` + strings.Repeat("x", marker.MaxTellingLabel-len(`recall: "`)-len(`\`)) // as long as is read
	for _, c := range []struct {
		tools        *Tools
		label, named string // named is emoji and name, emoji and name …
	}{
		{nil, "x", `💻 terminal ⚙️ process 📖 read_file ✍️ write_file 🔧 patch 🔎 search_files 📄 web_extract 🎨 image_generate 🔊 text_to_speech
			🌐 browser_navigate 📸 browser_snapshot 👆 browser_click 📜 browser_scroll ◀️ browser_back 🖼️ browser_get_images 🖥️ browser_console
			🚪 browser_close 📝 skill_manage 📋 todo 🐍 execute_code 🔀 delegate_task ⏰ cronjob ❓ clarify 📨 send_message`},
		{nil, "x", "⚙ process 💻\ufe0f terminal 🦄 tool é tool"}, // without U+FE0F, and with it where the table has none
		// A label that is itself a tool's name.
		{nil, "web_search", "🔍 web_search"}, {nil, "session_search", "🔍 session_search"},
		{nil, "vision_analyze", "👁️ vision_analyze"},
		{nil, "browser_vision", "👁️ browser_vision"}, {nil, "browser_type", "⌨️ browser_type"},
		{nil, "browser_press", "⌨️ browser_press"},
		{nil, "skills_list", "📚 skills_list"}, {nil, "skill_view", "📚 skill_view"},
		{nil, "memory", "🧠 memory"},
		{nil, "mixture_of_agents", "🧠 mixture_of_agents"}, {nil, "ha_get_state", "🏠 ha_get_state"},
		{nil, "ha_call_service", "🏠 ha_call_service"},
		{nil, "rl_start_training", "🧪 rl_start_training"}, {nil, "some_plugin_tool", "⚡ tool"},
		// Labels that tell tools apart, if they are written as the tool writes them.
		{nil, `recall: "what was it"`, "🔍 session_search"}, {nil, "golang sse", "🔍 web_search"},
		{nil, `recall: "x`, "🔍 session_search"},
		{nil, `recall: x`, "🔍 web_search"}, {nil, `x recall: "x"`, "🔍 web_search"},
		{nil, `recall`, "🔍 web_search"},
		{nil, `+user: "x"`, "🧠 memory"}, {nil, `~memory: "x"`, "🧠 memory"}, {nil, `-user: "x"`, "🧠 memory"},
		{nil, `+u: "`, "🧠 memory"},
		{nil, `+: "x"`, "🧠 mixture_of_agents"}, {nil, `+a b: "x"`, "🧠 mixture_of_agents"},
		{nil, "+a\tb: \"x\"", "🧠 mixture_of_agents"},
		{nil, `+user: x`, "🧠 mixture_of_agents"}, {nil, `*user: "x"`, "🧠 mixture_of_agents"},
		{nil, `user: "x"`, "🧠 mixture_of_agents"}, {nil, "+", "🧠 mixture_of_agents"},
		{nil, recall, "🔍 session_search"}, {nil, recall + "x", "🔍 tool"},
		{nil, recall + strings.Repeat("x", marker.MaxTellingLabel), "🔍 tool"},
		{added, "x", "🛰️ satellite 🛰 satellite 💻 my_shell 📖 read_file 🦄 tool 🔍 my_search 🧠 my_memory"},
		// An emoji that is taken over stands for the one tool that it was added for.
		{added, `recall: "x"`, "🔍 my_search"}, {added, "session_search", "🔍 my_search"},
		{added, `+user: "x"`, "🧠 my_memory"}, {added, "memory", "🧠 my_memory"},
		// The selector may stand anywhere: a marker is known with it and without.
		{added, "x", "❤\u200d🔥 fire ❤\ufe0f\u200d🔥 fire ❤\u200d🔥\ufe0f fire ❤ tool"}, {selector, "x", "❤\u200d🔥 fire ❤\ufe0f\u200d🔥 fire ❤\u200d🔥\ufe0f fire ❤ tool"},
		{added, "x", longest + " fleet " + longest + "\ufe0f fleet " + longest + "🛰 tool " + longest + "x tool"},
	} {
		fields := strings.Fields(c.named)
		for i := 0; i < len(fields); i += 2 {
			emoji, o := fields[i], Options{Tools: c.tools}
			v := look(t, repairWith(role()+markerChunk(emoji, c.label)+text("y")+stop(), o))
			v.checkLifecycle(t)
			if s := v.starts(); len(s) != 1 || s[0].tool != fields[i+1] || s[0].emoji != emoji || s[0].label != c.label {
				t.Errorf("%s %.40s: %+v, want %s", emoji, c.label, s, fields[i+1])
			}
		}
	}
	// A label that tells nothing has one of the tools that share the emoji.
	for emoji, names := range map[string]string{
		"👁️": "vision_analyze browser_vision tool", "⌨️": "browser_type browser_press tool", "📚": "skills_list skill_view tool",
		"🏠": "ha_list_entities ha_get_state ha_list_services ha_call_service tool", "🔍": "web_search session_search tool", "🧠": "memory mixture_of_agents tool",
	} {
		s := look(t, repair(markerChunk(emoji, "some thing")+text("y")+stop())).starts()
		if !slices.Contains(strings.Fields(names), s[0].tool) {
			t.Errorf("%s is %s, want one of %s", emoji, s[0].tool, names)
		}
	}
	equal(t, look(t, repairWith(markerChunk("é", "x")+text("y")+stop(), Options{Tools: added})).starts()[0].tool, `accent "x"`, "the tool")
	// A token is the emoji of a marker from the first rune on that is not ASCII.
	for emoji, is := range map[string]bool{"\u0080": true, "\u00ff": true, "\u007f": false, "~": false, "a\u0080": true, "\u0085": false, "\u00a0": false} {
		equal(t, len(look(t, repair(turn(markerChunk(emoji, "x"), text("y")))).starts()) == 1, is, fmt.Sprintf("%+q starts a tool", emoji))
	}
}

// A tool event counts whatever the types and escapes of its members, and running and completed come in pairs. What an
// event lacks, it gains.
func TestOddToolEventsPairUp(t *testing.T) {
	const terminal = `"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls", "more": 1, `
	for members, story := range map[string]string{
		`"tool": 5, "toolCallId": 5, "status": "completed"`:                             "",
		`"tool": null, "toolCallId": null, "status": "completed"`:                       "",
		`"tool": 5, "emoji": null, "label": null, "toolCallId": 5, "status": "running"`: "running completed ",
		`"tool": null, "emoji": "💻", "label": "ls", "toolCallId": null`:                 "running completed ",
		`"tool": {}, "label": "ls", "status": 3`:                                        "running completed ",
		`"label": "ls"`:                                                                 "running completed ",
		terminal + `"toolCallId": null, "status": null`:                                 "running completed ",
		terminal + `"toolCallId": "", "status": ""`:                                     "running completed ",
		terminal + `"status": null`:                                                     "running completed ",
		terminal + `"toolCallId": "call_9", "status": null`:                             "running completed ",
		terminal + `"toolCallId": "call_9", "status": 5`:                                "running completed ",
		terminal + `"toolCallId": null, "status": "running"`:                            "running completed ",
		terminal + `"status": "running", "status": null`:                                "running completed ",
	} {
		underAll(t, turn(named(progressEvent, "{"+members+"}"), text("x")), func(o Options, out string, v *view) {
			if o.Progress == ProgressOff {
				equal(t, strings.Contains(out, progressEvent), false, "a tool event although progress is off")
				return
			}
			if o.NoCards {
				equal(t, v.story(), "other "+story+"text finish done", "the story")
			}
			if !strings.HasPrefix(members, terminal) {
				return
			}
			if e := v.tools[0]; strings.Contains(members, "call_9") != (e.id == "call_9") || e.label != "ls" || e.emoji != "💻" {
				t.Errorf("%+v", e)
			}
			if o.Progress == ProgressEnvelope {
				contains(t, toolFrames(out)[0], `"more": 1`)
			}
		})
	}
	event := func(id, status string) string {
		return named(progressEvent, `{"tool": "terminal", "emoji": "💻", "label": "ls", "toolCallId": "`+id+`", "status": "`+status+`"}`)
	}
	for _, ids := range [][3]string{
		{`call_1`, `c\u0061ll_1`, `call\u005f1`}, {`c\u0061ll_1`, `call_1`, `call_1`}, {`\u0063é/`, `c\u00e9\/`, `cé/`}, {`a\"b`, `a\u0022b`, `\u0061\"b`},
	} {
		in := turn(event(ids[0], "running"), event(ids[1], `runn\u0069ng`), event(ids[2], `complete\u0064`), event(ids[0], "completed"), text("x"))
		underAll(t, in, func(o Options, _ string, v *view) {
			if n := len(v.tools); (n != 0 || o.Progress != ProgressOff) && n != 2 {
				t.Errorf("%q: %d tool events", ids, n)
			}
		})
	}
	// After [DONE] no tool starts, whatever else the event says that it is.
	const late = `{"tool": "terminal", "emoji": "💻", "label": "ls", "toolCallId": "call_1", "status": "running", "object": "chat.completion.chunk"}`
	for _, frame := range []string{named(progressEvent, late), "data: " + late + "\n\n"} {
		underAll(t, turn(text("a"))+frame, func(o Options, out string, _ *view) {
			same(t, out, repairWith(turn(text("a")), o), "a tool event after [DONE]")
		})
	}
}

// The members of a tool event are found under escaped names, in every form. Such an event is written anew,
// because a client might not find them (contract section 2).
func TestToolEventsWithEscapesInNames(t *testing.T) {
	escaped := strings.NewReplacer(`"tool"`, `"t\u006fol"`, `"toolCallId"`, `"tool\u0043allId"`, `"status"`, `"st\u0061tus"`, `"label"`, `"l\u0061bel"`, `"emoji"`, `"\u0065moji"`)
	start, end := g2Start("terminal", "💻", "ls", "c"), g2End("terminal", "c")
	others := g2Start("_thinking", "💭", "x", "i") + g2End("_thinking", "i") + g2End("orphan", "o")
	wrapped := toolFrames(repair(turn(start, end, text("x"))))
	for _, events := range [][2]string{{start, end}, {"data: " + wrapped[0] + "\n\n", "data: " + wrapped[1] + "\n\n"}, {named(progressEvent, wrapped[0]), named(progressEvent, wrapped[1])}} {
		odd := [2]string{escaped.Replace(events[0]), escaped.Replace(events[1])}
		for _, in := range []string{odd[0] + odd[1], odd[0] + events[1], events[0] + odd[1], odd[0] + odd[0] + escaped.Replace(others) + odd[1]} {
			underAll(t, turn(in, text("x")), func(o Options, out string, v *view) {
				equal(t, v.story(), look(t, repairWith(turn(start, end, text("x")), o)).story(), "the story")
				if strings.Contains(out, `\u006f`) || strings.Contains(out, `\u0043`) || strings.Contains(out, "_thinking") {
					t.Error("a name stays escaped, or an internal tool leaves")
				}
			})
		}
	}
	underAll(t, role()+escaped.Replace(start), func(Options, string, *view) {}) // gets an end
}

// A tool event has no finish reason, whatever its form: the stream would have two finishes
// (contract section 2).
func TestToolEventWithAFinishReason(t *testing.T) {
	t.Parallel()
	wrapped := toolFrames(repair(turn(g2Start("terminal", "💻", "ls", "c"), g2End("terminal", "c"), text("x"))))
	forms := []func(string) string{
		func(d string) string { return named(progressEvent, d) },
		func(d string) string { return "data: " + d + "\n\n" },
		func(d string) string { return ": " + progressEvent + " " + d + "\n\n" },
		func(d string) string { // no chunk, but choices
			return named(progressEvent, strings.NewReplacer(`"object":"chat.completion.chunk",`, "", "paused", "running").Replace(d))
		},
	}
	for _, reason := range []string{`"stop"`, `"error"`, `"st\u006fp"`, `"length"`, `1`, `{"a": "stop"}`} {
		for _, name := range []string{`"finish_reason"`, `"finish_re\u0061son"`} {
			ends := func(event string) string { return strings.Replace(event, `"finish_reason":null`, name+`: `+reason, 1) }
			paused := strings.Replace(ends(wrapped[0]), `"running"`, `"paused"`, 1)
			for _, frame := range forms {
				for _, in := range []string{frame(ends(wrapped[0])) + frame(ends(wrapped[1])), frame(ends(wrapped[0])), frame(paused) + frame(wrapped[0])} {
					for _, o := range allOptions() {
						once := repairWith(turn(in, text("x")), o)
						v := look(t, once)
						if !strings.Contains(in, "paused") {
							v.checkLifecycle(t)
						}
						equal(t, strings.Join(v.finishes, " "), "stop", "finishes")
						if same(t, repairWith(once, o), once, "twice and once"); t.Failed() {
							t.Fatalf("%+v: %s becomes\n%s", o, in, once)
						}
					}
				}
			}
		}
	}
}

func TestToolsThatNoMarkerCanHaveAreRefused(t *testing.T) {
	tooLong := strings.Repeat("🛰", marker.MaxEmoji/len("🛰")+1)
	for refused, tools := range map[bool][][2]string{
		true: {
			{"", "x"}, {"abc", "x"}, {"a b", "x"}, {"🛰 x", "x"}, {"`🛰", "x"}, {"🛰\n", "x"}, {"🛰\u00a0", "x"}, {tooLong, "x"},
			{"🛰", ""}, {"🛰", "  "}, {"🛰", "_internal"},
		},
		false: {{"🛰", "satellite"}, {"🛰️", "s"}, {"👩\u200d💻", "coder"}, {"é", "x"}},
	} {
		for _, x := range tools {
			_, err := NewTools(map[string]string{x[0]: x[1]})
			equal(t, err != nil, refused, fmt.Sprintf("%q is refused", x))
			if s := fmt.Sprint(err); refused && (s != strings.TrimSpace(s) || !strings.Contains(s, "must be") && !strings.Contains(s, "never")) {
				t.Errorf("%q: %q does not say what is wanted", x, s)
			}
		}
	}
}

func TestOptionsListTheirValuesDefaultFirst(t *testing.T) {
	const want = "[envelope bare unnamed comment off] [auto strip keep trust] [extract keep drop] [split inline] [auto error pass] [error pass] [chunk comment]"
	equal(t, fmt.Sprint(ProgressForms(), ImitationsValues(), ReasoningValues(), ErrorFinishForms(), ZeroUsageValues(), EmptyAnswerValues(), KeepaliveForms()), want, "values")
	for size, want := range map[int]int{0: DefaultMaxFrame, -1: DefaultMaxFrame, 1: 1, 1 << 30: 1 << 30, 1<<30 + 1: 1 << 30} {
		equal(t, (&Options{MaxFrame: size}).FrameLimit(), want, "max_frame")
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

// toolFrames returns the data of the tool events of a stream, in order.
func toolFrames(stream string) (datas []string) {
	for _, e := range decode(progressComments(stream)) {
		if strings.Contains(e.data, `"toolCallId"`) {
			datas = append(datas, e.data)
		}
	}
	return datas
}

// envelopeWritten is the envelope of tool events as contract section 2 has it.
const envelopeWritten = `"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795164800,"model":"hermes-agent","choices":[{"index":0,"delta":{},"finish_reason":null}]`

// inForms returns tool events in each form, made of their five members.
func inForms(t *testing.T, bare ...string) map[Progress]string {
	forms := map[Progress]string{ProgressOff: ""}
	for _, b := range bare {
		wrapped := "{" + envelopeWritten + "," + b[1:]
		forms[ProgressEnvelope] += named(progressEvent, wrapped)
		forms[ProgressBare] += named(progressEvent, b)
		forms[ProgressUnnamed] += "data: " + wrapped + "\n\n"
		forms[ProgressComment] += ": " + progressEvent + " " + compact(t, b) + "\n\n"
	}
	return forms
}

// The events of tools of each generation, in each form, byte for byte: G2's keep theirs, G1's gain an id and a
// status, those of G0 are the sidecar's own.
func TestProgressForms(t *testing.T) {
	id := look(t, repair(turn(markerChunk("💻", "ls"), text("x")))).tools[0].id
	ended := `{"tool":"terminal","toolCallId":"` + id + `","status":"completed"}`
	own := inForms(t, `{"tool":"terminal","emoji":"\ud83d\udcbb","label":"ls","toolCallId":"`+id+`","status":"running"}`, ended)
	const upstream = `"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "l\u0073 \"x\"", "more": [1.50, {}]`
	g1Forms := inForms(t, `{`+upstream+`,"toolCallId":"`+id+`","status":"running"}`, ended)
	short := inForms(t, `{"tool":"terminal","emoji":"\ud83d\udcbb","label":"l\u0073 \"x\"","toolCallId":"`+id+`","status":"running"}`, ended)
	g1Forms[ProgressBare], g1Forms[ProgressComment] = short[ProgressBare], short[ProgressComment]
	quoted := asciiJSON("tooluse_\"x")
	for _, c := range []struct {
		in   string
		want map[Progress]string
	}{
		{markerChunk("💻", "ls"), own},
		{named(progressEvent, "{"+upstream+"}"), g1Forms},
		{g2Start("terminal", "💻", "ls", "tooluse_\"x") + g2End("terminal", "tooluse_\"x"),
			inForms(t, `{"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls", "toolCallId": `+quoted+`, "status": "running"}`,
				`{"tool": "terminal", "toolCallId": `+quoted+`, "status": "completed"}`)},
	} {
		c.want[""] = c.want[ProgressEnvelope]
		for form, events := range c.want {
			in, want := turn(c.in, text("x")), turn(events, text("x"))
			o := Options{Progress: form, NoCards: true, NoStatusLine: true}
			same(t, repairWith(in, o), want, string(form)+": bytes")
			if form == "" {
				continue
			}
			p := chatParams
			p.Progress = form
			for _, configured := range ProgressForms() {
				o.Progress = configured
				out, _ := run(in, o, p, inOne, CauseEOF)
				same(t, out, want, fmt.Sprintf("%s, asked for %s: bytes", configured, form))
			}
		}
	}
}

// statusesOf returns the status lines of a stream, each with whether it is done.
func statusesOf(stream string) string {
	var lines []string
	for _, e := range decode(stream) {
		if event := gjson.Get(e.data, "event"); event.Get("type").Str == "status" && event.Get("data").Exists() {
			lines = append(lines, event.Get("data.description").Str+", "+event.Get("data.done").Raw)
		}
	}
	return strings.Join(lines, "; ")
}

func TestStatusLineIsForOpenWebUI(t *testing.T) {
	const label, shown = `ls "-la"`, `💻 ls "-la", false; 💻 ls "-la", true`
	own := named(progressEvent, `{"tool": "terminal", "emoji": "💻", "label": "ls", "event": {"type": "status", "data": {"description": "own", "done": false}}}`)
	for in, want := range map[string]string{
		markerChunk("💻", label): shown, g1("terminal", "💻", label): shown, g2Start("terminal", "💻", label, "c") + g2End("terminal", "c"): shown,
		own: "own, false; 💻 ls, true", // gets no second one
	} {
		for _, form := range ProgressForms() {
			for _, o := range []Options{{NoCards: true}, {}, {NoStatusLine: true}, {NoCards: true, NoStatusLine: true}} {
				o.Progress = form
				lines := statusesOf(repairWith(turn(in, text("x")), o))
				switch {
				case o.NoCards && !o.NoStatusLine && envelops(o):
					equal(t, lines, want, fmt.Sprintf("%+v", o))
				case in != own: // the line is off, or the tool has a card
					equal(t, lines, "", fmt.Sprintf("%+v", o))
				}
			}
		}
	}
}

// Where a backend says its text twice, both copies say the same, however the chunk is taken apart.
func TestRepeatedText(t *testing.T) {
	twice := func(s, finish string) string {
		return choicesChunk(`{"index": 0, "text": `+asciiJSON(s)+`, "delta": {"token_id": 7, "content": `+asciiJSON(s)+`}, "finish_reason": `+finish+`}`, "")
	}
	then := func(s, finish string) string {
		return choicesChunk(`{"index": 0, "delta": {"role": "assistant", "content": `+asciiJSON(s)+`}, "text": `+asciiJSON(s)+`, "finish_reason": `+finish+`}`, "")
	}
	for _, form := range []func(s, finish string) string{twice, then} {
		for _, deltas := range [][]string{
			{"<think>", "plan", "</think>", "\n\n", "Answer"},
			{"<thi", "nk>pl", "an</thi", "nk>", "\n\nAns", "wer"},
			{"Hi\n\n<", "b> ", "\n\n<th", "ink>a", "b</think>c"},
			{"<think>plan</think>Answer"},
			{"a\n", "`💻 ls`\n", "b\n`📖", " x`", "\nc"},
			{"a\n`💻 l", "s`\nb"},
			{"\n`💻 ls`\n", "a"},
			{"a\n\n<think>b</think>c\n\n<think>d</think>\ne"},
			{"a\n`💻 ls`\nb\n\n<think>c</think>d"},
		} {
			in := role()
			for _, s := range deltas {
				in += form(s, "null")
			}
			last := strings.TrimSuffix(in, form(deltas[len(deltas)-1], "null")) + form(deltas[len(deltas)-1], `"stop"`) + doneFrame
			for _, o := range []Options{{}, {Reasoning: ReasoningDrop}, {Imitations: ImitationsTrust}} {
				plain := look(t, repairWith(turn(texts(deltas...)), o))
				for _, in := range []string{in + stop(), last} {
					out := repairWith(in, o)
					v := look(t, out)
					same(t, v.content, plain.content, "contents")
					same(t, v.reasoning, plain.reasoning, "reasonings")
					same(t, v.repeated, v.content, fmt.Sprintf("%+v: repeats of %q", o, deltas))
					if o.Reasoning == "" {
						same(t, repairWith(out, o), out, "twice and once")
					}
				}
			}
		}
	}
}

func TestOtherNamedEvents(t *testing.T) {
	finished := role() + text("x") + finishChunk("stop", realUsage)
	rows := map[string]row{
		"after the finish": {in: finished + named("hermes.status", `{"n": 1.50}`) + doneFrame,
			out: finished + named("hermes.status", `{`+envelopeWritten+`,"n": 1.50}`) + doneFrame},
	}
	for _, data := range []string{`[1]`, `"x"`, `text`, `{"open": `, `{"a": 1}}`, `7`, ``} {
		rows["data: "+data] = row{in: turn(named("hermes.status", data), text("x")), out: passes}
	}
	check(t, rows)
}

// A tool that is open when the stream breaks is interrupted: it is unknown whether it has ended.
func TestToolsOfBrokenStreamsAreInterrupted(t *testing.T) {
	open := g2Start("terminal", "💻", "ls", "call_1") + g2Start("t", "💻", "b", "call_2") + g2End("t", "call_2")
	failed := `, "error": {"message": "m"}`
	for interrupted, streams := range map[bool][]string{
		true: {
			open, open + doneFrame, open + finishChunk("error", failed), open + finishChunk("error", ""),
			open + finishChunk("stop", zeroUsage), markerChunk("💻", "ls"),
			open + finishChunk("stop", realUsage), // no answer
			open + "data: {\"error\": {\"message\": \"m\"}}\n\n" + finishChunk("stop", realUsage), open + finishChunkWith(`"content": "x"`, "error", failed),
			open + finishChunkWith(`"content": " "`, "stop", realUsage), g1("terminal", "💻", "ls") + finishChunk("stop", zeroUsage),
		},
		false: {
			open + text("x") + finishChunk("length", failed), open + text("x") + stop(),
			open + text("x") + finishChunk("tool_calls", ""),
			open + finishChunkWith(`"content": "x"`, "stop", realUsage), markerChunk("💻", "ls") + text("x"), // the text shows that it has ended
		},
	} {
		for _, in := range streams {
			underAll(t, role()+in, func(o Options, _ string, v *view) {
				for _, e := range v.tools {
					want := interrupted && e.status == "completed" && e.id != "call_2" && envelops(o)
					equal(t, e.interrupted, want, fmt.Sprintf("%s of %s is interrupted", e.status, e.id))
				}
			})
		}
	}
	// With zero_usage, text in the finish chunk may also be that of a crash.
	in := role() + open + finishChunkWith(`"content": "x"`, "stop", zeroUsage)
	for _, e := range look(t, repairWith(in, Options{ZeroUsage: ZeroUsageError})).tools {
		equal(t, e.interrupted, e.id == "call_1" && e.status == "completed", "the tool of a crash is interrupted")
	}
}

func TestAfterDoneOnlyCommentsAndChunksWithoutChoicesPass(t *testing.T) {
	rows, good := map[string]row{}, turn(text("x"))
	for _, imitations := range ImitationsValues() {
		o := Options{Imitations: imitations, MaxFrame: 1000}
		for _, late := range []string{": bye\n\n", choicesChunk("", realUsage)} {
			rows[string(imitations)+late] = row{in: good + late, o: o, out: passes}
		}
		for _, late := range []string{
			doneFrame, text("x"), markerChunk("💻", "ls"), g1("terminal", "💻", "ls"),
			g2Start("t", "💻", "l", "1"), g2Start("_t", "💻", "l", "1"),
			named("hermes.status", `{"kind": "warn"}`), named("x", "[1]"),
			"data: {\"error\": {\"message\": \"m\"}}\n\n", "data: text\n\n", finishChunk("stop", realUsage),
			text(strings.Repeat("a", 3000)), // larger than max_frame
		} {
			rows[string(imitations)+late] = row{in: good + late, o: o, out: good, end: "stop"}
		}
	}
	check(t, rows)
}

// A tool event with members of its own that those of a chunk would stand beside is wrapped like any other event.
// It is not one that another sidecar has written, and clients that loop over choices break on those.
func TestToolEventsHaveNoMemberTwice(t *testing.T) {
	const tool = `"tool": "terminal", "emoji": "💻", "label": "ls", "toolCallId": "c", "status": "running"`
	for _, own := range []string{
		`"choices": null`, `"choices": {}`, `"choices": []`, `"choices": "x"`, `"choices": ["once", "deny"]`,
		`"id": 7, "object": "x", "created": "y", "m\u006fdel": null, "event": "start"`,
	} {
		in := turn(named(progressEvent, "{"+tool+", "+own+"}"), g2End("terminal", "c"), text("x"))
		renamed := regexp.MustCompile(`"([a-z\\0-9]+)":`).ReplaceAllString(own, `"hermes_$1":`)
		for _, o := range []Options{{}, {NoCards: true}, {Progress: ProgressUnnamed}, {Progress: ProgressUnnamed, NoCards: true}} {
			head := map[Progress]string{"": "event: " + progressEvent + "\ndata: ", ProgressUnnamed: "\n\ndata: "}[o.Progress]
			out := repairWith(in, o)
			contains(t, out, head+`{`+envelopeWritten+`,`+tool+`, `+renamed)
			look(t, out).checkLifecycle(t)
			same(t, repairWith(out, o), out, "twice and once")
			for _, e := range decode(out) {
				keys := keysInOrder(strings.Replace(e.data, "[DONE]", "{}", 1))
				slices.Sort(keys)
				equal(t, len(slices.Compact(slices.Clone(keys))), len(keys), fmt.Sprint(keys))
			}
		}
		if strings.HasPrefix(own, `"choices"`) {
			same(t, repairWith(in, Options{Progress: ProgressBare}), in, "bytes in the form bare")
		}
	}
}

func TestStatusLinesOfUpstreamsState(t *testing.T) {
	for in, want := range map[string]string{
		named("hermes.status", `{"kind": "lifecycle", "text": "\u23f3 Retrying in 2.0s"}`): "⏳ Retrying in 2.0s, true",
		named("approval.request", approval):                                                "Approval needed: rm -rf x, false",
		named("hermes.status", `{"text": "key sk-abcdefghijklmnop"}`):                      "key [redacted], true",
		named("hermes.status", `{"text": 7}`):                                              "", named("hermes.status", `{"text": ""}`): "",
		named("hermes.status", `{"text": "t", "event": {"type": "status"}}`): "", named("other", `{"text": "t", "command": "c", "": "e"}`): "",
	} {
		underAll(t, turn(in, text("x")), func(o Options, out string, _ *view) {
			line := statusesOf(strings.Join(frames(out)[:2], ""))
			if o.NoStatusLine || !envelops(o) {
				equal(t, line, "", "a status line")
			} else {
				equal(t, line, want, "the status line")
			}
		})
	}
}

// finishChunkWith is finishChunk with members of its delta.
func finishChunkWith(members, reason, more string) string {
	return strings.Replace(finishChunk(reason, more), `"delta": {}`, `"delta": {`+members+`}`, 1)
}

// Without its name an event is a chunk to clients and to a second sidecar. An event that would mean more as a
// chunk keeps its name.
func TestEventsThatWouldSayMoreAsChunksKeepTheirName(t *testing.T) {
	status := named("hermes.status", `{"kind": "warn", "text": "t"}`)
	for _, c := range []struct {
		before, event string
		keeps         bool
	}{
		{role(), status, false},
		{"", status, false},
		{role() + text("x"), named("approval.request", approval), false},
		{role(), named("other", `{"text": "t"}`), true},
		{role(), named("hermes.status", `{"text": "t", "error": "exit 1"}`), true},
		{role(), named("hermes.status", `{"text": "t", "error": null}`), true},
		{role(), named("hermes.status", `{"text": "t", "\u0065rror": "exit 1"}`), true},
		{role(), named("hermes.status", `{"text": "t", "usage": {"total_tokens": 0}}`), true},
		{role(), named("hermes.status", `{"text": "t", "hermes": {"failed": true}}`), true},
		{role(), named("hermes.status", `{"text": "t", "tool": "terminal", "status": "running", "toolCallId": "c"}`), true},
		{role() + text("x") + finishChunk("stop", realUsage), status, true},
		{role() + text("x") + finishChunk("error", `, "error": {"message": "m"}`), status, true},
	} {
		for _, lines := range []bool{false, true} {
			o := Options{Progress: ProgressUnnamed, NoStatusLine: !lines}
			in := c.before + c.event + text("y") + stop()
			if strings.Contains(c.before, `"finish_reason": "`) {
				in = c.before + c.event + doneFrame
			}
			once := repairWith(in, o)
			equal(t, strings.Contains(once, "event: "), c.keeps, c.event+" keeps its name")
			same(t, repairWith(once, o), once, "twice and once")
			same(t, repairWith(repairWith(in, Options{NoStatusLine: !lines}), o), once, "after one that keeps names")
		}
	}
}

// approval is a question of the newest Hermes, with its own choices.
const approval = `{"command": "rm -rf x", "description": "recursive delete", "request_id": "0f", "event": "approval.request", "run_id": "chatcmpl-9", "choices": ["once", "session", "always", "deny"]}`

func TestMembersThatWouldStandTwiceAreRenamed(t *testing.T) {
	for data, want := range map[string]string{
		approval:            `{` + envelopeWritten + `,"command": "rm -rf x", "description": "recursive delete", "request_id": "0f", "hermes_event": "approval.request", "run_id": "chatcmpl-9", "hermes_choices": ["once", "session", "always", "deny"]}`,
		`{ }`:               `{` + envelopeWritten + ` }`,
		`{"n": 1.50}`:       `{` + envelopeWritten + `,"n": 1.50}`,
		`{"choices": []}`:   `{` + envelopeWritten + `,"hermes_choices": []}`,
		`{"choices": null}`: `{` + envelopeWritten + `,"hermes_choices": null}`,
		`{"id": 1, "object": "x", "created": 2, "model": [], "a": {"id": 1}}`: `{` + envelopeWritten + `,"hermes_id": 1, "hermes_object": "x", "hermes_created": 2, "hermes_model": [], "a": {"id": 1}}`,
		`{"object": "x"}`:          `{` + envelopeWritten + `,"hermes_object": "x"}`,
		`{"created": 2}`:           `{` + envelopeWritten + `,"hermes_created": 2}`,
		`{"model": "m"}`:           `{` + envelopeWritten + `,"hermes_model": "m"}`,
		`{"id": 1, "id": 2}`:       `{` + envelopeWritten + `,"hermes_id": 1, "hermes_id": 2}`,
		`{"\u0069d": 1}`:           `{` + envelopeWritten + `,"hermes_\u0069d": 1}`,
		`{"event": {"type": "x"}}`: `{` + envelopeWritten + `,"event": {"type": "x"}}`,
		`{"events": "x", "ID": 1}`: `{` + envelopeWritten + `,"events": "x", "ID": 1}`,
	} {
		in, nameless := named("approval.request", data), unnamed(named("approval.request", want))
		for form, want := range map[Progress]string{
			ProgressEnvelope: named("approval.request", want), ProgressUnnamed: nameless,
			ProgressBare: in, ProgressComment: in, ProgressOff: in,
		} {
			for _, before := range []string{role() + text("y"), role() + text("y") + g2Start("t", "💻", "l", "1")} {
				o := Options{Progress: form, NoCards: true, NoStatusLine: true}
				out := repairWith(before+in+text("x")+stop(), o)
				contains(t, out, "\n\n"+want+text("x"))
				for _, o := range []Options{o, {Progress: form}} {
					out := repairWith(before+in+text("x")+stop(), o)
					same(t, repairWith(out, o), out, "twice and once")
				}
			}
		}
	}
}

// An event in an envelope is no chunk: its members mean nothing to a second sidecar either.
func TestWrappedEventsAreNoChunks(t *testing.T) {
	for _, event := range []string{
		named("hermes.status", `{"type": "tool_failed", "error": "exit 1"}`),
		named("tool.failed", `{"error": {"message": "exit 1"}, "usage": {"prompt_tokens": 1}, "hermes": {"failed": true}}`),
		named("error", `{"message": "boom"}`),
		named("approval.request", approval),
	} {
		for _, c := range []struct{ before, then, code string }{
			{role() + text("x"), stop(), ""},
			{role() + text("x"), "", CodeIncomplete},
			{"", role() + text("x") + stop(), ""},
			{role() + finishChunk("stop", zeroUsage), doneFrame, CodeCrashed},
			{role() + text("x") + finishChunk("error", `, "error": {"message": "m"}`), doneFrame, CodeAgentError},
			{role() + text("a\n`💻 ls"), text("b") + stop(), ""},
		} {
			in := c.before + event + c.then
			once, sum := run(in, Options{}, chatParams, inOne, CauseEOF)
			equal(t, sum.Code, c.code, in)
			equal(t, strings.Count(once, "event: ")-strings.Count(once, "event: hermes.card\n"), 1, "named events")
			twice, sum := run(once, Options{}, chatParams, oneByte, CauseEOF)
			same(t, twice, once, "twice and once")
			wasOurs := c.code == CodeIncomplete || c.code == CodeCrashed
			if sum.Code != c.code && !(wasOurs && sum.Code != "") {
				t.Errorf("the second time: code %q, want %q", sum.Code, c.code)
			}
		}
	}
}

// Frames of the sidecar's have the id, the time and the model that a chunk has said last (contract section
// 2).
func TestEnvelopeIsWhatChunksHaveSaidLast(t *testing.T) {
	long := strings.Repeat("m", maxEnvelope-2) // as a JSON string it is as long as is taken over
	derived := map[string]string{}
	chunkWith := func(members string) string {
		return `data: {"object": "chat.completion.chunk"` + members + `, "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": null}]}` + "\n\n"
	}
	for _, c := range []struct {
		name, in, want string // id, created and model of the error finish
	}{
		{"all in one", chunkWith(`, "id": "a", "created": 5, "model": "m"`), `"a" 5 "m"`},
		{"none", chunkWith(``), `"chatcmpl-none" 1700000000 "hermes-agent"`},
		{"no model", chunkWith(`, "id": "a", "created": 5`), `"a" 5 "hermes-agent"`},
		{"no time", chunkWith(`, "id": "a", "model": "m"`), `"a" 1700000000 "m"`},
		{"no id", chunkWith(`, "created": 5, "model": "m"`), `"chatcmpl-none" 5 "m"`},
		{"a model, then none", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "b", "created": 6`), `"b" 6 "m"`},
		{"only the id changes", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "b", "created": 5, "model": "m"`), `"b" 5 "m"`},
		{"a longer id, a shorter model", chunkWith(`, "id": "a", "created": 5, "model": "mm"`) + chunkWith(`, "id": "bb", "created": 5, "model": "n"`), `"bb" 5 "n"`},
		{"the first again", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "b", "created": 5, "model": "m"`+realUsage) + chunkWith(`, "id": "a", "created": 5, "model": "m"`), `"a" 5 "m"`},
		{"an event that is wrapped", named("x", `{"object": "chat.completion.chunk", "id": "a", "created": 5, "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": null}]}`), `"a" 5 "m"`},
		{"empty ones", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": "", "created": null, "model": ""`), `"a" 5 "m"`},
		{"none of their kind", chunkWith(`, "id": "a", "created": 5, "model": "m"`) + chunkWith(`, "id": 1, "created": "6", "model": ["n"]`), `"a" 5 "m"`},
		{"below no digit", chunkWith(`, "id": "a", "created": -5, "model": "m"`), `"a" 1700000000 "m"`},
		{"the first digit and the last", chunkWith(`, "id": "a", "created": 0, "model": "m"`) + chunkWith(`, "id": "a", "created": 9, "model": "m"`), `"a" 9 "m"`},
		{"zero", chunkWith(`, "id": "a", "created": 0, "model": "m"`), `"a" 0 "m"`},
		{"as long as may be", chunkWith(`, "id": "a", "created": 5, "model": "` + long + `"`), `"a" 5 "` + long + `"`},
		{"too long", chunkWith(`, "id": "a", "created": 5, "model": "m` + long + `"`), `"a" 5 "hermes-agent"`},
		{"a time that is too long", chunkWith(`, "id": "a", "created": ` + strings.Repeat("1", maxEnvelope+1) + `, "model": "m"`), `"a" 1700000000 "m"`},
	} {
		out := repair(c.in)
		begins(t, out, c.in)
		finish := look(t, out).finish
		same(t, fmt.Sprintf(`"%s" %d "%s"`, *finish.ID, *finish.Created, *finish.Model), c.want, c.name+": id, created, model")
		events := toolFrames(repair(c.in + g1("terminal", "💻", "ls")))
		m := gjson.GetMany(events[len(events)-1], "id", "created", "model")
		same(t, m[0].Raw+" "+m[1].Raw+" "+m[2].Raw, c.want, c.name+": id, created, model of a tool event")
		// The ids of tools are derived from the id that they are sent with.
		id, call := gjson.Get(events[0], "id").Raw, gjson.Get(events[0], "toolCallId").Raw
		if derived[id] == "" {
			derived[id] = call
		}
		equal(t, derived[id], call, c.name+": the tool's id")
	}
	ids := map[string]bool{}
	for _, call := range derived {
		ids[call] = true
	}
	equal(t, len(ids), len(derived), "ids of tools")
}
