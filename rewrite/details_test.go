package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/tooltext"
	"github.com/tidwall/gjson"
)

// stored are Details that know everything at once, by id and name and in order, and record what they
// were asked.
type stored struct {
	calls map[string][]string // by the id: the arguments and the result of each call, in turns
	asked []string

	labels []string // of the tools that were asked about
	waits  bool     // for the start of a tool
	starts bool     // knows nothing of ends
}

func (d *stored) Started(c ToolCall, flush func()) (said ToolDetails) {
	if d.waits {
		flush()
	}
	d.look("starts", c, func(args, _ string) { said.Args = ToolArgs(args) })
	return said
}

func (d *stored) Ended(c ToolCall, flush func()) (said ToolDetails) {
	d.look("ends", c, func(args, result string) {
		said.Args = ToolArgs(args)
		said.Result, said.Failed = ToolResult(result)
	})
	return said
}

func (d *stored) look(what string, c ToolCall, tell func(args, result string)) {
	d.asked, d.labels = append(d.asked, fmt.Sprintf("%s %s %s %d", what, c.Name, c.ID, c.Nth)), append(d.labels, c.Label)
	if d.starts && what == "ends" {
		return
	}
	if of := d.calls[c.ID]; len(of) > 2*c.Nth+1 {
		tell(of[2*c.Nth], of[2*c.Nth+1])
	}
}

// detailed repairs in with d as what is known of its tools.
func detailed(in string, o Options, d Details) string {
	p := chatParams
	p.Details = d
	out, _ := run(in, o, p, inOne, CauseEOF)
	return out
}

// The events, byte for byte, and the cards: as members and as Open WebUI draws them (contract section 8).
func TestDetails(t *testing.T) {
	const ok, bad = `{"output": "one\ntwo", "exit_code": 0, "error": null}`, `{"output": "no \u00fc", "exit_code": 2, "error": null}`
	d := &stored{calls: map[string][]string{
		"call_1": {`{"command": "ls  -la", "n": [1, 2.5e3]}`, ok},
		"call_2": {"not {json", bad},
	}}
	in := role() + g2Start("terminal", "💻", "ls -la", "call_1") + g2End("terminal", "call_1") +
		g2Start("read_file", "📖", "a", "call_2") + g2End("read_file", "call_2") + text("x") + stop()
	event := func(members string) string {
		return "event: hermes.tool.progress\ndata: {" + envelopeWritten + "," + members + "}\n\n"
	}
	same(t, detailed(in, Options{NoCards: true, NoStatusLine: true}, d), role()+
		event(`"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls -la", "toolCallId": "call_1", "status": "running","args":{"command":"ls  -la","n":[1,2.5e3]}`)+
		event(`"tool": "terminal", "toolCallId": "call_1", "status": "completed","args":{"command":"ls  -la","n":[1,2.5e3]},"result":"{\"output\": \"one\\ntwo\", \"exit_code\": 0, \"error\": null}"`)+
		event(`"tool": "read_file", "emoji": "\ud83d\udcd6", "label": "a", "toolCallId": "call_2", "status": "running","args":"not {json"`)+
		event(`"tool": "read_file", "toolCallId": "call_2", "status": "completed","args":"not {json","result":"{\"output\": \"no \\u00fc\", \"exit_code\": 2, \"error\": null}","failed":true`)+
		text("x")+stop(), "the events")
	equal(t, fmt.Sprint(d.asked), "[starts terminal call_1 0 ends terminal call_1 0 starts read_file call_2 0 ends read_file call_2 0]", "asked")

	for _, form := range cardForms {
		cards := cardsOf(t, detailed(in, Options{Progress: form}, d))
		for i, want := range []struct{ shown, back, output, status string }{
			{`{"command":"ls  -la","n":[1,2.5e3]} `, `{"label": "ls -la", "args": {"command":"ls  -la","n":[1,2.5e3]}}`, ok, "completed"},
			{"not {json ", `{"label": "a", "args": "not {json"}`, "Error: failed\n{\n  \"output\": \"no \\u00fc\",\n  \"exit_code\": 2,\n  \"error\": null\n}", "failed"},
		} {
			for _, item := range []wireItem{cards[i].started, cards[i].ended} {
				equal(t, item.Arguments, want.shown, "shown")
				equal(t, item.Provider.Arguments, want.back, "what comes back")
			}
			equal(t, cards[i].ended.Status, want.status, "the status")
			equal(t, cards[i].output.Output[0].Text, want.output, "the output")
		}
	}
}

// Nobody is asked of tools whose start or end upstream has not reported under an id of its own, in forms that
// have no room for the answer, or of events that have details: those stay.
func TestDetailsThatAreNotAsked(t *testing.T) {
	a, b := g2Start("terminal", "💻", "a", "call_1"), g2End("terminal", "call_1")
	told := strings.Replace(b, `"status"`, `"result": "mine", "status"`, 1)
	toldStart := strings.Replace(a, `"status"`, `"a\u0072gs": {"x": 1}, "status"`, 1)
	big := strings.Repeat("x", 3000)
	for name, c := range map[string]struct {
		in    string
		o     Options
		asked string
	}{
		"bare":                   {a + b, Options{Progress: ProgressBare}, "[]"},
		"comment":                {a + b, Options{Progress: ProgressComment}, "[]"},
		"off":                    {a + b, Options{Progress: ProgressOff}, "[]"},
		"markers":                {markerChunk("💻", "ls"), Options{}, "[]"},
		"G1":                     {g1("terminal", "💻", "ls"), Options{}, "[]"},
		"an internal tool":       {g2Start("_x", "💭", "hm", "c") + g2End("_x", "c"), Options{}, "[]"},
		"the end of the stream":  {a, Options{}, "[starts terminal call_1 0]"},
		"an orphan, a duplicate": {b + a + a + b + b, Options{}, "[starts terminal call_1 0 ends terminal call_1 0]"},
		"after the finish":       {finishChunk("stop", realUsage) + a + b, Options{}, "[]"},
		"an end with its own":    {a + told, Options{}, "[starts terminal call_1 0]"},
		"a start with its own":   {toldStart + b, Options{}, "[ends terminal call_1 0]"},
		"a frame that has left":  {g2Start("terminal", "💻", big, "call_1") + b, Options{MaxFrame: 2048}, "[ends terminal call_1 0]"},
	} {
		d := &stored{calls: map[string][]string{"call_1": {`{"y": 2}`, "stored"}, "c": {`{"y": 2}`, "stored"}}}
		out := detailed(role()+c.in+text("x")+stop(), c.o, d)
		equal(t, fmt.Sprint(d.asked), c.asked, name)
		if strings.Contains(c.in, "mine") && (!strings.Contains(out, `"result": "mine"`) || strings.Contains(out, "stored")) {
			t.Errorf("%s: %s", name, out)
		}
	}
	out := detailed(role()+toldStart+told+text("x")+stop(), Options{}, &stored{})
	card := cardsOf(t, out)[0]
	equal(t, card.started.Arguments, `{"x":1} `, "arguments of upstream's own")
	equal(t, card.output.Output[0].Text, "mine", "a result of upstream's own")
}

// Ids that come again say which of their calls is asked for.
func TestDetailsOfIDsThatComeAgain(t *testing.T) {
	d := &stored{calls: map[string][]string{"x": {`{"n":1}`, "one", `{"n":2}`, "two", `{"n":3}`, "three"}}}
	in := role()
	for _, label := range []string{"a", "b", "c"} {
		in += g2Start("terminal", "💻", label, "x") + g2End("terminal", "x")
	}
	in += g2Start("read_file", "📖", "a", "x") + g2End("read_file", "x") + text("x") + stop()
	out := detailed(in, Options{}, d)
	for i, want := range []string{"one", "two", "three", "one"} {
		equal(t, gjson.Get(toolFrames(out)[2*i+1], "result").Str, want, "the result")
	}
	ids := map[string]bool{}
	for _, e := range look(t, out).tools {
		ids[e.id] = true
	}
	equal(t, len(ids), 4, "ids")
	// After more calls than are remembered nobody knows which one it is.
	var many strings.Builder
	for i := range maxToolIDs + 10 {
		many.WriteString(g2Start("terminal", "💻", "a", fmt.Sprint("id", i)) + g2End("terminal", fmt.Sprint("id", i)))
	}
	asked := &stored{}
	detailed(role()+many.String()+text("x")+stop(), Options{}, asked)
	equal(t, len(asked.asked), 2*maxToolIDs, "questions")
}

// Details change nothing else, and a second sidecar shows in its cards what the first one knew.
func TestDetailsBehindAnotherSidecar(t *testing.T) {
	d := &stored{calls: map[string][]string{"call_1": {`{"command": "x"}`, "done"}, "call_2": {"", ""}}}
	in := turn(g2Start("terminal", "💻", "a", "call_1"), g2Start("terminal", "💻", "b", "call_2"), g2End("terminal", "call_1"),
		text("so"), g2End("terminal", "call_2"), texts("`💻 x`\n", "y"))
	for _, o := range allOptions() {
		out := detailed(in, o, d)
		v, plain := look(t, out), look(t, repairWith(in, o))
		equal(t, v.content, plain.content, "the content")
		equal(t, v.story(), plain.story(), "the story")
		if o.ProgressForm(&Params{}) != ProgressEnvelope {
			continue
		}
		for _, second := range []Options{{}, {NoStatusLine: true}} {
			contains(t, cardsOf(t, repairWith(out, second))[0].started.Provider.Arguments, `"args": {"command":`)
		}
	}
}

// What users read of arguments and results in a card has no character that cannot be seen or that changes
// how others are read (contract section 2).
func TestCardsShowDetailsAsTheyAre(t *testing.T) {
	d := &stored{calls: map[string][]string{"call_1": {`{"comm\u202eand": "rm \u200b-r\n\t/"}`, "\x1b[31mred\u202e \u200b\ttab\r\nline\u2028"}}}
	in := role() + g2Start("terminal", "💻", "rm", "call_1") + g2End("terminal", "call_1") + text("x") + stop()
	card := cardsOf(t, detailed(in, Options{}, d))[0]
	equal(t, card.started.Arguments, `{"comm\\u202eand":"rm \\u200b-r\n\t/"} `, "arguments")
	equal(t, card.output.Output[0].Text, `\x1b[31mred\u202e \u200b`+"\ttab\nline"+`\u2028`, "the output")
	equal(t, gjson.Get(card.started.Provider.Arguments, "args").Raw, "{\"comm\u202eand\":\"rm \u200b-r\\n\\t/\"}", "what comes back")
}

// Arguments and results are JSON that every client reads, and bounded.
func TestDetailsAreJSONForEveryClient(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for text, want := range map[string]string{
		`{}`: `{}`, " { \"a\" : [ 1 , -2.5E+3 , true, null ] }\n": `{"a":[1,-2.5E+3,true,null]}`,
		`{"a":"\ud83d\udcbb\u0041\/"}`: `{"a":"💻A/"}`, `{"a":"\ud800"}`: "{\"a\":\"\ufffd\"}", "{\"a\":\"\xff\"}": "{\"a\":\"\ufffd\"}",
		"": "", " \n": "", `{`: `"{"`, `[1]`: `"[1]"`, `null`: `"null"`, `"x"`: `"\"x\""`, "a\nb": `"a\nb"`, `{"a":1}x`: `"{\"a\":1}x"`,
		`{"a":NaN}`: `"{\"a\":NaN}"`, `{"a":-Infinity}`: `"{\"a\":-Infinity}"`, `{"a":1e999}`: `"{\"a\":1e999}"`,
		deep(32): deep(32), deep(33): `"` + strings.ReplaceAll(deep(33), `"`, `\"`) + `"`,
		`{"a":` + strings.Repeat("9", 64) + `}`: `{"a":` + strings.Repeat("9", 64) + `}`, `{"a":` + strings.Repeat("9", 65) + `}`: `"{\"a\":` + strings.Repeat("9", 65) + `}"`,
	} {
		equal(t, string(ToolArgs(text)), want, clip(text, 0))
		if again := ToolArgs(tooltext.Of(ToolArgs(text))); string(again) != want {
			t.Errorf("again: %s", again)
		}
	}
	for _, unit := range []string{"x", "é", "💻", "\"", "\\", "\x01", "\n.", "a\x00💻\u202e"} {
		for _, n := range []int{1, 100, contract.MaxDetail/len(unit) - 1, contract.MaxDetail, 300_000} {
			whole := strings.Repeat(unit, n)
			result, _ := ToolResult(whole)
			for _, raw := range [][]byte{result, ToolArgs("x" + whole), tooltext.Shown("Error: failed\n", whole)} {
				atMost(t, len(raw), contract.MaxDetail, "a detail")
				var s string
				if json.Unmarshal(raw, &s) != nil || bytes.IndexByte(raw, '\n') >= 0 {
					t.Fatalf("%q × %d: %.40s", unit, n, raw)
				}
				if cut, note, ok := strings.Cut(s, "… [cut here: all of it has "); ok {
					if want := strings.TrimLeft(strings.ToValidUTF8(whole, "\ufffd"), " "); !strings.HasPrefix("x"+want, cut) && !strings.HasPrefix(want, cut) && !strings.HasPrefix(cut, "Error") {
						t.Errorf("%q × %d is cut to …%q", unit, n, cut[max(0, len(cut)-20):])
					}
					if !strings.HasSuffix(note, " bytes]") {
						t.Errorf("the note is %q", note)
					}
				} else if len(whole) > 2*contract.MaxDetail {
					t.Errorf("%q × %d has no note", unit, n)
				}
			}
		}
	}
}

func TestFailedResults(t *testing.T) {
	for text, want := range map[string]bool{
		`{"exit_code": 1}`: true, `{"exit_code": -9.0}`: true, ` {"error": "no such file"} `: true, `{"success": false}`: true, `{"error": {"code": 1}}`: true,
		`{"exit_code": 1e999}`: true, `{"exit_code": NaN}`: true, `{"error":"x","exit_code":0}`: true, `{"exit\u005fcode": 1}`: true, `{"error": 0, "exit_code": null, "success": true}`: true,
		`{"exit_code": 0, "error": null}`: false, `{"exit_code": "1"}`: false, `{"error": ""}`: false, `{"error": {}}`: false, `{"error": false}`: false,
		`{"success": "false"}`: false, `{"a": {"exit_code": 1}}`: false, `[{"exit_code": 1}]`: false, `exit_code: 1`: false, ``: false, `{"exit_code": 1`: false, `{"exit_code": 0.0}`: false,
	} {
		if _, failed := ToolResult(text); failed != want {
			t.Errorf("%s: %v", text, failed)
		}
	}
}

// A member that upstream's event has already is not added to it: of two, clients differ in which counts.
func TestDetailsStandOnce(t *testing.T) {
	d := &stored{calls: map[string][]string{"call_1": {`{"n":1}`, `{"exit_code": 1}`}}}
	for own, status := range map[string]string{`"failed": true`: "failed", `"f\u0061iled": false`: "completed", `"hermes_approval": "denied"`: "failed", `"hermes_approval": "x"`: "failed"} {
		end := strings.Replace(g2End("terminal", "call_1"), `"status"`, own+`, "status"`, 1)
		in := turn(g2Start("terminal", "💻", "l", "call_1"), end, text("x"))
		for _, form := range cardForms {
			out := detailed(in, Options{Progress: form}, d)
			for _, e := range decode(out) {
				seen := map[string]bool{}
				gjson.Parse(e.data).ForEach(func(name, _ gjson.Result) bool {
					if seen[name.String()] {
						t.Errorf("%s, %s: %s stands twice in %s", form, own, name, e.data)
					}
					seen[name.String()] = true
					return true
				})
			}
			contains(t, out, `"item":{"type":"function_call_output","id":"fco_call_1","call_id":"call_1","output":`)
			contains(t, out, `}],"status":"`+status+`"}}`)
			same(t, repairWith(out, Options{Progress: form}), out, own+", twice and once")
		}
	}
}

// A call is looked for by the beginning of its label: comparing all of a long one with each argument takes seconds.
func TestLabelsOfCallsAreBounded(t *testing.T) {
	for _, unit := range []string{"x", "é", "\n", "💻"} {
		d := new(stored)
		whole := strings.Repeat(unit, 5000)
		detailed(turn(g2Start("terminal", "💻", whole, "call_1"), g2End("terminal", "call_1"), text("x")), Options{}, d)
		for _, label := range d.labels {
			atMost(t, len(asciiJSON(label)), contract.MaxCallLabel+len(`""`), "the label")
			begins(t, whole, label)
			atMost(t, contract.MaxCallLabel/8, len(label), "what is left of it")
		}
		equal(t, len(d.labels), 2, "questions")
	}
}

// The details of a stream are bounded, in its events and in what one frame may write (contract section 7).
func TestDetailsOfAStreamAreBounded(t *testing.T) {
	worst := []string{strings.Repeat("\x01", 20_000), `{"a":"` + strings.Repeat(`\\\"`, 20_000) + `"}`, strings.Repeat("\u200b", 20_000)}
	for _, result := range worst {
		calls := map[string][]string{}
		var in strings.Builder
		for i := range 200 {
			id := fmt.Sprint("call_", i)
			calls[id] = []string{result, `{"exit_code": 1, "x": ` + strings.TrimSpace(asciiJSON(result)) + `}`}
			in.WriteString(g2Start("terminal", "💻", "x", id) + g2End("terminal", id))
		}
		p := chatParams
		p.Details = &stored{calls: calls}
		s := New(&Options{}, p)
		all := feedAll(s, role(), inOne)
		for frame := range strings.SplitAfterSeq(in.String(), "\n\n") {
			out := s.Feed(nil, []byte(frame), epoch)
			atMost(t, len(out), 3*len(frame)+256<<10, "bytes written for a frame")
			all = append(all, out...)
		}
		sum := 0
		for line := range strings.Lines(string(all)) {
			data := strings.TrimPrefix(line, "data: ")
			sum += len(gjson.Get(data, "args").Raw) + len(gjson.Get(data, "result").Raw)
		}
		atMost(t, sum, contract.MaxDetails, "args and results of a stream")
		atMost(t, contract.MaxDetails/2, sum, "half of what may be")
	}
	// Open tools hold nothing of them: none ends early because of long arguments.
	calls, open := map[string][]string{}, ""
	for i := range 60 {
		id := fmt.Sprint("call_", i)
		calls[id] = []string{`{"a":"` + strings.Repeat("x", 12_000) + `"}`, "r"}
		open += g2Start("terminal", "💻", "x", id)
	}
	d := &stored{calls: calls}
	v := look(t, detailed(role()+open, Options{}, d))
	equal(t, len(v.starts()), 60, "starts")
	for _, e := range v.tools[:60] {
		equal(t, e.status, "running", "no tool ends before the stream does")
	}
}

// A card that has said that its tool waits for an approval says so no more when the tool has ended, even if its end
// does not know the arguments that the card showed before.
func TestCardsThatHaveWaitedAreShownAgain(t *testing.T) {
	in := turn(text("a"), g2Start("terminal", "💻", "rm -rf x", "c1"), approvalFrame("r1", "rm -rf x"), g2End("terminal", "c1"), text("b"))
	for _, form := range cardForms {
		for outcome, status := range map[ApprovalOutcome]string{"": "completed", contract.ApprovalDenied: "failed"} {
			p := chatParams
			p.Details = &stored{calls: map[string][]string{"c1": {`{"command":"rm"}`, ""}}, starts: true}
			outs, _ := anyAsking(t, in, Options{Progress: form}, p, byLink, outcome)
			var shown []string // what the card shows, one after the other
			for _, e := range decode(outs[0]) {
				if item := gjson.Get(e.data, "item"); item.Get("type").String() == "function_call" {
					shown = append(shown, fmt.Sprint(item.Get("name"), " ", item.Get("arguments"), " ", item.Get("status")))
				}
			}
			equal(t, strings.Join(shown, "\n"), `💻 rm -rf x {"command":"rm"}  in_progress`+"\n"+`Approval needed: rm -rf x {"label": "rm -rf x"} in_progress`+"\n"+
				`💻 rm -rf x {"label": "rm -rf x"} `+status, "the card")
			again, _ := anyAsking(t, outs[0], Options{Progress: form}, chatParams, byLink)
			same(t, again[0], outs[0], "twice and once")
		}
	}
}

// What has left of a stream is sent before an event that waits, and only then.
func TestDetailsThatWait(t *testing.T) {
	var sent []string
	p := chatParams
	p.Flush = func(out []byte) []byte {
		sent = append(sent, string(out))
		return out[:0]
	}
	p.Details = &stored{waits: true}
	s := New(&Options{}, p)
	out := s.Feed(nil, []byte(role()+text("before")+g2Start("terminal", "💻", "a", "call_1")+g2End("terminal", "call_1")+text("after")), epoch)
	equal(t, len(sent), 1, "sent before the question")
	same(t, sent[0], role()+text("before"), "what was sent")
	same(t, sent[0]+string(out), repairWith(role()+text("before")+g2Start("terminal", "💻", "a", "call_1")+g2End("terminal", "call_1")+text("after"), Options{})[:len(sent[0])+len(out)], "all")
	// A frame that counts although its blank line is missing waits for nothing: upstream has ended.
	s = New(&Options{}, p)
	s.Finish(s.Feed(nil, []byte(role()+strings.TrimSpace(g2Start("terminal", "💻", "a", "call_1"))), epoch), CauseAborted)
	equal(t, len(sent), 1, "sent")
}

// Cards with details leave histories as others do, whatever their output is, and whether Open WebUI sends back
// provider_function or, as 0.11 does, what it shows.
func TestCardsWithDetailsLeaveHistories(t *testing.T) {
	d := &stored{calls: map[string][]string{
		"call_1": {`{"command": "ls"}`, `{"output": "a \"quote\"\n"}`}, "call_2": {"not {json", `{"exit_code": 1}`}, "call_3": {"", "only a result"},
	}}
	in := role() + text("a") + g2Start("terminal", "💻", "ls", "call_1") + g2End("terminal", "call_1") + g2Start("read_file", "📖", "x", "call_2") + g2End("read_file", "call_2") +
		g2Start("tool", "", "", "call_3") + g2End("tool", "call_3") + text("b") + stop()
	for _, old := range []bool{false, true} {
		message := `{"role": "assistant", "content": "a", "tool_calls": [`
		var outputs []string
		for i, c := range cardsOf(t, detailed(in, Options{}, d)) {
			name, arguments := c.ended.Provider.Name, c.ended.Provider.Arguments
			if old {
				name, arguments = c.ended.Name, c.ended.Arguments
			}
			if i > 0 {
				message += ", "
			}
			message += fmt.Sprintf(`{"id": %s, "type": "function", "function": {"name": %s, "arguments": %s}}`, asciiJSON(c.ended.CallID), asciiJSON(name), asciiJSON(arguments))
			outputs = append(outputs, fmt.Sprintf(`{"role": "tool", "tool_call_id": %s, "content": %s}`, asciiJSON(c.ended.CallID), asciiJSON(c.output.Output[0].Text)))
		}
		body := request(askOfTests, message+"]}", strings.Join(outputs, ", "), assistant("b"), againOfTests)
		got, healed := heal(t, body)
		same(t, got, request(askOfTests, assistant("a\n\nb"), againOfTests), "bodies")
		equal(t, healed.Cards, 3, "cards")
	}
	for name, own := range map[string]string{ // a client's own
		"an argument more": `"name": "terminal", "arguments": "{\"label\": \"ls\", \"args\": {}, \"n\": 1}"`,
		"the other order":  `"name": "terminal", "arguments": "{\"args\": {}, \"label\": \"ls\"}"`,
		"no label":         `"name": "terminal", "arguments": "{\"args\": {}}"`,
		"no space":         `"name": "💻", "arguments": "{} "`,
		"no emoji":         `"name": "é x", "arguments": "{} "`,
		"no space behind":  `"name": "💻 x", "arguments": "{}"`,
	} {
		body := request(askOfTests, `{"role": "assistant", "content": "a", "tool_calls": [{"id": "c", "function": {`+own+`}}]}`, `{"role": "tool", "tool_call_id": "c", "content": "x"}`, assistant("b"))
		got, _ := heal(t, body)
		same(t, got, body, name)
	}
}
