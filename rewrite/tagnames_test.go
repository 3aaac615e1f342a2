package rewrite

import "testing"

// What is nearly a tag is text, in a stream and in an answer that is not streamed.
func TestWhatIsNearlyATag(t *testing.T) {
	for _, s := range []string{
		"<thoug>a</thoug>b", "<thin>a</thin>b", "<thinki>a</thinki>b", "<thinkin>a</thinkin>b", "<reason>a</reason>b", "<reasonin>a</reasonin>b", "<reasoning_>a</reasoning_>b",
		"<reasoning_scratchpa>a", "<thinks>a</thinks>b", "<thinking_>a", "< think>a</think>b", "<think >a</think>b", "<think/>a", "</think>a", "<>a", "<t>a", "<1hink>a", "<\u212Aink>", "<thin\u212A>a</think>b",
		"<[hink>a</think>b", "<@hink>a</think>b", "<THIN[>a",
	} {
		same(t, look(t, repair(role()+text(s)+stop())).content, s, "contents in one chunk")
		in := role()
		for _, r := range s {
			in += text(string(r))
		}
		v := look(t, repair(in+stop()))
		same(t, v.content, s, "contents rune by rune")
		if v.reasoning != "" {
			t.Errorf("%q has the reasoning %q", s, v.reasoning)
		}
		body := completion(content(s), "stop", realUsage)
		same(t, string(RepairAnswer([]byte(body), &Options{}, nil).Body), body, "answers")
	}
}
