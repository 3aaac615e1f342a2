package rewrite

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// framings are streams of every form that the standard allows.
var framings = []string{
	"data: a\n\ndata: b\n\n",
	"data: a\r\n\r\ndata: b\r\n\r\n",
	"data: a\r\rdata: b\r\r",
	"data: a\r\n\rdata: b\n\r\n",
	"data: a\r\r\ndata: b\n\r",
	"\ufeffdata: a\n\ndata: b\n\n",
	"\ufeff\ufeffdata: a\n\ndata: b\n\n",
	"\ufeff: comment\r\n\r\ndata: b\n\n",
	": comment\n\ndata: b\n\n",
	": comment\n: another\r\n:\r\rdata: b\n\n",
	"data: a\n: inside\ndata: b\n\n",
	"data: a\ndata: b\r\ndata: c\rdata\n\n",
	"data:\n\ndata\n\ndata: \n\n",
	"event: x\nid: 1\nretry: 5\nunknown: y\ndata: z\n\n",
	"event: x\n\n\n\n\r\r\r\ndata: z\n\n",
	"id: 1\n\ndata: z\n\n",
	"data: a\n\ndata: cut",
	"data: a\n\ndata: cut\n",
	"data: a\n\ndata: cut\r",
	"data: a\n\n: cut",
	"\xef\xbb", "\xef", "\r", "\n", "\r\n", "",
	"data: \xff\xfe\x00\n\n",
	"data:  two spaces\n\ndata:\ttab\n\n",
}

func TestForeignStreamPassesByteForByteHoweverItIsCut(t *testing.T) {
	for _, in := range framings {
		for i := range len(in) + 1 {
			s := New(&Options{}, Params{})
			out := s.Feed(nil, []byte(in[:i]), epoch)
			out = s.Feed(out, []byte(in[i:]), epoch)
			same(t, string(s.Finish(out, CauseEOF)), in, fmt.Sprintf("%q cut at %d", in, i))
		}
		out, _ := run(in, Options{}, Params{}, oneByte, CauseAborted)
		same(t, out, in, "bytes one by one")
	}
}

func TestEveryCutGivesTheSameOutput(t *testing.T) {
	streams := append([]string(nil), framings...)
	base := role() + text("a\n`💻") + keepalive + text(" ls`\n\nb") + g1("terminal", "💻", "x") + text("c")
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		streams = append(streams, strings.ReplaceAll(base+stop(), "\n", eol), "\ufeff"+strings.ReplaceAll(base, "\n", eol))
	}
	streams = append(streams, multiline(text("a"))+multiline(markerChunk("💻", "ls"))+multiline(finishChunk("stop", zeroUsage))+doneFrame)
	for _, in := range streams {
		for _, o := range []Options{{}, {MaxFrame: 64}, {Progress: ProgressUnnamed}} {
			want, wantSum := run(in, o, chatParams, inOne, CauseEOF)
			for i := range len(in) + 1 {
				s := New(&o, chatParams)
				out := s.Feed(nil, []byte(in[:i]), epoch)
				out = s.Feed(out, []byte(in[i:]), epoch)
				same(t, string(s.Finish(out, CauseEOF)), want, fmt.Sprintf("%q cut at %d", in, i))
				if s.Summary() != wantSum {
					t.Errorf("summary %+v, want %+v", s.Summary(), wantSum)
				}
				if t.Failed() {
					return
				}
			}
			got, _ := run(in, o, chatParams, oneByte, CauseEOF)
			same(t, got, want, "outputs byte by byte")
		}
	}
}

// multiline breaks the JSON of a frame into several data lines.
func multiline(frame string) string {
	return strings.NewReplacer(`, "choices"`, ",\ndata: \"choices\"", `"finish_reason"`, "\ndata:\"finish_reason\"", `, "usage"`, "\ndata: ,\ndata: \"usage\"").Replace(frame)
}

func TestEventLeavesAsSoonAsItIsComplete(t *testing.T) {
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		s := New(&Options{}, chatParams)
		for _, f := range []string{role(), text("a"), delta(""), keepalive, text("\n"), "id: 1\n\n", reasoning("x")} {
			f = strings.ReplaceAll(f, "\n", eol)
			// An event is complete at the CR of its blank line: nothing says
			// that an LF will follow.
			n := len(f)
			if eol == "\r\n" {
				n--
			}
			out := s.Feed(nil, []byte(f[:n]), epoch)
			same(t, string(out), f[:n], "what leaves at once")
			out = s.Feed(nil, []byte(f[n:]), epoch)
			same(t, string(out), f[n:], "what leaves behind it")
		}
	}
}

func TestEventDoesNotLeaveBeforeItIsComplete(t *testing.T) {
	f := text("a")
	s := New(&Options{}, chatParams)
	for i := range len(f) - 1 {
		if out := s.Feed(nil, []byte(f[i:i+1]), epoch); len(out) > 0 {
			t.Fatalf("%q leaves at byte %d", out, i)
		}
	}
	same(t, string(s.Feed(nil, []byte(f[len(f)-1:]), epoch)), f, "bytes")
}

func TestCommentsUnknownFieldsAndFramingStay(t *testing.T) {
	in := "\ufeff" + strings.ReplaceAll(role(), "\n", "\r\n") + ": a comment\r\r" + "id: 7\nretry: 10\nx-custom: y\n" + text("a") + "event: message\r\n" + strings.ReplaceAll(text("b"), "\n\n", "\r\n\r\n") +
		"data:" + strings.TrimPrefix(text("c"), "data: ") + "\n\n\n" + multiline(text("d")) + ": \n" + strings.ReplaceAll(stop(), "\n", "\r")
	same(t, repair(in), in, "bytes")
	if v := look(t, in); v.content != "abcd" {
		t.Errorf("content = %q", v.content)
	}
}

func TestChangedFrameKeepsItsFraming(t *testing.T) {
	f := finishChunk("stop", zeroUsage)
	for name, in := range map[string]string{
		"CRLF":             strings.ReplaceAll(f, "\n", "\r\n"),
		"CR":               strings.ReplaceAll(f, "\n", "\r"),
		"other fields":     "id: 5\n: comment\n" + strings.TrimSuffix(f, "\n") + "x: y\n\n",
		"multi-line":       multiline(f),
		"multi-line, CRLF": strings.ReplaceAll(multiline(f), "\n", "\r\n"),
		"no space":         strings.Replace(f, "data: ", "data:", 1),
	} {
		out := repair(role() + in + doneFrame)
		look(t, out).checkErrorFinish(t, "agent_crashed")
		i := strings.LastIndex(in, `"stop"`)
		want := in[:i] + `"error"`
		if !strings.Contains(out, want) {
			t.Errorf("%s: want %q in\n%q", name, want, out)
		}
	}
}

func TestActiveAtTheFirstChunk(t *testing.T) {
	before := "data: {\"a\": 1}\n\nevent: x\ndata: {\"b\": 2}\n\n" + g2End("x", "y")
	in := before + text("a\n`💻 ls`\nb")
	out, _ := run(in, Options{}, Params{}, inOne, CauseEOF)
	if !strings.HasPrefix(out, before+text("a\nb")) {
		t.Errorf("%s", out)
	}
	look(t, out[len(before):]).checkErrorFinish(t, "upstream_incomplete")
}

func TestActiveAtOnceWhenThePathSaysSo(t *testing.T) {
	look(t, repair("data: {\"a\": 1}\n\n")).checkErrorFinish(t, "upstream_incomplete")
	s := New(&Options{}, chatParams)
	if !s.Active() {
		t.Error("not active")
	}
}

func TestOtherObjectsDoNotActivate(t *testing.T) {
	for _, in := range []string{
		`data: {"object": "text_completion", "choices": [{"text": "x", "finish_reason": "stop"}]}` + "\n\n",
		`data: {"object": "chat.completion", "choices": []}` + "\n\n",
		`data: {"x": {"object": "chat.completion.chunk"}}` + "\n\n",
		`data: {"object": ["chat.completion.chunk"]}` + "\n\n",
		`data: "chat.completion.chunk"` + "\n\n",
		`: {"object": "chat.completion.chunk"}` + "\n\n",
		doneFrame,
	} {
		out, _ := run(in, Options{}, Params{}, inOne, CauseAborted)
		same(t, out, in, "bytes")
	}
}

// webPlatformTests calls each with the streams of the web platform tests that
// are not about the media type, and the events that they are.
func webPlatformTests(t *testing.T, each func(name, in string, want []event)) {
	var tests []struct {
		Name, File, Mime string
		Expect           []struct{ Event, Data string }
	}
	if err := json.Unmarshal([]byte(corpus(t, "wpt-eventsource", "expected.json")), &tests); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		if !strings.HasPrefix(test.Mime, "text/event-stream") || len(test.Expect) == 0 {
			continue // about the media type
		}
		in := corpus(t, "wpt-eventsource", test.File)
		var want []event
		for _, e := range test.Expect {
			want = append(want, event{e.Event, e.Data})
		}
		each(test.Name, in, want)
	}
	if len(tests) < 15 {
		t.Errorf("%d tests only", len(tests))
	}
}

func TestWebPlatformTestsOfTheEventStream(t *testing.T) {
	webPlatformTests(t, func(name, in string, want []event) {
		if got := fmt.Sprintf("%q", decode(in)); got != fmt.Sprintf("%q", want) {
			t.Errorf("%s: the tests' decoder says %s, want %q", name, got, want)
		}
		for _, cut := range []cutter{inOne, oneByte, atRandom(1, 9)} {
			out, _ := run(in, Options{}, Params{}, cut, CauseEOF)
			same(t, out, in, name+": bytes")
		}
	})
}

func TestUnitsJoinedAreTheStream(t *testing.T) {
	for _, in := range framings {
		for _, limit := range []int{1, 5, 12, 1000} {
			sc := sse.Scanner{MaxFrame: limit}
			var out []byte
			for i := range len(in) {
				sc.Feed([]byte{in[i]})
				for {
					_, b, ok := sc.Next()
					if !ok {
						break
					}
					out = append(out, b...)
				}
				sc.Rest()
			}
			same(t, string(append(out, sc.Tail()...)), in, fmt.Sprintf("limit %d: bytes", limit))
		}
	}
}

const mark = "\ufeff"

func TestFrameBehindAByteOrderMarkSurvivesWhatIsPutBeforeIt(t *testing.T) {
	v := look(t, repair(mark+finishChunk("stop", zeroUsage)+doneFrame))
	v.checkErrorFinish(t, "agent_crashed")
}

func TestMarkerChunkBehindAByteOrderMark(t *testing.T) {
	in := mark + delta(`"role": "assistant", "content": "\n`+"`💻 ls`"+`\n"`) + text("x") + stop()
	out := repair(in)
	n := 0
	for _, e := range decode(out) {
		if strings.Contains(e.data, `"role"`) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the role chunk is lost:\n%q", out)
	}
}

func TestKeepaliveBeforeAByteOrderMark(t *testing.T) {
	s := New(&Options{}, chatParams)
	out := s.Keepalive(nil)
	out = s.Feed(out, []byte(mark+text("first")+text("second")+stop()), epoch)
	if v := look(t, string(s.Finish(out, CauseEOF))); v.content != "firstsecond" {
		t.Errorf("content = %q", v.content)
	}
}

func TestByteOrderMarkInTheMiddleHidesAFrame(t *testing.T) {
	// Clients see the field "\ufeffdata", which is none.
	for _, f := range []string{finishChunk("stop", realUsage), doneFrame} {
		out := repair(role() + text("x") + mark + f)
		look(t, out).checkErrorFinish(t, "upstream_incomplete")
	}
}

func TestSplitOfMultilineDataIsWellFormed(t *testing.T) {
	for _, data := range []string{
		"{\"error\": {\"message\": \"boom\"},\ndata: \"id\": \"c\",\ndata: \"choices\": [{\"finish_reason\": \"error\"}]}",
		"{\"id\": \"c\",\ndata: \"choices\": [{\"finish_reason\": \"error\"}],\ndata: \"error\": {\ndata: \"message\": \"boom\"}}",
		"{\"id\": \"c\"\ndata: ,\"error\":\ndata: {\"message\": \"boom\"},\ndata:\"choices\": [{\"finish_reason\": \"error\"}]}",
	} {
		for _, eol := range []string{"\n", "\r\n", "\r"} {
			out := repair(role() + strings.ReplaceAll("data: "+data+"\n\n", "\n", eol) + doneFrame)
			look(t, out).checkShape(t, "agent_error")
		}
	}
}

func TestUsageOfSeveralLinesInAnErrorFinish(t *testing.T) {
	in := role() + text("x") + "data: {" + envelopeOfTests + ", \"choices\": [], \"usage\": {\ndata: \"prompt_tokens\": 1}}\n\n"
	look(t, repair(in)).checkErrorFinish(t, "upstream_incomplete")
}

func TestEngineSeesTheEventsOfTheWebPlatformTests(t *testing.T) {
	webPlatformTests(t, func(name, in string, want []event) {
		if got := fmt.Sprintf("%q", eventsOf(in)); got != fmt.Sprintf("%q", want) {
			t.Errorf("%s: the engine's frames are %s, want %q", name, got, want)
		}
	})
}

// eventsOf returns the events that the engine sees in a stream.
func eventsOf(in string) (events []event) {
	sc := sse.Scanner{MaxFrame: DefaultMaxFrame}
	var f sse.Frame
	sc.Feed([]byte(in))
	for {
		u, b, ok := sc.Next()
		if !ok {
			return events
		}
		if u != sse.UnitFrame {
			continue
		}
		if f.Parse(b); f.HasData {
			e := event{string(f.Event), string(f.Data)}
			if e.name == "" {
				e.name = "message"
			}
			events = append(events, e)
		}
	}
}

func TestInvalidJSONWithAMarkerLeaves(t *testing.T) {
	in := role() + `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "\n\u0060\ud83d\udcbb ls\u0060\n"}, "finish_reason": nul}]}` + "\n\n" + text("x") + stop()
	same(t, repair(in), in, "bytes")
}

// Which frames of a chat stream are chunks, errors or something else: a stop counts in
// a chunk alone.
func TestWhatAFrameIs(t *testing.T) {
	finish := func(object string) string {
		return `{"id": "c", ` + object + `"created": 5, "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}`
	}
	const chunk, other = `"object": "chat.completion.chunk", `, `"object": "other", `
	for _, c := range []struct {
		name, frame string
		is          string // how the stream ends: stop, agent_error or upstream_incomplete
	}{
		{"a chunk", "data: " + finish(chunk), "stop"},
		{"a chunk with the name message", "event: message\ndata: " + finish(chunk), "stop"},
		{"a chunk with a name", "event: x\ndata: " + finish(chunk), "stop"},
		{"an empty name", "event:\ndata: " + finish(other), "stop"},
		{"no object", "data: " + finish(""), "stop"},
		{"another object with choices", "data: " + finish(other), "stop"},
		{"that with the name message", "event: message\ndata: " + finish(other), "stop"},
		{"that with a name", "event: x\ndata: " + finish(other), CodeIncomplete},
		{"choices that are no array", "data: " + strings.NewReplacer("[", `{"0": `, "]", "}").Replace(finish(other)), CodeIncomplete},
		{"an array", "data: [" + finish(chunk) + "]", CodeIncomplete},
		{"a chunk in a member", `data: {"chunk": ` + finish(chunk) + "}", CodeIncomplete},
		{"a chunk that is no JSON", "data: " + strings.Replace(finish(chunk), ": 5", ": 05", 1), CodeIncomplete},
		{"a chunk behind another field", "id: 1\nretry: 5\ndata: " + finish(chunk), "stop"},
		{"no field of data", "date: " + finish(chunk), CodeIncomplete},
		{"an error", `data: {"error": {"message": "boom"}}`, CodeAgentError},
		{"an error with the name message", "event: message\n" + `data: {"error": {"message": "boom"}}`, CodeAgentError},
		{"an error with the name error", "event: error\n" + `data: {"error": {"message": "boom"}}`, CodeAgentError},
		{"an error that is a string", `data: {"error": "boom"}`, CodeAgentError},
		{"an error with another name", "event: x\n" + `data: {"error": {"message": "boom"}}`, CodeIncomplete},
		{"no error", `data: {"error": null}`, CodeIncomplete},
		{"an error in a member", `data: {"x": {"error": {"message": "boom"}}}`, CodeIncomplete},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			_, sum := run(role()+text("a")+c.frame+"\n\n", Options{}, chatParams, cut, CauseEOF)
			got := sum.Code
			if got == "" {
				got = sum.FinishReason
			}
			if got != c.is {
				t.Errorf("%s: the stream ends with %s, want %s", c.name, got, c.is)
			}
		}
	}
}

// In the form unnamed no event line is left, wherever it stood.
func TestUnnamedToolEventsHaveNoName(t *testing.T) {
	data := `{"tool": "terminal", "emoji": "💻", "label": "ls"}`
	for _, frame := range []string{
		"event: hermes.tool.progress\ndata: " + data, "data: " + data + "\nevent: hermes.tool.progress", "id: 1\nevent:hermes.tool.progress\ndata: " + data + "\nretry: 5",
		"event: hermes.tool.progress\ndata: {\"tool\": \"terminal\",\ndata: \"emoji\": \"💻\", \"label\": \"ls\"}",
	} {
		for _, eol := range []string{"\n", "\r", "\r\n"} {
			out := repairWith(strings.ReplaceAll(role()+frame+"\n\n", "\n", eol), Options{Progress: ProgressUnnamed})
			v := look(t, out)
			v.checkLifecycle(t)
			if len(v.starts()) != 1 || strings.Contains(out, "event:") {
				t.Errorf("%q becomes\n%q", frame, out)
			}
			if strings.Contains(frame, "id: 1") && !strings.Contains(out, "id: 1"+eol) || strings.Contains(frame, "retry") && !strings.Contains(out, "retry: 5"+eol) {
				t.Errorf("%q loses a field:\n%q", frame, out)
			}
		}
	}
}

// In a stream that is not known yet a comment line stands for itself, however long it
// is: the frame right after it is looked at. In one that is known it is a part of
// that frame, which is then too large.
func TestLongCommentRightBeforeAFrame(t *testing.T) {
	long := ": " + strings.Repeat("c", 1000)
	o := Options{MaxFrame: 400}
	for _, eol := range []string{"\n", "\r", "\r\n"} {
		in := strings.ReplaceAll(long+"\n"+role()+text("a\n`💻 ls`\nb")+stop(), "\n", eol)
		want := strings.ReplaceAll(long+"\n"+role()+text("a\nb")+stop(), "\n", eol)
		for _, cut := range []cutter{inOne, oneByte, atRandom(1, 50), atRandom(2, 700)} {
			out, sum := run(in, o, Params{}, cut, CauseEOF)
			same(t, out, want, "a comment before the stream is known")
			if sum.Chunks != 3 || sum.Imitations != 1 {
				t.Errorf("%+v", sum)
			}
			// The frame with the comment passes unexamined, the next one does not.
			out, sum = run(in, o, chatParams, cut, CauseEOF)
			same(t, out, want, "a comment within a stream of chat completions")
			if sum.Unexamined != 1 || sum.Chunks != 2 {
				t.Errorf("%+v", sum)
			}
			// Nothing after a comment that never ends is a frame.
			out, sum = run(strings.Replace(in, eol, " ", 1), o, Params{}, cut, CauseEOF)
			if !strings.Contains(out, "a"+`\n`+"b") || sum.Chunks != 2 || sum.Imitations != 1 {
				t.Errorf("%+v\n%s", sum, out)
			}
		}
	}
}

// Comments between and within frames keep their places, and decide nothing.
func TestCommentsAnywhere(t *testing.T) {
	for _, c := range []string{": c\n", ":\n", ": data: {\"a\": 1}\n", ": hermes.tool.progress nothing\n", ": hermes.tool.progress {\"tool\": 1}\n"} {
		for _, p := range []Params{chatParams, {}} {
			before := c + role()
			within := strings.Replace(text("a"), "\n\n", "\n"+c+"\n", 1)
			behind := c + "\n" + c + c + "\n" + text("b") + stop() + c + "\n"
			in := before + within + behind
			for _, cut := range []cutter{inOne, oneByte} {
				out, _ := run(in, Options{}, p, cut, CauseEOF)
				same(t, out, in, "bytes")
			}
		}
	}
}

// Of 64 choices is known which have ended; those beyond end with the others (contract
// section 7), and a number that is none is nobody's.
func TestWhichChoicesHaveEnded(t *testing.T) {
	choice := func(index int, content, finish string) string {
		return chunkFrameOf(fmt.Sprintf(`{"index": %d, "delta": {%s}, "finish_reason": %s}`, index, content, finish))
	}
	says := func(index int) string { return choice(index, `"content": "x"`, "null") }
	ends := func(index int) string { return choice(index, "", `"stop"`) }
	for name, c := range map[string]struct{ in, code string }{
		"the 64th goes on":           {says(0) + says(63) + ends(0), CodeIncomplete},
		"the 64th ends":              {says(0) + says(63) + ends(63) + ends(0), ""},
		"the 65th goes on":           {says(0) + says(64) + ends(0), ""},
		"the 65th ends, not the 1st": {says(0) + ends(64), CodeIncomplete},
		"below zero":                 {says(0) + says(-1) + ends(0), ""},
		"below zero ends":            {says(0) + ends(-1), CodeIncomplete},
	} {
		if _, sum := run(role()+c.in+doneFrame, Options{}, chatParams, inOne, CauseEOF); sum.Code != c.code {
			t.Errorf("%s: code %q, want %q", name, sum.Code, c.code)
		}
	}
}

// chunkFrameOf returns a chunk with the choice.
func chunkFrameOf(choice string) string {
	return `data: {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795164800, "model": "hermes-agent", "choices": [` + choice + "]}\n\n"
}

// A named event is one that another sidecar has wrapped only when it says nothing but
// what that adds: else it is a chunk, or an event of its own.
func TestWhatIsNoWrappedEvent(t *testing.T) {
	chunk := func(choice string) string {
		return strings.TrimSuffix(strings.TrimPrefix(chunkFrameOf(choice), "data: "), "\n\n")
	}
	for name, c := range map[string]struct{ data, code string }{
		"a finish": {chunk(`{"index": 0, "delta": {}, "finish_reason": "stop"}`), ""},
		"text":     {chunk(`{"index": 0, "delta": {"content": "y"}, "finish_reason": "stop"}`), ""},
		"none":     {chunk(`{"index": 0, "delta": {}, "finish_reason": null}`), CodeIncomplete},
	} {
		if _, sum := run(role()+text("x")+named("message", c.data)+doneFrame, Options{}, chatParams, inOne, CauseEOF); sum.Code != c.code {
			t.Errorf("%s: code %q, want %q", name, sum.Code, c.code)
		}
	}
	const own = `"choices": [{"index": 0, "delta": {}, "finish_reason": null}]}`
	want := named("hermes.status", `{`+envelopeWritten+`,"hermes_object": "x", "hermes_`+own[1:])
	if out := repair(role() + named("hermes.status", `{"object": "x", `+own) + text("x") + stop()); !strings.Contains(out, want) {
		t.Errorf("no envelope in\n%s", out)
	}
	// Text in such an event is repaired as in any.
	marker := named("message", chunk(`{"index": 0, "delta": {"content": "\n`+"`💻 ls`"+`\n"}, "finish_reason": null}`))
	if out := repair(role() + text("x") + marker + text("y") + stop()); strings.Contains(out, "💻 ls`") {
		t.Errorf("a marker is left in\n%s", out)
	}
}

// A frame that ends with a CR whose LF does not come is whole: no LF is put after it.
func TestAFrameThatEndsWithACRAlone(t *testing.T) {
	torn := strings.ReplaceAll(text("a"), "\n\n", "\r\n\r")
	for _, rest := range []string{stop(), finishChunk("stop", zeroUsage) + doneFrame, finishChunk("error", `, "error": {"message": "m"}`) + doneFrame, text("b")} {
		want, found := strings.CutPrefix(repair(role()+text("a")+rest), role()+text("a"))
		if !found {
			t.Fatalf("%q is no longer as it was", want)
		}
		for _, cut := range []cutter{inOne, oneByte} {
			out, _ := run(role()+torn+rest, Options{}, chatParams, cut, CauseEOF)
			same(t, out, role()+torn+want, "bytes")
		}
	}
}

// The events of tools are the same in every framing, in each form.
func TestToolEventsInCRLF(t *testing.T) {
	in := role() + g2Start("t", "💻", "l", "1") + g2End("t", "1")
	for _, form := range ProgressForms() {
		want := repairWith(in+text("x")+stop(), Options{Progress: form})
		got := repairWith(strings.ReplaceAll(in+text("x")+stop(), "\n", "\r\n"), Options{Progress: form})
		same(t, strings.ReplaceAll(got, "\r\n", "\n"), want, string(form)+": bytes")
	}
}

// What is half a tag before something that is no text is none, and says nothing of the
// text after it.
func TestHalfATagBeforeATool(t *testing.T) {
	tool := g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1")
	for _, c := range []struct{ before, behind, content, reasoning string }{
		{"<think>x`</", "</think>`answer", "`answer", "x`</"},
		{"<think>x`</think", "y</think>answer", "answer", "x`</thinky"},
		{"<think>x</thi", "nk></think>answer", "answer", "x</think>"},
		{"<think>```\nx\n``</", "`</think>answer", "", "```\nx\n``</`</think>answer"},
		{"<thi", "nk>a</think>b", "<think>a</think>b", ""},
		{"<", "think>a", "<think>a", ""},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			out, _ := run(role()+text(c.before)+tool+text(c.behind)+stop(), Options{}, chatParams, cut, CauseEOF)
			v := look(t, out)
			same(t, v.content, c.content, c.before+": contents")
			same(t, v.reasoning, c.reasoning, c.before+": reasonings")
		}
	}
}

// Errors whose name is escaped, or that stand twice, are looked at as well, in each
// kind of stream.
func TestTwinsOfErrorsInOtherStreams(t *testing.T) {
	for name, p := range map[string]Params{"responses": {Responses: true}, "run": {RunID: "run_1"}, "session": sessionParams} {
		for _, members := range []string{`"error": "%s", "error": "x"`, `"error": "x", "error": "%s"`, `"\u0065rror": "%s"`, `"err\u006fr": "%s", "error": null`} {
			frame := func(s string) string {
				data := `{"type": "response.created", "run_id": "run_1", "event": "x", ` + strings.ReplaceAll(members, "%s", s) + "}"
				if name == "session" {
					return named("error", data)
				}
				return "data: " + data + "\n\n"
			}
			out, _ := run(frame("sk-abcdef"), Options{}, p, inOne, CauseEOF)
			if want := frame(redacted); !strings.HasPrefix(out, want) {
				t.Errorf("%s: %s becomes\n%s", name, frame("sk-abcdef"), out)
			}
		}
	}
}

// choicesChunk is a chunk with several choices.
func choicesChunk(choices, more string) string {
	return `data: {` + envelopeOfTests + `, "choices": [` + choices + `]` + more + "}\n\n"
}

// Hermes sends one choice: an answer with another is not looked at for false stops.
func TestStopsOfSeveralChoices(t *testing.T) {
	finish := func(i, more string) string {
		return choicesChunk(`{"index": `+i+`, "delta": {}, "finish_reason": "stop"}`, more)
	}
	other := choicesChunk(`{"index": 1, "delta": {"content": "x"}, "finish_reason": null}`, "")
	for name, in := range map[string]string{
		"the other speaks":        role() + other + finish("0", "") + finish("1", zeroUsage) + doneFrame,
		"the other only ends":     role() + finish("1", "") + finish("0", zeroUsage) + doneFrame,
		"both in one chunk":       role() + choicesChunk(`{"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {}, "finish_reason": "stop"}`, zeroUsage) + doneFrame,
		"the other alone":         other + finish("1", zeroUsage) + doneFrame,
		"one that nobody expects": role() + choicesChunk(`{"index": 64, "delta": {"content": "x"}, "finish_reason": null}`, "") + finish("0", zeroUsage) + doneFrame,
	} {
		out, sum := run(in, Options{ZeroUsage: ZeroUsageError}, chatParams, inOne, CauseEOF)
		same(t, out, in, name+": bytes")
		if sum.Code != "" {
			t.Errorf("%s: %+v", name, sum)
		}
	}
}

// If one choice has failed, its error has left: the stream has no second one, and the
// others do not end well after it, for a second sidecar neither.
func TestErrorOfOneOfSeveralChoices(t *testing.T) {
	begin := role() + choicesChunk(`{"index": 1, "delta": {"content": "x"}, "finish_reason": null}`, "")
	failed := choicesChunk(`{"index": 0, "delta": {}, "finish_reason": "error"}`, `, "error": {"message": "boom"}`)
	for name, rest := range map[string]string{
		"the other stops":      choicesChunk(`{"index": 1, "delta": {}, "finish_reason": "stop"}`, realUsage) + doneFrame,
		"the other fails, too": choicesChunk(`{"index": 1, "delta": {}, "finish_reason": "error"}`, `, "error": {"message": "bang"}`) + doneFrame,
		"the other is cut off": "",
		"[DONE] too early":     doneFrame,
	} {
		out, sum := run(begin+failed+rest, Options{}, chatParams, inOne, CauseEOF)
		if n := strings.Count(out, `data: {"error":`); n != 1 || sum.Code != CodeAgentError {
			t.Errorf("%s: %d errors, code %s:\n%s", name, n, sum.Code, out)
		}
		if n := strings.Count(strings.ReplaceAll(out, " ", ""), `"finish_reason":"error"`); n != 2 {
			t.Errorf("%s: %d of 2 choices end in an error:\n%s", name, n, out)
		}
		same(t, repair(out), out, name+": twice and once")
	}
}

// Text of any of the choices in a chunk is text.
func TestTextOfOneOfSeveralChoices(t *testing.T) {
	choice := func(i, s string) string {
		return `{"index": ` + i + `, "delta": {"content": "` + s + `"}, "finish_reason": null}`
	}
	for name, chunk := range map[string]string{
		"the first": choicesChunk(choice("0", "x")+", "+choice("1", ""), ""), "the last": choicesChunk(choice("0", "")+", "+choice("1", "x"), ""),
		"the middle": choicesChunk(choice("0", "")+", "+choice("1", "x")+", "+choice("2", " "), ""),
	} {
		out := repair(role() + markerChunk("💻", "ls") + chunk)
		if i, j := strings.Index(out, `"completed"`), strings.Index(out, chunk); i < 0 || j < i {
			t.Errorf("%s: the tool does not end before the text:\n%s", name, out)
		}
		if !strings.Contains(out, `"partial":true`) {
			t.Errorf("%s: the answer is not partial:\n%s", name, out)
		}
	}
	silent := choicesChunk(choice("0", "")+", "+choice("1", " "), "")
	if out := repair(role() + markerChunk("💻", "ls") + silent); strings.Index(out, `"completed"`) < strings.Index(out, silent) || !strings.Contains(out, `"partial":false`) {
		t.Errorf("white space ends a tool:\n%s", out)
	}
}

// A label may have backticks, escaped or not: the last one ends it.
func TestBackticksInLabels(t *testing.T) {
	for raw, label := range map[string]string{
		"a\\u0060b`": "a`b", "a`b\\u0060": "a`b", "\\u0060`": "`", "`\\u0060": "`", "a\\u0060 `": "a` ", "\\u0060\\u0060": "`", "a\\u0060\\\\`": "a`\\", "a\\u0060\\t\\u0060": "a`\t",
	} {
		v := look(t, repair(delta("\"content\": \"\\n`💻 "+raw+"\\n\"")+text("x")+stop()))
		if s := v.starts(); len(s) != 1 || s[0].label != label || v.content != "\nx" && v.content != "x" {
			t.Errorf("%s: %+v, content %q", raw, s, v.content)
		}
	}
}

// A byte order mark passes, with something after it or not.
func TestByteOrderMarkAlone(t *testing.T) {
	for _, cut := range []cutter{inOne, oneByte} {
		for _, in := range []string{mark, mark + "\n", mark + mark, mark[:2]} {
			out, _ := run(in, Options{}, Params{}, cut, CauseEOF)
			same(t, out, in, "bytes")
		}
	}
}

// Text of another choice ends the tools that markers started before it leaves, whatever
// is done with imitations.
func TestTextOfAnotherChoiceEndsTools(t *testing.T) {
	another := choicesChunk(`{"index": 1, "delta": {"content": "x"}, "finish_reason": null}`, "")
	for _, o := range []Options{{}, {Imitations: ImitationsKeep}, {Imitations: ImitationsTrust}} {
		out := repairWith(role()+markerChunk("💻", "ls")+another, o)
		if i, j := strings.Index(out, `"completed"`), strings.Index(out, another); i < 0 || j < i {
			t.Errorf("%+v: the tool does not end before the text:\n%s", o, out)
		}
	}
}

// Of two contents in a delta the last counts, and the first stays. It must not become the
// only one: clients would see it, and a second sidecar would read it.
func TestContentThatIsThereTwice(t *testing.T) {
	dup := func(s string) string { return delta(`"content": "x", "content": ` + asciiJSON(s)) }
	deltas := func(s string) string {
		return choicesChunk(`{"index": 0, "delta": {"content": "x"}, "delta": {"content": `+asciiJSON(s)+`}, "finish_reason": null}`, "")
	}
	for name, twin := range map[string]func(string) string{"contents": dup, "deltas": deltas} {
		for _, o := range []Options{{}, {Reasoning: ReasoningDrop}, {Imitations: ImitationsKeep}} {
			for _, in := range []string{
				role() + twin("<think>a") + text("b</think>") + text("```") + text("\n`💻 a`\n") + stop(),
				role() + twin("<think>a</think>b") + text("\n\n`💻 a`\n") + stop(),
				role() + twin("\n`💻 ls`\n") + text("\n\nb") + stop(),
				role() + twin("`💻 ls") + text("`\nb") + stop(),
				role() + twin("a\n`💻 ls`\nb") + stop(),
			} {
				out, _ := run(in, o, chatParams, inOne, CauseEOF)
				v := look(t, out)
				if strings.Contains(v.content, "x") {
					t.Errorf("%s: the first content shows:\n%s", name, out)
				}
				if o.Reasoning != ReasoningDrop { // see Readings
					same(t, repairWith(out, o), out, name+": twice and once")
				}
			}
		}
	}
}

// Numbers that are too large for what they say are none: nothing wraps around.
func TestNumbersThatAreTooLarge(t *testing.T) {
	// 2^64 is no other way to write 0: the markers of another choice stay.
	in := role() + strings.Replace(text("\n`💻 ls`\n"), `"index": 0`, `"index": 18446744073709551616`, 1) + text("x") + stop()
	same(t, repair(in), in, "bytes")
	usage := func(prompt, completion string) string {
		return `, "usage": {"prompt_tokens": ` + prompt + `, "completion_tokens": ` + completion + `, "total_tokens": 7}`
	}
	for _, c := range []struct {
		prompt, completion string
		input, output      int64
	}{
		{"1", "2", 1, 2}, {"999999999", "0", 999999999, 0}, {"0", "999999999", 0, 999999999}, {"18446744073709551617", "1", 0, 1}, {"1", "18446744073709551617", 1, 0},
		{"-1", "5", 0, 5}, {"5", "-1", 5, 0}, {"1.5", "5", 0, 5}, {`"5"`, "null", 0, 0}, {"5", "1e3", 5, 0}, {"9", "8", 9, 8},
	} {
		sum := repairSummary(role()+text("x")+finishChunk("stop", usage(c.prompt, c.completion))+doneFrame, Options{})
		if sum.InputTokens != c.input || sum.OutputTokens != c.output {
			t.Errorf("%s and %s tokens are %d and %d", c.prompt, c.completion, sum.InputTokens, sum.OutputTokens)
		}
	}
}

// Usage is 0/0/0 only where it says so, three times: a member that is missing, null or
// no number is unknown.
func TestUsageThatIsNotZero(t *testing.T) {
	for usage, crash := range map[string]bool{
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`:                                                             true,
		`{"total_tokens": 0, "completion_tokens": 0, "prompt_tokens": 0, "prompt_tokens_details": {"cached_tokens": 5}, "cost": 0.5}`: true,
		`{"prompt_tokens": 0, "completion_tokens": 0}`:                                                                                false,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": null}`:                                                          false,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 1}`:                                                             false,
		`{"prompt_tokens": 0, "completion_tokens": "0", "total_tokens": 0}`:                                                           false,
		`{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}`:                                                                  false,
		`[0, 0, 0]`: false,
		`null`:      false,
	} {
		in := role() + text("x") + finishChunk("stop", `, "usage": `+usage) + doneFrame
		out, sum := run(in, Options{ZeroUsage: ZeroUsageError}, chatParams, inOne, CauseEOF)
		if crash {
			look(t, out).checkErrorFinish(t, CodeCrashed)
		} else {
			same(t, out, in, "bytes with the usage "+usage)
		}
		if (sum.Code != "") != crash {
			t.Errorf("%s: %+v", usage, sum)
		}
	}
}

// Which models report usage is learnt from any count that is not 0, and from nothing
// else.
func TestUsageThatIsReported(t *testing.T) {
	for usage, reported := range map[string]bool{
		`{"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 0}`:             true,
		`{"prompt_tokens": 0, "completion_tokens": 9, "total_tokens": 0}`:             true,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 12345678901}`:   true,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}`:             false,
		`{"prompt_tokens": "5", "completion_tokens": null, "total_tokens": -5}`:       false,
		`{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "other": 5}`: false,
		`{}`: false, `5`: false, `null`: false,
	} {
		m := memory{}
		p := chatParams
		p.Usage = m
		run(role()+text("x")+finishChunk("stop", `, "usage": `+usage)+doneFrame, Options{}, p, inOne, CauseEOF)
		if m["hermes-agent"] != reported || len(m) > 1 {
			t.Errorf("%s: reported %v", usage, m)
		}
	}
}

// Members are read in any choice whose index is 0, and nothing of a choice whose index
// is something else.
func TestIndexOfAChoice(t *testing.T) {
	for index, first := range map[string]bool{"0": true, "1": false, "-1": false, "null": false, `"0"`: false, "0.0": false, "10": false} {
		in := role() + strings.Replace(text("\n`💻 ls`\n"), `"index": 0`, `"index": `+index, 1)
		v := look(t, repair(in+text("x")+stop()))
		if started := len(v.starts()) == 1; started != first {
			t.Errorf("index %s: %+v", index, v.starts())
		}
	}
	// Without an index it is the only one.
	if v := look(t, repair(role()+strings.Replace(text("\n`💻 ls`\n"), `"index": 0, `, "", 1)+text("x")+stop())); len(v.starts()) != 1 {
		t.Errorf("no index: %+v", v.starts())
	}
}

// What is known of the usage stands in an error finish, whenever it came (contract
// section 3).
func TestUsageOfAnErrorFinish(t *testing.T) {
	const usage = `{"prompt_tokens":7,"completion_tokens":8,"total_tokens":15}`
	alone := `data: {` + envelopeOfTests + `, "choices": [], "usage": ` + usage + "}\n\n"
	with := strings.Replace(text("a"), `}]}`, `}], "usage": `+usage+`}`, 1)
	for name, in := range map[string]string{"before all else": alone, "before the text": role() + alone + text("a"), "with the text": role() + with, "behind it": role() + text("a") + alone, "null later": role() + alone + strings.Replace(text("a"), `}]}`, `}], "usage": null}`, 1)} {
		v := look(t, repair(in))
		v.checkErrorFinish(t, CodeIncomplete)
		if string(v.finish.Usage) != usage {
			t.Errorf("%s: the error finish has the usage %s", name, v.finish.Usage)
		}
	}
	if v := look(t, repair(role()+text("a"))); v.finish.Usage != nil {
		t.Errorf("a usage of nobody's: %s", v.finish.Usage)
	}
}

func TestTheLastOfMembersThatStandTwiceCounts(t *testing.T) {
	in := `data: {` + envelopeOfTests + `, "choices": [], "choices": [{"index": 0, "delta": {"content": "x"}, "delta": {"content": "lost", "content": "a\n` + "`💻 ls`" + `\nb"}}]}` + "\n\n"
	out := repair(in + stop())
	if want := strings.Replace(in, "`💻 ls`"+`\n`, "", 1); !strings.HasPrefix(out, want) {
		t.Errorf("%s", out)
	}
}

func TestChunkWithoutTheHeadOfTheOneBefore(t *testing.T) {
	// The beginning of a chunk is remembered; others must not be taken for it.
	for _, second := range []string{
		`data: {` + envelopeOfTests + `, "choices": [{"index": 1, "delta": {"content": "\n` + "`💻 ls`" + `\n"}, "finish_reason": "stop"}]}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": "x"}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": [], "object": "other"}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": ` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "x` + "\n\n",
	} {
		in := role() + text("a") + second + text("b") + stop()
		same(t, repair(in), in, "bytes")
	}
	// An id that changes is followed.
	out := repair(role() + strings.ReplaceAll(text("a"), "chatcmpl-1", "chatcmpl-2"))
	if v := look(t, out); *v.finish.ID != "chatcmpl-2" {
		t.Errorf("the error finish has the id %s", *v.finish.ID)
	}
}

// Frames that are alike are read no more, but each text is looked at: for lines that
// begin like a marker, in whatever bytes, and for markers.
func TestTextsOfLikeFramesAreLookedAt(t *testing.T) {
	raw := func(s string) string { // bytes as they are, not escaped
		return `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "` + s + `"}, "finish_reason": null}]}` + "\n\n"
	}
	alike := raw("One") + raw(" two") + raw(" three.")
	for _, c := range []struct{ in, want string }{
		{raw("x\\n`💻 ls`\\ny"), "x\ny"},
		{raw("x\\n`⚙ ls`\\ny"), "x\ny"},
		{raw("x\\n`\\u2699 ls`\\ny"), "x\ny"},
		{raw("x\\n`") + raw("💻 ls`\\ny"), "x\ny"},
		{raw("x\\n`💻 ls") + raw("`\\ny"), "x\ny"},
		{raw("x\\n\\n<think>a</think>y"), "x\n\ny"},
	} {
		for _, cut := range []cutter{inOne, oneByte, byFrame(role() + alike + c.in + stop())} {
			out, sum := run(role()+alike+c.in+stop(), Options{}, chatParams, cut, CauseEOF)
			if v := look(t, out); v.content != "One two three."+c.want || sum.Imitations+sum.Reasoning != 1 {
				t.Errorf("%q: content %q", c.in, v.content)
			}
		}
	}
	marker := raw("\\n`💻 ls`\\n")
	for name, in := range map[string]string{
		"finish chunk": role() + alike + finishChunk("stop", realUsage) + marker + doneFrame,
		"[DONE]":       role() + alike + finishChunk("stop", realUsage) + doneFrame + marker,
		"tool event":   role() + alike + g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + marker + stop(),
	} {
		for _, cut := range []cutter{inOne, oneByte, byFrame(in)} {
			out, sum := run(in, Options{}, chatParams, cut, CauseEOF)
			if v := look(t, out); sum.Markers > 0 || len(v.starts()) > 1 {
				t.Errorf("a marker behind the %s starts a tool: %s", name, v.story())
			}
		}
	}
}

// What ends with a CR whose LF never came ends as a stream does.
func TestStreamThatEndsBetweenCRAndLF(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n\n", "\r\n\r\n") }
	for _, in := range []string{
		role() + text("a"),
		role() + text("a\n`💻 l"),
		role() + text("a\n`💻 l") + keepalive,
		role() + text("a") + finishChunk("stop", realUsage),
		role() + text("a") + g2Start("t", "💻", "l", "call_1"),
	} {
		want := repair(crlf(in))
		for _, cut := range []cutter{inOne, oneByte} {
			in := strings.TrimSuffix(crlf(in), "\n")
			got, _ := run(in, Options{}, chatParams, cut, CauseEOF)
			same(t, got, want, "outputs without the last LF")
		}
		if strings.Contains(strings.ReplaceAll(want, "\r\n", ""), "\r") {
			t.Errorf("a CR without its LF in %q", want)
		}
	}
}

func TestInvalidUTF8InContentStays(t *testing.T) {
	for _, bad := range []string{"\xff", "\xf0\x9f\x92", "a\xc3", "\xed\xa0\x80"} {
		if utf8.ValidString(bad) {
			t.Fatalf("%q is valid", bad)
		}
		in := role() + delta(`"content": "`+bad+"\\n`"+bad+` x"`) + text("x") + stop()
		same(t, repair(in), in, "bytes")
	}
}

// TestDoneIsBehindWhiteSpaceOfJSON: what has another character in front, such as a form
// feed, is no [DONE], and passes as any frame that is no JSON.
func TestDoneIsBehindWhiteSpaceOfJSON(t *testing.T) {
	in := role() + text("x")
	for data, want := range map[string]bool{"data: [DONE]\n\n": true, "data: \t[DONE] \n\n": true, "data:\f[DONE]\n\n": false, "data:\u00a0[DONE]\n\n": false} {
		s := New(&Options{}, chatParams)
		s.Feed(nil, []byte(in), epoch)
		if out := s.Feed(nil, []byte(data), epoch); s.Done() != want || !want && string(out) != data {
			t.Errorf("%q: done %v, %q leaves", data, s.Done(), out)
		}
	}
}

// spellings are ways to write the same in a JSON string.
var spellings = [][]string{
	{`\n`, `\u000a`, `\u000A`}, {"`", `\u0060`}, {"💻", `\ud83d\udcbb`, `\uD83D\uDCBB`}, {"⚙\ufe0f", `\u2699\ufe0f`, `\u2699` + "\ufe0f"}, {" ", `\u0020`}, {"l", `\u006c`, `\u006C`},
	{"<", `\u003c`, `\u003C`}, {"think", `t\u0068ink`, `\u0074hin\u006B`}, {"/", `\/`, `\u002f`}, {">", `\u003e`}, {`\t`, `\u0009`}, {`\\`, `\u005c`}, {`\"`, `\u0022`}, {"é", `\u00e9`}, {"🦄", `\ud83e\udd84`},
	{"~", `\u007e`}, {`\r`, `\u000d`},
}

// spelt returns a text in two spellings: the first of each, and others. What it has
// is mostly the beginnings of markers, tags and fences.
func spelt(r *rand.Rand) (plain, escaped string) {
	var a, b strings.Builder
	phrases := []string{"n`CsX`n", "n`CsX`X`n", "n`CsX`", "`CsX`n", "n`UsX`n", "n```nX", "nn<T>X<Q/T>", "<T>", "<Q/T>", "X", "n", "s", "`", "nnX", "n`GsX`nn", "~~~n", "tX", "n`Cs`n", "n`Cs``n", "r"}
	names := map[rune]int{'n': 0, '`': 1, 'C': 2, 'G': 3, 's': 4, '<': 6, 'T': 7, 'Q': 8, '>': 9, 't': 10, 'U': 14, '~': 15, 'r': 16}
	letters := []int{5, 5, 11, 12, 13}
	for range 1 + r.IntN(6) {
		for _, c := range phrases[r.IntN(len(phrases))] {
			n, ok := names[c]
			if !ok {
				n = letters[r.IntN(len(letters))]
			}
			ways := spellings[n]
			a.WriteString(ways[0])
			b.WriteString(ways[r.IntN(len(ways))])
		}
	}
	return a.String(), b.String()
}

// What a text says does not depend on how it is escaped, whole or in deltas.
func TestEscapesDecideNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		ways := [2]string{role(), role()}
		answers := [2]string{}
		for range 1 + r.IntN(4) {
			plain, escaped := spelt(r)
			for i, s := range []string{plain, escaped} {
				ways[i] += delta(`"content": "` + s + `"`)
				answers[i] += s
			}
		}
		o := allOptions()[r.IntN(len(allOptions()))]
		var saw [2]string
		for i, in := range ways {
			out, sum := run(in+stop(), o, chatParams, inOne, CauseEOF)
			v := look(t, out)
			a := RepairAnswer([]byte(completion(`, "content": "`+answers[i]+`"`, "stop", realUsage)), &o, nil)
			m := messageOf(t, a.Body)
			h, healed := Heal([]byte(`{"messages": [{"role": "assistant", "content": "`+answers[i]+`"}]}`), nil)
			history := unquote(jsonspan.MemberOf(h, jsonspan.Span{From: 0, To: len(h)}, "messages").Of(h))
			saw[i] = fmt.Sprintf("%q %q %q %v %+v\n%+v\n%d %q", v.content, v.reasoning, v.story(), v.starts(), sum, m, healed.Markers, unescaped(history))
		}
		same(t, saw[1], saw[0], fmt.Sprintf("%+v: what is seen of %s", o, ways[1]))
		if t.Failed() {
			return
		}
	}
}

// unescaped returns the text of a JSON array's messages, without escapes.
func unescaped(s string) string { return string(jsonspan.AppendText(nil, []byte(s))) }

// A text that is one escape is no more than that.
func TestContentOfOneEscape(t *testing.T) {
	for _, ways := range spellings {
		for _, s := range ways {
			in := role() + text("a") + delta(`"content": "`+s+`"`) + text("b") + stop()
			same(t, repair(in), in, "bytes")
			in = delta(`"content": "`+s+`"`) + text("b") + stop()
			if v := look(t, repair(in)); v.content != look(t, in).content {
				t.Errorf("%s becomes %q", s, v.content)
			}
		}
	}
}

// Text is unescaped as the standard library does it, lone surrogates included.
func TestTextIsUnescapedAsTheStandardSays(t *testing.T) {
	pieces := []string{`\ud83d`, `\uDCBB`, `\udcbb`, "u", "x", `\n`, "dcbb", "udcbb", `\\`, `\"`, `\/`, `\b`, `\f`, `\r`, `\t`, `\u0041`, `\u00E9`, `\uffff`, `\ue000`, `\ud7ff`, `\udbff`, `\udfff`, "é", "💻", `\u0000`, "\ufffd"}
	r := rand.New(rand.NewPCG(7, 8))
	for range 20000 {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		var want string
		if err := json.Unmarshal([]byte(`"`+b.String()+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if got := unescaped(b.String()); got != want {
			t.Fatalf("%s is %+q, want %+q", b.String(), got, want)
		}
	}
}

func TestLargeFrameBehindAFailedEvent(t *testing.T) {
	began := created(0, responseOfTests)
	want, _ := run(began+doneFrame, Options{MaxFrame: 400}, Params{}, inOne, CauseEOF)
	out, _ := run(began+doneFrame+named("x", strings.Repeat("x", 1000)), Options{MaxFrame: 400}, Params{}, oneByte, CauseEOF)
	same(t, out, want, "bytes")
}

// The last event repeats the whole answer: it counts although it is too large
// to be examined.
func TestLargeEventOfAnotherStream(t *testing.T) {
	o := Options{MaxFrame: 400}
	big := strings.Repeat("x", 1000)
	began := created(0, responseOfTests)
	ran := runEvent("message.delta", ``)
	completed := strings.ReplaceAll(created(1, `"id":"resp_1","output":"`+big+`"`), "response.created", "response.completed")
	typeLast := `data: {"response":{"x":"` + big + `"},"type":"response.completed"}` + "\n\n"
	for name, c := range map[string]struct {
		in, failed string // what the failed event ends with, empty for none
		cause      Cause
	}{
		"completed":                       {began + completed, "", CauseAborted},
		"completed, unnamed":              {unnamed(began + completed), "", CauseAborted},
		"completed, with CRLF":            {strings.ReplaceAll(began+completed, "\n", "\r\n"), "", CauseAborted},
		"a run's":                         {ran + runEvent("run.completed", `, "output": "`+big+`"`), "", CauseAborted},
		"another":                         {began + strings.ReplaceAll(completed, "response.completed", "response.output_text.done"), `,"sequence_number":2}`, CauseEOF},
		"the first":                       {created(0, `"x":"`+big+`"`) + outputDelta(1), `,"sequence_number":2}`, CauseEOF},
		"the first, and no other":         {created(0, `"x":"`+big+`"`), `"}}}`, CauseEOF},
		"a run's that does not end it":    {ran + runEvent("tool.started", `, "preview": "`+big+`"`), `"}`, CauseEOF},
		"completed, cut":                  {began + completed[:800], `,"sequence_number":1}`, CauseAborted},
		"unknown and last":                {began + typeLast, "", CauseEOF},
		"unknown and last, then [DONE]":   {began + typeLast + doneFrame, "", CauseEOF},
		"unknown and last, then a reset":  {began + typeLast, `,"sequence_number":2}`, CauseAborted},
		"unknown and not last":            {began + typeLast + outputDelta(2), `,"sequence_number":3}`, CauseEOF},
		"unknown, and another unexamined": {began + typeLast + strings.ReplaceAll(completed, "response.completed", "response.x"), `,"sequence_number":3}`, CauseEOF},
		"of something else":               {began + named("x", `{"a":"`+big+`"}`), `,"sequence_number":1}`, CauseEOF},
		"a comment":                       {began + ": " + big + "\n\n", `,"sequence_number":1}`, CauseEOF},
		"of an unknown stream":            {named("x", `{"a":"`+big+`"}`), "", CauseAborted},
	} {
		for _, cut := range []cutter{inOne, oneByte, atRandom(1, 700)} {
			out, sum := run(c.in, o, otherParams(c.in), cut, c.cause)
			if c.failed == "" {
				same(t, out, c.in, name+": bytes")
				continue
			}
			in := c.in
			if name == "completed, cut" {
				in += "\n\n"
			}
			rest, ok := strings.CutPrefix(out, in)
			if !ok || strings.Count(rest, `.failed"`) != 1 || !strings.HasSuffix(rest, c.failed+"\n\n") || sum.Code != c.cause.Code() {
				t.Errorf("%s: %+v, %q", name, sum, rest)
			}
		}
	}
}

func TestLargeEventTellsWhetherUpstreamNamesItsEvents(t *testing.T) {
	began := created(0, responseOfTests)
	large := unnamed(strings.ReplaceAll(created(1, `"x":"`+strings.Repeat("x", 1000)+`"`), "response.created", "response.x"))
	out, _ := run(began+large, Options{MaxFrame: 400}, Params{}, oneByte, CauseEOF)
	if !strings.HasPrefix(strings.TrimPrefix(out, began+large), "data: ") {
		t.Errorf("got %q", out[len(began+large):])
	}
}

// overLimit is what makes a frame of these tests larger than max_frame.
var overLimit = strings.Repeat("y ", 3000)

// largeLife returns what leaves of in, which is cut in several ways, with a max_frame that
// overLimit exceeds, and checks that twice is once.
func largeLife(t *testing.T, in string, o Options, cause Cause) (string, *view, Summary) {
	t.Helper()
	o.MaxFrame = 5000
	out, sum := run(in, o, chatParams, inOne, cause)
	for _, cut := range []cutter{oneByte, atRandom(1, 700), atRandom(2, 9000)} {
		again, s := run(in, o, chatParams, cut, cause)
		same(t, again, out, "outputs of two cuts")
		if s != sum {
			t.Errorf("summaries of two cuts: %+v, %+v", s, sum)
		}
	}
	twice, _ := run(out, o, chatParams, inOne, CauseEOF)
	same(t, twice, out, "twice and once")
	v := look(t, out)
	if v.done != 1 || len(v.finishes) != 1 || v.finishes[0] != sum.FinishReason {
		t.Errorf("%d [DONE], finishes %q, %+v", v.done, v.finishes, sum)
	}
	return out, v, sum
}

// pairs fails unless each running of the stream has one completed with its id, and no other
// tool has any event.
func pairs(t *testing.T, v *view, ids ...string) {
	t.Helper()
	count := map[string]int{}
	for _, e := range v.tools {
		count[e.id+" "+e.status]++
	}
	for _, id := range ids {
		if count[id+" running"] != 1 || count[id+" completed"] != 1 {
			t.Errorf("%s: %v", id, count)
		}
	}
	if len(count) != 2*len(ids) {
		t.Errorf("%v, want tools %q", count, ids)
	}
}

// A tool that starts in a frame above max_frame has its end: upstream's, or one from the
// sidecar (contract section 2).
func TestToolThatStartsInALargeFrame(t *testing.T) {
	end := g2End("terminal", "c")
	for name, start := range map[string]string{
		"as Hermes writes it": g2Start("terminal", "💻", overLimit, "c"),
		"the id in front":     named(progressEvent, `{"toolCallId": "c", "status": "running", "tool": "terminal", "label": "`+overLimit+`"}`),
		"escapes in names":    strings.Replace(g2Start("terminal", "💻", overLimit, "c"), `"toolCallId"`, `"tool\u0043allId"`, 1),
		"quotes in its label": g2Start("terminal", "💻", overLimit+`, "toolCallId": "d", "status": "completed"}, \`, "c"),
		"wrapped":             named(progressEvent, `{`+envelopeWritten+`,"tool":"terminal","label":"`+overLimit+`","toolCallId":"c","status":"running"}`),
		"without a name":      `data: {` + envelopeWritten + `,"tool":"terminal","label":"` + overLimit + `","toolCallId":"c","status":"running"}` + "\n\n",
		"with CRLF":           strings.ReplaceAll(g2Start("terminal", "💻", overLimit, "c"), "\n", "\r\n"),
		"with a line behind":  strings.TrimSuffix(g2Start("terminal", "💻", overLimit, "c"), "\n") + "id: 7\n\n",
		"much behind it":      named(progressEvent, `{"tool": "terminal", "toolCallId": "c", "status": "running", "args": {"a": ["`+overLimit+`"]}}`),
	} {
		for _, o := range []Options{{}, {Cards: true}, {StatusLine: true}, {Progress: ProgressBare}, {Progress: ProgressUnnamed, Cards: true}, {Progress: ProgressOff}, {ErrorFinish: ErrorFinishInline}} {
			ids := []string{"c"}
			if o.Progress == ProgressOff {
				ids = nil
			}
			for in, want := range map[string]string{
				role() + start + end + text("x") + stop():         "stop",
				role() + start + text("x") + end + stop():         "stop",
				role() + start + start + end + text("x") + stop(): "", // the second is a duplicate, if its beginning says so
				role() + start + stop():                           "error",
				role() + text("x") + start:                        "error",
			} {
				if want == "" && name != "the id in front" && name != "much behind it" {
					continue
				}
				out, v, sum := largeLife(t, in, o, CauseAborted)
				if strings.Contains(out, "function_call") {
					t.Errorf("a card that nobody has begun ends")
				}
				if pairs(t, v, ids...); want != "" && sum.FinishReason != want || o.Progress != ProgressOff && !strings.Contains(out, start) {
					t.Errorf("%+v", sum)
				}
				if t.Failed() {
					t.Fatalf("%s, %+v:\n%.300s\n%.3000s", name, o, in, strings.ReplaceAll(out, overLimit, "…"))
				}
			}
		}
	}
}

// A name that the end of the beginning cuts is not taken for one, and a finish reason there
// is one.
func TestBeginningThatEndsAnywhere(t *testing.T) {
	for pad := 900; pad < 1100; pad++ {
		in := role() + named(progressEvent, `{"x": "`+strings.Repeat("x", pad)+`", "tool": "terminal", "label": "`+overLimit+`", "toolCallId": "c", "status": "running"}`)
		out, _ := run(in, Options{MaxFrame: 5000}, chatParams, inOne, CauseAborted)
		for _, e := range look(t, out).tools {
			if e.tool != "terminal" && e.tool != "tool" {
				t.Errorf("the tool %q", e.tool)
			}
		}
	}
	for _, reason := range []string{"stop", "length", "error"} {
		in := role() + text("x") + g2Start("terminal", "💻", "ls", "c") + finishChunk(reason, realUsage+`, "x": "`+overLimit+`"`) + doneFrame
		out, v, sum := largeLife(t, in, Options{}, CauseEOF)
		if pairs(t, v, "c"); sum.FinishReason != reason || strings.Index(out, `"completed"`) > strings.Index(out, overLimit) || (sum.Code != "") != (reason == "error") {
			t.Errorf("%s: %+v", reason, sum)
		}
	}
}

// What a small tool event loses, a large one loses as well, if its beginning shows it.
func TestLargeToolEventsThatDoNotLeave(t *testing.T) {
	internal := g2Start("_thinking", "💭", overLimit, "i")
	orphan := named(progressEvent, `{"tool": "terminal", "toolCallId": "o", "status": "completed", "x": "`+overLimit+`"}`)
	for name, in := range map[string]string{
		"internal":          role() + internal + text("x") + stop(),
		"an orphan":         role() + orphan + text("x") + stop(),
		"behind the finish": role() + text("x") + finishChunk("stop", realUsage) + g2Start("terminal", "💻", overLimit, "c") + doneFrame,
	} {
		out, v, _ := largeLife(t, in, Options{}, CauseEOF)
		if pairs(t, v); strings.Contains(out, overLimit) {
			t.Errorf("%s: it leaves", name)
		}
	}
	// A client sees no start that is cut.
	cut := g2Start("terminal", "💻", overLimit, "c")
	cut = cut[:len(cut)-3]
	if out, _ := run(role()+cut, Options{MaxFrame: 5000}, chatParams, inOne, CauseAborted); strings.Contains(out[len(role()+cut):], progressEvent) {
		t.Errorf("it has an end: %s", out[len(role()+cut):])
	}
	// The end of a tool that is open leaves, and is its end.
	start, end := g2Start("terminal", "💻", "ls", "o"), orphan
	out, v, _ := largeLife(t, role()+start+end+text("x")+stop(), Options{}, CauseEOF)
	if pairs(t, v, "o"); !strings.Contains(out, end) {
		t.Errorf("it does not leave")
	}
}

// A tool event is no text: a stop after it is false.
func TestLargeToolEventIsNoAnswer(t *testing.T) {
	_, _, sum := largeLife(t, role()+g2Start("terminal", "💻", overLimit, "c")+g2End("terminal", "c")+stop(), Options{}, CauseEOF)
	if sum.Code != CodeEmpty || sum.Tools != 1 || sum.Unexamined != 1 {
		t.Errorf("%+v", sum)
	}
}

// Text in a large frame completes the tools without ids before it, and counts as text.
func TestLargeFrameOfText(t *testing.T) {
	picture := "![image](data:image/png;base64," + strings.ReplaceAll(overLimit, " ", "") + overLimit + ")"
	for _, say := range []func(string) string{text, reasoning} {
		out, v, sum := largeLife(t, role()+g1("terminal", "💻", "ls")+say(picture)+stop(), Options{}, CauseEOF)
		if i, j := strings.Index(out, `"status":"completed"`), strings.Index(out, "base64"); i < 0 || i > j || sum.Code != "" && v.reasoning == "" {
			t.Errorf("%+v: the tool's end is at %d, the text at %d", sum, i, j)
		}
		out, _, sum = largeLife(t, role()+say(picture), Options{}, CauseAborted)
		if sum.Code != CodeAborted || !strings.Contains(out, `"partial":true`) {
			t.Errorf("%+v\n%s", sum, out[max(0, len(out)-500):])
		}
	}
}

// An error in a large frame is upstream's: an error finish does not repeat it, and a stop
// after it is none.
func TestErrorInALargeFrame(t *testing.T) {
	tool := g2Start("terminal", "💻", "ls", "c")
	for name, failure := range map[string]string{
		"a frame":              `data: {"error": {"message": "boom", "details": "` + overLimit + `"}}` + "\n\n",
		"a message":            `data: {"error": {"message": "` + overLimit + `", "type": "x"}}` + "\n\n",
		"a string":             `data: {"error": "` + overLimit + `"}` + "\n\n",
		"an event":             named("error", `{"error": {"message": "boom", "details": "`+overLimit+`"}}`),
		"a chunk":              strings.Replace(delta(""), `"choices"`, `"error": {"message": "boom", "x": "`+overLimit+`"}, "choices"`, 1),
		"a finish chunk":       finishChunk("error", zeroUsage+`, "error": {"message": "`+overLimit+`", "type": "agent_error"}`),
		"a finish chunk, stop": finishChunk("error", zeroUsage+`, "error": {"message": "boom"}, "hermes": {"error": "`+overLimit+`"}`),
	} {
		for _, behind := range []string{"", stop(), doneFrame, text("x")} {
			if strings.HasPrefix(name, "a finish") && behind == stop() {
				behind = doneFrame
			}
			if strings.HasPrefix(name, "a finish") && behind == text("x") {
				continue
			}
			for _, o := range []Options{{}, {ErrorFinish: ErrorFinishInline}, {Progress: ProgressBare}} {
				out, v, sum := largeLife(t, role()+text("y")+tool+failure+behind, o, CauseAborted)
				pairs(t, v, "c")
				if sum.Code != CodeAgentError || v.finishes[0] != "error" || strings.Index(out, `"completed"`) > strings.Index(out, overLimit) {
					t.Errorf("%s: %+v", name, sum)
				}
				if n := strings.Count(out, `"error": {`) + strings.Count(out, `"error":{`) + strings.Count(out, `"error": "`); n > 2 && strings.HasPrefix(name, "a finish") {
					t.Errorf("%s: %d errors", name, n)
				}
				if strings.Contains(failure, `"boom", "det`) && !strings.Contains(out, `"error":"boom"`) {
					t.Errorf("%s: its message is not repeated in the finish", name)
				}
				if t.Failed() {
					t.Fatalf("%s, %+v\n%s", name, o, strings.ReplaceAll(out, overLimit, "…"))
				}
			}
		}
	}
}

// A stream of another server is not looked at.
func TestLargeFrameOfAForeignStreamPasses(t *testing.T) {
	in := g2Start("_thinking", "💭", overLimit, "i") + `data: {"error": {"message": "` + overLimit + `"}}` + "\n\n"
	out, sum := run(in, Options{MaxFrame: 5000, Progress: ProgressOff}, Params{}, atRandom(3, 900), CauseEOF)
	if same(t, out, in, "bytes"); sum.Code != "" {
		t.Errorf("%+v", sum)
	}
}

// follow feeds in to two streams in the same reads, of which one reads each frame, and
// compares what leaves and what they know.
func follow(t *testing.T, in string, o Options, p Params, cut cutter, cause Cause) {
	t.Helper()
	quick := New(&o, p)
	p.Explain = func(Step) {} // what is explained is read
	reads := New(&o, p)
	for at := 0; at < len(in) && !t.Failed(); {
		n := cut(len(in) - at)
		read := in[at : at+n]
		at += n
		got := string(quick.Feed(nil, []byte(read), epoch))
		want := string(reads.Feed(nil, []byte(read), epoch))
		same(t, got, want, "what leaves for the read that ends at "+fmt.Sprint(at))
		if got, want := knows(quick), knows(reads); got != want {
			t.Errorf("after %q:\nknows %s\nwant  %s", read, got, want)
		}
	}
	same(t, string(quick.Finish(nil, cause)), string(reads.Finish(nil, cause)), "the end")
	if got, want := quick.Summary(), reads.Summary(); got != want {
		t.Errorf("summaries: %+v, %+v", got, want)
	}
}

// byFrame reads frame by frame.
func byFrame(in string) cutter {
	all, i := frames(in), 0
	return func(n int) int {
		i++
		return min(n, len(all[i-1]))
	}
}

// TestAlikeChangesNothing: a frame that is not read leaves as if it were, and
// what is known is the same.
func TestAlikeChangesNothing(t *testing.T) {
	for _, r := range everyNth(recordings(t)) {
		for _, o := range allOptions() {
			for _, cut := range []cutter{byFrame(r.body), atRandom(1, 300)} {
				follow(t, r.body, o, r.params(), cut, CauseAborted)
				if t.Failed() {
					t.Fatalf("%s with %+v", r.name(), o)
				}
			}
		}
	}
}

// TestLikeFramesAreNotRead: this is what makes a clean stream cheap.
func TestLikeFramesAreNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want int
	}{
		"text":                 {texts("a", "b", " c", "d e", "é 💻 \"x\" \\"), 4},
		"lines":                {texts("a", "b\n", "c", "\n\n", "# d", "\n"), 5},
		"white space first":    {texts(" ", "a", " ", "b"), 2},
		"code at a line":       {texts("see", "\n", "`git status`", "."), 3},
		"a fence":              {texts("see\n", "```go\n", "`x` <b>\n", "`\U0001f4bb ls`\n", "```", "\n", "x"), 6},
		"a tag":                {texts("see\n", "<b>", "\n\n", "<b>", "x", "y"), 4},
		"a marker at a line":   {texts("see\n", "a\n`\U0001f4bb ls", "` x\n", " y"), 1},
		"reasoning":            {reasoning("a") + reasoning("b\n") + reasoning("`<c"), 2},
		"reasoning, then text": {reasoning("a") + reasoning("b") + texts("c", "d"), 2},
		"a comment in between": {texts("a", "b") + keepalive + texts("c", "d"), 2},
		"another envelope":     {texts("a", "b") + strings.ReplaceAll(texts("c", "d"), "chatcmpl-1", "chatcmpl-2"), 2},
		"another choice":       {texts("a", "b") + strings.ReplaceAll(texts("c"), `"index": 0`, `"index": 1`), 1},
		"a finish in a frame":  {texts("a", "b") + strings.ReplaceAll(texts("c"), "null", `"stop"`), 1},
		"a large text":         {texts("a", strings.Repeat("b", 1000)), 0},
		"after a marker":       {texts("a", "b") + markerChunk("💻", "ls") + texts("\n\n", "c", "d"), 2},
		"an error in a choice": {strings.ReplaceAll(texts("a", "b"), `"index": 0`, `"index": 0, "error": "sk-12345678"`), 0},
		"usage in each":        {strings.ReplaceAll(texts("a", "b", "c"), "}\n\n", realUsage+"}\n\n"), 0},
		"an open tool":         {g2Start("t", "💻", "l", "call_1") + texts("a", "b", "c"), 0},
		"text repeated":        {strings.ReplaceAll(texts("a", "a", "a"), `"delta"`, `"text": "a", "delta"`), 0},
		"after the finish":     {texts("a", "b") + finishChunk("stop", realUsage) + texts("c", "d"), 1},
	} {
		s, passed := New(&Options{}, chatParams), 0
		for _, frame := range frames(role() + c.in) {
			s.chat.Begin(nil, epoch)
			if s.chat.Pass([]byte(frame), 1<<10) > 0 {
				passed++
				same(t, string(s.chat.Out.Take()), frame, "bytes")
				continue
			}
			s.Feed(nil, []byte(frame), epoch)
		}
		if passed != c.want {
			t.Errorf("%s: %d frames are not read, want %d", name, passed, c.want)
		}
	}
}

// An error in a choice loses its secrets in each of several frames that are alike.
func TestLikeFramesWithSecrets(t *testing.T) {
	frames := strings.ReplaceAll(texts("a", "b", "c"), `"index": 0`, `"index": 0, "error": {"message": "sk-12345678abcdef"}`)
	if out := repair(role() + text("x") + frames + stop()); strings.Contains(out, "sk-1234") || strings.Count(out, redacted) != 3 {
		t.Errorf("secrets are left in\n%s", out)
	}
}

// TestFramesThatDifferInOneByte leave as if they were read, wherever that byte is, and so
// do those after them: in one read, and frame by frame.
func TestFramesThatDifferInOneByte(t *testing.T) {
	for _, frame := range []string{text(`a\n`), reasoning("\u00e9"), markerChunk("\U0001f4bb", "ls")} {
		before := role() + texts("a", "b") + frame + frame
		for i := range frame {
			for _, b := range []string{"", "\"", "1"} {
				in := before + frame[:i] + b + frame[i+1:] + frame + text("c")
				cuts := []int{len(before), len(frame) - 1 + len(b), len(frame)}
				byPiece := func(n int) int {
					if len(cuts) > 0 {
						n, cuts = min(n, cuts[0]), cuts[1:]
					}
					return n
				}
				for _, cut := range []cutter{inOne, byPiece} {
					if follow(t, in, Options{}, chatParams, cut, CauseAborted); t.Failed() {
						t.Fatalf("%q in the place of %q", b, frame[i])
					}
				}
			}
		}
	}
}

// likeTokens are what FuzzAlike makes texts of, as they stand in JSON.
var likeTokens = []string{
	`a`, ` `, `word`, `\n`, `\n\n`, `\u000a`, "`", `\u0060`, `<`, `\u003c`, `\u003C`, `think>`, `</think>`, "```", `~~~`, `\"`, `\\`, `\u00e9`, `é`,
	`\ud83d\udcbb`, `💻`, `\t`, `\r`, `\u00a0`, "\x00", "\n", `"`, `"}`, `\`, `\u`, `\u00`, `\q`, "\xff", "`💻 ls`", "\\n`💻 ls`\\n", `: `,
	`Provider said: `, `sk-abcdefgh`, `P\u0072ovider said: sk-abcdefgh`,
}

// FuzzAlike: whatever comes between and inside like frames, they leave as if they
// were read, and what is known is the same.
func FuzzAlike(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 2, 1, 0, 5, 9, 14, 5, 0, 0}, []byte{0}, byte(0), byte(0))
	f.Add([]byte{0, 0, 1, 0, 1, 4, 6, 0, 1, 0, 3, 0, 0, 8, 12}, []byte{200, 3, 17}, byte(3), byte(9))
	f.Add([]byte{16, 0, 16, 1, 17, 3, 32, 0, 1, 0, 2, 35, 7, 4, 0, 0, 0, 2}, []byte{1}, byte(5), byte(20))
	f.Fuzz(func(t *testing.T, script, cuts []byte, options, limit byte) {
		if len(script) > 200 { // more takes seconds, and "go test -fuzz" takes 10 s for a hang
			return
		}
		all := allOptions()
		o := all[int(options)%len(all)]
		if limit > 0 {
			o.MaxFrame = 100 + int(limit)*4
		}
		follow(t, likeStream(script), o, chatParams, byScript(cuts), Cause(options%4))
	})
}

// likeStream is the stream that a script says: mostly frames of text that are
// alike.
func likeStream(script []byte) string {
	var b strings.Builder
	next := func() byte {
		if len(script) == 0 {
			return 0
		}
		c := script[0]
		script = script[1:]
		return c
	}
	between := []string{
		role(), keepalive, delta(""), g1("terminal", "💻", "ls"), g2Start("t", "💻", "l", "call_1"), g2End("t", "call_1"), "\n", "\r\n", "data: x\n\n", ": c\n",
		finishChunk("stop", realUsage), doneFrame, named("x", "{}"), `data: {"error": {"message": "m"}}` + "\n\n", "data: {", markerChunk("💻", "ls"), text("<think>"), text("</think>\n"),
	}
	for len(script) > 0 {
		kind := next()
		if kind >= 224 {
			b.WriteString(between[int(next())%len(between)])
			continue
		}
		var inner strings.Builder
		for range kind & 3 {
			inner.WriteString(likeTokens[int(next())%len(likeTokens)])
		}
		frame := delta(`"content": "` + inner.String() + `"`)
		switch kind >> 2 & 15 {
		case 1:
			frame = delta(`"reasoning_content": "` + inner.String() + `"`)
		case 2:
			frame = strings.ReplaceAll(frame, `"index": 0`, `"index": 1`)
		case 3:
			frame = strings.ReplaceAll(frame, "chatcmpl-1", "chatcmpl-2")
		case 4:
			frame = strings.ReplaceAll(frame, "\n\n", "\r\n\r\n")
		case 5:
			frame = strings.ReplaceAll(frame, "null", `"length"`)
		case 6:
			frame = strings.ReplaceAll(frame, `"delta": {`, `"delta": {"role": "assistant", `)
		case 7, 8:
			frame = delta(`"content": "\n` + "`💻 " + inner.String() + "`" + `\n"`)
		}
		b.WriteString(frame)
	}
	return b.String()
}
