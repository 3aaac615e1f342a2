package rewrite

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// cardCalls is the member tool_calls of cards with the labels, whose ids begin with n.
func cardCalls(n int, labels ...string) string {
	var calls []string
	for i, label := range labels {
		calls = append(calls, fmt.Sprintf(`{"id": "call_%d%d", "type": "function", "function": {"name": %s, "arguments": %s}}`, n, i, asciiJSON("💻 "+label), asciiJSON(`{"label": `+rawJSON(label)+`}`)))
	}
	return `"tool_calls": [` + strings.Join(calls, ", ") + `]`
}

// cardOutputs are the tool's messages of the same cards.
func cardOutputs(n int, labels ...string) string {
	var outputs []string
	for i := range labels {
		outputs = append(outputs, fmt.Sprintf(`{"role": "tool", "tool_call_id": "call_%d%d", "content": "completed"}`, n, i))
	}
	return strings.Join(outputs, ", ")
}

// carded is an assistant's message with cards, and its tool's messages.
func carded(n int, content string, labels ...string) string {
	return `{"role": "assistant", "content": ` + asciiJSON(content) + `, ` + cardCalls(n, labels...) + `}, ` + cardOutputs(n, labels...)
}

func assistant(content string) string {
	return `{"role": "assistant", "content": ` + asciiJSON(content) + `}`
}

const (
	askOfTests   = `{"role": "user", "content": "look"}`
	againOfTests = `{"role": "user", "content": "and then?"}`
	// A client's own call, and one that looks like a card but for its result.
	ownCall = `{"role": "assistant", "content": null, "tool_calls": [{"id": "call_x", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "call_x", "content": "completed"}`
)

// request is a request with the messages.
func request(messages ...string) string {
	return `{"model": "hermes-agent", "messages": [` + strings.Join(messages, ", ") + `], "stream": true}`
}

// What Open WebUI sends back of an answer with cards becomes the one message that it
// would be without.
func TestCardsLeaveHistories(t *testing.T) {
	for name, c := range map[string]struct{ in, want []string }{
		"as tried": {
			[]string{askOfTests, carded(1, "Let me look.", "ls -la", "golang sse"), carded(2, "There are 3 files.", "/etc/hostname"), assistant("Done."), againOfTests},
			[]string{askOfTests, assistant("Let me look.\n\nThere are 3 files.\n\nDone."), againOfTests},
		},
		"newlines that are there": {
			[]string{askOfTests, carded(1, "Let me look.", "ls"), carded(2, "\n\nThere.\n", "a"), assistant("Done."), againOfTests},
			[]string{askOfTests, assistant("Let me look.\n\nThere.\nDone."), againOfTests},
		},
		"a backslash before an n": {
			[]string{carded(1, `a\n`, "ls"), assistant(`\nb`)},
			[]string{assistant(`a\n` + "\n\n" + `\nb`)},
		},
		"white space at the ends": {
			[]string{askOfTests, carded(1, "", "ls"), carded(2, "\n\nReading it now. ", "a"), carded(3, " \n", "a"), againOfTests, carded(4, "\t\u00a0 a", "b"), carded(5, "\n", "c"), assistant("b"), againOfTests},
			[]string{askOfTests, assistant("Reading it now."), againOfTests, assistant("a\nb"), againOfTests},
		},
		"no text before": {
			[]string{askOfTests, carded(1, "", "ls"), assistant("Done."), againOfTests},
			[]string{askOfTests, assistant("Done."), againOfTests},
		},
		"no text between": {
			[]string{askOfTests, carded(1, "a", "ls"), carded(2, "", "ls"), carded(3, "", "ls"), assistant("Done."), againOfTests},
			[]string{askOfTests, assistant("a\n\nDone."), againOfTests},
		},
		"no text after": {
			[]string{askOfTests, carded(1, "a", "ls"), againOfTests},
			[]string{askOfTests, assistant("a"), againOfTests},
		},
		"no text at all": {
			[]string{askOfTests, carded(1, "", "ls"), carded(2, " \n", "ls"), againOfTests},
			[]string{askOfTests, againOfTests},
		},
		"no text, at the end":   {[]string{askOfTests, carded(1, "", "ls")}, []string{askOfTests}},
		"no text, at the start": {[]string{carded(1, "", "ls"), askOfTests}, []string{askOfTests}},
		"no text, alone":        {[]string{carded(1, "", "ls")}, nil},
		"no text, twice": {
			[]string{askOfTests, carded(1, "", "ls"), assistant(""), carded(2, "", "ls"), againOfTests},
			[]string{askOfTests, againOfTests},
		},
		"no text, twice at the start": {
			[]string{carded(1, "", "ls"), assistant(""), carded(2, "", "ls"), assistant("\n"), againOfTests, assistant("b")},
			[]string{againOfTests, assistant("b")},
		},
		"at the end": {
			[]string{askOfTests, carded(1, "a", "ls"), assistant("b")},
			[]string{askOfTests, assistant("a\n\nb")},
		},
		"several answers": {
			[]string{askOfTests, carded(1, "a", "ls"), assistant("b"), againOfTests, carded(1, "c", "x", "y", "z"), assistant("d"), askOfTests, assistant("e"), againOfTests},
			[]string{askOfTests, assistant("a\n\nb"), againOfTests, assistant("c\n\nd"), askOfTests, assistant("e"), againOfTests},
		},
		"an answer behind an answer": {
			[]string{carded(1, "a", "ls"), assistant("b"), assistant("c"), carded(2, "d", "ls"), assistant("e")},
			[]string{assistant("a\n\nb"), assistant("c"), assistant("d\n\ne")},
		},
		"odd labels": {
			[]string{carded(1, "a", "", "\"<b>\\\\`\n\x01\u2028💻\\u00e9", strings.Repeat("x", 5000)), assistant("b")},
			[]string{assistant("a\n\nb")},
		},
		"a client's own tools beside": {
			[]string{askOfTests, ownCall, carded(1, "a", "ls"), ownCall, carded(2, "b", "ls"), assistant("c"), ownCall, againOfTests},
			[]string{askOfTests, ownCall, assistant("a"), ownCall, assistant("b\n\nc"), ownCall, againOfTests},
		},
		"markers, too": {
			[]string{carded(1, "a\n`💻 ls`", "ls"), assistant("`📖 x`\nb")},
			[]string{assistant("a\nb")}, // as of the text that was streamed
		},
	} {
		in, want := request(c.in...), request(c.want...)
		got, healed := heal(t, in)
		same(t, got, want, name+": bodies")
		if n := strings.Count(in, `"function":`) - strings.Count(want, `"function":`); healed.Cards != n || healed.Asked != AskedStream {
			t.Errorf("%s: %+v, want %d cards", name, healed, n)
		}
	}
}

// The body without the cards is healed where it stands in memory, whatever has been read
// of it before.
func TestMarkersInHistoriesWithCards(t *testing.T) {
	in, want := []string{carded(1, "a", "ls"), assistant("b")}, []string{assistant("a\n\nb")}
	for range 50 {
		in = append(in, askOfTests, assistant("`💻 ls`\nc\n`📖 x`\nd"), `{"role":"user","name":"n","content":"e"}`, assistant("f"))
		want = append(want, askOfTests, assistant("c\nd"), `{"role":"user","name":"n","content":"e"}`, assistant("f"))
	}
	got, healed := heal(t, request(in...))
	same(t, got, request(want...), "bodies")
	if healed.Cards != 1 || healed.Markers != 100 {
		t.Errorf("%+v", healed)
	}
}

// What has been read before may have been overwritten since, even by what looks like it: a
// user's message stays.
func TestMarkersBehindWhatWasOverwritten(t *testing.T) {
	const user = `{"role":"user"     ,"content":"` // as long as the beginning of an assistant's
	const assistants = `{"role":"assistant","content":"`
	for n := range 200 { // one of them moves a user's message to where an assistant's was
		middle := `,` + user + `a"},` + assistants + strings.Repeat("x", n) + `"},` + user + `b"},` + assistants
		end := `"},` + user + `c"},` + user + "`💻 ls`\\nd" + `"}`
		got, _ := heal(t, request(carded(1, "", "ls"), askOfTests, assistant("`💻 "+strings.Repeat("y", 200)+"`\nz")+middle+"`💻 ls`\\ne"+end))
		same(t, got, request(askOfTests, assistant("z")+middle+`e`+end), "bodies")
	}
}

// A lone surrogate in a marker has all markers stay, those before it, too.
func TestNoMarkerLeavesAHistoryWithCards(t *testing.T) {
	lone := strings.Replace(assistant("c\n`💻 ?`"), "?", `\ud83d`, 1)
	marked := assistant("`💻 ls`\nb")
	got, healed := heal(t, request(carded(1, "", "ls"), marked, askOfTests, lone, askOfTests))
	same(t, got, request(marked, askOfTests, lone, askOfTests), "bodies")
	if healed.Cards != 1 || healed.Markers != 0 {
		t.Errorf("%+v", healed)
	}
}

// Members may come in any order, names may be escaped, and contents may be null, absent,
// or arrays of parts.
func TestFormsOfCardsInHistories(t *testing.T) {
	calls, out := cardCalls(1, "ls"), cardOutputs(1, "ls")
	const tail = `"role":"assistant","content":"b"}]}`
	for in, want := range map[string]string{
		`{"messages":[{` + calls + `,"content":"a","role":"assistant"},` + out + `,{` + tail:                                                            `{"messages":[{"content":"a\n\nb","role":"assistant"}]}`,
		`{"messages":[{"content":"a",` + calls + `,"role":"assistant"},` + out + `,{` + tail:                                                            `{"messages":[{"content":"a\n\nb","role":"assistant"}]}`,
		`{"messages":[{"role":"assistant",` + calls + `,"content":"a"},` + out + `,{` + tail:                                                            `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		`{"messages":[{` + calls + ` , "role":"assistant" , "content":"a" },` + out + `,{` + tail:                                                       `{"messages":[{"role":"assistant" , "content":"a\n\nb" }]}`,
		`{"messages":[{"role":"assistant","content":null,` + calls + `},` + out + `,{` + tail:                                                           `{"messages":[{"role":"assistant","content":"b"}]}`,
		`{"messages":[{"role":"assistant",` + calls + `},` + out + `,{` + tail:                                                                          `{"messages":[{"role":"assistant","content":"b"}]}`,
		`{"messages":[{` + calls + `,"role":"assistant"},` + out + `,{` + tail:                                                                          `{"messages":[{"content":"b","role":"assistant"}]}`,
		`{"messages":[{"role":"assistant","content":"a","name":"x","refusal":null,` + calls + `},` + out + `]}`:                                         `{"messages":[{"role":"assistant","content":"a","name":"x","refusal":null}]}`,
		`{"messages":[{"role":"assistant","content":"","name":"x",` + calls + `},` + out + `]}`:                                                         `{"messages":[{"role":"assistant","content":"","name":"x"}]}`,
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + out + `,{"role":"assistant","content":"b","tool_calls":[],"refusal":null}]}`: `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		// One with more to say stays a message of its own.
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + out + `,{"name":"x",` + tail:                                                             `{"messages":[{"role":"assistant","content":"a"},{"name":"x",` + tail,
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + out + `,{"role":"assistant","content":"","name":"x",` + calls + `},` + out + `,{` + tail: `{"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b","name":"x"}]}`,
		// Escapes in names and values.
		`{"m\u0065ssages":[{"r\u006fle":"assist\u0061nt","c\u006fntent":"a",` + strings.NewReplacer("tool_calls", `t\u006fol_calls`, `\"label\"`, `\u0022l\u0061bel\u0022`).Replace(calls) + `},` +
			strings.NewReplacer("call_10", `c\u0061ll_10`, "role", `rol\u0065`, `"tool"`, `"t\u006fol"`, "completed", `complete\u0064`).Replace(out) + `,{` + tail: "",
		// Parts.
		`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}],` + calls + `},` + out + `,{` + tail:                                                                                                       `{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"\n\nb"}]}]}`,
		`{"messages":[{"role":"assistant","content":"a\n",` + calls + `},` + out + `,{"role":"assistant","content":[{"text":"b","type":"text"},{"type":"text","text":"c"},{"type":"image_url","image_url":{"url":"u"}}]}]}`: `{"messages":[{"role":"assistant","content":[{"type":"text","text":"a\n"},{"text":"b","type":"text"},{"type":"text","text":"c"},{"type":"image_url","image_url":{"url":"u"}}]}]}`,
		`{"messages":[{"role":"assistant","content":[],` + calls + `},` + out + `,{"role":"assistant","content":[{"type":"text","text":""}]}]}`:                                                                             `{"messages":[]}`,
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + strings.Replace(out, `"completed"`, `[{"type":"text","text":"completed"}]`, 1) + `,{` + tail:                                                     `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + strings.Replace(out, `"completed"`, `"interrupted"`, 1) + `,{` + tail:                                                                            `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		`{"messages":[{"role":"assistant","content":"a",` + calls + `},` + strings.Replace(out, `"completed"`, `"Error: interrupted"`, 1) + `,{` + tail:                                                                     `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		// Outputs in another order, and messages twice.
		`{"messages":[{"role":"assistant","content":"a",` + cardCalls(1, "x", "y") + `},{"role":"tool","tool_call_id":"call_11","content":"completed"},` + out + `,{` + tail: `{"messages":[{"role":"assistant","content":"a\n\nb"}]}`,
		`{"messages":[` + carded(1, "a", "x") + `],"messages":[` + carded(1, "b", "x") + `]}`:                                                                                `{"messages":[` + assistant("a") + `],"messages":[` + assistant("b") + `]}`,
	} {
		got, healed := heal(t, in)
		if want == "" {
			want = `{"m\u0065ssages":[{"r\u006fle":"assist\u0061nt","c\u006fntent":"a\n\nb"}]}`
		}
		same(t, got, want, "bodies")
		if healed.Cards == 0 {
			t.Errorf("no cards in %s", in)
		}
	}
}

// A client's own tools are none of ours, however much they look like it.
func TestToolsThatAreNoCards(t *testing.T) {
	sound := request(askOfTests, carded(1, "a", "ls", "x"), assistant("b"))
	if _, healed := heal(t, sound); healed.Cards != 2 {
		t.Fatalf("%+v", healed)
	}
	for name, replace := range map[string][2]string{
		"another argument":         {`\"label\"`, `\"path\"`},
		"an argument more":         {`{\"label\": \"ls\"}`, `{\"label\": \"ls\", \"n\": 1}`},
		"the label twice":          {`{\"label\": \"ls\"}`, `{\"label\": \"ls\", \"label\": \"ls\"}`},
		"no argument":              {`{\"label\": \"ls\"}`, `{}`},
		"a label that is none":     {`\"ls\"`, `1`},
		"arguments that are none":  {`{\"label\": \"ls\"}`, `label`},
		"arguments cut off":        {`\"ls\"}`, `\"ls\"`},
		"arguments in an array":    {`{\"label\": \"ls\"}`, `[{\"label\": \"ls\"}]`},
		"arguments as an object":   {`"{\"label\": \"ls\"}"`, `{"label": "ls"}`},
		"another result":           {`"content": "completed"`, `"content": "done"`},
		"a result of two parts":    {`"content": "completed"`, `"content": [{"type": "text", "text": "completed"}, {"type": "text", "text": "x"}]`},
		"a result that is null":    {`"content": "completed"`, `"content": null`},
		"no result":                {`"content": "completed"`, `"x": "completed"`},
		"a result for another":     {`"tool_call_id": "call_10"`, `"tool_call_id": "call_12"`},
		"a result twice":           {`"tool_call_id": "call_11"`, `"tool_call_id": "call_10"`},
		"a result more":            {`{"role": "assistant", "content": "b"}`, `{"role": "tool", "tool_call_id": "call_13", "content": "completed"}`},
		"a result too few":         {`, {"role": "tool", "tool_call_id": "call_11", "content": "completed"}`, ``},
		"a result of a function":   {`{"role": "tool", "tool_call_id": "call_11"`, `{"role": "function", "tool_call_id": "call_11"`},
		"a message between":        {`, {"role": "tool", "tool_call_id": "call_11"`, `, {"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "call_11"`},
		"a call of another's":      {`"tool_calls": [`, `"tool_calls": [{"id": "call_x", "function": {"name": "f", "arguments": "{}"}}, `},
		"an id that is no string":  {`"id": "call_10"`, `"id": 10`},
		"an element that is none":  {`"tool_calls": [`, `"tool_calls": [1, `},
		"calls that are no array":  {`"tool_calls": [`, `"tool_calls": "label", "x": [`},
		"calls twice":              {`"tool_calls": [`, `"tool_calls": [], "tool_calls": [`},
		"content twice":            {`"content": "a"`, `"content": "a", "content": "a"`},
		"content that is a number": {`"content": "a"`, `"content": 1`},
		"a user's":                 {`{"role": "assistant", "content": "a"`, `{"role": "user", "content": "a"`},
		"invalid JSON":             {`"stream": true`, `"stream": NaN`},
		"invalid UTF-8":            {`"look"`, "\"\xff\""},
		"messages further down":    {`"messages": [`, `"body": {"messages": []}, "x": [`},
	} {
		in := strings.Replace(sound, replace[0], replace[1], 1)
		if in == sound {
			t.Fatalf("%s: nothing is replaced", name)
		}
		got, healed := heal(t, in)
		same(t, got, in, name+": bodies")
		if healed.Cards != 0 {
			t.Errorf("%s: %+v", name, healed)
		}
	}
}

// Wherever a body is not UTF-8, it passes with its cards.
func TestCardsInWhatIsNotUTF8(t *testing.T) {
	sound := request(carded(1, "a", "ls"), strings.Join(slices.Repeat([]string{assistant("word"), askOfTests}, 4), ", "))
	if _, healed := heal(t, sound); healed.Cards != 1 {
		t.Fatalf("%+v", healed)
	}
	for i, c := range []byte(sound) {
		if c < 'a' || c > 'z' {
			continue
		}
		in := sound[:i] + "\xff" + sound[i+1:]
		if got, _ := heal(t, in); got != in {
			t.Fatalf("%q becomes %q", in, got)
		}
	}
}

// An answer that says nothing leaves no gap in which an output would come to stand after
// another's call, so that nothing is left for a second time.
func TestOutputsBehindAnEmptyAnswer(t *testing.T) {
	open := `{"role": "assistant", "content": "", ` + cardCalls(1, "ls") + `}`
	in := request(open, carded(2, "", "x"), assistant(""), cardOutputs(1, "ls"), againOfTests)
	want := request(open, assistant(""), cardOutputs(1, "ls"), againOfTests)
	got, healed := heal(t, in)
	same(t, got, want, "bodies")
	if healed.Cards != 1 {
		t.Errorf("%+v", healed)
	}
}

// More calls than Hermes starts for one text are none of its cards.
func TestManyCallsAreNoCards(t *testing.T) {
	for n, want := range map[int]int{maxCalls: maxCalls, maxCalls + 1: 0} {
		labels := make([]string, n)
		in := request(carded(1, "a", labels...), assistant("b"))
		if _, healed := heal(t, in); healed.Cards != want {
			t.Errorf("%d calls: %+v", n, healed)
		}
	}
}
