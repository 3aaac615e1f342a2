package rewrite

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// heap returns the bytes that are reachable.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // a sync.Pool, such as fmt's, lets go of what it has at the second
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// held returns by how much the heap has grown over s, which is fed what in yields. What
// leaves is handed to see and thrown away.
func held(s *Stream, in iter.Seq[string], see func(out []byte)) int64 {
	before := heap()
	var out []byte
	now := epoch
	for read := range in {
		now = now.Add(time.Microsecond)
		out = s.Feed(out[:0], []byte(read), now)
		see(out)
		if cap(out) > 1<<20 {
			out = nil
		}
	}
	out = nil
	grown := int64(heap()) - int64(before)
	runtime.KeepAlive(s)
	return grown
}

// rounds yields what round returns for each of n rounds.
func rounds(n int, round func(i int) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < n && yield(round(i)); i++ {
		}
	}
}

// again yields block n times.
func again(n int, block string) iter.Seq[string] { return rounds(n, func(int) string { return block }) }

// TestWhatIsHeld: whatever comes, and however much of it, a stream holds no more memory than
// its bounds allow, and lets go of the rest.
func TestWhatIsHeld(t *testing.T) {
	alone.NotUnderRace(t)
	const frames, buffers = 4 * DefaultMaxFrame, 4 * maxIdleBuffer
	type row struct {
		o      Options
		begun  string
		in     iter.Seq[string]
		limit  int64
		passes bool // but for the limit, all leaves
	}
	rows := map[string]row{
		"a large frame in parts, then small ones": {limit: buffers, in: slices.Values(append(
			slices.Collect(again(14, strings.Repeat("a", 64<<10))), "\n\n", role()[:9], role()[9:]))},
		"a large hold that has left": {begun: role(), limit: buffers,
			in: slices.Values([]string{text("a\n`💻 l"), strings.Repeat(text("s"), 1000), text("\n" + strings.Repeat("b", 2<<10))})},
		"a line under suspicion in frames that are much larger than their text": {
			o: Options{MaxFrame: 8 << 10}, begun: role() + text("`💻 "), limit: 64 << 10, passes: true,
			in: again(1000, strings.Replace(text("x"), "}\n\n", `, "x": "`+strings.Repeat("y", 1000)+`"}`+"\n\n", 1)),
		},
		"ids of tools": {o: Options{Progress: ProgressBare}, limit: 64 * maxToolIDs, in: rounds(20*maxToolIDs, func(i int) string {
			id := fmt.Sprintf("call_%0200d", i)
			return g2Start("terminal", "💻", "ls", id) + g2End("terminal", id)
		})},
		"one id for all tools": {o: Options{Progress: ProgressBare}, limit: 64 * maxToolIDs, in: rounds(20*maxToolIDs, func(int) string {
			return g2Start("terminal", "💻", "ls", "call") + g2End("terminal", "call")
		})},
	}
	rows["reasoning that is dropped"] = row{o: Options{Reasoning: ReasoningDrop}, begun: role() + text("<think>"), limit: 2 * maxDropped,
		in: again(200, text(strings.Repeat("x", 1000)))}
	for _, begin := range []string{"data: ", ": ", "", "event: "} {
		rows["an endless line "+begin] = row{begun: begin, in: again(512, strings.Repeat("x", 64<<10)), limit: 3 * DefaultMaxFrame, passes: true}
	}
	for _, block := range []string{delta(""), "\n", "\r", "\r\n", ": c\n", "id: 1\n\n"} { // with a line under suspicion
		rows[fmt.Sprintf("endless %q", block)] = row{begun: role() + text("`💻 "), limit: frames, passes: true,
			in: again(96, strings.Repeat(block, 64<<10/len(block)))}
	}
	// A line that may be an imitation, a tag that may open, one that may close: of whatever a model writes.
	for _, start := range []string{"", "\n", "<", "<think>", "<think>`</think>", "<think>```\n</think>", "<think>```\n</think>\n", "<think>x</think>", "```\n", "`💻 ", "`💻 x`"} {
		for _, unit := range []string{"\r", "\n", "\r\n", " ", "\t", "<", "</", "<t", "`", "x", "💻", "`💻 "} {
			rows[fmt.Sprintf("after %q endless %q", start, unit)] = row{o: Options{MaxFrame: 16 << 10}, begun: role() + text(start), limit: 128 << 10,
				in: again(200, text(strings.Repeat(unit, 1000)))}
		}
	}
	for _, at := range []string{`"id": "chatcmpl-1"`, `"finish_reason"`} { // frames that are alike
		rows["a template before "+at] = row{limit: buffers, passes: true,
			in: again(20, strings.Replace(text("x"), at, `"y": "`+strings.Repeat("y", 200<<10)+`", `+at, 1))}
	}
	// A hostile frame just under max_frame is forgotten.
	size := 1000000
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	for name, in := range map[string]string{
		"imitations":                    delta(`"content": "a\n` + fill("`💻 x`\\n") + `"`),
		"data lines":                    fill("data\n") + "\n",
		"choices":                       `data: {` + envelopeOfTests + `, "choices": [` + strings.TrimSuffix(fill("{},"), ",") + "]}\n\n",
		"blank lines after a held line": text("`💻 ") + fill("\n"),
		"members":                       `data: {"object": "chat.completion.chunk", "choices": [{"delta": {` + strings.TrimSuffix(fill(`"content":"\n",`), ",") + "}}]}\n\n",
	} {
		for _, im := range []Imitations{ImitationsStrip, ImitationsTrust} {
			rows[name+", "+string(im)] = row{o: Options{Imitations: im}, begun: role(), limit: int64(size),
				in: slices.Values([]string{in, text("\nx\n"), text("y\n")})}
		}
	}
	for name, r := range rows {
		s, fed, left := New(&r.o, chatParams), 0, 0
		feedAll(s, r.begun, inOne)
		for read := range r.in {
			fed += len(read)
		}
		got := held(s, r.in, func(out []byte) { left += len(out) })
		if got > r.limit || r.passes && int64(left)+r.limit < int64(fed) {
			t.Errorf("%s: %d bytes are held, want at most %d; %d of %d have left", name, got, r.limit, left, fed)
		}
		s.Finish(nil, CauseEOF)
	}
}

func TestFrameOfMaxFrameIsExaminedAndALargerOneIsNot(t *testing.T) {
	label := strings.Repeat("x", 500)
	in, size := turn(markerChunk("💻", label), text("x")), len(markerChunk("💻", label))
	rows := map[string]row{
		"as large": {in: in, o: Options{MaxFrame: size}, starts: "💻 " + label, content: "x"},
		"larger":   {in: in, o: Options{MaxFrame: size - 1}, out: passes},
	}
	for i, large := range []string{ // whatever it is, nothing is lost, and the next frame is examined
		"data: " + strings.Repeat("x", 3000) + "\n\n",
		"data: " + strings.Repeat("{\"a\":[", 500) + "\n\n",
		strings.Repeat("data: x\n", 300) + "\n",
		": " + strings.Repeat("c", 3000) + "\n\n",
		text(strings.Repeat("\n`💻 ls`\n", 200)),
		"event: " + strings.Repeat("e", 3000) + "\ndata: x\n\n",
	} {
		rows[fmt.Sprint("a large frame ", i)] = row{in: turn(large, text("x\n`💻 ls`\ny")), o: Options{MaxFrame: 1000}, out: turn(large, text("x\ny"))}
	}
	check(t, rows)
	s := New(&Options{MaxFrame: 48}, chatParams)
	s.Feed(nil, []byte(strings.Repeat("0", 50)), epoch)
	equal(t, string(s.Feed(nil, []byte("1"), epoch)), "1", "what leaves at once")
	equal(t, DefaultMaxFrame, 1<<20, "DefaultMaxFrame")
}

func TestDeepNestingPassesByteForByte(t *testing.T) {
	for _, depth := range []int{jsonspan.MaxDepth + 1, 10000, 400000} {
		for _, pair := range []string{"[]", "{}"} {
			nested := strings.Repeat(pair[:1]+map[string]string{"[]": "", "{}": `"a":`}[pair], depth) + "1" + strings.Repeat(pair[1:], depth)
			if len(nested) > 900<<10 {
				continue
			}
			for _, in := range []string{
				`data: {` + envelopeOfTests + `, "x": ` + nested + `, "choices": [{"index": 0, "delta": {"content": "\n` + "`💻 ls`" + `\n"}, "finish_reason": null}]}` + "\n\n",
				named("hermes.tool.progress", `{"tool": "terminal", "emoji": "x", "label": `+nested+`}`),
				named("hermes.status", `{"x": `+nested+`}`),
				`data: {"error": ` + nested + `}` + "\n\n",
				`data: ` + nested + "\n\n",
			} {
				same(t, repair(role()+in+text("x")+stop()), role()+in+text("x")+stop(), fmt.Sprintf("depth %d %s: bytes", depth, pair))
			}
		}
	}
	in := strings.Replace(finishChunk("stop", zeroUsage), `"usage"`, `"x": `+strings.Repeat("[", jsonspan.MaxDepth-1)+strings.Repeat("]", jsonspan.MaxDepth-1)+`, "usage"`, 1)
	look(t, repair(role()+in+doneFrame)).checkErrorFinish(t, CodeCrashed)
}

// Open tools hold at most as much as their ends take, and each ends once.
func TestOpenToolsHoldAtMostMaxOpenBytes(t *testing.T) {
	alone.NotUnderRace(t)
	const rare = 30_000
	label, huge := strings.Repeat("x", 40<<10), strings.Repeat("y", 4*maxOpenBytes)
	g2 := func(label string) func(i int) string {
		return func(i int) string { return g2Start("terminal", "💻", label, fmt.Sprint("call_", i)) }
	}
	for name, c := range map[string]struct {
		many  int
		start func(i int) string
	}{
		"small of G0": {rare, func(int) string { return markerChunk("💻", "ls") }},
		"small of G2": {rare, g2("ls")},
		"large of G2": {30, g2(label)},
		"large of G0": {30, func(int) string { return markerChunk("💻", label) }},
		"small, then large": {110, func(i int) string {
			return markerChunk("💻", map[bool]string{true: "ls", false: label}[i < 100])
		}},
		"small, then a longer envelope": {200, func(i int) string {
			return g2("ls")(i) + map[bool]string{true: longNames.Replace(delta(""))}[i == 199]
		}},
		"a huge id":        {30, func(i int) string { return g2Start("terminal", "💻", "l", fmt.Sprint(i, huge)) }},
		"a huge marker":    {30, func(int) string { return markerChunk("💻", huge) }},
		"a huge tool name": {30, func(int) string { return g1(huge, "💻", "l") }},
	} {
		for _, form := range []Progress{ProgressEnvelope, ProgressOff} {
			s, running, completed := New(&Options{Progress: form, ParallelWindow: time.Hour}, chatParams), 0, 0
			see := func(out []byte) {
				running += bytes.Count(out, []byte(`"status":"running"`)) + bytes.Count(out, []byte(`"status": "running"`))
				completed += bytes.Count(out, []byte(`"status":"completed"`)) - bytes.Count(out, []byte(`"status":"completed"}}`)) // of cards
			}
			atMost(t, held(s, rounds(c.many, c.start), see), maxOpenBytes+256<<10, name)
			see(s.Finish(nil, CauseEOF))
			want := map[bool]int{true: c.many}[form != ProgressOff]
			equal(t, [3]int{running, completed, s.Summary().Tools}, [3]int{want, want, c.many}, name)
		}
	}
}

func TestIDsOfToolsAreRemembered(t *testing.T) {
	s := New(&Options{Progress: ProgressBare}, chatParams)
	pair := func(i int) string {
		id := fmt.Sprint("call_", i)
		return g2Start("terminal", "💻", "ls", id) + g2End("terminal", id)
	}
	for i := range 2 * maxToolIDs {
		same(t, string(s.Feed(nil, []byte(pair(i)), epoch)), pair(i), "bytes")
	}
	for i := 2*maxToolIDs - 1; i >= maxToolIDs+maxToolIDs/2; i-- { // each takes the place of the oldest
		if out := s.Feed(nil, []byte(pair(i)), epoch); len(out) == 0 || strings.Contains(string(out), fmt.Sprintf(`"call_%d"`, i)) {
			t.Fatalf("the id of the tool %d comes again: %s", i, out)
		}
	}
	same(t, string(s.Feed(nil, []byte(pair(0)), epoch)), pair(0), "an older id")
}

// A hostileFrame is a frame just under max_frame, after others.
type hostileFrame struct {
	name, before, frame string
	o                   Options
	p                   Params
}

// longNames replaces id and model by the longest that are taken over.
var longNames = strings.NewReplacer("chatcmpl-1", strings.Repeat("i", maxEnvelope-2), "hermes-agent", strings.Repeat("m", maxEnvelope-2))

// g2Told is a tool event that has details of its own: of the last tool that hostileFrames start, or of another one
// that starts.
func g2Told(status, details string) string {
	id := map[bool]string{true: "call_x", false: fmt.Sprint("call_", 2*maxOpenTools-1)}[status == "running"]
	return named(progressEvent, `{"tool": "terminal", "toolCallId": "`+id+`", "status": "`+status+`", `+details+`}`)
}

// hostileFrames are frames that become longer, each in its way.
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
	add := func(name, before, frame string, o Options) {
		all = append(all, hostileFrame{name, before, frame, o, chatParams})
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
				o := []Options{{Imitations: ImitationsTrust}, {NoStatusLine: true}, {Reasoning: ReasoningDrop, NoStatusLine: true}}[n%3]
				o.NoCards = true
				n++ // neither the number of names nor that of forms is a multiple of three
				for range 2 {
					add(fmt.Sprint(name, " in form ", form, ", names ", i, ", ", o), rename(role()+text("a")), rename(f), o)
					o.NoCards = false
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
			{"a result of lines", g2Told("completed", `"result": "`+fill(`\n`, size)+`"`)},
			{"a result of characters that are not seen", g2Told("completed", `"result": "`+fill(`\u200b`, size)+`"`)},
			{"a result that is nested", g2Told("failed", `"result": "`+fill("[", size)+`"`)},
			{"a failed result that is nested, and short enough to be shown", g2Told("completed", `"failed": true, "result": "`+strings.Repeat("[", 120)+fill("1,", 16000)+"1"+strings.Repeat("]", 120)+`"`)},
			{"a failed result that is brackets, and short enough to be shown", g2Told("completed", `"failed": true, "result": "`+strings.Repeat("[", 8000)+strings.Repeat("]", 8000)+`"`)},
			{"a result that is a list", g2Told("failed", `"result": [`+fill("1,", size)+`1]`)},
			{"arguments of escapes", g2Told("running", `"args": {"a": "`+fill(`\u0001`, size)+`"}`)},
			{"arguments of members", g2Told("running", `"args": {`+fill(`"a":"b",`, size)+`"a":1}`)},
			{"arguments that are a list", g2Told("running", `"args": [`+fill(`"\"",`, size)+`1]`)},
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
			{"choices that stop after an error", `data: {` + envelopeOfTests + `, "choices": [` + strings.TrimSuffix(fill(`{"finish_reason":"stop"},`, size), ",") + "]}\n\n"},
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
			{"lines within an error, and a member after it that changes", `data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": [1` + "\n" +
				fill("data:,1\n", size) + `data:], "model": null}` + "\n\n"},
			{"lines with comments between them within an error, and a member after it that changes",
				`data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": [1` + "\n" +
					fill(":ccccccccccc\ndata:,1\n", size) + `data:], "model": null}` + "\n\n"},
			{"contents", `data: {"object": "chat.completion.chunk", "choices": [{"delta": {` + strings.TrimSuffix(fill(`"content":"\n",`, size), ",") + "}}]}\n\n"},
		} {
			for _, o := range []Options{{NoCards: true}, {Progress: ProgressComment, ErrorFinish: ErrorFinishInline}, {}} {
				add(fmt.Sprint(c[0], ", names ", i, ", ", o), rename(text("a")+manyTools.String()), rename(c[1]), o)
			}
		}
	}
	failed := func(message string) string {
		return text("a") + `data: {"error": {"message": "` + message + `"}}` + "\n\n"
	}
	stops := strings.TrimSuffix(fill(`{"index":1,"finish_reason":"stop"},`, size), ",")
	add("a longer id after tools", text("a")+manyTools.String(), longNames.Replace(text("x")), Options{})
	add("[DONE] after a longer id", text("a")+manyTools.String()+longNames.Replace(text("x")), doneFrame, Options{})
	add("[DONE] after an error", failed(fill("l", size)), doneFrame, Options{})
	add("stops after an error", failed("m"), choicesChunk(stops, ""), Options{})
	add("a finish after an error", failed(fill("l", size)), finishChunk("stop", realUsage), Options{})
	return all
}

// No frame makes the sidecar write more than 256 KiB beyond three times its size, or
// hold more than eight times (contract section 7).
func TestNoFrameGrowsBeyondItsBound(t *testing.T) {
	alone.NotUnderRace(t)
	out := make([]byte, 0, 8<<20)
	for _, h := range slices.Concat(hostileFrames(), hostileEvents()) {
		s, in, left := New(&h.o, h.p), []byte(h.frame), 0
		s.Feed(out[:0], []byte(h.before), epoch)
		took := allocated(func() { left = len(s.Feed(out[:0], in, epoch)) })
		atMost(t, left, 3*len(in)+256<<10, h.name+": bytes that are written")
		atMost(t, took, uint64(8*len(in)+1<<20), h.name+": bytes that are taken")
		if strings.HasSuffix(h.name, " cut after tools") && left < 64<<10 {
			t.Errorf("%s: %d bytes are written, fewer than there might be", h.name, left)
		}
		s.Finish(out[:0], CauseEOF)
	}
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
		noCards         bool
		least, most     int // stretches
		fewest, highest int // tools
	}{
		{"thoughts", thoughts, false, maxStretches, maxStretches, 0, 0},
		{"thoughts, long names", longNames.Replace(thoughts), false, 40, maxStretches, 0, 0},
		{"markers", markers, false, 0, 0, 25, 60},
		{"markers, long names", longNames.Replace(markers), false, 0, 0, 8, 30},
		{"markers without cards", markers, true, 0, 0, 60, maxOpenTools},
		{"markers without cards, long names", longNames.Replace(markers), true, 0, 0, 20, 60},
	} {
		o := Options{Imitations: ImitationsTrust, NoCards: c.noCards}
		s := New(&o, chatParams)
		s.Feed(nil, []byte(longNames.Replace(role())), epoch)
		out := s.Feed(nil, []byte(c.in), epoch)
		atMost(t, len(out), 3*len(c.in)+256<<10, c.name)
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

// An answer that is not streamed takes no more either.
func TestNoAnswerTakesMoreThanItsBound(t *testing.T) {
	alone.NotUnderRace(t)
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
		var a Answer
		took := allocated(func() { a = RepairAnswer([]byte(in), &Options{}, nil) })
		if took > uint64(9*len(in)) || len(a.Body) > len(in)+10 { // with the copy that it is given
			t.Errorf("%s: %d bytes are taken for %d, which become %d", name, took, len(in), len(a.Body))
		}
	}
}

// hostileEvents are events of the other streams that become longer, after many open tools.
func hostileEvents() (all []hostileFrame) {
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
		all = append(all, hostileFrame{name: name, before: before, frame: frame, p: p})
	}
	runs, responses := Params{RunID: "run_1"}, Params{Responses: true}
	add("a run cut after tools", run.String(), doneFrame, runs)
	add("a session cut after tools", session.String(), doneFrame, sessionParams)
	add("a response cut after tools", response.String(), doneFrame, responses)
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

// streamsByLength are streams whose length grows with n, and how they are cut.
// Whatever is under way in them for long, each byte has to cost the same.
var streamsByLength = map[string]struct {
	in  func(n int) string
	cut cutter
	o   Options
}{
	"frames in one read":            {many(text("so\n")), inOne, Options{}},
	"frames in reads of their own":  {many(text("so\n")), oneFrame, Options{}},
	"frames byte by byte":           {many(text("so\n")), oneByte, Options{}},
	"a frame of text byte by byte":  {after(texts("a", "b"), func(n int) string { return text(strings.Repeat("x", 100*n)) }), oneByte, Options{}},
	"a frame of lines byte by byte": {after(texts("a", "b"), func(n int) string { return text(strings.Repeat("so\n", 40*n)) }), oneByte, Options{}},
	"a frame of code byte by byte":  {after(texts("a", "b"), func(n int) string { return text(strings.Repeat("`so`\n<b>\n", 15*n)) }), oneByte, Options{}},
	"a frame of backslashes":        {func(n int) string { return delta(`"content": "` + strings.Repeat(`\\\"`, 25*n) + `"`) }, inOne, Options{}},
	"a frame of many members":       {func(n int) string { return delta(strings.Repeat(`"x": "y", `, 10*n) + `"content": "a"`) }, inOne, Options{}},
	"a frame that never ends":       {func(n int) string { return text("a") + "data: " + strings.Repeat("x", 1000*n) }, fixed(100), Options{}},
	"a line of data per byte":       {func(n int) string { return strings.Repeat("data:x\n", 15*n) + "\n" }, oneByte, Options{}},
	"a held line, letter by letter": {after(text("\n`💻 "), many(text("x"))), oneFrame, Options{}},
	"held lines, one after another": {many(texts("\n`💻 ", "ls", " -la\n")), oneFrame, Options{}},
	"a held line and comments":      {after(text("\n`💻 "), many(strings.Repeat(comment, 10))), fixed(len(comment)), Options{}},
	"a held line and empty deltas":  {after(text("\n`💻 "), many(delta(""))), oneFrame, Options{}},
	"a held line and blank lines":   {after(text("\n`💻 "), func(n int) string { return strings.Repeat("\n", 100*n) }), oneByte, Options{}},
	"imitations":                    {many(texts("\n`💻 ls", " -la`\n")), oneFrame, Options{}},
	"markers":                       {many(markerChunk("💻", "ls -la")), oneFrame, Options{}},
	"tool events":                   {counted(func(i int) string { return g2Start("t", "💻", "l", fmt.Sprint("call_", i)) }), oneFrame, Options{}},
	"tools that end": {counted(func(i int) string {
		return g2Start("t", "💻", "l", fmt.Sprint("call_", i)) + g2End("t", fmt.Sprint("call_", i))
	}), oneFrame, Options{}},
	"reasoning":                     {many(texts("\n\n<think>so", "</think>\n\n")), oneFrame, Options{}},
	"reasoning that looks like end": {after(text("<think>"), many(texts("</thin", "</"))), oneFrame, Options{}},
	"newlines after reasoning":      {after(text("<think>a</think>"), many(text("\n\n"))), oneFrame, Options{}},
	"frames that are never alike": {counted(func(i int) string {
		return strings.Replace(text("a"), `"finish`, fmt.Sprintf(`"n": %d, "finish`, i), 1)
	}), oneFrame, Options{}},
}

// oneFrame reads frames of tests, which are all shorter than 300 bytes, in about two reads each.
var oneFrame = fixed(150)

func many(frames string) func(n int) string {
	return func(n int) string { return strings.Repeat(frames, n) }
}

func counted(frame func(i int) string) func(n int) string {
	return func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(frame(i))
		}
		return b.String()
	}
}

func after(first string, then func(n int) string) func(n int) string {
	return func(n int) string { return first + then(n) }
}

// checkLinear fails when times the size costs more than five times as much as it should, where took returns
// the CPU time of a size. A quadratic cost of sixteen times the size is sixteen times as much as it should
// be; what differs otherwise, and what a busy machine adds, is less.
func checkLinear(t *testing.T, name string, small, times int, took func(n int) time.Duration) {
	t.Helper()
	took(small)
	least, most := min(took(small), took(small), took(small)), took(times*small)
	least = max(least, 200*time.Microsecond) // of less the clock tells too little
	bound := 5 * time.Duration(times) * least
	for try := 0; most > bound && try < 20; try++ {
		most = min(most, took(times*small))
	}
	if most > bound {
		t.Errorf("%s: %d times the size costs %v instead of %v, which is %.0f times as much", name, times, most, least, float64(most)/float64(least))
	}
}

// TestStreamsCostLinearTime: sixteen times the stream costs about sixteen times the time, where a quadratic
// one would cost 256 times. In between is room for what differs otherwise.
func TestStreamsCostLinearTime(t *testing.T) {
	const times, small = 16, 100
	rows := maps.Clone(streamsByLength)
	for _, c := range []string{`<think>a</think>b\n\n`, "`💻 l`\\nx\\n", "<think>a</think>" + strings.Repeat(" ", 100) + `b\n\n`, `<`, `<think>\n\n`} {
		for _, form := range []string{`"delta":{"content":"%s"}`, `"text":"%[1]s","delta":{"content":"%[1]s"}`, `"delta":{"content":"%[1]s"},"text":"%[1]s"`} {
			row := rows["frames in one read"]
			row.in = func(n int) string { // parts of one frame
				return choicesChunk(`{"index":0,`+fmt.Sprintf(form, strings.Repeat(c, 100*n/len(c)))+`}`, "")
			}
			rows[c+form] = row
			row.o.Imitations = ImitationsTrust
			rows[c+form+", trust"] = row
		}
	}
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			took := func(n int) time.Duration {
				in := c.in(n)
				s, cut := New(&c.o, chatParams), c.cut
				out := make([]byte, 0, 4*len(in)+1<<20)
				begun := cpuTime()
				for len(in) > 0 {
					n := cut(len(in))
					out = s.Feed(out, []byte(in[:n]), epoch)
					in = in[n:]
				}
				s.Finish(out, CauseEOF)
				return cpuTime() - begun
			}
			checkLinear(t, "a stream", small, times, took)
		})
	}
}

// fixed cuts into reads of the size.
func fixed(size int) cutter { return func(n int) int { return min(n, size) } }
