package rewrite

import (
	"strings"
	"testing"
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
