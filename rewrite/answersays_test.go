package rewrite

import (
	"strings"
	"testing"
)

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
			if a := RepairAnswer([]byte(body), &Options{EmptyAnswer: EmptyAnswerPass}, nil); a.Code != "" {
				t.Errorf("%s: %s", body, a.Code)
			}
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

// What had been said is said to be partial, were it only the beginning of a closing tag
// that nothing closed.
func TestPartialOfACutClosingTag(t *testing.T) {
	for in, partial := range map[string]bool{
		"<think></thi": true, "<think> <": true, "<think>": false, "<think> ": false, "<think></think>": false, "<think></think> \n": false, "<thi": true,
	} {
		for _, o := range []Options{{}, {Reasoning: ReasoningKeep}} {
			v := look(t, repairWith(role()+text(in), o))
			v.checkErrorFinish(t, CodeIncomplete)
			if want := partial || o.Reasoning == ReasoningKeep; *v.finish.Hermes.Partial != want {
				t.Errorf("%q, reasoning %q: partial is %v", in, o.Reasoning, !want)
			}
		}
	}
}
