package rewrite

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// nonstream is a recorded answer that was not streamed.
type nonstream struct {
	recording
	status string
}

// nonstreams returns the recorded answers that were not streamed.
func nonstreams(t testing.TB) (ns []nonstream) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(captures, "*", "nonstream.*.http"))
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d recordings, %v", len(paths), err)
	}
	for _, path := range paths {
		head, body, _ := strings.Cut(strings.ReplaceAll(readFile(t, path), "\r\n", "\n"), "\n\n")
		scenario := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "nonstream."), ".http")
		ns = append(ns, nonstream{recording{filepath.Base(filepath.Dir(path)), scenario, strings.TrimRight(body, "\n")}, head})
	}
	return ns
}

// TestRecordedAnswers: a legacy failure that is certain is answered as modern Hermes does; all else stays.
func TestRecordedAnswers(t *testing.T) {
	failures := 0
	all := nonstreams(t)
	modern := func(n nonstream) string {
		i := slices.IndexFunc(all, func(m nonstream) bool { return m.generation == "g3-v0.20.3" && m.scenario == n.scenario })
		return compact(t, all[i].body)
	}
	for _, n := range all {
		if !strings.HasPrefix(n.status, "HTTP/1.1 200") {
			continue
		}
		a := RepairAnswer([]byte(n.body), &Options{}, nil)
		if n.scenario != "failed_result" {
			same(t, string(a.Body), n.body, n.name())
			if a.Changed || a.Code != "" || a.ID == "" || a.Model != "hermes-agent" {
				t.Errorf("%s: %+v", n.name(), a.Summary)
			}
			continue
		}
		failures++
		if !a.Changed || a.Code != CodeAgentIncomplete {
			t.Errorf("%s: %+v", n.name(), a.Summary)
		}
		same(t, string(a.Body), modern(n), n.name())
	}
	if failures < 3 {
		t.Errorf("saw %d failures only", failures)
	}
}

// completion is an answer with the message's members.
func completion(message, reason, more string) string {
	return `{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "hermes-agent", "choices": [{"index": 0, "message": {"role": "assistant"` +
		message + `}, "finish_reason": "` + reason + `"}]` + more + `}`
}

func content(s string) string { return `, "content": ` + asciiJSON(s) }

// Answers without usage that say nothing, or that the agent failed, are errors with its words.
func TestFailedAnswers(t *testing.T) {
	const apiFailed = "API call failed after 3 retries: Error code: 401 - sk-abcdef123456"
	crashed, asError := Message(CodeCrashed), Options{ZeroUsage: ZeroUsageError}
	failed := func(message string) (want string) {
		quoted := string(jsonspan.Quote(message))
		if message != crashed { // upstream's keeps its escapes
			quoted = asciiJSON(message)
		}
		return `{"error":{"message":` + quoted + `,"type":"server_error","param":null,"code":"agent_incomplete","hermes":{"completed":false,"partial":false,"failed":true}}}`
	}
	for _, c := range []struct {
		o       Options
		message string // of the error, empty for an answer that passes
		warns   bool
		in      []string
	}{
		{Options{}, crashed, false, []string{
			``, `, "content": null`, content(""), content("\n "), `, "content": "\u00a0"`, `, "content": []`,
			`, "content": {}`, content("`💻 ls`\n"), content("\n`💻 ls`\n"),
			content("<think>\n</think>"), content("<think> </think>\n"),
			`, "content": "", "reasoning_content": " \n", "reasoning": "\t\u2003"`, `, "content": "", "tool_calls": []`,
			`, "content": "", "tool_calls": null, "refusal": null, "audio": null, "annotations": []`,
		}},
		{Options{}, "(No response generated)", false, []string{content("(No response generated)"), content(" (No response generated)\n")}},
		{Options{}, "API call failed after 3 retries: Error code: 401 - [redacted]", false, []string{content(apiFailed)}},
		{Options{}, "", true, []string{
			content("Hello"), content("It said: " + apiFailed), `, "content": "", "reasoning_content": "hm"`,
			`, "content": null, "reasoning": "hm"`,
			`, "reasoning": "Hm", "reasoning_content": ""`,
		}},
		{Options{}, "", false, []string{
			`, "content": [{"type": "text", "text": "Hi"}]`, `, "content": {"parts": ["Hi"]}`,
			`, "content": "", "refusal": "no"`,
			`, "content": null, "tool_calls": [{"id": "c"}]`, `, "content": "", "audio": {"id": "a"}`,
		}},
		{Options{Reasoning: ReasoningKeep}, "", true, []string{content("<think>hm</think>")}},
		{asError, "boom", false, []string{content("<think>r</think>\n\n`💻 ls`\nboom")}},
		{asError, "Hello", false, []string{content("Hello")}},
		{asError, strings.Repeat("é", maxMessage/2), false, []string{content(strings.Repeat("é", maxMessage))}},
		{Options{ZeroUsage: ZeroUsagePass}, "", true, []string{content("Hello")}},
	} {
		for _, message := range c.in {
			in := completion(message, "stop", zeroUsage)
			a := RepairAnswer([]byte(in), &c.o, memory{"hermes-agent": true})
			equal(t, a.ZeroUsagePassed, c.warns, message+" is warned of")
			if c.message == "" {
				same(t, string(a.Body), in, message)
				equal(t, a.Code, "", message)
			} else {
				same(t, string(a.Body), failed(c.message), message)
				equal(t, a.Code+a.FinishReason, CodeAgentIncomplete, message)
			}
			// With usage, with another finish reason, and beside what else says how it went, all are answers.
			for _, body := range []string{
				completion(message, "stop", realUsage), completion(message, "length", zeroUsage),
				completion(message, "stop", ""),
				completion(message, "stop", zeroUsage+`, "hermes": {"failed": false}`),
				completion(message, "stop", zeroUsage+`, "error": {"message": "x"}`),
				strings.Replace(completion(message, "stop", zeroUsage), `"choices": [`, `"choices": [{"index": 1, "message": {"content": ""}, "finish_reason": "stop"}, `, 1),
			} {
				equal(t, RepairAnswer([]byte(body), &Options{Reasoning: ReasoningKeep, Imitations: ImitationsKeep}, nil).Code, "", body)
			}
		}
	}
	in := `{"object": "chat.completion", "model": "m", "choices": []` + zeroUsage + `}`
	same(t, string(RepairAnswer([]byte(in), &Options{}, nil).Body), in, "no choice")
}

// The texts with which Hermes says that its agent failed, and others that look like
// them. With real usage tools may have run, and clients repeat what fails.
func TestHermesOwnErrorsAreErrors(t *testing.T) {
	for fails, texts := range map[bool][]string{
		true: {
			"API call failed after 3 retries: HTTP 500: boom",
			"Error code: 401 - {'error': {'message': 'no'}}", "Error code: 401", "(No response generated)",
			"Invalid API response shape. Likely rate limited or malformed provider response.", "Invalid API response after 3 retries: response.choices is empty",
			"⏳ Nous Portal rate limit active — resets in 5m.",
			"Request payload too large: max compression attempts (3) reached.",
			"⚠️ Provider rate-limited: wait",
			"Request payload too large (413). Cannot compress further.", "Context length exceeded: max compression attempts (3) reached.",
			"Context length exceeded (200,000 tokens). Cannot compress further.", "First response truncated due to output length limit",
			"Response truncated due to output length limit", "Response remained truncated after 3 continuation attempts",
			"⚠️ **Thinking Budget Exhausted**\n\nThe model used all its output tokens on reasoning.", "Operation interrupted: waiting for model response (2.1s elapsed).",
			"Operation interrupted: handling API error (boom).", "Operation interrupted: retrying API call after error (retry 1/3).",
			"Operation interrupted during retry (attempt 1/3).",
			"Operation interrupted after rate limit (attempt 1/3).",
			"⚠️ No reply: all API retries were exhausted.", "I will\n\n⚠️ No reply: all API retries were exhausted.",
			"⚠️ Provider authentication failed: check your key",
		},
		false: {
			"API call failed after many retries: boom", "Error code: 401 is what it said",
			"Error code: 4011 - x", "Request payload too large (413). Cannot compress further. Try again",
			"Response truncated due to output length limit, I fear", "Operation interrupted by the user",
			"⚠️ No reply: the model returned nothing.", "I will look at all of it.\n⚠️ No reply: all API retries were exhausted.",
			"I reached the maximum iterations (90) but couldn't summarize. Error: boom", "(empty)",
			"The server says: Error code: 500 - internal",
		},
	} {
		for _, said := range texts {
			in := completion(content(said), "stop", zeroUsage)
			equal(t, RepairAnswer([]byte(in), &Options{}, nil).Code == CodeAgentIncomplete, fails, said)
			in = completion(content(said), "stop", realUsage)
			same(t, string(RepairAnswer([]byte(in), &Options{}, nil).Body), in, "with real usage")
		}
	}
	in := readFile(t, captures+"/live-g0-v0.8.0/nonstream.err401.body")
	a := RepairAnswer([]byte(in), &Options{}, nil)
	if a.Code != CodeAgentIncomplete || strings.Contains(string(a.Body), "sk-abc") {
		t.Errorf("code %q: %s", a.Code, a.Body)
	}
}

// An answer that is not a well-formed chat completion stays as it is, and nothing is known of it.
func TestOtherAnswersStay(t *testing.T) {
	good := completion(content("<think>a</think>b"), "stop", zeroUsage)
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for _, in := range []string{
		"", " ", "null", "[]", `"x"`, "{", "{}", good[:len(good)-1], good + "x", good + good,
		"[" + good + "]", `{"error": {"message": "<think>"}}`,
		with(`"chat.completion"`, `"list"`), with("chat.completion", "chat.completions"),
		with("chat.completion", "chat.completion.chunk"), with("chat.completion", "text_completion"),
		with(`"object": "chat.completion"`, `"object": ["chat.completion"]`),
		with(`"object": "chat.completion", `, ""), with(`"choices"`, `"choice"`),
		with(`"choices": [`, `"choices": [,`),
		`{"object": "chat.completion"}`, `{"object": "chat.completion", "choices": {}}`,
		`{"object": "chat.completion", "choices": {"message": {}}}`,
		`{"object": "chat.completion", "choices": null}`, `{"object": "chat.completion", "choices": "x"}`,
		with(`"stop"`, `stop`), with("<think>", `\x`),
		`{"object": "chat.completion", "choices": [{"message": {"content": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}]}`,
	} {
		a := RepairAnswer([]byte(in), &Options{}, nil)
		same(t, string(a.Body), in, in)
		if a.Completion || a.Changed || a.Summary != (Summary{}) {
			t.Errorf("%s: %+v", in, a.Summary)
		}
	}
	for _, in := range []string{ // these are, and stay
		`{"object": "chat.completion", "choices": [null, 1, {}, {"message": null}, {"message": {"content": {"a": "<think>"}}}]}`,
		completion(content("a < b `x`"), "stop", realUsage), completion(content("<think>a</think>b")+`, "reasoning_content": ["c"]`, "stop", realUsage),
	} {
		a := RepairAnswer([]byte(in), &Options{}, nil)
		same(t, string(a.Body), in, in)
		equal(t, a.Changed, false, in+" has changed")
	}
	// White space around it makes no difference.
	a := RepairAnswer([]byte("\r\n "+good+"\t\n"), &Options{Reasoning: ReasoningKeep}, nil)
	if !a.Completion || a.Changed || a.ID != "chatcmpl-1" || a.Model != "hermes-agent" || a.FinishReason != "stop" {
		t.Errorf("%+v", a)
	}
}

// TestErrorsWithTheStatusOfASuccess lose their secrets as those with a status of their own do, and keep
// every other byte.
func TestErrorsWithTheStatusOfASuccess(t *testing.T) {
	for _, in := range []string{
		`{"error": {"message": "bad key %s", "type": "x", "n": 1}}`, `{"error": "bad key %s"}`, `{ "detail": "%s", "\u0065rror": true }`,
		`{"object": "error", "message": "bad key %s", "error": {}}`, `{"error": {"message": "%s"}, "x": NaN}`,
		`{"object": "chat.completion", "error": {"message": "%s"}}`, `{"error": null, "error": "%s"}`,
	} {
		a := RepairAnswer([]byte(strings.ReplaceAll(in, "%s", keyOfTests)), &Options{}, nil)
		same(t, string(a.Body), strings.ReplaceAll(in, "%s", redacted), in)
		if !a.Changed || a.Completion || a.Summary != (Summary{}) {
			t.Errorf("%s: %+v", in, a)
		}
	}
	for _, in := range []string{`{"text": "` + keyOfTests + `", "error": null}`, `{"text": "` + keyOfTests + `"}`, `["error", "` + keyOfTests + `"]`} {
		a := RepairAnswer([]byte(in), &Options{}, nil)
		same(t, string(a.Body), in, in)
		equal(t, a.Changed, false, in+" has changed")
	}
}

// The tokens of an answer are those of its usage.
func TestTokensOfAnAnswer(t *testing.T) {
	for usage, want := range map[string][2]int64{realUsage: {1234, 56}, zeroUsage: {0, 0}, `, "usage": {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}`: {1, 0}} {
		m := &observedMemory{memory: memory{}}
		a := RepairAnswer([]byte(completion(content("Hi"), "stop", usage)), &Options{}, m)
		equal(t, [2]int64{a.InputTokens, a.OutputTokens}, want, usage)
		equal(t, m.memory["hermes-agent"], usage != zeroUsage, usage+" is reported")
		equal(t, len(m.told), map[bool]int{true: 1}[usage == zeroUsage], usage+" is missed")
		equal(t, a.ZeroUsagePassed, usage == zeroUsage, usage+" is warned of")
	}
}

// TestAnswersWithReasoningAndMarkers: the content loses both, the reasoning is
// kept, and every other byte stays.
func TestAnswersWithReasoningAndMarkers(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"reasoning", content("<think>plan</think>\n\nAnswer"), `, "content": "Answer","reasoning_content":"plan"`},
		{"closed, then unclosed", content("<think>a</think>b\n\n<thought>c\n\n<think>d"), `, "content": "b\n\n<thought>c\n\n<think>d","reasoning_content":"a"`},
		{"a marker in what is unclosed", content("<think>a\n`💻 ls`\nb"), `, "content": "<think>a\nb"`},
		{"white space only", content("<think>\n</think>Answer"), `, "content": "Answer","reasoning_content":"\n"`},
		{"nothing in it", content("<think></think>Answer"), `, "content": "Answer"`},
		{"markers", content("Hi\n`💻 ls`\n\n\nAnswer"), `, "content": "Hi\n\nAnswer"`},
		{"both", content("<think>a\n`💻 ls`\n</think>`💻 ls`\nAnswer"), `, "content": "Answer","reasoning_content":"a\n` + "`\\ud83d\\udcbb ls`" + `\n"`},
		{"escapes", `, "content": "\u003cthink\u003e\u00e9\u003c/think\u003e\ud83d\ude00"`, `, "content": "\ud83d\ude00","reasoning_content":"\u00e9"`},
		{"white space as reasoning", `, "reasoning_content": "\n"` + content("<think>a</think>b"), `, "reasoning_content": "\na", "content": "b"`},
		{"a marker, and reasoning of upstream's", content("<think>a\n`💻 ls`\nb") + `, "reasoning_content": "c"`, content("<think>a\nb") + `, "reasoning_content": "c"`},
		{"null reasoning", content("<think>a</think>b") + `, "reasoning_content": null`, `, "content": "b", "reasoning_content": "a"`},
		{"a marker, then a tag", content("A\n`💻 ls`\n<think>a</think>B"), `, "content": "A\nB","reasoning_content":"a"`},
		{"a marker's beginning within reasoning", content("<think>`💻 ls </think>Answer`\nB"), `, "content": "Answer` + "`" + `\nB","reasoning_content":"` + "`\\ud83d\\udcbb ls" + ` "`},
		{"reasoning after a marker", content("A\n\n`💻 ls`\n<think>a</think>`📖 x`\n\n<think>b</think>B"), `, "content": "A\n\nB","reasoning_content":"a\n\nb"`},
		{"tool calls", content("<think>a</think>") + `, "tool_calls": [ {"id": "<think>"} ]`, `, "content": "","reasoning_content":"a", "tool_calls": [ {"id": "<think>"} ]`},
	} {
		in, want := completion(c.in, "stop", realUsage), completion(c.want, "stop", realUsage)
		a := RepairAnswer([]byte(in), &Options{}, nil)
		same(t, string(a.Body), want, c.name)
		if !json.Valid(a.Body) || !a.Changed || a.Reasoning+a.Imitations == 0 {
			t.Errorf("%s: %+v", c.name, a.Summary)
		}
		again := RepairAnswer(a.Body, &Options{}, nil)
		same(t, string(again.Body), want, c.name+", twice")
		kept := RepairAnswer([]byte(in), &Options{Reasoning: ReasoningKeep, Imitations: ImitationsKeep}, nil)
		same(t, string(kept.Body), in, c.name+", kept")
		dropped := RepairAnswer([]byte(in), &Options{Reasoning: ReasoningDrop}, nil)
		if strings.Contains(string(dropped.Body), "plan") {
			t.Errorf("%s: dropped: %s", c.name, dropped.Body)
		}
	}
}

// Tags in the text of an answer that has reasoning of its own are text (contract section 4), and so they are in a
// message beside one that has.
func TestTagsInAnswersWithReasoningOfTheirOwn(t *testing.T) {
	for _, in := range []string{
		completion(content("<think>a</think>b")+`, "reasoning_content": "c"`, "stop", realUsage),
		completion(`, "reasoning_content": "c"`+content("<think>a"), "stop", realUsage),
		completion(content("<think>a</think>b")+`, "reasoning": "c"`, "stop", realUsage),
		`{"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "<think>a</think>b"}}, {"index": 1, "message": {"reasoning": "c", "content": "d"}}]}`,
	} {
		for _, r := range ReasoningValues() {
			same(t, string(RepairAnswer([]byte(in), &Options{Reasoning: r}, nil).Body), in, string(r))
		}
	}
}

func TestSeveralChoicesAreRepaired(t *testing.T) {
	choice := func(i, c string) string { return `{"index": ` + i + `, "message": {"content": "` + c + `"}}` }
	answer := func(a, b string) string {
		return `{"object": "chat.completion", "choices": [` + choice("0", a) + `, ` + choice("1", b) + `]}`
	}
	a := RepairAnswer([]byte(answer("<think>a</think>b", "`⚡ x`\\nc")), &Options{Reasoning: ReasoningDrop}, nil)
	same(t, string(a.Body), answer("b", "c"), "answer")
}

// FuzzAnswer: JSON stays JSON, twice is once, and an answer without a backtick or a < stays, except for a
// failure and the secrets in its text.
func FuzzAnswer(f *testing.F) {
	for _, n := range nonstreams(f) {
		f.Add([]byte(n.body))
	}
	for _, c := range prosetest.TaggedTexts {
		f.Add([]byte(completion(content(c.In), "stop", realUsage)))
	}
	f.Add([]byte(completion(content("Hi\n`💻 ls`\n\n\nAnswer")+`, "reasoning_content": null`, "stop", realUsage)))
	for _, said := range []string{asciiJSON(saidText), `"Error code: 401 - no"`, `"a"`} {
		f.Add([]byte(responseAnswer(said, noTokens, "")))
		f.Add([]byte(responseAnswer(said, someTokens, `{"type": "reasoning"}, `)))
		f.Add([]byte(sessionAnswer(said)))
		f.Add([]byte(completion(`, "content": [{"type": "text", "text": `+said+`}]`, "stop", realUsage)))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		a := RepairAnswer(in, &Options{}, nil)
		if !json.Valid(in) || !a.Changed {
			same(t, string(a.Body), string(in), "answer")
			return
		}
		if !json.Valid(a.Body) {
			t.Fatalf("no JSON any more: %q", a.Body)
		}
		if secrets := bytes.Count(a.Body, []byte("[redacted]")) - bytes.Count(in, []byte("[redacted]")); a.Code == "" && secrets == 0 && !bytes.ContainsAny(in, "`<\\") {
			t.Errorf("nothing to repair: %q becomes %q", in, a.Body)
		}
		again := RepairAnswer(a.Body, &Options{}, nil)
		same(t, string(again.Body), string(a.Body), "twice and once")
	})
}

// answerMessage is the message of an answer as a client sees it.
type answerMessage struct {
	Content          string
	ReasoningContent string `json:"reasoning_content"`
}

// messageOf returns the message of an answer's first choice.
func messageOf(t testing.TB, body []byte) answerMessage {
	t.Helper()
	var a struct {
		Choices []struct{ Message answerMessage }
	}
	if err := json.Unmarshal(body, &a); err != nil || len(a.Choices) == 0 {
		t.Fatalf("%v in %q", err, body)
	}
	return a.Choices[0].Message
}
