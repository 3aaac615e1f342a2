package rewrite

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

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

// held returns by how much the heap has grown over s, which is fed rounds of
// what round returns. What leaves is handed to see and thrown away.
func held(s *Stream, rounds int, round func(i int) string, see func(out []byte)) int64 {
	before := heap()
	var out []byte
	for i := range rounds {
		out = s.Feed(out[:0], []byte(round(i)), epoch.Add(time.Duration(i)*time.Microsecond))
		if see != nil {
			see(out)
		}
		if cap(out) > 1<<20 {
			out = nil
		}
	}
	out = nil
	grown := int64(heap()) - int64(before)
	runtime.KeepAlive(s)
	return grown
}

// checkHeld fails when more than limit bytes are held.
func checkHeld(t *testing.T, got, limit int64) {
	t.Helper()
	if got > limit {
		t.Errorf("%d bytes are held, want at most %d", got, limit)
	}
}

func TestFrameOfMaxFrameIsExaminedAndALargerOneIsNot(t *testing.T) {
	marker := markerChunk("💻", strings.Repeat("x", 500))
	for _, limit := range []int{0, len(marker), len(marker) - 1} {
		out, sum := run(marker+text("x")+stop(), Options{MaxFrame: limit}, chatParams, inOne, CauseEOF)
		bytewise, _ := run(marker+text("x")+stop(), Options{MaxFrame: limit}, chatParams, oneByte, CauseEOF)
		same(t, bytewise, out, "outputs")
		passed := strings.HasPrefix(out, marker)
		if want := limit == len(marker)-1; passed != want || (sum.Unexamined == 1) != want || (sum.Markers == 0) != want {
			t.Errorf("limit %d of %d: passed %v, %+v", limit, len(marker), passed, sum)
		}
	}
	if DefaultMaxFrame != 1<<20 {
		t.Errorf("DefaultMaxFrame = %d, want 1 MiB", DefaultMaxFrame)
	}
}

func TestHostileFramePassesAndLosesNothing(t *testing.T) {
	hostile := []string{
		"data: " + strings.Repeat("x", 3<<20) + "\n\n",
		"data: " + strings.Repeat("{\"a\":[", 1<<19) + "\n\n",
		strings.Repeat("data: x\n", 1<<18) + "\n",
		": " + strings.Repeat("c", 2<<20) + "\n\n",
		text(strings.Repeat("\n`💻 ls`\n", 1<<17)),
		"event: " + strings.Repeat("e", 2<<20) + "\ndata: x\n\n",
	}
	for i, h := range hostile {
		in := role() + h + text("x\n`💻 ls`\ny") + stop()
		want := role() + h + text("x\ny") + stop()
		for _, cut := range []cutter{inOne, atRandom(5, 64<<10)} {
			out, sum := run(in, Options{}, chatParams, cut, CauseEOF)
			same(t, out, want, fmt.Sprintf("frame %d: bytes", i))
			if sum.Unexamined != 1 {
				t.Errorf("frame %d: %+v", i, sum)
			}
		}
	}
}

func TestEndlessLineIsNotHeld(t *testing.T) {
	for _, begin := range []string{"data: ", ": ", "", "event: "} {
		s := New(&Options{}, chatParams)
		feedAll(s, begin, inOne)
		chunk := strings.Repeat("x", 64<<10)
		n := 0
		got := held(s, 512, func(int) string { return chunk }, func(out []byte) { n += len(out) })
		checkHeld(t, got, 3*DefaultMaxFrame)
		if n+DefaultMaxFrame+len(chunk) < 512*len(chunk) {
			t.Errorf("%d bytes have left", n)
		}
	}
}

func TestHeldFramesAreBoundedByMaxFrame(t *testing.T) {
	// A line under suspicion in frames that are much larger than their text.
	o := Options{MaxFrame: 8 << 10}
	s := New(&o, chatParams)
	fat := strings.Replace(text("x"), "}\n\n", `, "x": "`+strings.Repeat("y", 1000)+`"}`+"\n\n", 1)
	in := text("`💻 ")
	left := len(s.Feed(nil, []byte(in), epoch))
	for range 20 {
		in += fat
		left += len(s.Feed(nil, []byte(fat), epoch))
		if h := len(in) - left; h > o.MaxFrame+len(fat) {
			t.Fatalf("%d bytes are held back", h)
		}
	}
	if left != len(in) {
		t.Errorf("%d of %d bytes have left", left, len(in))
	}
}

func TestHeldEmptyFramesAreBounded(t *testing.T) {
	s := New(&Options{}, chatParams)
	feedAll(s, role()+text("`💻 "), inOne)
	block := strings.Repeat(delta(""), 300)
	checkHeld(t, held(s, 1000, func(int) string { return block }, nil), 4*DefaultMaxFrame)
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

func TestManyToolsAreNotHeld(t *testing.T) {
	many := 100000
	if testing.Short() || cutStride > 1 {
		many = 10000
	}
	for name, start := range map[string]func(i int) string{
		"G0": func(i int) string { return markerChunk("💻", "ls") },
		"G2": func(i int) string { return g2Start("terminal", "💻", "ls", fmt.Sprint("call_", i)) },
	} {
		s := New(&Options{ParallelWindow: time.Hour}, chatParams)
		running, completed := 0, 0
		frame := ""
		got := held(s, many/100, func(i int) string {
			frame = ""
			for j := range 100 {
				frame += start(i*100 + j)
			}
			return frame
		}, func(out []byte) {
			running += bytes.Count(out, []byte(`running"}`))
			completed += bytes.Count(out, []byte(`completed"}`)) + bytes.Count(out, []byte(`completed","interrupted":true}`))
		})
		checkHeld(t, got, 1<<20)
		out := s.Finish(nil, CauseEOF)
		completed += bytes.Count(out, []byte(`completed"}`)) + bytes.Count(out, []byte(`completed","interrupted":true}`))
		if running != many || completed != many {
			t.Errorf("%s: %d running, %d completed, want %d", name, running, completed, many)
		}
		if s.Summary().Tools != many {
			t.Errorf("%s: %+v", name, s.Summary())
		}
	}
}

func TestAtMostMaxOpenToolsAreOpen(t *testing.T) {
	var in strings.Builder
	for i := range maxOpenTools + 10 {
		in.WriteString(g2Start("terminal", "💻", "ls", fmt.Sprint("call_", i)))
	}
	s := New(&Options{}, chatParams)
	v := look(t, string(s.Feed(nil, []byte(in.String()), epoch)))
	if n := len(v.tools) - len(v.starts()); n != 10 || v.tools[maxOpenTools+1].status != "completed" || v.tools[maxOpenTools+1].id != "call_0" {
		t.Errorf("%d completed, event %d is %+v; want the oldest completed", n, maxOpenTools+1, v.tools[maxOpenTools+1])
	}
	v = look(t, string(s.Finish(s.Feed([]byte(in.String()[:0]), nil, epoch), CauseEOF)))
	if n := len(v.tools); n != maxOpenTools {
		t.Errorf("%d completed at the end, want %d", n, maxOpenTools)
	}
	look(t, repair(in.String())).checkLifecycle(t)
}

func TestOpenToolsHoldAtMostMaxOpenBytes(t *testing.T) {
	label, huge := strings.Repeat("x", 40<<10), strings.Repeat("y", 4*maxOpenBytes)
	for name, start := range map[string]func(i int) string{
		"many": func(i int) string { return g2Start("terminal", "💻", label, fmt.Sprint("call_", i)) },
		"small, then large": func(i int) string {
			if i < 20 {
				return strings.Repeat(markerChunk("💻", "ls"), 5)
			}
			return markerChunk("💻", label)
		},
		"many of G0":       func(i int) string { return markerChunk("💻", label) },
		"a huge id":        func(i int) string { return g2Start("terminal", "💻", "l", fmt.Sprint(i, huge)) },
		"a huge marker":    func(i int) string { return markerChunk("💻", huge) },
		"a huge tool name": func(i int) string { return g1(huge, "💻", "l") },
	} {
		for _, form := range []Progress{ProgressEnvelope, ProgressOff} {
			s := New(&Options{Progress: form}, chatParams)
			running, completed := 0, 0
			count := func(out []byte) {
				running += bytes.Count(out, []byte(`"status":"running"`)) + bytes.Count(out, []byte(`"status": "running"`))
				completed += bytes.Count(out, []byte(`"status":"completed"`))
			}
			checkHeld(t, held(s, 30, start, count), maxOpenBytes+64<<10)
			count(s.Finish(nil, CauseEOF))
			want := 30
			if name == "small, then large" {
				want = 110
			}
			if form != ProgressOff && (running != want || completed != want) {
				t.Errorf("%s: %d start, %d end, want %d", name, running, completed, want)
			}
		}
	}
}

func TestEndedToolsAreRememberedUpToABound(t *testing.T) {
	s := New(&Options{Progress: ProgressBare}, chatParams)
	pair := func(i int) string {
		id := fmt.Sprint("call_", i)
		return g2Start("terminal", "💻", "ls", id) + g2End("terminal", id)
	}
	for i := range 10 * maxEndedTools {
		same(t, string(s.Feed(nil, []byte(pair(i)), epoch)), pair(i), "bytes")
	}
	if n := inside(s, "chat", "tools", "ended").Len(); n > maxEndedTools {
		t.Errorf("%d ended tools are remembered", n)
	}
	for i := 9*maxEndedTools + 1; i < 10*maxEndedTools; i++ {
		if out := s.Feed(nil, []byte(pair(i)), epoch); len(out) > 0 {
			t.Fatalf("the duplicate %d leaves", i)
		}
	}
}

func TestHugeEnvelopeIsNotTakenOver(t *testing.T) {
	huge := strings.Repeat("i", maxEnvelope+1)
	in := strings.ReplaceAll(text("x"), "chatcmpl-1", huge)
	out := repair(in)
	if !strings.HasPrefix(out, in) || strings.Count(out, huge) != 1 {
		t.Errorf("the huge id stands in the error finish")
	}
	look(t, out).checkErrorFinish(t, CodeIncomplete)
	fits := strings.Repeat("i", maxEnvelope-2)
	if out := repair(strings.ReplaceAll(text("x"), "chatcmpl-1", fits)); strings.Count(out, fits) != 2 {
		t.Errorf("an id of %d bytes does not stand in the error finish", len(fits))
	}
}

func TestHugeUsageIsNotKept(t *testing.T) {
	usage := `, "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "x": "` + strings.Repeat("u", maxUsage) + `"}`
	in := role() + `data: {` + envelopeOfTests + `, "choices": []` + usage + "}\n\n"
	out := repair(in)
	if strings.Count(out, `"usage"`) != 1 {
		t.Errorf("the huge usage stands in the error finish")
	}
	look(t, out).checkErrorFinish(t, CodeIncomplete)
}

func TestBuffersShrinkAgain(t *testing.T) {
	s := New(&Options{}, chatParams)
	feedAll(s, text(strings.Repeat("a", 900<<10)), atRandom(1, 64<<10))
	feedAll(s, role(), oneByte)
	if c := cap(s.scan.Tail()); c > 2*maxIdleBuffer {
		t.Errorf("the scanner keeps a buffer of %d bytes", c)
	}
	s = New(&Options{}, chatParams)
	hold := inside(s, "chat", "hold", "buf")
	for range 4000 {
		feedAll(s, text("`💻 x"[:len("`💻 x")]), inOne)
	}
	if c := hold.Cap(); hold.Len() == 0 && c > 2*maxIdleBuffer {
		t.Errorf("the hold keeps a buffer of %d bytes", c)
	}
}

// A hold that has become large, in bytes or in frames, is small again once it has left.
func TestLargeHoldShrinksAgain(t *testing.T) {
	s := New(&Options{}, chatParams)
	hold := inside(s, "chat", "hold")
	buf, frames := hold.FieldByName("buf"), hold.FieldByName("frames")
	feedAll(s, role()+text("a\n`💻 l")+strings.Repeat(text("s"), 1000), inOne)
	if buf.Len() < 4*maxIdleBuffer || frames.Len() < 1000 {
		t.Fatalf("%d bytes in %d frames are held", buf.Len(), frames.Len())
	}
	feedAll(s, text("\n"+strings.Repeat("b", 2<<10)), inOne)
	if buf.Cap() > 2*maxIdleBuffer || frames.Cap() > 2*256 {
		t.Errorf("the hold keeps room for %d bytes and %d frames", buf.Cap(), frames.Cap())
	}
}

func TestLongLabelsAreNotReadToTellToolsApart(t *testing.T) {
	long := `recall: "` + strings.Repeat("x", marker.MaxTellingLabel)
	v := look(t, repair(markerChunk("🔍", long)+text("x")+stop()))
	if s := v.starts(); len(s) != 1 || s[0].label != long {
		t.Errorf("%d starts", len(s))
	}
	v = look(t, repair(markerChunk("🔍", `recall: "x"`)+text("x")+stop()))
	if s := v.starts(); s[0].tool != "session_search" {
		t.Errorf("%+v", s)
	}
}

func TestManyChoicesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `{"index": %d, "delta": {"content": "x"}, "finish_reason": null},`, i)
	}
	in := `data: {` + envelopeOfTests + `, "choices": [` + strings.TrimSuffix(b.String(), ",") + "]}\n\n"
	same(t, repair(in + finishChunk("stop", realUsage) + doneFrame)[:len(in)], in, "bytes")
}

func TestEndlessBlankLinesAndCommentsAreNotHeld(t *testing.T) {
	for _, line := range []string{"\n", "\r", "\r\n", ": c\n", "id: 1\n\n"} {
		s := New(&Options{}, chatParams)
		feedAll(s, role()+text("`💻 "), inOne) // with a line under suspicion
		block := strings.Repeat(line, 64<<10/len(line))
		checkHeld(t, held(s, 48/min(cutStride, 2), func(int) string { return block }, nil), 4*DefaultMaxFrame)
	}
}

// What stays in memory once a hostile frame just under max_frame has passed and
// the stream goes on quietly.
func TestHostileFrameUnderTheLimitIsForgotten(t *testing.T) {
	size := 1000000 / min(cutStride, 4)
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	for name, in := range map[string]string{
		"imitations":                     delta(`"content": "a\n` + fill("`💻 x`\\n") + `"`),
		"data lines":                     fill("data\n") + "\n",
		"choices":                        `data: {` + envelopeOfTests + `, "choices": [` + strings.TrimSuffix(fill("{},"), ",") + "]}\n\n",
		"blank lines behind a held line": text("`💻 ") + fill("\n"),
		"members":                        `data: {"object": "chat.completion.chunk", "choices": [{"delta": {` + strings.TrimSuffix(fill(`"content":"\n",`), ",") + "}}]}\n\n",
	} {
		for _, im := range []Imitations{ImitationsStrip, ImitationsTrust} {
			s := New(&Options{Imitations: im}, chatParams)
			feedAll(s, role(), inOne)
			before := heap()
			s.Feed(nil, []byte(in), epoch)
			s.Feed(nil, []byte(text("\nx\n")), epoch)
			s.Feed(nil, []byte(text("y\n")), epoch)
			grown := int64(heap()) - int64(before)
			if grown > int64(size) {
				t.Errorf("%s, %s: %d KiB stay", name, im, grown>>10)
			}
			s.Finish(nil, CauseEOF)
		}
	}
}

// The bytes of an unexamined frame that come in a read smaller than max_frame
// leave like the others, and are not lost when the frame is cut.
func TestCutUnexaminedFrameLosesNothing(t *testing.T) {
	o := Options{MaxFrame: 48}
	in := strings.Repeat("0", 50)
	want, _ := run(in, o, chatParams, inOne, CauseEOF)
	for _, cut := range []cutter{oneByte, byScript([]byte{48}), byScript([]byte{10})} {
		got, _ := run(in, o, chatParams, cut, CauseEOF)
		same(t, got, want, "outputs")
	}
	out, _ := run(in, o, Params{}, oneByte, CauseEOF)
	same(t, out, in, "bytes of a foreign stream")
}

func TestUnexaminedFrameLeavesAsItComes(t *testing.T) {
	s := New(&Options{MaxFrame: 48}, chatParams)
	s.Feed(nil, []byte(strings.Repeat("0", 50)), epoch)
	if out := s.Feed(nil, []byte("1"), epoch); string(out) != "1" {
		t.Errorf("%q leaves", out)
	}
}
