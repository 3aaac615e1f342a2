package rewrite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/tidwall/gjson"
)

// fuzzSeeds adds the shorter recordings to f.
func fuzzSeeds(f *testing.F, add func(body string)) {
	for _, r := range recordings(f) {
		switch r.scenario {
		case "one_tool", "parallel_tools", "model_imitates", "crash_after_text", "crash_in_tool", "status_wait", "runs.one_tool", "zero_usage_empty":
			add(r.body)
		}
	}
}

// twoCuts repairs in cut as the scripts say, and fails if that makes a difference.
func twoCuts(t *testing.T, in string, o Options, p Params, a, b []byte, cause Cause) (s *Stream, out string) {
	t.Helper()
	s = New(&o, p)
	out = string(s.Finish(feedAll(s, in, byScript(a)), cause))
	other, sum := run(in, o, p, byScript(b), cause)
	same(t, other, out, "outputs of two cuts")
	equal(t, sum, s.Summary(), "summaries of two cuts")
	return s, out
}

// FuzzFraming: any bytes, cut in any two ways, give the same bytes; a stream that is not guarded passes.
func FuzzFraming(f *testing.F) {
	fuzzSeeds(f, func(body string) {
		for _, in := range reframed(body) {
			n := len(in)
			f.Add([]byte(in), []byte{0}, []byte{200, 3, 17}, n%2 == 0, byte(n), byte(n*7))
		}
	})
	for _, in := range framings { // in two, anywhere
		for i := range in {
			f.Add([]byte(in), []byte{byte(i), 255}, []byte{0}, i%2 == 0, byte(i), byte(i%3*4))
		}
	}
	base := role() + text("a\n`💻") + comment + text(" ls`\n\nb") + g1("terminal", "💻", "x") + text("c")
	lines := multiline(text("a")) + multiline(markerChunk("💻", "ls")) + multiline(finishChunk("stop", zeroUsage)) + doneFrame
	for n, in := range []string{base, base + stop(), inCRLF(base), inCRLF(base + stop()), mark + strings.ReplaceAll(base, "\n", "\r"), lines} {
		for cut := range byte(64) {
			f.Add([]byte(in), []byte{cut}, []byte{3 * cut, 1, 255}, true, cut*4+byte(n%4), byte(n%2*8))
		}
	}
	for _, active := range []bool{false, true} { // a frame that is cut after max_frame
		f.Add([]byte(strings.Repeat("0", 50)), []byte{0}, []byte{49, 0}, active, byte(0), byte(6))
	}
	f.Fuzz(func(t *testing.T, in, a, b []byte, active bool, options, limit byte) {
		all := allOptions()
		o := all[int(options)%len(all)]
		if limit > 0 {
			o.MaxFrame = int(limit) * 8
		}
		p := chatParams
		p.Active = active
		cause := Cause(options % 4)
		s, got := twoCuts(t, string(in), o, p, a, b, cause)
		if !s.Guarded() {
			same(t, got, string(in), "bytes of a foreign stream")
		}
	})
}

// contentTokens are what FuzzContent makes text of.
var contentTokens = []string{
	"\n", "\n", "\n\n", "`", "`💻 ls -la`", "`📖 a.go`", "`⚙️ x`", "`⚙ y`", "`💻 ", "`💻", " ", "```", "~~~", "````", "a", "word ", "é", "💻",
	"\ufe0f", "`git status`", "`🦄 x`", "x`", "\r", "\t", "  ", "`🔍 recall: \"x\"`", "`💻 a`\n", "\n`💻 b`\n", "`💻 `", "`💻 ``", "\u00a0", "```go\n", "~~~\n", "\\", "\"", "<b>", "\r\n", "`💻 a` \r\n", "\n  `💻 b`\t\n", "`⚙\ufe0e z`", "\ufe0e",
}

// FuzzContent: the content is upstream's minus imitations, however it is cut into deltas, with empty frames
// between them.
func FuzzContent(f *testing.F) {
	f.Add("", []byte{14, 0, 4, 0, 0, 14}, []byte{1})
	f.Add("Sure\n`💻 ls -la`\ndone", []byte{}, []byte{1, 0, 2, 9, 5})
	f.Add("", []byte{11, 0, 4, 0, 11, 0, 5, 2, 14}, []byte{3, 1})
	f.Add("", []byte{26, 26, 5, 0, 0, 26, 2, 14}, []byte{0, 6})
	fuzzSeeds(f, func(body string) { f.Add(look(f, body).content, []byte{}, []byte{2, 30, 1}) })
	for _, s := range strips { // in one delta, in one for each rune, and in two cut at each place
		f.Add(s.content, []byte{}, []byte{0})
		for i := range []rune(s.content) {
			f.Add(s.content, []byte{}, []byte{byte(i << 2), 252})
		}
	}
	f.Fuzz(func(t *testing.T, raw string, script, cuts []byte) {
		if !utf8.ValidString(raw) || strings.ContainsRune(raw, utf8.RuneError) {
			return
		}
		content := raw
		for _, b := range script {
			content += contentTokens[int(b)%len(contentTokens)]
		}
		if len(content) > 2000 {
			return
		}
		// A tool event of upstream's says that no chunk is a real marker.
		const before = `data: {"id": "c", "choices": []}` + "\n\n"
		stream := before + g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + deltas(content, cuts) + stop()
		tagged, auto := Options{Reasoning: ReasoningKeep, Imitations: ImitationsStrip}, Options{Reasoning: ReasoningKeep}
		known := repairWith(stream, auto)
		same(t, look(t, known).content, content, "contents of an upstream that sends tool events")
		same(t, repairWith(known, auto), known, "twice and once, of an upstream that sends tool events")
		// Of an upstream that does not, only what is a whole chunk differs: it is a marker.
		if unknown := before + deltas("x"+content, cuts) + stop(); !strings.Contains(unknown, `"content": "\n`) {
			out := repairWith(unknown, auto)
			same(t, out, repairWith(unknown, tagged), "auto and strip")
			same(t, repairWith(out, auto), out, "twice and once, of an upstream that is not known")
		}
		out := repairWith(stream, tagged)
		same(t, look(t, out).content, withoutImitations(content), "contents")
		kept := repairWith(stream, Options{Imitations: ImitationsKeep, Reasoning: ReasoningKeep})
		same(t, look(t, kept).content, content, "contents that are kept")
		same(t, repairWith(out, tagged), out, "twice and once")
		if withoutImitations(content) == content && !strings.Contains(content, "`") {
			same(t, repairWith(stream, Options{Progress: ProgressBare, Reasoning: ReasoningKeep, EmptyAnswer: EmptyAnswerPass}), stream, "bytes of what needs no change")
		}
	})
}

// deltas cuts content into deltas as the script says, with empty frames between them.
func deltas(content string, script []byte) string {
	var b strings.Builder
	rs := []rune(content)
	for i := 0; len(rs) > 0; i++ {
		c := byte(255)
		if len(script) > 0 {
			c = script[i%len(script)]
		}
		n := min(len(rs), 1+int(c>>2))
		switch c & 3 {
		case 1:
			b.WriteString(comment)
		case 2:
			b.WriteString(delta(""))
		case 3:
			b.WriteString(delta(`"content": ""`))
		}
		b.WriteString(text(string(rs[:n])))
		rs = rs[n:]
	}
	return b.String()
}

// A lifeScript writes a stream from bytes, one operation each.
type lifeScript struct {
	script []byte
	chunks []string // what is fed; see tick and breath
	mode   byte
	shown  bool // a tool event has been written that the client sees
	hidden bool // one was written before it that the client does not see
	large  bool // one was written that is too large to get a card
}

func (l *lifeScript) next() byte {
	if len(l.script) == 0 {
		return 0
	}
	b := l.script[0]
	l.script = l.script[1:]
	return b
}

var lifeTexts = []string{
	"Hello", " ", "\n\n", "\n\nMore text.", "`💻 ls`", "\n`💻 ls`\n", "`💻", " ls", "`\n", "a\n`📖 b`\nc", "```\n", "\n```\n", "`", "\n", "a\n`💻 c`", "`💻 c`\n`📖 d`\n\ne", "\n`🦄 u`\n",
	"⚠️ No reply: x didn't produce a reply.", "\n`💻 b`\n`🦄 x`\n", "\n`🦄 x`\n`💻", "a\n\n<think>b</think>`", "<think>x</think>y\n\n", "World",
	"\n\nProvider said: HTTP 401: sk-abcdefghij", "Provider said: sk-abcdefghij\n`💻", "\n\n<think>x</think> Provider said: sk-abcdefghij",
}

var lifeTools = [][3]string{{"terminal", "💻", "ls -la"}, {"read_file", "📖", "a.go"}, {"_thinking", "💭", "hm"}, {"web_search", "🔍", "recall: \"x\""}, {"tool", "🦄", "`q` \"<b>\\"}}

var lifeFinishes = []string{
	finishChunk("stop", realUsage), finishChunk("stop", zeroUsage), finishChunk("stop", ""), finishChunk("length", realUsage), finishChunk("tool_calls", realUsage),
	finishChunk("error", ""),
	finishChunk("error", zeroUsage+`, "error": {"message": "boom sk-abcdefghij", "type": "RuntimeError"}, "hermes": {"completed": true, "partial": false, "failed": true, "error": "boom", "error_code": "agent_error"}`),
	`data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "end"}, "finish_reason": "stop"}]` + realUsage + "}\n\n",
	`data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}` + "\n\n",
	finishChunkWith(`"content": " "`, "stop", realUsage), finishChunkWith(`"content": "end"`, "stop", zeroUsage), finishChunkWith(`"content": "end"`, "error", ""),
}

var lifeEvents = []string{
	named("hermes.status", `{"type": "waiting", "n": 1}`),
	statusOf("❌ Model returned no content after all retries. No fallback providers configured."),
	named("hermes.status", `{"kind": "warn", "text": "boom sk-abcdefghij", "error": "x"}`),
	named("approval.request", approval),
	named("other", `{"id": 1, "error": {"message": "m"}, "choices": []}`),
}

// tick stands for an hour that passes, breath for a keepalive of the sidecar's.
const (
	tick   = "tick"
	breath = "breath"
)

// write writes the stream, and is false at its end.
func (l *lifeScript) write() (finished bool) {
	for len(l.script) > 0 {
		op, arg := l.next(), l.next()
		tool := lifeTools[int(arg)%len(lifeTools)]
		id := fmt.Sprint("call_", arg%4)
		switch op % 16 {
		case 0, 1:
			s := lifeTexts[int(arg)%len(lifeTexts)]
			if l.mode%4 != 0 && strings.Contains(s, "🦄") {
				continue
			}
			l.add(text(s))
		case 2:
			if (l.mode%4 == 0 || l.mode%4 == 3) && tool[0][0] != '_' {
				l.add(markerChunk(tool[1], tool[2]))
			}
		case 3:
			if l.mode%4 == 1 || l.mode%4 == 3 {
				l.shows(tool[0][0] != '_')
				l.add(g1(tool[0], tool[1], tool[2]))
			}
		case 4, 5:
			if l.mode%4 >= 2 {
				l.shows(tool[0][0] != '_')
				l.add(g2Start(tool[0], tool[1], tool[2], id))
			}
		case 6, 7:
			if l.mode%4 >= 2 {
				l.shows(false)
				l.add(g2Ends(tool[0], id, append(endedOtherwise, "completed", "completed")[int(arg)/8%(len(endedOtherwise)+2)]))
			}
		case 8:
			l.add(comment)
		case 9:
			l.add(breath)
		case 10:
			l.add(tick)
		case 11:
			l.add(reasoning(lifeTexts[int(arg)%4]))
		case 12:
			l.add(lifeEvents[int(arg)%len(lifeEvents)])
		case 13:
			l.add(delta(`"role": "assistant"`))
		case 14:
			large, status := strings.Repeat("y", 9000), "running"
			switch arg % 6 {
			case 0, 3:
				l.add("x: " + large + "\n\n")
			case 1:
				l.add(text(large))
			case 4:
				status = "completed"
				fallthrough
			case 2:
				if l.mode%4 >= 2 { // the id is in front, where it says whether the event is one too many
					l.shows(status == "running" && tool[0][0] != '_')
					l.large = true
					l.add(named(progressEvent, `{"toolCallId": "`+id+`", "status": "`+status+`", "tool": "`+tool[0]+`", "label": "`+large+`"}`))
				}
			}
		case 15:
			if arg < 128 {
				continue
			}
			l.add(lifeFinishes[int(arg)%len(lifeFinishes)])
			if arg&64 != 0 {
				l.add(lifeEvents[int(arg)%len(lifeEvents)])
			}
			return true
		}
	}
	return false
}

// shows notes that a tool event is written.
func (l *lifeScript) shows(seen bool) {
	l.shown = l.shown || seen
	l.hidden = l.hidden || !l.shown
}

func (l *lifeScript) add(s string) {
	if l.mode&8 != 0 {
		s = strings.ReplaceAll(s, "\n\n", "\r\n\r\n")
	}
	l.chunks = append(l.chunks, s)
}

// FuzzLifecycle: whatever upstream does, tools pair up, the stream ends as it must, and twice equals once.
func FuzzLifecycle(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 0, 2, 1, 0, 3, 15, 128}, byte(0), byte(3))
	f.Add([]byte{1, 3, 0, 3, 1, 10, 0, 3, 0, 0, 3}, byte(0), byte(1))
	f.Add([]byte{2, 4, 0, 4, 1, 6, 0, 6, 0, 6, 3, 15, 134}, byte(1), byte(3))
	f.Add([]byte{0, 0, 4, 2, 0, 2, 1, 0, 14}, byte(2), byte(2))
	f.Add([]byte{2, 14, 2, 14, 8, 14, 10, 14, 4, 14, 1, 15, 128}, byte(0), byte(0))
	f.Add([]byte{11, 2, 0, 8, 0, 9, 0, 14, 3, 0, 9}, byte(7), byte(0))
	f.Add([]byte{66, 4, 0, 4, 1, 6, 0, 6, 0, 6, 3, 15, 134}, byte(1), byte(3))
	f.Add([]byte{66, 14, 2, 14, 8, 14, 10, 14, 4, 14, 1, 15, 128}, byte(3), byte(0))
	for script := range scripts(1000/cutStride, 100) {
		f.Add(script, script[len(script)/2], script[len(script)-1])
	}
	f.Fuzz(func(t *testing.T, script []byte, options, end byte) {
		if len(script) == 0 || len(script) > 600 {
			return
		}
		l := &lifeScript{script: script[1:], mode: script[0]}
		finished := l.write()
		all := allOptions()
		o := all[int(options)%len(all)]
		o.MaxFrame, o.NoCards = 8000, o.NoCards || l.large
		p := chatParams
		if l.mode&64 != 0 {
			p.Details = scripted{}
		}
		said := remember(&p)
		var told, seen []bool
		p.OnTool = func(e ToolEvent) { told = append(told, e.Completed) }
		s := New(&o, p)
		var out []byte
		in, now := "", epoch
		feed := func(c string) {
			in += c
			if out = s.Feed(out, []byte(c), now); s.Finished() && said.times == 0 && s.Summary().Unexamined == 0 {
				t.Error("the finish leaves before the answer is remembered")
			}
		}
		if l.mode&16 != 0 {
			feed("\ufeff")
		}
		for i, c := range l.chunks {
			switch c {
			case tick:
				now = now.Add(time.Hour)
			case breath:
				out = s.Keepalive(out)
			default:
				if i == len(l.chunks)-1 && !finished && end&16 != 0 && len(c) < o.MaxFrame {
					c = c[:int(end)*len(c)/256]
				}
				from := len(out)
				if feed(c); len(out)-from > 3*len(c)+256<<10 {
					t.Errorf("%d bytes are written for %d", len(out)-from, len(c))
				}
			}
		}
		if cut := end&16 != 0 && !finished; end&32 != 0 && !cut {
			feed(doneFrame)
		}
		out = s.Finish(out, Cause(end%4))
		equal(t, string(s.Keepalive(s.Feed(s.Finish(nil, CauseEOF), []byte(text("x")), now))), "", "what leaves after the end")
		if !slices.Contains(l.chunks, tick) && !slices.Contains(l.chunks, breath) {
			p.OnTool = nil
			other, _ := run(in, o, p, atRandom(1, 99), Cause(end%4))
			same(t, other, string(out), "outputs of two cuts")
		}
		v := checkLife(t, string(out), o, s.Summary(), finished)
		if o.Progress != ProgressOff && !l.large { // a large start leaves before the ends that it proves
			for _, e := range v.tools {
				seen = append(seen, e.status != "running")
			}
			equal(t, fmt.Sprint(told), fmt.Sprint(seen), "the ends of tools that are told")
		}
		if s.Summary().Unexamined == 0 {
			said.check(t, v)
			if o.Progress != ProgressOff && o.Imitations != ImitationsTrust {
				equal(t, len(said.tools), len(v.starts()), "tools that are remembered")
			}
		}
		switch {
		case l.hidden || o.Progress == ProgressOff:
			// Upstream's tool events show that no chunk is a real marker. If they are hidden, a second
			// sidecar cannot know that.
		case goesOnAfterAMarker(v.content):
			// A tool event between a marker and the text after it on its line says that the line ends there;
			// one that came before, or is dropped, does not say so.
		default:
			for _, details := range []Details{nil, p.Details} {
				second := chatParams
				second.Details = details
				twice, _ := run(string(out), o, second, atRandom(1, 999), CauseEOF)
				same(t, twice, string(out), "twice and once")
			}
		}
	})
}

// scripted are Details that know of most calls with an id of upstream's own, but not always when they start, or
// when they end.
type scripted struct{}

func (scripted) Started(c ToolCall, flush func()) (d ToolDetails) {
	flush()
	if len(c.ID) < len("call_0123456789") && c.Nth%3 != 1 {
		d.Args = ToolArgs([]string{`{"a": "\u202e \n"}`, "[1]", "{}", "x\x00"}[len(c.Name)%4])
	}
	return d
}

func (s scripted) Ended(c ToolCall, flush func()) (d ToolDetails) {
	if d = s.Started(c, flush); c.Nth%4 != 2 && len(c.ID) < len("call_0123456789") {
		d.Result, d.Failed = ToolResult([]string{"", "Error: x", `{"exit_code": 1}`, strings.Repeat("é\x1b", 9000)}[(len(c.Name)+c.Nth)%4])
	}
	if c.Nth%3 == 2 {
		d.Args = nil
	}
	return d
}

func checkLife(t *testing.T, out string, o Options, sum Summary, finished bool) *view {
	t.Helper()
	v := look(t, out)
	v.checkLifecycle(t)
	if !o.NoCards && (o.Progress == ProgressEnvelope || o.Progress == ProgressUnnamed) {
		equal(t, len(cardsOf(t, out)), len(v.starts()), "cards")
	}
	if o.Progress == ProgressOff && len(v.tools) > 0 {
		t.Errorf("tool events although progress is off")
	}
	if v.done != 1 || v.order[len(v.order)-1] != "done" {
		t.Errorf("order = %s, want [DONE] at the end", v.story())
	}
	if len(v.finishes) != 1 || v.finishes[0] != sum.FinishReason {
		t.Errorf("finish reasons = %q, summary %+v", v.finishes, sum)
	}
	if sum.Code != "" && sum.FinishReason != "error" || !finished && sum.Code == "" {
		t.Errorf("summary = %+v", sum)
	}
	if sum.Code != "" && o.ErrorFinish != ErrorFinishInline && (len(v.errors) != 1 || !strings.HasSuffix(strings.TrimSuffix(v.story(), " other done"), "error finish") && !strings.HasSuffix(v.story(), "error finish done")) {
		t.Errorf("errors = %+v, order = %s", v.errors, v.story())
	}
	for _, e := range v.tools {
		if e.interrupted && (sum.Code == "" || e.status != "completed") {
			t.Errorf("%s is interrupted in a stream with the code %q:\n%s", e.id, sum.Code, out)
		}
	}
	equal(t, strings.Count(out, "sk-abcdefghij"), 0, "keys that have left")
	return v
}

// goesOnAfterAMarker reports whether a line of the content begins with a marker and goes on.
func goesOnAfterAMarker(content string) bool {
	for line := range strings.SplitSeq(content, "\n") {
		for i := range line {
			if i > 0 && i < len(line)-1 && line[i] == '`' {
				if _, ok := isImitation(line[:i+1]); ok {
					return true
				}
			}
		}
	}
	return false
}

// FuzzJSON: whatever the data is, nothing panics, what is no JSON leaves as it is, what is JSON leaves as
// JSON, and a frame that is not touched leaves byte for byte.
func FuzzJSON(f *testing.F) {
	fuzzSeeds(f, func(body string) {
		for i, e := range decode(body) {
			f.Add(e.data, byte(i), byte(i))
		}
	})
	f.Add(`{"choices":[{"index":0,"delta":{"content":"\n\u0060\ud83d\udcbb x\u0060\n"}}`, byte(0), byte(0))
	f.Add(`{"error":{"message":"x"},"choices":[{"finish_reason":"error"}]}`, byte(1), byte(0))
	f.Add(`{"tool":{},"toolCallId":"x","status":3}`, byte(1), byte(1))
	f.Add(`{ }`, byte(2), byte(2))
	f.Add(`{"choices":null}`, byte(2), byte(2))
	f.Fuzz(func(t *testing.T, data string, name, options byte) {
		if strings.ContainsAny(data, "\r\n") || strings.TrimSpace(data) == "[DONE]" {
			return
		}
		all := allOptions()
		o := all[int(options)%len(all)]
		frame := "data: " + data + "\n\n"
		names := []string{"", "hermes.tool.progress", "hermes.status", "message"}
		if n := names[int(name)%len(names)]; n != "" {
			frame = "event: " + n + "\n" + frame
		}
		s := New(&o, chatParams)
		out := s.Feed(nil, []byte(role()), epoch)
		first := len(out)
		out = s.Feed(out, []byte(frame), epoch)
		middle := string(out[first:])
		out = s.Finish(out, CauseEOF)
		if !json.Valid([]byte(standardJSON(data))) {
			want := frame
			if strings.HasPrefix(frame, "event: hermes.status") { // it tells of the agent's state
				want = frame[:len(frame)-len(data)-2] + string(redact.Text([]byte(data))) + "\n\n"
			}
			same(t, middle, want, "bytes of what is no JSON")
			return
		}
		for _, e := range decode(progressComments(string(out))) {
			if e.data != "[DONE]" && !json.Valid([]byte(standardJSON(e.data))) {
				t.Errorf("an event has data that is no JSON: %q", e.data)
			}
		}
		if !strings.HasSuffix(string(out), doneFrame) {
			t.Errorf("the stream does not end with [DONE]: %q", clip(string(out), len(out)))
		}
		untouched := !strings.Contains(frame, "event:") && !strings.Contains(data, "finish_reason") && !strings.Contains(data, "tool") &&
			!strings.Contains(data, "error") && !strings.ContainsAny(data, "`\\")
		if untouched {
			same(t, middle, frame, "bytes of what needs no change")
		}
	})
}

// otherSeeds adds the recordings of sessions, or those of responses and runs, whole and cut, in every framing.
func otherSeeds(f *testing.F, sessions bool) {
	for n, r := range otherStreams(f) {
		if r.session() != sessions {
			continue
		}
		for _, at := range []int{len(r.body), len(r.body) * 2 / 3, len(r.body) / 2} {
			for _, in := range reframed(r.body[:at]) {
				for _, limit := range []byte{0, 1, 19} {
					f.Add([]byte(in), []byte{0}, []byte{200, 3, 17}, byte(n), limit)
				}
			}
		}
	}
}

// FuzzOther: any bytes after the beginning of a response or of the events of a run become what checkOther checks.
func FuzzOther(f *testing.F) {
	otherSeeds(f, false)
	f.Add([]byte(created(3, responseOfTests)+named("error", `{"type":"error","message":"x"}`)+doneFrame+outputDelta(4)), []byte{1}, []byte{90}, byte(1), byte(0))
	f.Add([]byte(created(3, ` "a" : {"status":1} , "error":null`)+"data: {\"type\":\"response.x\",\r\ndata:\"sequence_number\":9}\r\n\r"), []byte{1}, []byte{90}, byte(1), byte(0))
	f.Add([]byte(runEvent("run.x", `,"timestamp":1e5`)+"data: [DONE]"), []byte{1}, []byte{90}, byte(0), byte(0))
	f.Fuzz(func(t *testing.T, in, a, b []byte, cause, limit byte) {
		checkOther(t, string(in), otherParams(string(in)), a, b, cause, limit)
	})
}

// FuzzSessions is FuzzOther for streams of sessions.
func FuzzSessions(f *testing.F) {
	otherSeeds(f, true)
	f.Fuzz(func(t *testing.T, in, a, b []byte, cause, limit byte) {
		checkOther(t, string(in), sessionParams, a, b, cause, limit)
	})
}

// checkOther checks that in gives the same bytes, cut in any two ways. What is not explained leaves as it came. What
// says that the stream was cut is well formed and the last that the sidecar writes, and a second sidecar adds nothing.
func checkOther(t *testing.T, in string, p Params, a, b []byte, cause, limit byte) {
	t.Helper()
	o := Options{MaxFrame: int(limit) * 16}
	p.ID = chatParams.ID
	s, got := twoCuts(t, in, o, p, a, b, Cause(cause%4))
	switch {
	case s.Active():
		return
	case !s.Guarded():
		same(t, got, in, "bytes of a foreign stream")
		return
	case limit == 0:
		again, _ := run(got, o, p, byScript(a), CauseEOF)
		same(t, again, got, "outputs of a second sidecar")
	}
	equal(t, string(s.Keepalive(s.Feed(s.Finish(nil, CauseEOF), []byte(in), epoch))), "", "what leaves after the end")
	steps, _ := explained(in, o, p, byScript(a), Cause(cause%4))
	for _, step := range steps {
		if slices.ContainsFunc(step.Notes, func(n Note) bool { return strings.HasPrefix(n.Text, "cut before") }) {
			checkFailure(t, string(step.Out))
			return
		}
		if len(step.Notes) == 0 { // a blank line may be added, and a byte order mark waits
			same(t, strings.Trim(string(step.Out), "\r\n\ufeff"), strings.Trim(string(step.In), "\r\n\ufeff"), "bytes without a note")
		}
	}
}

// checkFailure checks that events end with one that says that its stream has failed.
func checkFailure(t *testing.T, events string) {
	t.Helper()
	last := ""
	for _, e := range decode(strings.TrimSuffix(events, doneFrame)) {
		equal(t, json.Valid([]byte(standardJSON(e.data))), true, "JSON: "+e.data)
		last = cmp.Or(gjson.Get(e.data, "type").Str, gjson.Get(e.data, "event").Str, e.name)
	}
	if last != "response.failed" && last != "run.failed" && last != "done" {
		t.Errorf("the last event is %q: %q", last, events)
	}
}

// reasoningTokens are what FuzzReasoning makes text of.
var reasoningTokens = []string{
	"<think>", "</think>", "<thinking>", "</thinking>", "<reasoning>", "</reasoning>", "<thought>", "</thought>",
	"<REASONING_SCRATCHPAD>", "</REASONING_SCRATCHPAD>", "<Think>", "<mm:think>", "</mm:think>", "<thi", "nk>", "<", "</", "</thi", "<<think>", ">",
	"\n", "\n\n", " ", "   ", "\t", "a", "word ", "`", "```", "```\n", "~~~\n", "é", "💻", "\u00a0", "\r", "`</think>`", "`💻 ls`\n",
	toolHere, "<think>word " + toolHere, "</think>\n\n", reasoningHere,
}

// FuzzReasoning: content and reasoning are upstream's text minus tags and the
// white space after closing ones, however upstream cut it into deltas, with tools and upstream's own reasoning between them.
func FuzzReasoning(f *testing.F) {
	for _, c := range prosetest.TaggedTexts { // in deltas of 1 to 34 characters
		for _, n := range []byte{1, 2, 3, 5, 8, 13, 21, 34} {
			f.Add(c.In, []byte{}, []byte{(n - 1) << 2})
		}
	}
	f.Add("<think>plan</think", []byte{}, []byte{1})
	for _, unclosed := range []string{
		"<think>plan `</think>", "Tags:\n\n<think>\n\nis a tag. The rest of my answer is long.", "<Think>plan</thi", "\n<think>a `</think>` b", "<think>```\n</think>\n```\n",
	} {
		f.Add(unclosed, []byte{}, []byte{1})
	}
	f.Add("", []byte{0, 23, 1, 18, 18, 23, 19, 0, 24, 1, 23}, []byte{0, 3, 6})
	for script := range scripts(400, 14) {
		f.Add("", script, []byte{1})
	}
	f.Fuzz(func(t *testing.T, raw string, script, cuts []byte) {
		if !utf8.ValidString(raw) || strings.ContainsRune(raw, utf8.RuneError) {
			return
		}
		text := raw
		for _, b := range script {
			text += reasoningTokens[int(b)%len(reasoningTokens)]
		}
		if len(text) > 1000 {
			return
		}
		said := func(text string) (stream string) { // with its tools
			for i, text := range strings.Split(text, toolHere) {
				if id := fmt.Sprintf("call_%d", i+1); i > 0 {
					stream += g2Start("t", "💻", "l", id) + g2End("t", id)
				}
				for i, text := range strings.Split(text, reasoningHere) {
					if i > 0 {
						stream += reasoning("r")
					}
					stream += deltas(text, cuts)
				}
			}
			return stream
		}
		stream := role() + said(text) + stop()
		content, thought := withoutReasoning(text, true)

		keepsImitations := Options{Imitations: ImitationsKeep}
		shown := g2Start("t", "💻", "l", "call_0") + g2End("t", "call_0")
		v := look(t, repairWith(shown+stream, keepsImitations))
		same(t, v.content, content, "contents")
		same(t, v.reasoning, thought, "reasonings")
		ended := strings.Replace(stream, `"finish_reason": "stop"`, `"finish_reason": "length"`, 1) // at a stop, what is unclosed leaves
		dropped := look(t, repairWith(shown+ended, Options{Imitations: ImitationsKeep, Reasoning: ReasoningDrop}))
		same(t, dropped.content, content, "contents without reasoning")
		equal(t, dropped.reasoning, strings.Repeat("r", strings.Count(text, reasoningHere)), "reasoning that is dropped")

		out := repair(shown + stream)
		same(t, repair(out), out, "twice and once")
		for _, e := range decode(out) {
			equal(t, strings.Contains(e.data, `"reasoning_content"`) && strings.Contains(e.data, `"content"`), false, "both in one delta: "+e.data)
		}
		kept := Options{Reasoning: ReasoningKeep, Imitations: ImitationsKeep, Progress: ProgressBare, EmptyAnswer: EmptyAnswerPass}
		same(t, repairWith(shown+stream, kept), shown+stream, "bytes of what is kept")
		secret := repair(shown + role() + said(strings.ReplaceAll(text, "word ", "Provider said: sk-abcdefgh ")) + stop())
		same(t, repair(secret), secret, "twice and once with what a provider said")
		if content == text && !strings.Contains(text, "`") {
			same(t, repairWith(stream, Options{EmptyAnswer: EmptyAnswerPass, Progress: ProgressBare}), stream, "bytes of what needs no change")
		}
		for _, o := range []Options{{}, keepsImitations, {Reasoning: ReasoningKeep}, {Reasoning: ReasoningDrop}} {
			p := chatParams
			told := remember(&p)
			streamed, _ := run(shown+stream, o, p, inOne, CauseEOF)
			told.check(t, look(t, streamed))
		}
		crashed, _ := run(shown+role()+said(text), keepsImitations, chatParams, inOne, CauseAborted)
		v = look(t, crashed)
		v.checkErrorFinish(t, CodeAborted)
		same(t, v.content, content, "contents before a crash")
		same(t, v.reasoning, thought, "reasonings before a crash")
		// An answer that is not streamed says the same, but for what no tag closes.
		text = strings.NewReplacer(toolHere, "", reasoningHere, "").Replace(text)
		content, thought = withoutReasoning(text, false)
		in := []byte(completion(`, "content": `+asciiJSON(text), "stop", realUsage))
		m := messageOf(t, RepairAnswer(in, &keepsImitations, nil).Body)
		same(t, m.Content, content, "contents of an answer")
		same(t, m.ReasoningContent, thought, "reasonings of an answer")
		a := RepairAnswer(in, &Options{}, nil)
		same(t, string(RepairAnswer(a.Body, &Options{}, nil).Body), string(a.Body), "an answer twice and once")
	})
}

// FuzzHistory: a content is healed as the contract says, wherever it stands; any body at all leaves as it
// came or as well-formed JSON with fewer bytes, and a second time through changes nothing.
func FuzzHistory(f *testing.F) {
	f.Add(`{"messages":[{"role":"assistant","content":"`+"`💻 ls`"+`\nx"}]}`, []byte{14, 0, 4, 0, 0, 14})
	f.Add(`{"messages":[{"content":[{"text":"\u0060\ud83d\udcbb a\u0060","type":"text"}],"role":"assistant"}],"stream":true}`, []byte{0, 4, 0, 1, 4})
	f.Add(" {\"messages\" : [{}, 1]}\n{}", []byte{11, 0, 4, 0, 11, 0, 5, 2, 14})
	f.Add("Sure\n`💻 ls -la`\ndone", []byte{26, 26, 5, 0, 0, 26, 2, 14})
	f.Add("\\\"`", []byte{4, 0, 4, 0})
	fuzzSeeds(f, func(body string) { f.Add(look(f, body).content, []byte{}) })
	f.Fuzz(func(t *testing.T, raw string, script []byte) {
		out, req := heal(t, raw)
		if req.Changed() && (!json.Valid([]byte(standardJSON(out))) || !json.Valid([]byte(standardJSON(raw))) || len(out) >= len(raw)) {
			t.Errorf("%+v out of %q make %q", req, raw, out)
		}
		if !utf8.ValidString(raw) || len(raw)+len(script) > 1000 {
			return
		}
		content := raw
		for _, b := range script {
			content += contentTokens[int(b)%len(contentTokens)]
		}
		if strings.ContainsRune(content, utf8.RuneError) {
			return
		}
		want, _ := withoutMarkers(content)
		checkHealed(t, content, want)
	})
}

// FuzzCardsInHistories: an answer with cards becomes one message, among messages of every
// other kind, which stay as they are.
func FuzzCardsInHistories(f *testing.F) {
	f.Add([]byte{0, 1, 3, 2, 1, 4, 2, 2, 6, 0})
	f.Add([]byte{1, 1, 7, 1, 0, 3, 2, 0, 2, 9, 4, 1, 1, 5, 5, 3, 5, 2, 2, 8})
	f.Add([]byte{3, 3, 1, 1, 14, 4, 0, 1, 1, 11, 5, 1, 1, 3, 2, 3, 1, 26})
	for script := range scripts(400, 40) {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 300 {
			return
		}
		var all []historyMessage
		next := func() (b byte) {
			if len(script) > 0 {
				b, script = script[0], script[1:]
			}
			return b
		}
		for len(script) > 0 {
			m := historyMessage{kind: historyKind(next() % 6)}
			for range next() % 4 {
				m.text += contentTokens[int(next())%len(contentTokens)]
			}
			all = append(all, m)
		}
		var in, want []string
		for i, m := range all {
			in = append(in, m.wire(i))
		}
		for _, m := range withoutCards(all) {
			if m.kind == plainAnswer || m.kind == namedAnswer {
				var n int
				if m.text, n = withoutMarkers(m.text); n > 0 && strings.TrimSpace(m.text) == "" {
					continue
				}
			}
			want = append(want, m.wire(0))
		}
		got, _ := heal(t, request(in...))
		same(t, got, request(want...), "bodies")
	})
}
