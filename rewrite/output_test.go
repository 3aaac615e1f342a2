package rewrite

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// A hostileFrame is a frame just under max_frame, after others.
type hostileFrame struct {
	name          string
	rename        func(string) string // replaces id and model
	before, frame string
	o             Options
}

// longNames replaces id and model by the longest that are taken over.
var longNames = strings.NewReplacer("chatcmpl-1", strings.Repeat("i", maxEnvelope-2), "hermes-agent", strings.Repeat("m", maxEnvelope-2))

// hostileFrames are frames that leave longer than they came, each in its way.
func hostileFrames() (all []hostileFrame) {
	const size = DefaultMaxFrame - 8<<10
	fill := func(unit string, n int) string { return strings.Repeat(unit, n/len(unit)) }
	line := strings.Repeat("l", marker.MaxHeldLine-32)
	var manyTools strings.Builder
	for i := range 2 * maxOpenTools {
		manyTools.WriteString(g2Start("terminal", "💻", strings.Repeat("l", 300), fmt.Sprint("call_", i)))
	}
	contents := [][2]string{
		{"thoughts", fill(`<think>x</think>y\n\n`, size)},
		{"empty thoughts", fill(`<think></think>y\n\n`, size)},
		{"few thoughts", fill(`<think>x</think>y\n\n`, 4000)},
		{"markers", "a\\n" + fill("`💻 x`\\n", size) + "b"},
		{"markers and text", "a\\n" + fill("`💻 x`\\na\\n", size) + "b"},
		{"markers and thoughts", "a\\n" + fill("`💻 x`\\n<think>x</think>y\\n\\n", size) + "b"},
		{"markers that split", fill("\\n`🦄 x`\\n`💻 x`\\n\\n<think>x</think>", size)},
		{"few markers", "a\\n" + fill("`💻 x`\\na\\n", 4000) + "b"},
		{"long markers", "a\\n" + fill("`💻 "+line+"`\\n", size) + "b"},
		{"markers of invalid bytes", "a\\n" + fill("`💻 "+strings.Repeat("\xff", 1024)+"`\\n", 50<<10) + "b"},
		{"one long marker", "\\n`💻 " + fill("l", size) + "`\\n"},
		{"thoughts, then a marker", fill(`<think>x</think>y\n\n`, size) + "\\n`💻 ls"},
		{"white space", "<think>x</think>" + fill(`\n`, size)},
		{"text", fill("x", size)},
		{"brackets", fill(`\n\n<`, size)},
		{"backticks", fill("\\n`", size)},
		{"what a provider said", "Provider said: " + fill("sk-abc ", size)},
		{"what a provider said, and thoughts", "Provider said: " + fill(`sk-abc\n\n<think>x</think>y\n\n`, size)},
	}
	n := 0
	for i, rename := range []func(string) string{strings.Clone, longNames.Replace} {
		for _, c := range contents {
			name, content := c[0], c[1]
			frame := `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "` + content + `"}, "finish_reason": null}]}` + "\n\n"
			bare := `data: {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "` + content + `"}}]}` + "\n\n"
			roles := strings.Replace(frame, `"content"`, `"role": "`+strings.Repeat("r", maxEnvelope-8)+`", "content"`, 1)
			finish := strings.Replace(frame, `"finish_reason": null`, `"finish_reason": "stop"`, 1)
			twice := strings.Replace(frame, `"delta"`, `"text": "`+content+`", "delta"`, 1)
			for form, f := range []string{frame, bare, roles, finish, twice} {
				if len(f) > DefaultMaxFrame {
					f = strings.Replace(f, content, content[:len(content)/2], 2)
				}
				o := []Options{{Imitations: ImitationsTrust, StatusLine: true}, {}, {Reasoning: ReasoningDrop}}[n%3]
				n++ // neither the number of names nor that of forms is a multiple of three
				for range 2 {
					all = append(all, hostileFrame{fmt.Sprint(name, " in form ", form, ", names ", i, ", ", o.Imitations, o.Reasoning, o.Cards), rename, role() + text("a"), f, o})
					o.Cards = true
				}
			}
		}
		label := fill("l", size)
		for _, c := range [][2]string{
			{"a long label", g2Start("terminal", "💻", label, "call_x")},
			{"a long label of G1", g1("terminal", "💻", label)},
			{"a long label of quotes", g2Start("terminal", "💻", fill(`"`, size/2), "call_x")},
			{"a long id that a card repeats", g2Start(fill("n", 4000), fill("💻", 4000), fill("\\", 4000), strings.Repeat("i", maxCardID-2))},
			{"a long name", g1(label, "💻", "x")},
			{"a long id", g2Start("terminal", "💻", "x", label)},
			{"a long id of invalid bytes", named("hermes.tool.progress", `{"tool": "t", "toolCallId": "\u0061`+fill("\xff", size)+`", "status": "running"}`)},
			{"a long id of escapes", named("hermes.tool.progress", `{"tool": "t", "toolCallId": "`+fill(`\n`, size)+`", "status": "running"}`)},
			{"a long id of separators", named("hermes.tool.progress", `{"tool": "t", "toolCallId": "\u0061`+fill("\u2028", size)+`", "status": "running"}`)},
			{"a long emoji", g1("terminal", label, "x")},
			{"a long label in a comment", ": hermes.tool.progress " + `{"tool":"terminal","emoji":"💻","label":"` + label + `"}` + "\n\n"},
			{"a named event", named("x.y", `{"a": 1}`)},
			{"members that would stand twice", named("x.y", "{"+strings.TrimSuffix(fill(`"id":1,`, size), ",")+"}")},
			{"members whose names are escaped", named("x.y", "{"+strings.TrimSuffix(fill(`"\u0069d":1,`, size), ",")+"}")},
			{"a long status", named("hermes.status", `{"text": "`+label+`"}`)},
			{"a status of secrets", named("hermes.status", `{"text": "`+fill("sk-abcdefgh ", size)+`"}`)},
			{"an approval of secrets", named("approval.request", `{"command": "`+fill("k=sk-abcdefgh ", size)+`", "choices": []}`)},
			{"an error of secrets", `data: {"error": {"message": "` + fill("sk-abcdefgh ", size) + `"}}` + "\n\n"},
			{"an error finish of secrets", finishChunk("error", `, "error": {"message": "`+fill("sk-abcdefgh ", size)+`"}`)},
			{"errors that stand twice", finishChunk("length", strings.Repeat(`, "error": "sk-abcdefgh"`, size/24))},
			{"errors between others", `data: {` + fill(`"a":1,"error":1,`, size) + `"b":1}` + "\n\n"},
			{"errors whose names are escaped", finishChunk("error", fill(`,"\u0065rror":1,"a":1`, size))},
			{"finish reasons of a tool event", named("hermes.tool.progress", `{`+envelopeOfTests+`,"choices":[`+fill(`{"finish_reason":1},`, size)+`{}],"tool":"t","toolCallId":"c","status":"running"}`)},
			{"secrets by their names", `data: {"error": {` + strings.TrimSuffix(fill(`"token":"a1",`, size), ",") + "}}\n\n"},
			{"choices that stop behind an error", `data: {` + envelopeOfTests + `, "choices": [` + strings.TrimSuffix(fill(`{"finish_reason":"stop"},`, size), ",") + "]}\n\n"},
			{"one delta", text("x")},
			{"[DONE]", doneFrame},
			{"a finish", finishChunk("stop", realUsage)},
			{"an error", `data: {"error": {"message": "` + label + `"}}` + "\n\n"},
			{"an error finish", finishChunk("error", `, "error": {"message": "`+label+`"}`)},
			{"an error that is a string", finishChunk("error", `, "error": "`+label+`"`)},
			{"an error in the hermes block", finishChunk("error", `, "error": {"x": 1}, "hermes": {"error": "`+label+`"}`)},
			{"an error with text", strings.Replace(finishChunk("error", `, "error": {"message": "`+label[:size/2]+`"}`), `"delta": {}`, `"delta": {"content": "`+label[:size/2]+`"}`, 1)},
			{"choices", `data: {` + envelopeOfTests + `, "choices": [` + strings.TrimSuffix(fill("{},", size), ",") + "]}\n\n"},
			{"lines", fill("data\n", size) + "\n"},
			{"lines within an error", "data: {" + envelopeOfTests + `, "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": [1` + "\n" + fill("data:,1\n", size) + "data:]}\n\n"},
			{"contents", `data: {"object": "chat.completion.chunk", "choices": [{"delta": {` + strings.TrimSuffix(fill(`"content":"\n",`, size), ",") + "}}]}\n\n"},
		} {
			for _, o := range []Options{{StatusLine: true}, {Progress: ProgressComment, ErrorFinish: ErrorFinishInline}, {StatusLine: true, Cards: true}} {
				all = append(all, hostileFrame{fmt.Sprint(c[0], ", names ", i, ", ", o.Progress, o.Cards), rename, text("a") + manyTools.String(), c[1], o})
			}
		}
		all = append(all,
			hostileFrame{fmt.Sprint("a longer id behind tools ", i), strings.Clone, text("a") + manyTools.String(), longNames.Replace(text("x")), Options{}},
			hostileFrame{fmt.Sprint("[DONE] behind an error ", i), strings.Clone, text("a") + `data: {"error": {"message": "` + label + `"}}` + "\n\n", doneFrame, Options{}},
			hostileFrame{fmt.Sprint("stops behind an error ", i), strings.Clone, text("a") + `data: {"error": {"message": "m"}}` + "\n\n", `data: {` + envelopeOfTests + `, "choices": [` + strings.TrimSuffix(fill(`{"index":1,"finish_reason":"stop"},`, size), ",") + "]}\n\n", Options{}},
			hostileFrame{fmt.Sprint("a finish behind an error ", i), strings.Clone, text("a") + `data: {"error": {"message": "` + label + `"}}` + "\n\n", finishChunk("stop", realUsage), Options{}},
		)
	}
	return all
}

// No frame makes the sidecar write more than 256 KiB beyond three times its size, or
// hold more than eight times (contract section 7).
func TestNoFrameGrowsBeyondItsBound(t *testing.T) {
	out := make([]byte, 0, 8<<20)
	worst, most := 0.0, 0.0
	for i, h := range hostileFrames() {
		if i%cutStride != 0 {
			continue
		}
		s := New(&h.o, chatParams)
		s.Feed(out[:0], []byte(h.rename(h.before)), epoch)
		in := []byte(h.rename(h.frame))
		left, took := feedWithinBounds(t, h.name, s, out, in)
		worst = max(worst, float64(left)/float64(3*len(in)+256<<10))
		most = max(most, float64(took)/float64(8*len(in)+1<<20))
		s.Finish(out[:0], CauseEOF)
	}
	t.Logf("at most %.0f %% of the bytes, %.0f %% of the memory", 100*worst, 100*most)
}

// A tool that a marker in a chunk starts, and a stretch of reasoning in it, make the
// chunk longer than it was: what is beyond the bounds is stripped, or stays text.
func TestPartsOfOneChunkAreBounded(t *testing.T) {
	const stretches, tools = 1000, 1000
	thoughts := text(strings.Repeat("<think>x</think>y\n\n", stretches))
	markers := text("a\n" + strings.Repeat("`💻 x`\n", tools) + "b")
	for _, c := range []struct {
		name            string
		in              string
		least, most     int // stretches
		fewest, highest int // tools
	}{
		{"thoughts", thoughts, maxStretches, maxStretches, 0, 0},
		{"thoughts, long names", longNames.Replace(thoughts), 40, maxStretches, 0, 0},
		{"markers", markers, 0, 0, 180, maxOpenTools},
		{"markers, long names", longNames.Replace(markers), 0, 0, 20, 60},
	} {
		o := Options{Imitations: ImitationsTrust}
		s := New(&o, chatParams)
		s.Feed(nil, []byte(longNames.Replace(role())), epoch)
		out := s.Feed(nil, []byte(c.in), epoch)
		if len(out) > 3*len(c.in)+256<<10 {
			t.Errorf("%s: %d bytes are written for %d", c.name, len(out), len(c.in))
		}
		v := look(t, string(s.Finish(out, CauseEOF)))
		v.checkLifecycle(t)
		thought := strings.Count(v.reasoning, "x")
		if thought < c.least || thought > c.most || strings.Count(v.content, "<think>") != strings.Count(c.in, "<think>")-thought {
			t.Errorf("%s: %d stretches are taken out, %d stay", c.name, thought, strings.Count(v.content, "<think>"))
		}
		if n := len(v.starts()); n < c.fewest || n > c.highest || strings.Contains(v.content, "`") {
			t.Errorf("%s: %d tools start", c.name, n)
		}
	}
	// The next chunk has as many again.
	in := text(strings.Repeat("<think>x</think>y\n\n", maxStretches+1))
	v := look(t, repair(role()+in+text("\n\n")+in+stop()))
	if n := strings.Count(v.reasoning, "x"); n != 2*maxStretches || strings.Count(v.content, "<think>x</think>y") != 2 {
		t.Errorf("%d stretches are taken out of two chunks", n)
	}
}

// What ends all open tools is one delta, and so are they bounded by what that takes:
// also where their envelope becomes longer while they are open.
func TestOpenToolsTakeBoundedOutput(t *testing.T) {
	for _, o := range []Options{{}, {StatusLine: true}, {Progress: ProgressBare}, {Cards: true}, {StatusLine: true, Cards: true}} {
		var in strings.Builder
		in.WriteString(text("a"))
		for range 2 * maxOpenTools {
			in.WriteString(markerChunk("💻", strings.Repeat(`l"`, 200)))
		}
		s := New(&o, chatParams)
		v := string(s.Feed(nil, []byte(in.String()), epoch))
		for _, last := range []string{longNames.Replace(delta("")), longNames.Replace(text("b"))} {
			out := s.Feed(nil, []byte(last), epoch)
			if len(out) > len(last)+maxOpenBytes+maxOpenBytes/8 {
				t.Errorf("%d bytes are written at once", len(out))
			}
			v += string(out)
		}
		look(t, string(s.Finish([]byte(v), CauseEOF))).checkLifecycle(t)
	}
}

// An answer that is not streamed takes no more either.
func TestNoAnswerTakesMoreThanItsBound(t *testing.T) {
	const size = DefaultMaxFrame - 1<<10
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	for name, in := range map[string]string{
		"choices":            `{"object": "chat.completion", "choices": [` + strings.TrimSuffix(fill("{},"), ",") + "]}",
		"more choices":       `{"object": "chat.completion", "choices": [` + strings.TrimSuffix(fill("1,"), ",") + "]}",
		"contents":           `{"object": "chat.completion", "choices": [` + strings.TrimSuffix(fill("{\"message\":{\"content\":\"`💻 x`\"}},"), ",") + "]}",
		"thoughts":           completion(`, "content": "`+fill(`<think>x</think>y\n\n`)+`"`, "stop", realUsage),
		"thoughts in a line": completion(`, "content": "`+fill(`<think>x</think>`)+`"`, "stop", realUsage),
		"markers":            completion(`, "content": "`+fill("`💻 x`\\n")+`"`, "stop", realUsage),
		"markers and texts":  completion(`, "content": "`+fill("`💻 x`\\na\\n")+`"`, "stop", realUsage),
		"a failure":          completion(`, "content": "`+fill(`\n`)+`"`, "stop", zeroUsage),
		"items":              `{"object": "response", "status": "completed", "usage": ` + noTokens + `, "output": [` + strings.TrimSuffix(fill(`{"type":"message","content":"a"},`), ",") + "]}",
		"nested contents":    `{"object": "response", "status": "completed", "usage": ` + noTokens + `, "output": [` + strings.Repeat(`{"content":[`, 60) + strings.TrimSuffix(fill("{},"), ",") + strings.Repeat("]}", 60) + "]}",
		"a turn that failed": responseAnswer(`"Error code: 500 - `+fill("x")+`"`, noTokens, ""),
		"a session's answer": sessionAnswer(`"Provider said: ` + fill("sk-abcdefghij ") + `"`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := RepairAnswer([]byte(in), &Options{}, nil)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(9*len(in)) { // with the copy that it is given
			t.Errorf("%s: %d bytes are taken for %d", name, took, len(in))
		}
		if len(a.Body) > len(in)+10 {
			t.Errorf("%s: %d bytes for %d", name, len(a.Body), len(in))
		}
	}
}

// hostileEvents are events of the other streams that leave longer than they came, after
// many open tools.
func hostileEvents() (all []struct {
	name, before, frame string
	p                   Params
}) {
	const size = DefaultMaxFrame - 8<<10
	fill := func(unit string, n int) string { return strings.Repeat(unit, n/len(unit)) }
	var run, session, response strings.Builder
	long := strings.Repeat("i", maxEnvelope-2)
	response.WriteString(created(0, `"id":"`+long+`","model":"m","status":"in_progress","instructions":"`+fill("sk-abc ", 60<<10)+`"`))
	for i := range 2 * maxOpenTools {
		label := fmt.Sprint(strings.Repeat("t", 300), i)
		fmt.Fprintf(&run, `data: {"event": "tool.started", "run_id": "%s", "timestamp": 1, "tool": "%s", "seq": %d}`+"\n\n", long, label, i)
		session.WriteString(strings.NewReplacer("sess_1", long, "run_1", long).Replace(sessionFrame("tool.started", `"message_id": "`+label+`", "tool_name": "`+label+`"`, i+1)))
		response.WriteString(named("response.output_item.added", fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"type":"function_call","call_id":"%s","arguments":"{}"},"sequence_number":%d}`, i, label, i+1)))
	}
	add := func(name, before, frame string, p Params) {
		all = append(all, struct {
			name, before, frame string
			p                   Params
		}{name, before, frame, p})
	}
	runs, responses := Params{RunID: "run_1"}, Params{Responses: true}
	add("a run cut behind tools", run.String(), doneFrame, runs)
	add("a session cut behind tools", session.String(), doneFrame, sessionParams)
	add("a response cut behind tools", response.String(), doneFrame, responses)
	for name, text := range map[string]string{
		"secrets": `"Provider said: ` + fill("sk-abc ", size/2) + `"`, "lines": `"` + fill(`\nProvider said: sk-abc`, size/2) + `"`, "text": `"Error code: 500 - ` + fill("x", size/2) + `"`, "white space": `"` + fill(`\n`, size/2) + `"`,
	} {
		add("a turn that failed, "+name, "", named("response.completed", `{"type":"response.completed","response":`+responseAnswer(text, noTokens, "")+`}`), responses)
		add("a delta, "+name, created(0, responseOfTests), named("response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":1,"delta":`+text+`}`), responses)
		add("a session's last, "+name, "", sessionFrame("assistant.completed", `"content": `+text, 1), sessionParams)
	}
	add("nested items", "", named("response.completed", `{"type":"response.completed","response":`+strings.Repeat(`{"response":`, size/26)+`"Provider said: "`+strings.Repeat("}", size/26)+`}`), responses)
	add("many items", "", named("response.completed", `{"type":"response.completed","response":{"status":"completed","usage":`+noTokens+`,"output":[`+strings.TrimSuffix(fill(`{"type":"message","content":"Provider said: sk-abc"},`, size), ",")+`]}}`), responses)
	return all
}

// feedWithinBounds feeds a frame, and returns how many bytes are written and taken for it.
func feedWithinBounds(t *testing.T, name string, s *Stream, out, in []byte) (left int, took uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	left = len(s.Feed(out[:0], in, epoch))
	runtime.ReadMemStats(&after)
	if limit := 3*len(in) + 256<<10; left > limit {
		t.Errorf("%s: %d bytes are written for %d", name, left, len(in))
	}
	took = after.TotalAlloc - before.TotalAlloc
	if took > uint64(8*len(in)+1<<20) {
		t.Errorf("%s: %d bytes are taken for %d", name, took, len(in))
	}
	return left, took
}

// No event of the other streams makes the sidecar write more, or hold more, either.
func TestNoEventOfAnotherStreamGrowsBeyondItsBound(t *testing.T) {
	out := make([]byte, 0, 8<<20)
	for _, h := range hostileEvents() {
		s := New(&Options{}, h.p)
		s.Feed(out[:0], []byte(h.before), epoch)
		in := []byte(h.frame)
		left, _ := feedWithinBounds(t, h.name, s, out, in)
		if len(in) == len(doneFrame) && left < 64<<10 {
			t.Errorf("%s: %d bytes are written, fewer than there might be", h.name, left)
		}
	}
}
