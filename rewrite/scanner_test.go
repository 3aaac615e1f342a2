package rewrite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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

func TestCutInTheSecondLineOfAFrame(t *testing.T) {
	// data line inOne, event line cut: the client would get another event.
	f := `data: {"tool": "terminal", "emoji": "x", "label": "l", "toolCallId": "c", "status": "running"}` + "\nevent: hermes.tool.pro"
	same(t, repair(role()+text("x")+f), repair(role()+text("x")), "outputs")
	f = strings.TrimSuffix(text("y"), "\n") + "da"
	same(t, repair(role()+text("x")+f), repair(role()+text("x")), "outputs")
}

func TestInvalidJSONWithAMarkerLeaves(t *testing.T) {
	in := role() + `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "\n\u0060\ud83d\udcbb ls\u0060\n"}, "finish_reason": nul}]}` + "\n\n" + text("x") + stop()
	same(t, repair(in), in, "bytes")
}
