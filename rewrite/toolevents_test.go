package rewrite

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// An end of upstream's is known by its id: it need not name the tool.
func TestEndOfAToolWithoutItsName(t *testing.T) {
	end := named("hermes.tool.progress", `{"toolCallId": "c", "status": "completed"}`)
	for _, form := range []Progress{ProgressEnvelope, ProgressBare, ProgressUnnamed, ProgressComment} {
		v := look(t, repairWith(role()+g2Start("terminal", "💻", "ls", "c")+end+text("x")+stop(), Options{Progress: form}))
		v.checkLifecycle(t)
		if s := v.story(); s != "other running completed text finish done" {
			t.Errorf("%s: %s", form, s)
		}
		if last := v.tools[len(v.tools)-1]; last.tool != "terminal" || last.id != "c" {
			t.Errorf("%s: the end is of %+v", form, last)
		}
	}
	// Of a tool that has not started it is dropped.
	if v := look(t, repair(role()+end+text("x")+stop())); v.story() != "other text finish done" {
		t.Errorf("an orphan: %s", v.story())
	}
}

// A tool event that has neither a name nor an id is none: it is a named event like any
// other.
func TestProgressEventOfNoTool(t *testing.T) {
	in := role() + named("hermes.tool.progress", `{"percent": 5}`) + text("x") + stop()
	v := look(t, repair(in))
	if len(v.tools) != 0 || v.names["hermes.tool.progress"] != 1 {
		t.Errorf("%d tools, events %v", len(v.tools), v.names)
	}
	same(t, repairWith(in, Options{Progress: ProgressBare}), in, "bytes in the form bare")
}

// An id and a status are the same however they are spelled: a second start is a duplicate,
// and the end is of that tool.
func TestSpellingsOfIDAndStatus(t *testing.T) {
	event := func(id, status string) string {
		return named("hermes.tool.progress", `{"tool": "terminal", "emoji": "💻", "label": "ls", "toolCallId": "`+id+`", "status": "`+status+`"}`)
	}
	for _, ids := range [][3]string{
		{`call_1`, `c\u0061ll_1`, `call\u005f1`}, {`c\u0061ll_1`, `call_1`, `call_1`}, {`\u0063é/`, `c\u00e9\/`, `cé/`}, {`a\"b`, `a\u0022b`, `\u0061\"b`},
	} {
		for _, o := range allOptions() {
			o.Cards = true
			in := role() + event(ids[0], "running") + event(ids[1], `runn\u0069ng`) + event(ids[2], `complete\u0064`) + event(ids[0], "completed") + text("x") + stop()
			once := repairWith(in, o)
			v := look(t, once)
			v.checkLifecycle(t)
			if n := len(v.tools); n != 0 && n != 2 || n == 0 && o.Progress != ProgressOff {
				t.Errorf("%q in the form %s: %d tool events", ids, o.Progress, n)
			}
			same(t, repairWith(once, o), once, "twice and once")
			if t.Failed() {
				t.Fatalf("%+v\n%s", o, once)
			}
		}
	}
}

// An end without an id is of the first open tool of its name.
func TestEndOfAToolWithoutItsID(t *testing.T) {
	end := func(tool string) string {
		return named("hermes.tool.progress", `{"tool": "`+tool+`", "status": "completed"}`)
	}
	in := role() + g1("terminal", "💻", "a") + g1("read_file", "📖", "b") + end("read_file") + end("read_file") + end("other") + end("terminal")
	v := look(t, repair(in+text("x")+stop()))
	v.checkLifecycle(t)
	if s := v.story(); s != "other running running completed completed text finish done" {
		t.Fatalf("%s", s)
	}
	if v.tools[2].tool != "read_file" || v.tools[2].id != v.tools[1].id || v.tools[3].id != v.tools[0].id {
		t.Errorf("%+v", v.tools)
	}
}

// A status that nobody knows is no reason to lose the event.
func TestToolEventOfAnotherStatus(t *testing.T) {
	odd := `{"tool": "terminal", "toolCallId": "c", "status": "paused"}`
	in := role() + g2Start("terminal", "💻", "ls", "c") + named("hermes.tool.progress", odd) + g2End("terminal", "c") + text("x") + stop()
	same(t, repairWith(in, Options{Progress: ProgressBare}), in, "bytes in the form bare")
	out := repair(in)
	// It gets the members of a chunk as any other named event.
	if strings.Count(out, `"object":"chat.completion.chunk"`) < 3 || strings.Count(out, `"paused"`) != 1 || strings.Count(out, `"running"`) != 1 || strings.Count(out, `"completed"`) < 1 {
		t.Errorf("%s", out)
	}
}

// The selector of an emoji may stand anywhere in it: a marker is known with it and
// without.
func TestAddedEmojiOfSeveralRunes(t *testing.T) {
	for _, added := range []string{"❤\u200d🔥", "❤\ufe0f\u200d🔥"} {
		tools, err := NewTools(map[string]string{added: "fire"})
		if err != nil {
			t.Fatal(err)
		}
		for _, emoji := range []string{"❤\u200d🔥", "❤\ufe0f\u200d🔥", "❤\u200d🔥\ufe0f"} {
			out := repairWith(text("a\n`"+emoji+" x`\nb")+markerChunk(emoji, "y")+text("c")+stop(), Options{Tools: tools})
			if v := look(t, out); v.content != "a\nb\nc" && v.content != "a\nbc" || len(v.starts()) != 1 || v.starts()[0].tool != "fire" {
				t.Errorf("added as %+q, sent as %+q: content %q, %+v", added, emoji, v.content, v.starts())
			}
		}
		// A part of it is another emoji.
		if v := look(t, repairWith(text("a\n`❤ x`\nb")+stop(), Options{Tools: tools})); v.content != "a\n`❤ x`\nb" {
			t.Errorf("content %q", v.content)
		}
	}
}

// A token is the emoji of a marker from the first rune on that is not ASCII.
func TestTheFirstRunesThatAreNotASCII(t *testing.T) {
	for emoji, is := range map[string]bool{"\u0080": true, "\u00ff": true, "\u007f": false, "~": false, "a\u0080": true, "\u0085": false, "\u00a0": false} {
		v := look(t, repair(role()+markerChunk(emoji, "x")+text("y")+stop()))
		if started := len(v.starts()) == 1; started != is {
			t.Errorf("%+q: %+v", emoji, v.starts())
		}
	}
}

// A label that is too long to be read tells nothing, however it begins.
func TestLabelsThatAreTooLongTellNothing(t *testing.T) {
	recall := `recall: "`
	for more, want := range map[int]string{0: "session_search", 1: "tool"} {
		label := recall + strings.Repeat("x", marker.MaxTellingLabel-len(recall)-len(`\`)+more)
		if s := look(t, repair(markerChunk("🔍", label)+text("x")+stop())).starts(); len(s) != 1 || s[0].tool != want {
			t.Errorf("%d bytes: %s, want %s", len(label)+1, s[0].tool, want)
		}
	}
}

// A token that only begins with the longest emoji there may be is another.
func TestTokensLongerThanTheLongestEmoji(t *testing.T) {
	longest := strings.Repeat("🛰", marker.MaxEmoji/len("🛰"))
	tools, err := NewTools(map[string]string{longest: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	for emoji, want := range map[string]string{longest: "fleet", longest + "\ufe0f": "fleet", longest + "🛰": "tool", longest + "x": "tool"} {
		if s := look(t, repairWith(markerChunk(emoji, "x")+text("y")+stop(), Options{Tools: tools})).starts(); len(s) != 1 || s[0].tool != want {
			t.Errorf("%s: %+v, want %s", emoji, s, want)
		}
	}
}

// What is counted of markers is what has become of them.
func TestMarkersThatAreCounted(t *testing.T) {
	in := role() + text("a\n`💻 x`\n`📖 y`\nb") + markerChunk("💻", "z") + text("c") + stop()
	for imitations, want := range map[Imitations][3]int{ImitationsStrip: {1, 1, 2}, ImitationsKeep: {1, 1, 0}, ImitationsTrust: {3, 3, 0}} {
		sum := repairSummary(in, Options{Imitations: imitations})
		if got := [3]int{sum.Tools, sum.Markers, sum.Imitations}; got != want {
			t.Errorf("%s: tools, markers, imitations are %v, want %v", imitations, got, want)
		}
	}
}

// A tool event that has Open WebUI's member already gets no second one.
func TestStatusLineOfUpstreams(t *testing.T) {
	own := `"event": {"type": "status", "data": {"description": "own", "done": false}}`
	in := role() + named("hermes.tool.progress", `{"tool": "terminal", "emoji": "💻", "label": "ls", `+own+`}`) + text("x") + stop()
	for _, form := range []Progress{ProgressEnvelope, ProgressUnnamed} {
		events := toolFrames(repairWith(in, Options{Progress: form, StatusLine: true}))
		if len(events) != 2 || strings.Count(events[0], `"event"`) != 1 || !strings.Contains(events[0], own) || strings.Count(events[1], `"event"`) != 1 {
			t.Errorf("%s: %q", form, events)
		}
	}
}

// A marker's chunk that says something else too stays, without the marker, however many
// like it have come before.
func TestMarkerInAChunkLikeOthersThatSaysMore(t *testing.T) {
	for name, chunk := range map[string]func(s string) string{
		"the role": func(s string) string { return delta(`"role": "assistant", "content": ` + asciiJSON(s)) },
		"logprobs": func(s string) string {
			return strings.Replace(text(s), `"finish_reason"`, `"logprobs": {"a": 1}, "finish_reason"`, 1)
		},
		"its system": func(s string) string {
			return strings.Replace(text(s), `"choices"`, `"system_fingerprint": "fp", "choices"`, 1)
		},
	} {
		in := chunk("a") + chunk("b") + chunk("c") + chunk("\n`💻 ls`\n") + chunk("\n\nd") + stop()
		out := repair(in)
		v := look(t, out)
		if v.content != "abc\n\nd" || len(v.starts()) != 1 || strings.Count(out, `"content"`) != 5 || !strings.Contains(out, chunk("")) {
			t.Errorf("%s: content %q, %d starts\n%s", name, v.content, len(v.starts()), out)
		}
	}
}

// Where a backend says its text twice, both copies say the same, however the chunk is
// taken apart.
func TestRepeatedTextOfChunksTakenApart(t *testing.T) {
	twice := func(s, more string) string {
		return `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "text": ` + asciiJSON(s) + `, "delta": {"content": ` + asciiJSON(s) + `}, "finish_reason": ` + more + `}]}` + "\n\n"
	}
	for _, c := range []struct{ in, content, reasoning string }{
		{"a\n\n<think>b</think>c", "a\n\nc", "b"},
		{"a\n\n<think>b</think>c\n\n<think>d</think>\ne", "a\n\nc\n\ne", ""},
		{"a\n`💻 ls`\nb\n\n<think>c</think>d", "a\nb\n\nd", "c"},
		{"<think>b</think>c", "c", "b"},
	} {
		for _, o := range []Options{{}, {Reasoning: ReasoningDrop}, {Imitations: ImitationsTrust}} {
			for _, end := range []string{"null", `"stop"`} {
				in := role() + twice(c.in, end)
				if end == "null" {
					in += stop()
				}
				out := repairWith(in+doneFrame, o)
				v := look(t, out)
				if v.content != c.content || repeats(t, out) != c.content || c.reasoning != "" && o.Reasoning == "" && v.reasoning != c.reasoning {
					t.Errorf("%+v, %q: content %q, repeated %q, reasoning %q", o, c.in, v.content, repeats(t, out), v.reasoning)
				}
			}
		}
	}
}

// An emoji that is taken over stands for the one tool that it was added for, whatever
// its label would say of Hermes' own.
func TestEmojiTakenOverWhateverTheLabel(t *testing.T) {
	tools, err := NewTools(map[string]string{"🔍": "my_search", "🧠": "my_memory"})
	if err != nil {
		t.Fatal(err)
	}
	for marker, want := range map[[2]string]string{
		{"🔍", `recall: "x"`}: "my_search", {"🔍", "x"}: "my_search", {"🔍", "session_search"}: "my_search", {"🧠", `+user: "x"`}: "my_memory", {"🧠", "x"}: "my_memory", {"🧠", "memory"}: "my_memory",
	} {
		if s := look(t, repairWith(markerChunk(marker[0], marker[1])+text("y")+stop(), Options{Tools: tools})).starts(); len(s) != 1 || s[0].tool != want {
			t.Errorf("%v: %+v, want %s", marker, s, want)
		}
	}
}

// The members of a tool event are found by what their names mean, in every form. Such an
// event is written anew, because a client might not find them (contract section 2).
func TestToolEventsWithEscapesInNames(t *testing.T) {
	escaped := strings.NewReplacer(`"tool"`, `"t\u006fol"`, `"toolCallId"`, `"tool\u0043allId"`, `"status"`, `"st\u0061tus"`, `"label"`, `"l\u0061bel"`, `"emoji"`, `"\u0065moji"`)
	start, end := g2Start("terminal", "💻", "ls", "c"), g2End("terminal", "c")
	wrapped := toolFrames(repair(role() + start + end + text("x") + stop()))
	for _, o := range allOptions() {
		for _, events := range [][2]string{{start, end}, {"data: " + wrapped[0] + "\n\n", "data: " + wrapped[1] + "\n\n"}, {named(progressEvent, wrapped[0]), named(progressEvent, wrapped[1])}} {
			want := look(t, repairWith(role()+start+end+text("x")+stop(), o))
			for _, in := range []string{
				escaped.Replace(events[0]) + escaped.Replace(events[1]), escaped.Replace(events[0]) + events[1], events[0] + escaped.Replace(events[1]),
				escaped.Replace(events[0]) + escaped.Replace(events[0]) + escaped.Replace(g2Start("_thinking", "💭", "x", "i")+g2End("_thinking", "i")+g2End("orphan", "o")) + escaped.Replace(events[1]),
			} {
				once := repairWith(role()+in+text("x")+stop(), o)
				v := look(t, once)
				v.checkLifecycle(t)
				if v.story() != want.story() || strings.Contains(once, `\u006f`) || strings.Contains(once, `\u0043`) || strings.Contains(once, "_thinking") {
					t.Errorf("%s, want %s\n%s", v.story(), want.story(), once)
				}
				same(t, repairWith(once, o), once, "twice and once")
			}
		}
		// An event that lacks its end gets one.
		v := look(t, repairWith(role()+escaped.Replace(start), o))
		v.checkLifecycle(t)
		if t.Failed() {
			t.Fatalf("%+v", o)
		}
	}
}

// A tool event has no finish reason, whatever its form: the stream would have two finishes
// (contract section 2).
func TestToolEventWithAFinishReason(t *testing.T) {
	wrapped := toolFrames(repair(role() + g2Start("terminal", "💻", "ls", "c") + g2End("terminal", "c") + text("x") + stop()))
	for _, reason := range []string{`"stop"`, `"error"`, `"st\u006fp"`, `"length"`, `1`, `{"a": "stop"}`} {
		for _, name := range []string{`"finish_reason"`, `"finish_re\u0061son"`} {
			ends := func(event string) string {
				return strings.Replace(event, `"finish_reason":null`, name+`: `+reason, 1)
			}
			paused := strings.Replace(ends(wrapped[0]), `"running"`, `"paused"`, 1)
			for _, o := range allOptions() {
				for _, frame := range []func(string) string{
					func(d string) string { return named(progressEvent, d) },
					func(d string) string { return "data: " + d + "\n\n" },
					func(d string) string { return ": " + progressEvent + " " + d + "\n\n" },
					func(d string) string { // no chunk, but choices
						return named(progressEvent, strings.NewReplacer(`"object":"chat.completion.chunk",`, "", "paused", "running").Replace(d))
					},
				} {
					for _, in := range []string{frame(ends(wrapped[0])) + frame(ends(wrapped[1])), frame(ends(wrapped[0])), frame(paused) + frame(wrapped[0])} {
						once := repairWith(role()+in+text("x")+stop(), o)
						v := look(t, once)
						if !strings.Contains(in, "paused") {
							v.checkLifecycle(t)
						}
						if len(v.finishes) != 1 || v.finishes[0] != "stop" {
							t.Errorf("finishes %q:\n%s", v.finishes, once)
						}
						same(t, repairWith(once, o), once, "twice and once")
						if t.Failed() {
							t.Fatalf("%+v\n%s", o, in)
						}
					}
				}
			}
		}
	}
}
