package rewrite

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

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
