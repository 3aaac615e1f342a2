package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// strips are contents and what is left of them.
var strips = []struct{ name, content, want string }{
	{"in the middle", "a\n`💻 ls`\nb", "a\nb"},
	{"an empty line behind", "a\n`💻 ls`\n\nb", "a\nb"},
	{"two empty lines behind", "a\n`💻 ls`\n\n\nb", "a\n\nb"},
	{"an empty line before", "a\n\n`💻 ls`\nb", "a\n\nb"},
	{"at the start of the message", "`💻 ls`\nb", "b"},
	{"at the start, an empty line behind", "`💻 ls`\n\nb", "b"},
	{"at the end", "a\n`💻 ls`\n", "a\n"},
	{"at the end without a newline", "a\n`💻 ls`", "a\n"},
	{"the whole message", "`💻 ls`", ""},
	{"two in a row", "a\n`💻 ls`\n`📖 x`\nb", "a\nb"},
	{"two with an empty line between", "a\n`💻 ls`\n\n`📖 x`\n\nb", "a\nb"},
	{"three with empty lines", "a\n\n`💻 1`\n\n`💻 2`\n\n`💻 3`\n\nb", "a\n\nb"},
	{"text between", "a\n`💻 1`\nb\n`💻 2`\nc", "a\nb\nc"},
	{"with U+FE0F", "a\n`⚙️ x`\nb", "a\nb"},
	{"without U+FE0F where the table has it", "a\n`⚙ x`\nb", "a\nb"},
	{"a label of one backtick", "a\n`💻 ``\nb", "a\nb"},
	{"backticks in the label", "a\n`💻 echo `date` x`\nb", "a\nb"},
	{"inside a backtick fence", "a\n```\n`💻 ls`\n```\nb", "a\n```\n`💻 ls`\n```\nb"},
	{"inside a tilde fence", "~~~\n`💻 ls`\n~~~\n", "~~~\n`💻 ls`\n~~~\n"},
	{"inside an unclosed fence", "```sh\n`💻 ls`\nb", "```sh\n`💻 ls`\nb"},
	{"inside a fence with a language", "```go\n`💻 ls`\n```", "```go\n`💻 ls`\n```"},
	{"behind a closed fence", "```\nx\n```\n`💻 ls`\nb", "```\nx\n```\nb"},
	{"a shorter fence closes nothing", "````\n```\n`💻 ls`\n````\n", "````\n```\n`💻 ls`\n````\n"},
	{"another fence closes nothing", "```\n~~~\n`💻 ls`\n```\n", "```\n~~~\n`💻 ls`\n```\n"},
	{"a fence with text behind closes nothing", "```\n``` x\n`💻 ls`\n```\n", "```\n``` x\n`💻 ls`\n```\n"},
	{"a longer fence closes", "```\nx\n`````\n`💻 ls`\nb", "```\nx\n`````\nb"},
	{"three backticks in a line are no fence", "```x``` y\n`💻 ls`\nb", "```x``` y\nb"},
	{"two backticks are no fence", "``\n`💻 ls`\nb", "``\nb"},
	{"an indented fence", "- x\n  ```\n`💻 ls`\n  ```\n", "- x\n  ```\n`💻 ls`\n  ```\n"},
	{"inline code", "a `💻 ls` b", "a `💻 ls` b"},
	{"inline code at the start of a line", "a\n`💻 ls` b\n", "a\n`💻 ls` b\n"},
	{"inline code at the end of a line", "a `💻 ls`\nb", "a `💻 ls`\nb"},
	{"indented", "a\n `💻 ls`\nb", "a\n `💻 ls`\nb"},
	{"a lone emoji", "a\n`💻`\nb", "a\n`💻`\nb"},
	{"an unknown emoji", "a\n`🦄 ls`\nb", "a\n`🦄 ls`\nb"},
	{"no emoji", "a\n`git status`\nb", "a\n`git status`\nb"},
	{"not closed", "a\n`💻 ls\nb", "a\n`💻 ls\nb"},
	{"two backticks before", "a\n``💻 ls`\nb", "a\n``💻 ls`\nb"},
	{"a newline in the emoji", "a\n`💻\n ls`\nb", "a\n`💻\n ls`\nb"},
	{"text and a newline alone", "a\n\n\nb\n", "a\n\n\nb\n"},
}

func TestImitationsAreStripped(t *testing.T) {
	for _, s := range strips {
		// One delta, one for each rune, and two cut at each place.
		splits := [][]string{{s.content}, strings.Split(s.content, "")}
		for i := range s.content {
			if i > 0 {
				splits = append(splits, []string{s.content[:i], s.content[i:]})
			}
		}
		for _, split := range splits {
			in := role() + g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + texts(split...) + stop()
			out := repair(in)
			if got := look(t, out).content; got != s.want {
				t.Errorf("%s: content of %q = %q, want %q", s.name, split, got, s.want)
			}
			same(t, repair(out), out, s.name+": twice and once")
		}
		if got := withoutImitations(s.content); got != s.want {
			t.Errorf("%s: the tests' own model says %q, want %q", s.name, got, s.want)
		}
	}
}

func TestImitationStartsNoTool(t *testing.T) {
	in := role() + texts("Sure\n", "`💻", " ls`", "\ndone") + stop()
	v := look(t, repair(in))
	if len(v.tools) != 0 || v.content != "Sure\ndone" {
		t.Errorf("tools %+v, content %q", v.tools, v.content)
	}
	if sum := repairSummary(in, Options{}); sum.Imitations != 1 || sum.Tools != 0 || sum.Markers != 0 {
		t.Errorf("summary = %+v", sum)
	}
}

func TestImitationsKeepPassesByteForByte(t *testing.T) {
	for _, s := range strips {
		in := role() + texts(strings.Split(s.content, "")...) + stop()
		same(t, repairWith(in, Options{Imitations: ImitationsKeep}), in, s.name+": bytes")
	}
	in := role() + g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + markerChunk("📖", "x") + stop()
	same(t, repairWith(in, Options{Imitations: ImitationsKeep, Progress: ProgressBare}), in, "bytes of a whole chunk")
}

func TestImitationsTrustStartsATool(t *testing.T) {
	for name, in := range map[string]string{
		"merged":            texts("Sure\n`💻 ls -la`\ndone"),
		"spread":            texts("Sure\n", "`", "💻", " ls -la", "`", "\n", "done"),
		"merged and spread": texts("Sure\n`💻 ls", " -la`\ndone"),
	} {
		v := look(t, repairWith(role()+in+stop(), Options{Imitations: ImitationsTrust}))
		if s := v.starts(); len(s) != 1 || s[0].tool != "terminal" || s[0].label != "ls -la" || s[0].emoji != "💻" {
			t.Errorf("%s: starts = %+v", name, s)
		}
		if v.content != "Sure\ndone" {
			t.Errorf("%s: content = %q", name, v.content)
		}
		v.checkLifecycle(t)
	}
}

func TestTrustedImitationAtTheEndIsACrash(t *testing.T) {
	v := look(t, repairWith(role()+texts("Sure\n`💻 ls", " -la`\n")+stop(), Options{Imitations: ImitationsTrust}))
	v.checkLifecycle(t)
	v.checkErrorFinish(t, CodeEmpty)
}

func TestImitationInAFinishChunkIsStripped(t *testing.T) {
	in := role() + text("a\n`💻") + `data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": " ls` + "`" + `"}, "finish_reason": "stop"}]` + realUsage + "}\n\n" + doneFrame
	v := look(t, repair(in))
	if v.content != "a\n" || v.finishes[0] != "stop" {
		t.Errorf("content %q, finish %q", v.content, v.finishes)
	}
}

func TestImitationBehindARealMarkerIsStripped(t *testing.T) {
	v := look(t, repair(role()+markerChunk("📖", "x")+text("`💻 ls`\nb")+stop()))
	if v.content != "b" || len(v.starts()) != 1 {
		t.Errorf("content %q, starts %+v", v.content, v.starts())
	}
}

func TestChunkOfAnImitationWithOtherMembersKeepsThem(t *testing.T) {
	chunk := func(content string) string {
		return `data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [ {"index": 0, "logprobs": {"content": [1, 2]}, "delta": { "content": "` + content + `" }, "finish_reason": null}], "z" : 1e3}` + "\n\n"
	}
	out := repair(chunk(`a\n`+"`💻 ls`"+`\n\nb\u00e9`) + stop())
	if want := chunk(`a\nb\u00e9`); !strings.HasPrefix(out, want) {
		t.Errorf("got  %s\nwant %s", out, want)
	}
}

func TestContentIsAFunctionOfTheConcatenatedContent(t *testing.T) {
	content := "Sure.\n`💻 ls`\n\n`📖 a`\nText `💻 x` more\n```sh\n`💻 in a fence`\n```\n`⚙️ restart`\n`💻`\n\n`🔍 recall: \"x\"`\n\n\nEnd\n`💻 open"
	want := withoutImitations(content)
	for seed := range uint64(300) {
		cut := atRandom(seed, 1+int(seed%12))
		var parts []string
		for rs := []rune(content); len(rs) > 0; {
			n := cut(len(rs))
			parts = append(parts, string(rs[:n]))
			rs = rs[n:]
		}
		in := role() + g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + texts(parts...) + stop()
		if got := look(t, repair(in)).content; got != want {
			t.Fatalf("content of %q = %q, want %q", parts, got, want)
		}
	}
}

func TestEveryKnownEmojiIsAnImitation(t *testing.T) {
	for _, e := range knownEmoji {
		for _, form := range []string{e, strings.TrimSuffix(e, "\ufe0f"), strings.TrimSuffix(e, "\ufe0f") + "\ufe0f"} {
			in := role() + text(fmt.Sprintf("a\n`%s x`\nb", form)) + stop()
			if got := look(t, repair(in)).content; got != "a\nb" {
				t.Errorf("%q: content = %q", form, got)
			}
		}
	}
}

func TestAddedEmojiIsAnImitation(t *testing.T) {
	tools, err := NewTools(map[string]string{"🛰️": "satellite"})
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"🛰️", "🛰"} {
		in := role() + text("a\n`"+form+" x`\nb") + stop()
		if got := look(t, repairWith(in, Options{Tools: tools})).content; got != "a\nb" {
			t.Errorf("%q: content = %q", form, got)
		}
	}
}

func TestTrustedImitationsRunInParallelLikeRealOnes(t *testing.T) {
	for _, in := range []string{
		texts("Hm.\n`💻 a`\n`📖 b`\n", "Done."),
		texts("Hm.\n", "`💻 a`\n", "`📖 b`\n", "Done."),
		texts("Hm.\n", "`💻 ", "a`\n`📖", " b`\n", "Done."),
	} {
		v := look(t, repairWith(role()+in+stop(), Options{Imitations: ImitationsTrust}))
		if s := strings.Join(v.order, " "); !strings.Contains(s, "running running completed completed") {
			t.Errorf("%s", s)
		}
	}
}

func TestTwiceFenceBehindAMarker(t *testing.T) {
	once := repair(texts("abc", "\n`💻 ls`\n", "```\n", "a\n`💻 c`\n") + stop())
	same(t, repair(once), once, "twice and once")
}

func TestTwiceImitationEndedByAToolEvent(t *testing.T) {
	once := repair(text("abc\n`💻 x`") + g2Start("t", "💻", "l", "1") + g2End("t", "1") + text("`💻 y`\nz") + stop())
	same(t, repair(once), once, "twice and once")
}

func TestTwiceTrustedBehindAHeldLine(t *testing.T) {
	o := Options{Imitations: ImitationsTrust}
	once := repairWith(texts("a\n`💻 c`", "a\n`📖 b`\nc")+stop(), o)
	same(t, repairWith(once, o), once, "twice and once")
}

func TestSeparateChoicelessChunkDoesNotDecideALine(t *testing.T) {
	v := look(t, repair(role()+text("a\n`💻 l")+`data: {`+envelopeOfTests+`, "choices": []}`+"\n\n"+text("s`\nb")+stop()))
	if v.content != "a\nb" {
		t.Errorf("content = %q", v.content)
	}
}

func TestUsageNullChunkDoesNotDecideALine(t *testing.T) {
	f := func(s string) string {
		return strings.Replace(text(s), "}\n\n", `, "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}}`+"\n\n", 1)
	}
	v := look(t, repair(role()+f("a\n`💻 l")+f("s`\nb")+stop()))
	if v.content != "a\nb" {
		t.Errorf("content = %q", v.content)
	}
}

func TestTwiceFinishChunkWithTextBehindAHeldLine(t *testing.T) {
	once := repair(g2Start("t", "💻", "l", "1") + text("a\n`💻 c`") + strings.Replace(finishChunk("stop", realUsage), `"delta": {}`, `"delta": {"content": "end"}`, 1) + doneFrame)
	same(t, repair(once), once, "twice and once")
}

func TestTrustedLabelWithAnEscapedBacktick(t *testing.T) {
	out := repairWith(role()+delta(`"content": "a\n\u0060\ud83d\udcbb ls\u0060\nb"`)+stop(), Options{Imitations: ImitationsTrust})
	if s := look(t, out).starts(); len(s) != 1 || s[0].label != "ls" {
		t.Errorf("starts = %+v", s)
	}
}

func TestTrustedStartDoesNotStandBetweenCRAndLF(t *testing.T) {
	in := strings.ReplaceAll(role()+text("Sure\n`💻 ls`\n")+text("x")+stop(), "\n\n", "\r\n\r\n")
	out := repairWith(in, Options{Imitations: ImitationsTrust})
	if strings.Contains(strings.ReplaceAll(out, "\r\n", ""), "\r") {
		t.Errorf("a CR without its LF in\n%q", out)
	}
}

// The newline before it has gone with the marker: the one after it is all that
// keeps the texts apart.
func TestImitationRightBehindAMarker(t *testing.T) {
	for _, test := range []struct {
		want   string
		deltas []string
	}{
		{"foo\nbar", []string{"foo", "\n`💻 ls`\n", "`💻 x`\nbar"}},
		{"foo\nbar", []string{"foo", "\n`💻 ls`\n", "`💻", " x`\n", "bar"}},
		{"foo\n\nbar", []string{"foo", "\n`💻 ls`\n", "`💻 x`\n", "\n\nbar"}},
		{"bar", []string{"\n`💻 ls`\n", "`💻 x`\nbar"}},
		{"foo\n\nbar", []string{"foo\n", "\n`💻 ls`\n", "`💻 x`\nbar"}},
	} {
		once := repair(role() + texts(test.deltas...) + stop())
		if v := look(t, once); v.content != test.want {
			t.Errorf("%q: content %q, want %q", test.deltas, v.content, test.want)
		}
		same(t, repair(once), once, "twice and once")
	}
}

// A marker stands on a line of its own, so it ends the line before it. If that closes a
// fence, what follows is not code.
func TestMarkerEndsTheLineThatClosesAFence(t *testing.T) {
	for _, behind := range []string{"<think>x</think>y", "`💻 x`\ny", "`💻 x`\n<think>x</think>y"} {
		v := look(t, repair(role()+texts("```\na\n", "```", "\n`💻 ls`\n", behind)+stop()))
		if v.content != "```\na\n```\ny" || strings.Contains(behind, "think") != (v.reasoning == "x") {
			t.Errorf("%q: content %q, reasoning %q", behind, v.content, v.reasoning)
		}
	}
	v := look(t, repair(role()+texts("```", "\n`💻 ls`\n", "<think>x</think>y")+stop()))
	if v.content != "```\n<think>x</think>y" {
		t.Errorf("behind the line that opens a fence: content %q", v.content)
	}
}

// What was held back and is no marker begins no fence with the backticks after it: the
// marker in the next line is one.
func TestNoFenceBeginsWithWhatWasHeldBack(t *testing.T) {
	for _, in := range []string{"`x```\n`💻 ls`\nb", "`💻```\n`💻 ls`\nb", "a\n`x````\n`💻 ls`\nb"} {
		for _, cut := range []string{texts(strings.Split(in, "")...), text(in)} {
			if out := repair(role() + cut + stop()); look(t, out).content != strings.Replace(in, "`💻 ls`\n", "", 1) {
				t.Errorf("%q becomes %q", in, look(t, out).content)
			}
		}
	}
}
