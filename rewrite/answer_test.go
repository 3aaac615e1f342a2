package rewrite

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// nonstream is a recorded answer that was not streamed.
type nonstream struct {
	generation, scenario string
	status               string
	body                 string
}

func (n nonstream) name() string { return n.generation + "/" + n.scenario }

// nonstreams returns the recorded answers that were not streamed.
func nonstreams(t testing.TB) (ns []nonstream) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(captures, "*", "nonstream.*.http"))
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d recordings, %v", len(paths), err)
	}
	for _, path := range paths {
		head, body, _ := strings.Cut(strings.ReplaceAll(readFile(t, path), "\r\n", "\n"), "\n\n")
		status, _, _ := strings.Cut(head, "\n")
		ns = append(ns, nonstream{
			generation: filepath.Base(filepath.Dir(path)),
			scenario:   strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "nonstream."), ".http"),
			status:     status,
			body:       strings.TrimRight(body, "\n"),
		})
	}
	return ns
}

// TestRecordedAnswers: legacy failures that are certain are answered as modern
// Hermes answers them; all else is as it was.
func TestRecordedAnswers(t *testing.T) {
	failures := 0
	modern := map[string]nonstream{}
	for _, n := range nonstreams(t) {
		if n.generation == "g3-v0.20.3" {
			modern[n.scenario] = n
		}
	}
	for _, n := range nonstreams(t) {
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
		same(t, string(a.Body), compact(t, modern[n.scenario].body), n.name())
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

func TestFailedAnswers(t *testing.T) {
	const apiFailed = "API call failed after 3 retries: Error code: 401 - sk-abcdef123456"
	for _, c := range []struct {
		name, in string
		o        Options
		usage    memory
		message  string // of the error, empty for an answer that passes
		warn     bool
	}{
		{"no answer", completion(content(""), "stop", zeroUsage), Options{}, nil, Message(CodeCrashed), false},
		{"white space", completion(content("\n "), "stop", zeroUsage), Options{}, nil, Message(CodeCrashed), false},
		{"null", completion(`, "content": null`, "stop", zeroUsage), Options{}, nil, Message(CodeCrashed), false},
		{"no content", completion("", "stop", zeroUsage), Options{}, nil, Message(CodeCrashed), false},
		{"in so many words", completion(content("(No response generated)"), "stop", zeroUsage), Options{}, nil, Message(CodeCrashed), false},
		{"an error of Hermes' own", completion(content(apiFailed), "stop", zeroUsage), Options{}, nil, "API call failed after 3 retries: Error code: 401 - [redacted]", false},
		{"markers only", completion(content("`💻 ls`\n"), "stop", zeroUsage), Options{}, nil, Message(CodeCrashed), false},
		{"no answer, real usage", completion(content(""), "stop", realUsage), Options{}, nil, "", false},
		{"no answer, no usage", completion(content(""), "stop", ""), Options{}, nil, "", false},
		{"an error with real usage", completion(content(apiFailed), "stop", realUsage), Options{}, nil, "", false},
		{"a text", completion(content("Hello"), "stop", zeroUsage), Options{}, nil, "", true},
		{"a text, where usage is reported", completion(content("Hello"), "stop", zeroUsage), Options{}, memory{"hermes-agent": true}, "", true},
		{"a text with all of it, zero_usage error", completion(content("<think>r</think>\n\n`💻 ls`\nboom"), "stop", zeroUsage), Options{ZeroUsage: ZeroUsageError}, nil, "boom", false},
		{"a long text, zero_usage error", completion(content(strings.Repeat("é", maxMessage)), "stop", zeroUsage), Options{ZeroUsage: ZeroUsageError}, nil, strings.Repeat("é", maxMessage/2), false},
		{"a text, zero_usage error", completion(content("Hello"), "stop", zeroUsage), Options{ZeroUsage: ZeroUsageError}, nil, "Hello", false},
		{"a text, zero_usage pass", completion(content("Hello"), "stop", zeroUsage), Options{ZeroUsage: ZeroUsagePass}, memory{"hermes-agent": true}, "", true},
		{"reasoning", completion(`, "content": "", "reasoning_content": "hm"`, "stop", zeroUsage), Options{}, nil, "", true},
		{"tool calls", completion(`, "content": null, "tool_calls": [{"id": "c"}]`, "stop", zeroUsage), Options{}, nil, "", false},
		{"another finish reason", completion(content(""), "length", zeroUsage), Options{}, nil, "", false},
		{"a hermes block", completion(content(""), "stop", zeroUsage+`, "hermes": {"failed": false}`), Options{}, nil, "", false},
		{"two choices", strings.Replace(completion(content(""), "stop", zeroUsage), `"choices": [`, `"choices": [{"index": 1, "message": {"content": ""}, "finish_reason": "stop"}, `, 1), Options{}, nil, "", false},
		{"no choice", `{"object": "chat.completion", "model": "m", "choices": []` + zeroUsage + `}`, Options{}, nil, "", false},
		{"an error beside it", completion(content(""), "stop", zeroUsage+`, "error": {"message": "x"}`), Options{}, nil, "", false},
		{"an error of Hermes' own that is quoted", completion(content("It said: "+apiFailed), "stop", zeroUsage), Options{}, nil, "", true},
		{"white space for reasoning", completion(`, "content": "", "reasoning_content": " \n", "reasoning": "\t"`, "stop", zeroUsage), Options{}, nil, Message(CodeCrashed), false},
		{"white space between tags", completion(content("<think>\n</think>"), "stop", zeroUsage), Options{}, nil, Message(CodeCrashed), false},
		{"reasoning by its other name", completion(`, "content": "", "reasoning": "hm"`, "stop", zeroUsage), Options{}, nil, "", true},
		{"reasoning between tags", completion(content("<think>hm</think>"), "stop", zeroUsage), Options{Reasoning: ReasoningKeep}, nil, "", true},
	} {
		m := memory{}
		for model := range c.usage {
			m.Report(model)
		}
		a := RepairAnswer([]byte(c.in), &c.o, m)
		equal(t, a.ZeroUsagePassed, c.warn, c.name)
		if c.message == "" {
			same(t, string(a.Body), c.in, c.name)
			continue
		}
		message := string(jsonspan.Quote(c.message))
		if !strings.HasPrefix(c.message, "the agent") { // upstream's keeps its escapes
			message = asciiJSON(c.message)
		}
		want := `{"error":{"message":` + message + `,"type":"server_error","param":null,"code":"agent_incomplete","hermes":{"completed":false,"partial":false,"failed":true}}}`
		same(t, string(a.Body), want, c.name)
		if a.Code != CodeAgentIncomplete || a.FinishReason != "" || !a.Changed {
			t.Errorf("%s: %+v", c.name, a.Summary)
		}
	}
}

// TestAnswersWithReasoningAndMarkers: the content loses both, the reasoning is
// kept, and every other byte stays.
func TestAnswersWithReasoningAndMarkers(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"reasoning", content("<think>plan</think>\n\nAnswer"), `, "content": "Answer","reasoning_content":"plan"`},
		{"unclosed", content("<think>plan"), `, "content": "","reasoning_content":"plan"`},
		{"white space only", content("<think>\n</think>Answer"), `, "content": "Answer","reasoning_content":"\n"`},
		{"nothing in it", content("<think></think>Answer"), `, "content": "Answer"`},
		{"markers", content("Hi\n`💻 ls`\n\n\nAnswer"), `, "content": "Hi\n\nAnswer"`},
		{"both", content("<think>a\n`💻 ls`\n</think>`💻 ls`\nAnswer"), `, "content": "Answer","reasoning_content":"a\n` + "`\\ud83d\\udcbb ls`" + `\n"`},
		{"escapes", `, "content": "\u003cthink\u003e\u00e9\u003c/think\u003e\ud83d\ude00"`, `, "content": "\ud83d\ude00","reasoning_content":"\u00e9"`},
		{"reasoning of upstream's behind", content("<think>a</think>b") + `, "reasoning_content": "c"`, `, "content": "b", "reasoning_content": "c\n\na"`},
		{"reasoning of upstream's before", `, "reasoning_content": "c"` + content("<think>a</think>b"), `, "reasoning_content": "c\n\na", "content": "b"`},
		{"null reasoning", content("<think>a</think>b") + `, "reasoning_content": null`, `, "content": "b", "reasoning_content": "a"`},
		{"a marker, then a tag", content("A\n`💻 ls`\n<think>a</think>B"), `, "content": "A\nB","reasoning_content":"a"`},
		{"a marker's beginning within reasoning", content("<think>`💻 ls </think>Answer`\nB"), `, "content": "Answer` + "`" + `\nB","reasoning_content":"` + "`\\ud83d\\udcbb ls" + ` "`},
		{"reasoning behind a marker", content("A\n\n`💻 ls`\n<think>a</think>`📖 x`\n\n<think>b</think>B"), `, "content": "A\n\nB","reasoning_content":"a\n\nb"`},
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

// TestAnswersAreSeparatedAsStreamsAre over all texts of tags.
func TestAnswersAreSeparatedAsStreamsAre(t *testing.T) {
	for _, c := range prosetest.TaggedTexts {
		a := RepairAnswer([]byte(completion(content(c.In), "stop", realUsage)), &Options{}, nil)
		m := messageOf(t, a.Body)
		if m.Content != c.Content || m.ReasoningContent != c.Reasoning {
			t.Errorf("%s: %+v, want %q and %q", c.Name, m, c.Content, c.Reasoning)
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

// TestOtherAnswersStay: what is no chat completion, or no JSON, passes.
func TestOtherAnswersStay(t *testing.T) {
	good := completion(content("<think>a</think>b"), "stop", zeroUsage)
	for _, in := range []string{
		"", " ", "null", "[]", `"x"`, "{", "{}", good[:len(good)-1], good + "x", good + good,
		strings.Replace(good, `"chat.completion"`, `"list"`, 1),
		strings.Replace(good, `"choices"`, `"choice"`, 1),
		`{"object": "chat.completion", "choices": {}}`,
		`{"object": "chat.completion", "choices": [null, 1, {}, {"message": null}, {"message": {"content": {"a": "<think>"}}}]}`,
		`{"object": "chat.completion", "choices": [{"message": {"content": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}]}`,
		`{"error": {"message": "<think>"}}`,
		strings.Replace(good, `"stop"`, `stop`, 1),
		strings.Replace(good, `"message"`, `"x": 01, "message"`, 1),
		strings.Replace(good, `"message"`, `"x": "\x", "message"`, 1),
		strings.Replace(good, `"message"`, `"x": tru, "message"`, 1),
		strings.Replace(good, `"message"`, `"x": [1,], "message"`, 1),
		completion(content("a < b `x`"), "stop", realUsage),
		completion(content("<think>a</think>b")+`, "reasoning_content": ["c"]`, "stop", realUsage),
	} {
		a := RepairAnswer([]byte(in), &Options{}, nil)
		same(t, string(a.Body), in, in)
		if a.Changed {
			t.Errorf("%s: it is said to have changed", in)
		}
	}
}

// FuzzAnswer: what was JSON is JSON, twice is once, and an answer without a
// backtick or a < stays, but for a failure and the secrets in what it says of one.
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

// The texts with which Hermes says that its agent failed, and others that look like
// them. With real usage tools may have run, and clients repeat what fails.
func TestHermesOwnErrorsAreErrors(t *testing.T) {
	for said, fails := range map[string]bool{
		"API call failed after 3 retries: HTTP 500: boom": true,
		"API call failed after many retries: boom":        false,
		"Error code: 401 - {'error': {'message': 'no'}}":  true,
		"Error code: 401":                 true,
		"Error code: 401 is what it said": false,
		"Error code: 4011 - x":            false,
		"Invalid API response shape. Likely rate limited or malformed provider response.":        true,
		"Invalid API response after 3 retries: response.choices is empty":                        true,
		"⏳ Nous Portal rate limit active — resets in 5m.":                                        true,
		"Request payload too large: max compression attempts (3) reached.":                       true,
		"Request payload too large (413). Cannot compress further.":                              true,
		"Request payload too large (413). Cannot compress further. Try again":                    false,
		"Context length exceeded: max compression attempts (3) reached.":                         true,
		"Context length exceeded (200,000 tokens). Cannot compress further.":                     true,
		"First response truncated due to output length limit":                                    true,
		"Response truncated due to output length limit":                                          true,
		"Response truncated due to output length limit, I fear":                                  false,
		"Response remained truncated after 3 continuation attempts":                              true,
		"⚠️ **Thinking Budget Exhausted**\n\nThe model used all its output tokens on reasoning.": true,
		"Operation interrupted: waiting for model response (2.1s elapsed).":                      true,
		"Operation interrupted: handling API error (boom).":                                      true,
		"Operation interrupted: retrying API call after error (retry 1/3).":                      true,
		"Operation interrupted during retry (attempt 1/3).":                                      true,
		"Operation interrupted after rate limit (attempt 1/3).":                                  true,
		"Operation interrupted by the user":                                                      false,
		"⚠️ No reply: all API retries were exhausted.":                                           true,
		"⚠️ No reply: the model returned nothing.":                                               false,
		"⚠️ Provider authentication failed: check your key":                                      true,
		"⚠️ Provider rate-limited: wait":                                                         true,
		"I reached the maximum iterations (90) but couldn't summarize. Error: boom":              false,
		"(empty)":                 false,
		"(No response generated)": true,
		"The server says: Error code: 500 - internal": false,
	} {
		in := completion(content(said), "stop", zeroUsage)
		equal(t, (RepairAnswer([]byte(in), &Options{}, nil).Code == CodeAgentIncomplete), fails, said)
		in = completion(content(said), "stop", realUsage)
		same(t, string(RepairAnswer([]byte(in), &Options{}, nil).Body), in, "with real usage")
	}
	in := readFile(t, captures+"/live-g0-v0.8.0/nonstream.err401.body")
	a := RepairAnswer([]byte(in), &Options{}, nil)
	if a.Code != CodeAgentIncomplete || strings.Contains(string(a.Body), "sk-abc") {
		t.Errorf("code %q: %s", a.Code, a.Body)
	}
}

// An answer without usage is a failure only where it says nothing at all; whatever else
// it has is an answer (contract section 4).
func TestAnswersThatSaySomething(t *testing.T) {
	for message, says := range map[string]bool{
		``:                                       false,
		`, "content": null`:                      false,
		`, "content": ""`:                        false,
		`, "content": " \n\t"`:                   false,
		`, "content": "\u00a0"`:                  false,
		`, "content": []`:                        false,
		`, "content": {}`:                        false,
		`, "content": "(No response generated)"`: false,
		`, "content": " (No response generated)\n"`:                                              false,
		`, "content": "", "reasoning_content": " "`:                                              false,
		`, "content": "", "reasoning_content": "\n", "reasoning": "\u2003"`:                      false,
		`, "content": "", "tool_calls": []`:                                                      false,
		`, "content": "", "tool_calls": null, "refusal": null, "audio": null, "annotations": []`: false,
		`, "content": "<think> </think>\n"`:                                                      false,
		`, "content": "\n` + "`💻 ls`" + `\n"`:                                                    false,
		`, "content": "Hi"`:                                                                      true,
		`, "content": [{"type": "text", "text": "Hi"}]`:                                          true,
		`, "content": {"parts": ["Hi"]}`:                                                         true,
		`, "content": "", "reasoning_content": "Hm"`:                                             true,
		`, "content": null, "reasoning": "Hm"`:                                                   true,
		`, "reasoning": "Hm", "reasoning_content": ""`:                                           true,
		`, "content": "", "refusal": "no"`:                                                       true,
		`, "content": "", "tool_calls": [{"id": "c"}]`:                                           true,
		`, "content": "", "audio": {"id": "a"}`:                                                  true,
		`, "content": "<think>Hm</think>"`:                                                       true,
	} {
		body := completion(message, "stop", zeroUsage)
		a := RepairAnswer([]byte(body), &Options{}, nil)
		if failed := a.Code == CodeAgentIncomplete; failed == says {
			t.Errorf("%s: code %q, body %s", message, a.Code, a.Body)
		}
		if says && !strings.Contains(message, "<think>") && string(a.Body) != body {
			t.Errorf("%s is changed: %s", message, a.Body)
		}
		// With usage, or with another finish reason, all of them are answers.
		for _, body := range []string{completion(message, "stop", realUsage), completion(message, "length", zeroUsage), completion(message, "stop", "")} {
			equal(t, RepairAnswer([]byte(body), &Options{EmptyAnswer: EmptyAnswerPass}, nil).Code, "", body)
		}
	}
}

// What is no well-formed chat completion stays as it is, and nothing is known of it.
func TestWhatIsNoCompletion(t *testing.T) {
	good := completion(`, "content": "<think>a</think>b"`, "stop", zeroUsage)
	for _, body := range []string{
		"", " ", "{", "[]", "null", "[" + good + "]", good + "x", good + good, good[:len(good)-1], strings.Replace(good, `"choices": [`, `"choices": [,`, 1),
		strings.Replace(good, "chat.completion", "chat.completions", 1), strings.Replace(good, "chat.completion", "chat.completion.chunk", 1), strings.Replace(good, "chat.completion", "text_completion", 1),
		strings.Replace(good, `"object": "chat.completion"`, `"object": ["chat.completion"]`, 1), strings.Replace(good, `"object": "chat.completion", `, "", 1),
		`{"object": "chat.completion"}`, `{"object": "chat.completion", "choices": {"message": {}}}`, `{"object": "chat.completion", "choices": null}`, `{"object": "chat.completion", "choices": "x"}`,
		strings.Replace(good, `"index": 0`, `"index": nul`, 1), strings.Replace(good, "<think>", "\n", 1), strings.Replace(good, "<think>", `\x`, 1),
	} {
		a := RepairAnswer([]byte(body), &Options{}, nil)
		if string(a.Body) != body || a.Completion || a.Changed || a.Summary != (Summary{}) {
			t.Errorf("%s: %+v, body %s", body, a.Summary, a.Body)
		}
	}
	// White space around it makes no difference.
	a := RepairAnswer([]byte("\r\n "+good+"\t\n"), &Options{Reasoning: ReasoningKeep}, nil)
	if !a.Completion || a.Changed || a.ID != "chatcmpl-1" || a.Model != "hermes-agent" || a.FinishReason != "stop" {
		t.Errorf("%+v", a)
	}
}

// What an answer counts is what its usage says.
func TestTokensOfAnAnswer(t *testing.T) {
	m := memory{}
	a := RepairAnswer([]byte(completion(content("Hi"), "stop", realUsage)), &Options{}, m)
	if a.InputTokens != 1234 || a.OutputTokens != 56 || !m["hermes-agent"] || a.ZeroUsagePassed {
		t.Errorf("%+v, reported %v", a.Summary, m)
	}
	m = memory{}
	a = RepairAnswer([]byte(completion(content("Hi"), "stop", zeroUsage)), &Options{}, m)
	if a.InputTokens != 0 || a.OutputTokens != 0 || len(m) != 0 || !a.ZeroUsagePassed {
		t.Errorf("%+v, reported %v", a.Summary, m)
	}
	a = RepairAnswer([]byte(completion(content("Hi"), "stop", `, "usage": {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}`)), &Options{}, nil)
	if a.InputTokens != 1 || a.OutputTokens != 0 {
		t.Errorf("%+v", a.Summary)
	}
}
