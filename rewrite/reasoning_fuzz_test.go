package rewrite

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose/prosetest"
)

// reasoningTokens are what FuzzReasoning makes text of.
var reasoningTokens = []string{
	"<think>", "</think>", "<thinking>", "</thinking>", "<reasoning>", "</reasoning>", "<thought>", "</thought>",
	"<REASONING_SCRATCHPAD>", "</REASONING_SCRATCHPAD>", "<Think>", "<mm:think>", "</mm:think>", "<thi", "nk>", "<", "</", "</thi", "<<think>", ">",
	"\n", "\n\n", " ", "   ", "\t", "a", "word ", "`", "```", "```\n", "~~~\n", "é", "💻", "\u00a0", "\r", "`</think>`", "`💻 ls`\n",
}

// FuzzReasoning: content and reasoning are upstream's text minus tags and the
// white space after closing ones, however upstream cut it into deltas.
func FuzzReasoning(f *testing.F) {
	for _, c := range prosetest.TaggedTexts {
		f.Add(c.In, []byte{}, []byte{1})
	}
	f.Add("", []byte{0, 23, 1, 18, 18, 23, 19, 0, 24, 1, 23}, []byte{0, 3, 6})
	f.Fuzz(func(t *testing.T, raw string, script, cuts []byte) {
		if !utf8.ValidString(raw) || strings.ContainsRune(raw, utf8.RuneError) || strings.ContainsAny(raw, "\u017f\u212a") {
			return // the model folds more than ASCII
		}
		text := raw
		for _, b := range script {
			text += reasoningTokens[int(b)%len(reasoningTokens)]
		}
		if len(text) > 1000 {
			return
		}
		stream := role() + deltas(text, cuts) + stop()
		content, reasoning := withoutReasoning(text)

		keepsImitations := Options{Imitations: ImitationsKeep}
		shown := g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1")
		v := look(t, repairWith(shown+stream, keepsImitations))
		same(t, v.content, content, "contents")
		same(t, v.reasoning, reasoning, "reasonings")
		dropped := look(t, repairWith(shown+stream, Options{Imitations: ImitationsKeep, Reasoning: ReasoningDrop}))
		same(t, dropped.content, content, "contents without reasoning")
		if dropped.reasoning != "" {
			t.Errorf("reasoning that is dropped: %q", dropped.reasoning)
		}

		out := repair(shown + stream)
		same(t, repair(out), out, "twice and once")
		said := repair(shown + role() + deltas(strings.ReplaceAll(text, "word ", "Provider said: sk-abcdefgh "), cuts) + stop())
		same(t, repair(said), said, "twice and once with what a provider said")
		if content == text && !strings.Contains(text, "`") {
			same(t, repairWith(stream, Options{EmptyAnswer: EmptyAnswerPass}), stream, "bytes of what needs no change")
		}
		crashed, _ := run(shown+role()+deltas(text, cuts), keepsImitations, chatParams, inOne, CauseAborted)
		v = look(t, crashed)
		v.checkErrorFinish(t, CodeAborted)
		same(t, v.content, content, "contents before a crash")
		same(t, v.reasoning, reasoning, "reasonings before a crash")
		checkAnswer(t, text, content, reasoning)
	})
}

// checkAnswer checks that an answer which is not streamed and says text is
// separated into content and reasoning, and that twice is once.
func checkAnswer(t *testing.T, text, want, reasoning string) {
	t.Helper()
	in := []byte(completion(content(text), "stop", realUsage))
	kept := RepairAnswer(in, &Options{Imitations: ImitationsKeep}, nil)
	m := messageOf(t, kept.Body)
	same(t, m.Content, want, "contents of an answer")
	same(t, m.ReasoningContent, reasoning, "reasonings of an answer")
	a := RepairAnswer(in, &Options{}, nil)
	again := RepairAnswer(a.Body, &Options{}, nil)
	same(t, string(again.Body), string(a.Body), "an answer twice and once")
}
