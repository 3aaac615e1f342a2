package rewrite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/tidwall/gjson"
)

// Repaired legacy recordings have the content and the tool starts of modern ones, and their reasoning apart.
func TestLegacyRecordingsRepairedAreLikeModernOnes(t *testing.T) {
	all, compared, starts, thought := map[string]recording{}, 0, 0, 0
	for _, r := range chats(t) {
		all[r.name()] = r
	}
	for _, r := range chats(t, "gm1-v0.6.0", "g0-v0.8.0", "g1-v0.9.0", "agent-loop/g0-v0.8.0") {
		generation := path.Base(r.generation)
		g3, ok3 := all[strings.Replace(r.name(), generation, "g3-v0.20.3", 1)]
		g2, ok2 := all[strings.Replace(r.name(), generation, "g2-v0.13.0", 1)]
		switch {
		case r.generation == "gm1-v0.6.0" && r.scenario != "think_tags":
			continue
		case !ok2 || !ok3:
			t.Errorf("%s has no modern recording", r.name())
			continue
		}
		v, want := look(t, repair(r.body)), look(t, g3.body).content
		if r.scenario == "model_imitates" {
			want = "Sure\ndone" // G3 leaves imitations in
		}
		same(t, v.content, want, r.name()+": contents")
		if r.scenario != "think_tags" && strings.Contains(r.generation, "g0-") { // so is a history of what upstream said
			checkHealed(t, look(t, r.body).content, want)
		}
		if r.scenario == "think_tags" {
			thought++
			equal(t, v.reasoning+": "+v.story(), "secret plan: other reasoning text text finish done", r.name())
		}
		compared++
		inG2 := look(t, g2.body).starts()
		if r.scenario == "emoji_all" { // G2 has more tools
			inG2 = slices.DeleteFunc(inG2, func(e toolEvent) bool {
				return !slices.ContainsFunc(v.starts(), func(o toolEvent) bool { return o.label == e.label })
			})
		}
		equal(t, len(v.starts()), len(inG2), r.name()+": tool starts")
		for i, got := range v.starts() {
			starts++
			equal(t, got.emoji+" "+got.label, inG2[i].emoji+" "+inG2[i].label, r.name())
			// The emoji, or a label that is the tool's name, says which tool it is.
			unique := !strings.Contains("🔍🧠👁⌨📚🏠🧪⚡", strings.TrimSuffix(got.emoji, "\ufe0f"))
			if r.generation == "g1-v0.9.0" || unique || got.label == got.tool {
				equal(t, got.tool, inG2[i].tool, r.name()+": "+got.emoji+" "+got.label)
			}
		}
	}
	if compared < 40 || starts < 130 || thought != 3 {
		t.Errorf("compared %d recordings with %d starts, %d with thoughts", compared, starts, thought)
	}
}

// allOptions are combinations of options under which twice must equal once and cuts must not matter.
func allOptions() (os []Options) {
	for _, p := range ProgressForms() {
		for _, i := range ImitationsValues() {
			os = append(os, Options{Progress: p, Imitations: i})
		}
		os = append(os,
			Options{Progress: p, ErrorFinish: ErrorFinishInline, Reasoning: ReasoningDrop},
			Options{Progress: p, Reasoning: ReasoningKeep},
			Options{Progress: p, NoCards: true, ZeroUsage: ZeroUsageError},
			Options{Progress: p, NoCards: true, NoStatusLine: true})
	}
	return append(os, cardOptions()...)
}

// Frames that are neither marker nor tool event nor finish leave as they are, and modern
// recordings keep their content.
func TestFramesOfRecordingsThatNeedNoChangeLeaveByteForByte(t *testing.T) {
	for _, r := range chats(t) {
		if r.scenario == "model_imitates" || r.scenario == "think_tags" {
			continue
		}
		out := repairWith(r.body, Options{KeepaliveForm: KeepaliveComment})
		if !strings.Contains(r.generation, "g0-") {
			content := look(t, r.body).content
			same(t, look(t, out).content, strings.ReplaceAll(content, keyOfTests, redacted), r.name()+": contents")
			checkHealed(t, content, content)
		}
		for _, f := range frames(r.body) {
			if strings.HasPrefix(f, "event:") || strings.Contains(f, `\n`+"`") || strings.Contains(f, `"finish_reason": "`) || strings.Contains(f, keyOfTests) {
				continue
			}
			_, rest, ok := strings.Cut(out, f)
			if !ok {
				t.Errorf("%s: frame is gone or out of order: %q", r.name(), f)
				break
			}
			out = rest
		}
	}
}

// Recordings of a scenario pass, or end in the same way.
func TestEndsOfRecordings(t *testing.T) {
	n := map[string]int{}
	for _, r := range chats(t) {
		raw, row, scenario := look(t, r.body), row{in: r.body}, r.scenario
		if strings.HasPrefix(scenario, "crash_") {
			scenario = "crash"
		}
		switch scenario {
		case "plain", "inline_code", "no_usage", "zero_usage_success", "reasoning", "truncated_result", "nousage":
			if len(raw.tools) > 0 || raw.finish.Error != nil && raw.finishes[0] == "error" {
				continue
			}
			row.out, row.end, row.o = passes, raw.finishes[0], Options{KeepaliveForm: KeepaliveComment}
		case "one_tool", "parallel_tools", "seq_tools", "labels", "emoji_all", "tool_first", "slow_tool", "internal_tool":
			if r.generation != "g2-v0.13.0" && r.generation != "g3-v0.20.3" {
				continue
			}
			row.out, row.o = passes, Options{Progress: ProgressBare, KeepaliveForm: KeepaliveComment}
		case "failed_result", "zero_usage_empty", "crash", "fail_second_call":
			row.end, row.o = CodeCrashed, Options{ZeroUsage: ZeroUsageError}
			if raw.finishes[0] == "error" {
				row.end = CodeAgentError
			} else if scenario == "fail_second_call" { // with real usage
				row.end = CodeEmpty
			}
		// A model that stays silent, an answer that Hermes did not stream, a provider that fails after a tool:
		// Hermes says stop, with real usage.
		case "empty", "unstreamed", "err500second":
			if raw.finishes[0] != "stop" || scenario == "unstreamed" && raw.content != "" {
				continue // it says so, or sends the text late
			}
			row.end = CodeEmpty
			passed := look(t, repairWith(r.body, Options{EmptyAnswer: EmptyAnswerPass}))
			equal(t, passed.finishes[0]+fmt.Sprint(passed.errors), "stop[]", r.name()+": empty_answer pass")
		case "housekeep":
			if r.generation != "live-g0-v0.8.0" {
				continue
			}
			row.end, row.story = "stop", "other text text text text text text text text running completed finish done"
		default:
			continue
		}
		n[row.end]++
		out, sum := run(r.body, row.o, chatParams, inOne, CauseEOF)
		if row.compare(t, out, sum); t.Failed() {
			t.Fatalf("%s: %+v\n%s", r.name(), sum, out)
		}
	}
	if n["stop"] < 20 || n[CodeCrashed]+n[CodeAgentError] < 15 || n[CodeEmpty] < 10 || n[""] < 10 {
		t.Errorf("recordings by their ends: %v", n)
	}
}

// A recording that is cut at any byte ends as contract section 3 says, for each cause.
func TestRecordingsCutAnywhere(t *testing.T) {
	t.Parallel()
	for n, r := range chats(t) {
		switch r.scenario {
		case "one_tool", "parallel_tools", "crash_after_text", "crash_in_tool", "model_imitates", "reasoning_tools", "status_wait":
		case "labels":
			if r.generation != "g0-v0.8.0" {
				continue
			}
		default:
			continue
		}
		full := repair(r.body)
		var known, content string // the content of the complete frames known
		for i := range placesOf(len(r.body), n) {
			in := r.body[:i]
			n++
			cause := causes[n%len(causes)]
			out, sum := run(in, Options{}, chatParams, inOne, cause)
			if complete := completeFrames(in); complete != known {
				known = complete
				content = look(t, repair(known+doneFrame)).content
			}
			if strings.Contains(known, `"finish_reason": "`) {
				same(t, out, full, "outputs after the finish chunk")
			} else {
				row{end: cause.Code(), content: cmp.Or(content, nothing)}.compare(t, out, sum)
			}
			if known != "" { // or there is no answer
				same(t, repair(out), out, "twice and once")
			}
			if t.Failed() {
				t.Fatalf("%s, cut at %d, cause %d:\n%s", r.name(), i, cause, out)
			}
		}
	}
}

// completeFrames returns the frames of in, the last one's blank line added if its JSON is complete.
func completeFrames(in string) string {
	i := strings.LastIndex(in, "\n\n") + 2
	if i < 2 {
		i = 0
	}
	line := strings.TrimSuffix(in[i:], "\n")
	if events := decode(line + "\n\n"); len(events) == 1 && strings.HasSuffix(line, "}") && jsonspan.Valid([]byte(events[0].data)) {
		return in[:i] + line + "\n\n"
	}
	return in[:i]
}

// Under all options tools pair up, twice through equals once through, and no cut changes what leaves.
func TestRecordingsTwiceAndInAnyCut(t *testing.T) {
	t.Parallel()
	for i, r := range recordings(t) {
		for _, o := range allOptions() {
			want, wantSum := run(r.body, o, r.params(), inOne, CauseEOF)
			if r.chat() {
				checkLife(t, want, o, wantSum, true)
			}
			// Off hides the tool events, without which a kept imitation that is a whole chunk looks like a real marker.
			if o.Progress != ProgressOff || o.Imitations != ImitationsKeep || r.scenario != "model_imitates" {
				twice, _ := run(want, o, r.params(), inOne, CauseEOF)
				same(t, twice, want, r.name()+": twice and once")
			}
			for _, cut := range []cutter{oneByte, atRandom(1, 7), atRandom(2, 300), atRandom(3, 3000)} {
				if i%min(cutStride, 5) > 0 {
					break
				}
				got, sum := run(r.body, o, r.params(), cut, CauseEOF)
				same(t, got, want, r.name()+": outputs")
				equal(t, sum, wantSum, "summaries of two cuts")
			}
			if t.Failed() {
				t.Fatalf("%s with %+v", r.name(), o)
			}
		}
	}
}

// everyNth returns all recordings, or one in five for the race detector.
func everyNth(all []recording) (some []recording) {
	for i := 0; i < len(all); i += min(cutStride, 5) {
		some = append(some, all[i])
	}
	return some
}

// A corpusStream is a stream of the corpus, from its index.
type corpusStream struct{ File, API string }

// corpusOf returns the streams of the corpus of other providers.
func corpusOf(t *testing.T) (all []corpusStream) {
	t.Helper()
	if err := json.Unmarshal([]byte(corpus(t, "index.json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Streams of other providers pass, and responses that are cut get an end.
func TestStreamsOfOtherProvidersPassByteForByte(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for _, c := range corpusOf(t) {
		in := corpus(t, strings.Split(c.File, "/")...)
		p := chatParams
		p.Active = c.API == "chat"
		if p.Active && !endsProperly(in) {
			continue
		}
		counts[c.API]++
		p.Usage = memory{}
		for _, o := range []Options{{}, {ErrorFinish: ErrorFinishInline}, {Progress: ProgressOff}} {
			for _, cut := range []cutter{inOne, atRandom(7, 500)} {
				out, sum := run(in, o, p, cut, CauseEOF)
				same(t, out, in, c.File+": bytes")
				equal(t, sum.Code, "", c.File)
			}
		}
		for at := 0; at < len(in) && c.API == "responses"; at += 1 + len(in)/40 {
			checkOther(t, in[:at], Params{}, []byte{byte(at)}, []byte{200, 3, 17}, byte(at), 0)
		}
	}
	if counts["chat"] < 50 {
		t.Errorf("streams of the corpus: %v", counts)
	}
}

// endsProperly reports whether a chat stream has a finish chunk and [DONE].
func endsProperly(in string) bool {
	finish := false
	for _, e := range decode(in) {
		for _, reason := range gjson.Get(e.data, "choices.#.finish_reason").Array() {
			finish = finish || reason.Str != "" && reason.Str != "error"
		}
	}
	return finish && strings.Contains(in, "[DONE]")
}
