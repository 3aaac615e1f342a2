package rewrite

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

// realMarkers are whole chunks that Hermes sends when a tool starts.
var realMarkers = []struct{ name, content, emoji, label string }{
	{"plain", "\n`💻 ls -la`\n", "💻", "ls -la"},
	{"label of one backtick", "\n`💻 ``\n", "💻", "`"},
	{"backticks in the label", "\n`💻 echo `date` `` x`\n", "💻", "echo `date` `` x"},
	{"quotes and backslashes", "\n`💻 grep \"a\\b\" 'c'`\n", "💻", `grep "a\b" 'c'`},
	{"HTML", "\n`📖 <script>alert(1)</script>&amp;`\n", "📖", "<script>alert(1)</script>&amp;"},
	{"raw newline", "\n`🧪 lr=1\n2`\n", "🧪", "lr=1\n2"},
	{"unknown emoji", "\n`🦄 gallop`\n", "🦄", "gallop"},
	{"emoji with U+FE0F", "\n`⚙️ restart`\n", "⚙️", "restart"},
	{"emoji of the basic plane", "\n`⏰ 09:00`\n", "⏰", "09:00"},
	{"emoji of several runes", "\n`👩\u200d💻 code`\n", "👩\u200d💻", "code"},
	{"non-ASCII letters", "\n`é x`\n", "é", "x"},
	{"ASCII and an emoji in one token", "\n`x💻 y`\n", "x💻", "y"},
	{"spaces in the label", "\n`💻  a  b `\n", "💻", " a  b "},
	{"a label like a fence", "\n`💻 ```\n", "💻", "``"},
	{"a tab in the label", "\n`💻 a\tb`\n", "💻", "a\tb"},
}

func TestRealMarkerBecomesAToolStart(t *testing.T) {
	for _, m := range realMarkers {
		v := look(t, repair(role()+text("Hm.")+text(m.content)+text("\n\nDone.")+stop()))
		if v.content != "Hm.\n\nDone." {
			t.Errorf("%s: content = %q", m.name, v.content)
		}
		starts := v.starts()
		if len(starts) != 1 || starts[0].emoji != m.emoji || starts[0].label != m.label {
			t.Errorf("%s: starts = %+v, want %q %q", m.name, starts, m.emoji, m.label)
		}
		v.checkLifecycle(t)
	}
}

func TestRealMarkerOfAnyLengthIsAToolStart(t *testing.T) {
	label := strings.Repeat("print('x'); ", 8000)
	v := look(t, repair(markerChunk("🐍", label)+text("\n\nok")+stop()))
	if s := v.starts(); len(s) != 1 || s[0].label != label || v.content != "\n\nok" {
		t.Errorf("%d starts, content %q", len(s), v.content)
	}
}

func TestRealMarkerLosesNoOtherFrame(t *testing.T) {
	a, b, c := role()+text("a"), text("\n\nb"), stop()
	out := repair(a + markerChunk("💻", "ls") + b + c)
	if !strings.HasPrefix(out, a) || !strings.HasSuffix(out, b+c) {
		t.Errorf("the frames around the marker have changed:\n%s", out)
	}
}

// notMarkers are whole chunks that are none.
var notMarkers = []string{
	"\n`git status`\n",
	"\n`💻`\n",
	"`💻`",
	"`💻 ls`x",
	"\n`💻\tls`\n",
	"\n`💻\nls`\n",
	"\n💻 ls\n",
	"\n`` 💻 ls``\n",
	"\n`x ls`\n",
	"\n`💻 ls\n",
	"\n``\n",
	"\n`",
	"\n",
	"`",
	"\n`\u00a0 x`\n",
	"\n`🦄 gallop`",
	"`🦄 gallop`\n",
	"x\n`🦄 gallop`\n",
	"\n`🦄 gallop`\nx",
	"\n\n`🦄 gallop`\n",
	"\n`🦄 gallop`\n\n",
	"\r\n`🦄 gallop`\r\n",
	"\n`🦄 `💻`\n x",
}

func TestWhatIsNoMarkerPassesByteForByte(t *testing.T) {
	for _, content := range notMarkers {
		in := role() + text("a") + text(content) + text("b") + stop()
		same(t, repair(in), in, "bytes")
	}
}

func TestMarkerEscapedInAnyWayIsAMarker(t *testing.T) {
	for _, content := range []string{
		`"\n` + "`💻 ls`" + `\n"`,
		`"\n` + "`\\ud83d\\udcbb ls`" + `\n"`,
		`"\u000a\u0060\uD83D\uDCBB\u0020\u006cs\u0060\u000A"`,
	} {
		v := look(t, repair(delta(`"content": `+content)+text("x")+stop()))
		if s := v.starts(); len(s) != 1 || s[0].emoji != "💻" || s[0].label != "ls" || s[0].tool != "terminal" {
			t.Errorf("%s: starts = %+v", content, s)
		}
	}
}

func TestMarkerInAStreamThatHasShownAToolEventIsAnImitation(t *testing.T) {
	for name, event := range map[string]string{
		"G1":          g1("terminal", "💻", "id"),
		"G2":          g2Start("terminal", "💻", "id", "call_1") + g2End("terminal", "call_1"),
		"G1 internal": g1("_thinking", "💭", "hm"),
	} {
		in := role() + event + text("a") + markerChunk("📖", "x.go") + text("b") + stop()
		v := look(t, repair(in))
		if v.content != "a\nb" {
			t.Errorf("%s: content = %q", name, v.content)
		}
		for _, s := range v.starts() {
			if s.label == "x.go" {
				t.Errorf("%s: an imitation has started a tool", name)
			}
		}
	}
}

func TestMarkerOfAnUnknownEmojiIsNoImitation(t *testing.T) {
	in := role() + g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1") + markerChunk("🦄", "x") + stop()
	same(t, repairWith(in, Options{Progress: ProgressBare}), in, "bytes")
}

func TestMarkerInsideAnOpenFenceStartsATool(t *testing.T) {
	v := look(t, repair(text("```\ncode")+markerChunk("💻", "ls")+text("\n\nb")+stop()))
	if len(v.starts()) != 1 || v.content != "```\ncode\n\nb" {
		t.Errorf("starts %+v, content %q", v.starts(), v.content)
	}
}

func TestMarkerChunkWithOtherMembersKeepsThem(t *testing.T) {
	in := `data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "x": [1, 2.50], "choices": [{"index": 0, "delta": {"role": "assistant", "content": "\n` + "`💻 ls`" + `\n"}, "finish_reason": null}], "y": "\u00e9"}` + "\n\n"
	out := repair(in + text("z") + stop())
	want := strings.Replace(in, `\n`+"`💻 ls`"+`\n`, "", 1)
	if !strings.Contains(out, want) {
		t.Errorf("want the chunk without its content %q in\n%s", want, out)
	}
	if v := look(t, out); len(v.starts()) != 1 || v.content != "z" {
		t.Errorf("starts %+v, content %q", v.starts(), v.content)
	}
}

func TestMarkerInAnotherChoiceIsText(t *testing.T) {
	for _, choices := range []string{
		`[{"index": 1, "delta": {"content": "\n` + "`💻 ls`" + `\n"}}]`,
		`[{"index": 0, "delta": {"content": "\n` + "`💻 ls`" + `\n"}}, {"index": 1, "delta": {"content": "x"}}]`,
	} {
		in := `data: {` + envelopeOfTests + `, "choices": ` + choices + "}\n\n"
		out := repair(in + stop())
		if !strings.HasPrefix(out, in) {
			t.Errorf("the chunk has changed:\n%s", out)
		}
	}
}

func TestMarkersAreCounted(t *testing.T) {
	sum := repairSummary(role()+markerChunk("💻", "a")+markerChunk("🦄", "b")+text("x\n`💻 c`\ny")+stop(), Options{})
	if sum.Markers != 2 || sum.Tools != 2 || sum.Imitations != 1 {
		t.Errorf("summary = %+v, want 2 markers, 2 tools, 1 imitation", sum)
	}
}

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

func TestWholeFramesAreHeldAndLeaveByteForByte(t *testing.T) {
	parts := []string{"Sure.\n`", "💻", " ls", "`", " is a command\n"}
	s := New(&Options{}, chatParams)
	var held string
	for i, p := range parts {
		f := text(p)
		held += f
		out := string(s.Feed(nil, []byte(f), epoch))
		switch {
		case i < len(parts)-1 && out != "":
			t.Errorf("delta %d leaves %q although the line is open", i, out)
		case i == len(parts)-1:
			same(t, out, held, "held frames")
		}
	}
}

// heldAfter tells whether the content is held back when it comes in a stream.
func heldAfter(content string) bool {
	s := New(&Options{}, chatParams)
	s.Feed(nil, []byte(role()), epoch)
	return len(s.Feed(nil, []byte(text(content)), epoch)) == 0
}

func TestTextIsHeldOnlyWhileItAgreesWithAMarker(t *testing.T) {
	for content, want := range map[string]bool{
		"`":             true,
		"a\n`":          true,
		"a\n`💻":         true,
		"a\n`💻 ":        true,
		"a\n`💻 ls":      true,
		"a\n`💻 ls`":     true,
		"a\n`⚙\ufe0f":   true,
		"a\n":           false,
		"\n":            false,
		"\n\n":          false,
		"a":             false,
		"a `":           false,
		"a `💻 ls":       false,
		"\n`g":          false,
		"\n`🦄":          false,
		"\n`💻x":         false,
		"\n``":          false,
		"\n`💻`":         false,
		"```\n`💻 ls":    false,
		"~~~\n`💻 ls":    false,
		"\n`💻 ls` and ": true, // to the end of the line: the label may go on
		"\n`💻 ls\n":     false,
		"\n`💻 ls`\n":    false,
		"\n💻":           false,
	} {
		if content == "\n`💻 ls`\n" {
			continue // a real marker, which leaves as an event
		}
		if got := heldAfter(content); got != want {
			t.Errorf("held after %q: %v, want %v", content, got, want)
		}
	}
}

func TestHeldLineIsBoundedTo4KiB(t *testing.T) {
	for size, stripped := range map[int]bool{4095: true, 4096: true, 4097: false, 10000: false} {
		line := "`💻 " + strings.Repeat("x", size-len("`💻 `")) + "`"
		in := "a\n" + line + "\nb"
		want := "a\nb"
		if !stripped {
			want = in
		}
		for _, n := range []int{1, 100, 20000} {
			v := look(t, repair(role()+deltasOf(in, n)+stop()))
			if v.content != want {
				t.Errorf("line of %d bytes in deltas of %d: stripped = %v, want %v", size, n, len(v.content) < size, stripped)
			}
		}
	}
	if marker.MaxHeldLine != 4096 {
		t.Errorf("maxHeldLine = %d, want 4 KiB", marker.MaxHeldLine)
	}
}

// deltasOf cuts content into deltas of n runes.
func deltasOf(content string, n int) string {
	var b strings.Builder
	for rs := []rune(content); len(rs) > 0; {
		k := min(n, len(rs))
		b.WriteString(text(string(rs[:k])))
		rs = rs[k:]
	}
	return b.String()
}

func TestLineLongerThan4KiBLeavesWithoutItsEnd(t *testing.T) {
	s := New(&Options{}, chatParams)
	fed, left := 0, 0
	feed := func(f string) {
		fed += len(f)
		left += len(s.Feed(nil, []byte(f), epoch))
	}
	feed(text("`💻 "))
	if left > 0 {
		t.Fatal("the beginning of a marker is not held")
	}
	for range 50 {
		feed(text(strings.Repeat("x", 100)))
	}
	if left != fed {
		t.Errorf("%d of %d bytes have left", left, fed)
	}
}

func TestHeldFramesKeepTheirOrderWithComments(t *testing.T) {
	in := text("a\n`💻") + keepalive + text(" ls") + delta("") + text("` no\n") + stop()
	same(t, repair(role()+in), role()+in, "bytes")
}

func TestCommentsLeaveWhenTheHeldTextIsStripped(t *testing.T) {
	a, b, c, d := text("a\n`💻"), text(" ls"), text("`\n"), text("z")
	out := repair(role() + a + keepalive + b + delta("") + c + d + stop())
	want := role() + text("a\n") + keepalive + delta("") + d + stop()
	same(t, out, want, "bytes")
}

func TestHeldTextLeavesBeforeAToolEvent(t *testing.T) {
	in := role() + text("a\n`💻 l") + g2Start("terminal", "💻", "x", "call_1") + g2End("terminal", "call_1") + text("\n\nb") + stop()
	same(t, repairWith(in, Options{Progress: ProgressBare}), in, "bytes")
}

func TestHeldTextLeavesBeforeAFinish(t *testing.T) {
	in := role() + text("a\n`💻 l") + stop()
	same(t, repair(in), in, "bytes")
}

func TestHeldTextLeavesBeforeAnErrorFinish(t *testing.T) {
	in := role() + text("a\n`💻 l")
	for _, cause := range []Cause{CauseEOF, CauseAborted, CauseTimeout, CauseShutdown} {
		out, _ := run(in, Options{}, chatParams, inOne, cause)
		if !strings.HasPrefix(out, in) {
			t.Errorf("%s", out)
		}
		look(t, out).checkErrorFinish(t, cause.Code())
	}
}

func TestHeldTextLeavesBeforeDone(t *testing.T) {
	in := role() + text("a\n`💻 l") + finishChunk("stop", realUsage)
	same(t, repair(in+doneFrame), in+doneFrame, "bytes")
	out := repair(role() + text("a\n`💻 l") + doneFrame)
	if !strings.HasPrefix(out, role()+text("a\n`💻 l")) {
		t.Errorf("%s", out)
	}
}

func TestNewlineIsNeverHeld(t *testing.T) {
	for _, content := range []string{"\n", "a\n", "\n\n", "a\n\n"} {
		if heldAfter(content) {
			t.Errorf("%q is held", content)
		}
	}
}

func TestDroppedEventDoesNotDecideALine(t *testing.T) {
	for _, dropped := range []string{g2End("t", "orphan"), g1("_thinking", "💭", "hm")} {
		once := repair(text("a\n`💻 c`x") + dropped + text("`\nb") + stop())
		same(t, repair(once), once, "twice and once")
	}
}

// piecesOf returns a message in pieces: M is a marker of its own, E a tool event, R
// a reasoning delta, Q what says nothing, all else text.
func piecesOf(list ...string) string {
	var b strings.Builder
	for _, p := range list {
		switch p {
		case "M":
			b.WriteString(markerChunk("💻", "ls"))
		case "E":
			b.WriteString(g2Start("t", "💻", "l", "call_1") + g2End("t", "call_1"))
		case "R":
			b.WriteString(reasoning("hm"))
		case "Q": // says nothing
			b.WriteString(keepalive + delta("") + delta(`"content": ""`))
		default:
			b.WriteString(text(p))
		}
	}
	return b.String()
}

// What is left of a message around dropped markers: no text runs into another, and
// no marker stays (contract section 1).
var apart = []struct {
	pieces []string
	want   string
}{
	{[]string{"Hello", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "\n\nWorld"}, "Hello\n\nWorld"},
	{[]string{"Hello", "M", "Q", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", " ", "World"}, "Hello\n World"},
	{[]string{"Hello", "M", "\u00a0World"}, "Hello\n\u00a0World"},
	{[]string{"Hello\n", "M", "World"}, "Hello\n\nWorld"},
	{[]string{"\n", "M", "World"}, "\n\nWorld"},
	{[]string{"Hello", "M", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M"}, "Hello"},
	{[]string{"M", "World"}, "World"},
	{[]string{"M", "\nWorld"}, "\nWorld"},
	{[]string{"M", "M", "World"}, "World"},
	{[]string{"Hello", "M", "E", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "R", "World"}, "Hello\nWorld"},
	{[]string{"R", "M", "World"}, "World"},
	{[]string{"Hello", "M", "World", "M", "Again"}, "Hello\nWorld\nAgain"},

	{[]string{"Hello", "M", "`📖 a`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`\n\n\nWorld"}, "Hello\n\nWorld"},
	{[]string{"Hello", "M", "\n`📖 a`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`\n`⚙ y`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`\n\n`⚙ y`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "\n\nWorld"}, "Hello\n\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "M", "\n`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\n`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a`", "R", "\n`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "R", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a`", "E", "`⚙ y`\nrest"}, "Hello\nrest"},
	{[]string{"Hello\n`📖 a`", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello\n`📖 a`", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello\n`📖 a`\n", "M", "World"}, "Hello\nWorld"},
	{[]string{"Hello\n`📖 a`\n", "M", "\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello\n`📖 a`\n", "M", "`⚙ y`\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "`📖 a` b\n", "c"}, "Hello\n`📖 a` b\nc"},
	{[]string{"Hello", "M", "`📖 a", "E", "b"}, "Hello\n`📖 ab"},
	{[]string{"Hello", "M", "`🦄 a`\nb"}, "Hello\n`🦄 a`\nb"},
	{[]string{"Hello", "M", "`🦄 a`\n", "b"}, "Hello\n`🦄 a`\nb"},
	{[]string{"Hello", "M", "`📖 a` and `💻 b`\n", "b"}, "Hello\n`📖 a` and `💻 b`\nb"},
	{[]string{"Hello", "M", "```\n`📖 a`\n```\n", "b"}, "Hello\n```\n`📖 a`\n```\nb"},
	{[]string{"Hello", "M", "`", "git` x"}, "Hello\n`git` x"},

	{[]string{"Hello", "M", "<think>a</think>World"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "<think>a</think>\n\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "\n\n<think>a</think>World"}, "Hello\n\nWorld"},
	{[]string{"Hello", "M", "<think>a</think>`📖 a`\nWorld"}, "Hello\nWorld"},
	{[]string{"Hello", "M", "<thi", "World"}, "Hello\n<thiWorld"},
	{[]string{"Hello", "M", "<think>a</think>", "M", "World"}, "Hello\nWorld"},
	{[]string{"<think>a</think>", "M", "World"}, "World"},
}

func TestTextsAroundMarkersStayApart(t *testing.T) {
	for _, c := range apart {
		in := role() + piecesOf(c.pieces...) + stop()
		for _, o := range allOptions() {
			if o.Imitations == ImitationsKeep || o.Reasoning == ReasoningKeep || o.Progress == ProgressOff && slices.Contains(c.pieces, "E") {
				continue // an event that does not leave ends no line
			}
			out := repairWith(in, o)
			if got := look(t, out).content; got != c.want {
				t.Errorf("%q: content %q, want %q\n%+v", c.pieces, got, c.want, o)
			}
			for _, cut := range []cutter{oneByte, byFrame(in), atRandom(1, 50)} {
				again, _ := run(in, o, chatParams, cut, CauseEOF)
				same(t, again, out, "outputs of two cuts")
			}
			same(t, repairWith(out, o), out, "twice and once")
			cut, _ := run(role()+piecesOf(c.pieces...), o, chatParams, inOne, CauseAborted)
			if got := look(t, cut).content; got != c.want {
				t.Errorf("%q: content before a crash %q, want %q", c.pieces, got, c.want)
			}
			if t.Failed() {
				t.Fatalf("%q with %+v:\n%s", c.pieces, o, out)
			}
		}
	}
}

// One rune in each delta is the same, with and without the fast paths: those need
// frames that are alike.
func TestTextsAroundMarkersStayApartInSmallDeltas(t *testing.T) {
	for _, c := range apart {
		in := role() + texts("Once", " upon", " a time. ")
		for _, p := range c.pieces {
			if len(p) < 2 {
				in += piecesOf(p)
				continue
			}
			in += texts(strings.Split(p, "")...)
		}
		v := look(t, repair(in+stop()))
		want := "Once upon a time. " + c.want
		if c.pieces[0] == "M" || strings.HasPrefix(c.pieces[0], "<think>") || c.pieces[0] == "R" || c.pieces[0] == "\n" {
			continue // the message has another beginning
		}
		if v.content != want {
			t.Errorf("%q: content %q, want %q", c.pieces, v.content, want)
		}
	}
}

// A history of what upstream said, healed, is the text that the client got, and that
// has nothing to be healed (contract section 5).
func TestHistoriesOfMarkersAreHealedAsStreamsAre(t *testing.T) {
	for _, c := range apart {
		upstream := role() + piecesOf(c.pieces...) + stop()
		said := look(t, repairWith(upstream, Options{Imitations: ImitationsKeep, Reasoning: ReasoningKeep})).content
		if strings.Contains(said, "<think>") || strings.Contains(strings.Join(c.pieces, ""), "E") {
			continue // the line ends only for who sees the event
		}
		raw := look(t, upstream).content
		healed, _ := whole.StripMarkers(jsonspan.Inside(jsonspan.Quote(raw)), marker.Hermes)
		if got := unquote(append(append([]byte{'"'}, healed...), '"')); strings.TrimRight(got, "\n") != strings.TrimRight(c.want, "\n") {
			t.Errorf("%q: healed %q, want %q", c.pieces, got, c.want)
		}
		once := jsonspan.Inside(jsonspan.Quote(look(t, repair(upstream)).content))
		if again, n := whole.StripMarkers(once, marker.Hermes); n > 0 || string(again) != string(once) {
			t.Errorf("%q: what the client got is healed again: %q", c.pieces, again)
		}
	}
}

// A frame that passes unexamined is, for all that is known, text: nothing is owed
// after it, and nothing goes.
func TestUnexaminedFrameKeepsTextsApart(t *testing.T) {
	large := text(strings.Repeat("x", 1000))
	for _, c := range [][2]string{{"Hello", "World"}, {"Hello\n`📖 a`\n", "\nWorld"}} {
		out := repairWith(role()+text(c[0])+markerChunk("💻", "ls")+large+text(c[1])+stop(), Options{MaxFrame: 900})
		if !strings.Contains(out, large) || !strings.Contains(out, text(c[1])) {
			t.Errorf("the text behind it has changed:\n%s", out)
		}
	}
}

// apartTokens are what FuzzApart makes a message of: each in a chunk of its own,
// or, where it follows a +, in one with the token before.
var apartTokens = []string{
	"M", "M", "Q", "+", "+", "+", "Hello", "World", "\n", "\n\n", " ", "`📖 a`", "`⚙ y`\n", "\n`💻 b`", "`💻", " c`", "`", "` x", "`git`", "\n`📖 d`\n", "é",
}

// FuzzApart: a message without markers is what is left of it when they are taken out
// of the whole text, as of a history, but for the newlines at its ends.
func FuzzApart(f *testing.F) {
	f.Add([]byte{6, 0, 11, 0, 8, 7})
	f.Add([]byte{6, 0, 11, 2, 8, 3, 12, 3, 7})
	f.Add([]byte{6, 8, 11, 0, 0, 12, 8, 7, 0, 14, 15, 6})
	f.Add([]byte{6, 0, 12, 4, 16, 17, 0, 10, 7})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 60 {
			return
		}
		var list []string
		joined := false
		for _, b := range script {
			switch token := apartTokens[int(b)%len(apartTokens)]; {
			case token == "+":
				joined = true
			case joined && len(list) > 0 && !strings.ContainsAny(token[:1]+list[len(list)-1][:1], "MQ"):
				list[len(list)-1] += token
				joined = false
			default:
				list = append(list, token)
				joined = false
			}
		}
		for _, p := range list {
			if _, ok := marker.Whole(jsonspan.Inside(jsonspan.Quote(p))); ok && !isMarkerLine(strings.Trim(p, "\n")) {
				return // in a text it would be prose about tools
			}
		}
		in := role() + piecesOf(list...) + stop()
		said := look(t, in).content
		if strings.Contains(said, "```") {
			return // a real marker goes from a fence, too
		}
		want, _ := withoutMarkers(said)
		for _, o := range []Options{{}, {Imitations: ImitationsTrust}, {Progress: ProgressOff, EmptyAnswer: EmptyAnswerPass}} {
			out := repairWith(in, o)
			got := look(t, out).content
			same(t, strings.Trim(got, "\n"), strings.Trim(want, "\n"), "contents")
			same(t, repairWith(out, o), out, "twice and once")
			cut, _ := run(in, o, chatParams, oneByte, CauseEOF)
			same(t, cut, out, "outputs of two cuts")
			if t.Failed() {
				t.Fatalf("%q with %+v:\n%s", list, o, out)
			}
		}
	})
}

// A hop between Hermes and us has merged what Hermes sends one by one.
func TestMarkersMergedWithTextLoseNoText(t *testing.T) {
	for _, test := range []struct{ in, strip, trust string }{
		{"\n`💻 ls`\nSome real text\n`📖 f`\n", "\nSome real text\n", "💻 📖"},
		{"\n`💻 a`\n\n`📖 b`\n", "\n", "💻 📖"},
		{"\n`🦄 a`\nText\n`🦄 b`\n", "\n`🦄 a`\nText\n`🦄 b`\n", ""},
	} {
		if v := look(t, repair(role()+text(test.in)+text("\n\nend")+stop())); !strings.HasPrefix(v.content, test.strip) || len(v.starts()) > 0 {
			t.Errorf("%q: content %q, %d tools", test.in, v.content, len(v.starts()))
		}
		v := look(t, repairWith(role()+text(test.in)+text("\n\nend")+stop(), Options{Imitations: ImitationsTrust}))
		var emoji []string
		for _, s := range v.starts() {
			emoji = append(emoji, strings.Trim(s.emoji, "\""))
		}
		if got := strings.Join(emoji, " "); got != test.trust {
			t.Errorf("%q: trusted tools %q, want %q", test.in, got, test.trust)
		}
	}
}

func TestProseAboutToolsIsNoImitation(t *testing.T) {
	in := "`💻 terminal` and `📖 read_file`\n"
	if v := look(t, repair(role()+texts("`💻 term", "inal` and `", "📖 read_file`\n")+stop())); v.content != in {
		t.Errorf("content %q, want %q", v.content, in)
	}
	for _, label := range []string{"echo `date`", "echo `date` && echo ``x`` | tee '`'", "`"} {
		if v := look(t, repair(role()+text("a\n`💻 "+label+"`\nb")+stop())); v.content != "a\nb" {
			t.Errorf("label %q: content %q", label, v.content)
		}
	}
}

func TestCutCommentIsDropped(t *testing.T) {
	for _, tail := range []string{": keepalive", ": keepalive\n", ": a\n: b\n"} {
		want := repair(role() + text("x"))
		same(t, repair(role()+text("x")+tail), want, "outputs")
	}
	whole := role() + text("x") + stop() + ": bye\n"
	same(t, repair(whole), whole, "bytes behind [DONE]")
	s := New(&Options{}, chatParams)
	if out := s.Feed(nil, []byte(": keepalive\n"), epoch); len(out) > 0 || s.Frames() > 0 {
		t.Errorf("%q leaves before its blank line", out)
	}
	foreign := New(&Options{}, Params{})
	if out := foreign.Feed(nil, []byte(": ping\n"), epoch); string(out) != ": ping\n" {
		t.Errorf("%q of a foreign stream leaves, want the comment", out)
	}
}

func TestShortSecretsAreRedacted(t *testing.T) {
	for in, want := range map[string]string{
		"key sk-test and sk-12345":                "key [redacted] and [redacted]",
		"Authorization: Bearer tok12, Bearer abc": "Authorization: Bearer [redacted], Bearer [redacted]",
		"authorization: bearer a1b2":              "authorization: bearer [redacted]",
		"Missing bearer authentication in header": "Missing bearer authentication in header",
		"a risk-assessment of the task-force":     "a risk-assessment of the task-force",
	} {
		if got := string(redact.Text([]byte(in))); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
		if once := redact.Text([]byte(in)); !bytes.Equal(redact.Text(once), once) {
			t.Errorf("%q: twice is %q", in, redact.Text(once))
		}
	}
}

func TestErrorInAnyChunkIsRedactedAndKnown(t *testing.T) {
	const secret = `, "error": {"message": "bad key sk-abcdef123456"}`
	chunk := strings.Replace(text("b"), "}\n\n", secret+"}\n\n", 1)
	for name, in := range map[string]string{
		"in a delta":           role() + text("a") + chunk,
		"in a line under hold": role() + text("a\n`💻 l") + chunk + stop(),
		"beside a stop":        role() + text("a") + finishChunk("stop", realUsage+secret) + doneFrame,
		"in a second finish":   role() + text("a") + finishChunk("stop", realUsage) + finishChunk("error", secret) + doneFrame,
		"in a named event":     role() + named("x.y", `{"type": "x"`+secret+`}`) + text("a") + stop(),
	} {
		if out := repair(in); strings.Contains(out, "sk-abcdef") || !strings.Contains(out, "[redacted]") {
			t.Errorf("%s: the secret leaves:\n%s", name, out)
		}
	}
	out := repair(role() + text("a") + chunk)
	if _, finish, _ := strings.Cut(out, `"finish_reason":"error"`); !strings.Contains(finish, "bad key [redacted]") {
		t.Errorf("the error finish does not say what upstream said:\n%s", out)
	}
}

func TestEmptyMessageOfUpstreamIsReplaced(t *testing.T) {
	out := repair(role() + finishChunk("error", `, "error": {"message": "", "type": "X"}`) + doneFrame)
	v := look(t, out)
	if len(v.errors) != 1 || v.errors[0].Message != Message(CodeAgentError) || v.errors[0].Type != "X" {
		t.Errorf("errors %+v", v.errors)
	}
}

func TestTextOfAFinishChunkLeavesBeforeTheError(t *testing.T) {
	for _, rest := range []string{`, "error": {"message": "boom"}`, ""} {
		reason := "error"
		if rest == "" {
			reason, rest = "stop", zeroUsage
		}
		f := strings.Replace(finishChunk(reason, rest), `"delta": {}`, `"delta": {"content": "hi\n`+"`💻 x`"+`"}`, 1)
		out := repairWith(role()+f+doneFrame, Options{ZeroUsage: ZeroUsageError})
		v := look(t, out)
		if story := strings.Join(v.order, " "); v.content != "hi\n" || !strings.HasSuffix(story, "text error finish done") {
			t.Errorf("%s: content %q, order %s\n%s", reason, v.content, story, out)
		}
		same(t, repairWith(out, Options{ZeroUsage: ZeroUsageError}), out, "twice and once")
	}
}

func TestRoleOfAMarkerChunkLeavesBeforeItsTool(t *testing.T) {
	out := repair(delta(`"role": "assistant", "content": "\n`+"`💻 ls`"+`\n"`) + text("\n\nx") + stop())
	if role, tool := strings.Index(out, `"role"`), strings.Index(out, `"running"`); role < 0 || tool < role {
		t.Errorf("the tool comes first:\n%s", out)
	}
}

// What is left of a chunk does not look like a real marker to whoever comes after
// us: it would start a tool for it.
func TestWhatIsLeftOfAChunkIsNoMarker(t *testing.T) {
	for _, c := range []struct {
		in, content string
	}{
		{text("\n`💻 b`\n`🦄 x`\n"), "\n`🦄 x`\n"},
		{texts("a\n`💻 b`\n", "\n\n`🦄 x`\n"), "a\n\n`🦄 x`\n"},
		{texts("a\n`💻 b`", "\n\n\n`🦄 x`\n"), "a\n\n`🦄 x`\n"},
		{texts("\n`🦄 x`\n`💻", " b`\n"), "\n`🦄 x`\n"},
		{texts("\n`🦄 x`\n`💻", " b` c\n"), "\n`🦄 x`\n`💻 b` c\n"},
		{texts("\n`🦄 x`\n`💻 b`\nc"), "\n`🦄 x`\nc"},
		{texts("\n`🦄 x`\n`💻 b`\n<thi", "nk>y</think>c"), "\n`🦄 x`\nc"},
		{text("\n`💻 b`\n`💻 terminal` and `📖 read_file`\n"), "\n`💻 terminal` and `📖 read_file`\n"},
		{delta(`"content": "\u000a\u0060💻 b\u0060\u000a\u0060🦄 x\u0060\u000a"`), "\n`🦄 x`\n"},
		{delta(`"role": "assistant", "content": "\n` + "`💻 b`" + `\n` + "`🦄 x`" + `\n"`), "\n`🦄 x`\n"},
		{strings.Replace(text("\n`💻 b`\n`🦄 x`\n"), `"delta"`, `"text": "\n`+"`💻 b`"+`\n`+"`🦄 x`"+`\n", "delta"`, 1), "\n`🦄 x`\n"},
		{text("a") + markerChunk("💻", "ls") + text("`🦄 x`\n"), "a\n`🦄 x`\n"},
	} {
		for _, end := range []string{stop(), strings.ReplaceAll(stop(), "\n", "\r\n")} {
			in := role() + c.in + end
			if end != stop() {
				in = strings.ReplaceAll(role()+c.in, "\n", "\r\n") + end
			}
			for _, o := range allOptions() {
				if o.Imitations == ImitationsKeep || o.Reasoning == ReasoningKeep {
					continue
				}
				once := repairWith(in, o)
				if v := look(t, once); v.content != c.content {
					t.Errorf("%q: content %q, want %q", c.in, v.content, c.content)
				}
				same(t, repairWith(once, o), once, "twice and once")
				if o.Imitations != ImitationsTrust && !strings.Contains(c.in, "ls`") && strings.Contains(once, "running") {
					t.Errorf("a tool starts:\n%s", once)
				}
				for _, cut := range []cutter{oneByte, atRandom(1, 99)} {
					again, _ := run(in, o, chatParams, cut, CauseEOF)
					same(t, again, once, "outputs of two cuts")
				}
				if t.Failed() {
					t.Fatalf("%+v\n%s", o, once)
				}
			}
		}
	}
}

// A CR and its LF are not torn apart where a frame leaves in parts of which the last
// is held, or is nothing; what comes of ours in between changes nothing else.
func TestPartsKeepTheirLF(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n\n", "\r\n\r\n") }
	for _, c := range []struct {
		in string
		o  Options
	}{
		{text("a\n\n<think></think>`"), Options{}},
		{text("a\n\n<think>b</think>`💻 ls"), Options{}},
		{text("a\n\n<think>b</think>\n\n<thi"), Options{}},
		{text("a\n\n<think>b</think>"), Options{}},
		{text("<think>b</think>"), Options{}},
		{text("a\n`💻 x`\n"), Options{Imitations: ImitationsTrust, Progress: ProgressOff}},
		{text("a\n`💻 x`\n"), Options{Imitations: ImitationsTrust}},
		{text("a\n`💻 x`\n`📖"), Options{Imitations: ImitationsTrust}},
		{text("\n`🦄 x`\n`💻"), Options{}},
		{text("`💻") + delta(""), Options{MaxFrame: 350}},
		{text("\n`💻") + text(strings.Repeat("x", 5000)), Options{}},
		{keepalive, Options{}},
	} {
		in := crlf(role() + c.in)
		rest := crlf(text("\nb") + stop())
		want := repairWith(in+rest, c.o)
		if s := strings.ReplaceAll(want, "\r\n", ""); strings.Contains(s, "\r") {
			t.Errorf("%q: a CR without its LF:\n%q", c.in, want)
		}
		s := New(&c.o, chatParams)
		out := s.Feed(nil, []byte(in[:len(in)-1]), epoch)
		from := len(out)
		out = s.Keepalive(out)
		breath := string(out[from:])
		out = s.Feed(out, []byte(in[len(in)-1:]+rest), epoch)
		got := string(s.Finish(out, CauseEOF))
		if out[from-1] == '\r' && !strings.HasPrefix(breath, "\n") {
			t.Errorf("a keepalive stands between a CR and its LF")
		}
		breath = strings.TrimPrefix(breath, "\n")
		same(t, strings.Replace(got, breath, "", 1), want, "outputs with a keepalive between CR and LF")
		same(t, repairWith(want, c.o), want, "twice and once")
		if t.Failed() {
			t.Fatalf("%q %+v", c.in, c.o)
		}
	}
}

// A frame that is dropped from those that are held takes its LF with it.
func TestHeldFrameGoesWithItsLF(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n\n", "\r\n\r\n") }
	in := role() + texts("a\n`💻", " ls", "`\n", "b") + stop()
	for _, cut := range []cutter{inOne, oneByte} {
		out, _ := run(crlf(in), Options{}, chatParams, cut, CauseEOF)
		same(t, out, crlf(repair(in)), "bytes")
	}
}

func TestTextBehindATrustedMarkerInTheSameDeltaIsAnAnswer(t *testing.T) {
	o := Options{Imitations: ImitationsTrust}
	for _, in := range []string{
		texts("Sure\n`💻 ls`\n\ndone"),
		texts("Sure\n`💻 ", "ls`\n\ndone"),
		texts("Sure\n`💻 ls`\n\ndone\n`", "x"),
	} {
		if v := look(t, repairWith(role()+in+stop(), o)); v.finishes[0] != "stop" {
			t.Errorf("finish reason %q, want stop: %s", v.finishes, v.story())
		}
	}
	if v := look(t, repairWith(role()+text("Sure\n`💻 ls`\n")+stop(), o)); v.finishes[0] != "error" {
		t.Errorf("finish reason %q of an answer that ends on a tool, want error", v.finishes)
	}
}

// Behind the finish chunk no tool starts, whatever the form and the option
// (contract section 2), nor where the text is only what a client does not see.
func TestWhatStartsNoTool(t *testing.T) {
	finished := role() + text("Sure") + finishChunk("stop", realUsage)
	for name, in := range map[string]string{
		"a marker in one chunk":           finished + markerChunk("💻", "ls") + doneFrame,
		"a marker merged with text":       finished + text("a\n`💻 ls`\nb") + doneFrame,
		"a marker at the end":             finished + text("a\n`💻 ls`") + doneFrame,
		"a marker in many chunks":         finished + texts("a\n`💻 ", "ls", "`\n") + doneFrame,
		"a marker that reasoning ends":    finished + text("a\n`💻 ls`") + reasoning("hm") + doneFrame,
		"a marker behind [DONE]":          finished + doneFrame + markerChunk("💻", "ls"),
		"a content of which null counts":  role() + text("Sure") + delta(`"content": "\n`+"`💻 ls`"+`\n", "content": null`) + stop(),
		"a delta of which another counts": role() + text("Sure") + strings.Replace(delta(""), `"delta": {}`, `"delta": {"content": "\n`+"`💻 ls`"+`\n"}, "delta": {}`, 1) + stop(),
	} {
		for _, o := range allOptions() {
			out, sum := run(in, o, chatParams, inOne, CauseEOF)
			if v := look(t, out); len(v.tools) > 0 || sum.Tools > 0 || v.finishes[0] != "stop" {
				t.Errorf("%s: %d tools, finish %q with %+v:\n%s", name, sum.Tools, v.finishes, o, out)
			}
		}
	}
}

// A trusted marker that is at the end of its chunk starts its tool when something
// else says that the line has ended.
func TestTrustedMarkerThatIsEndedByAnother(t *testing.T) {
	o := Options{Imitations: ImitationsTrust}
	for _, between := range []string{reasoning("hm"), g2Start("t", "📖", "l", "call_1") + g2End("t", "call_1"), delta(`"tool_calls": [{"id": "c"}]`)} {
		v := look(t, repairWith(role()+text("Sure\n`💻 ls`")+between+text("\ndone")+stop(), o))
		if s := v.starts(); len(s) == 0 || s[0].tool != "terminal" || s[0].label != "ls" || v.content != "Sure\ndone" {
			t.Errorf("starts %+v, content %q", v.starts(), v.content)
		}
		v.checkLifecycle(t)
	}
}

// An info string with a backtick in it opens no fence (CommonMark 4.5).
func TestBackticksBehindThreeOpenNoFence(t *testing.T) {
	for _, line := range []string{"```⚙ `", "```⚙ x`", "```⚙`", "``` `", "````⚙ ```"} {
		in := line + "\n`💻 ls`\nb"
		for n := 1; n < len(in); n++ {
			for _, before := range []string{"", text("a\n"), text("a\n") + markerChunk("💻", "ls"), text("a") + markerChunk("💻", "ls"), text("a\n`📖 x`\n")} {
				for _, o := range []Options{{}, {Imitations: ImitationsTrust}} {
					if v := look(t, repairWith(role()+before+deltasOf(in, n)+stop(), o)); !strings.HasSuffix(v.content, line+"\nb") {
						t.Fatalf("%q in deltas of %d: content %q", in, n, v.content)
					}
				}
			}
		}
		if healed, n := whole.StripMarkers(jsonspan.Inside(jsonspan.Quote(in)), marker.Hermes); n != 1 {
			t.Errorf("%q: healed %q", in, healed)
		}
	}
}
