package rewrite

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// g3Error is the finish chunk of a modern Hermes that failed.
const g3Error = zeroUsage + `, "error": {"message": "boom \u00e9", "type": "RuntimeError"}, "hermes": {"completed": true, "partial": false, "failed": true, "error": "boom \u00e9", "error_code": "agent_error"}`

func TestUpstreamErrorIsSplit(t *testing.T) {
	out := repair(role() + text("x") + finishChunk("error", g3Error) + doneFrame)
	v := look(t, out)
	v.checkErrorFinish(t, "agent_error")
	if e := v.errors[0]; e.Message != "boom é" || e.Type != "RuntimeError" {
		t.Errorf("error = %+v", e)
	}
	// All other bytes of the chunk stay.
	want := finishChunk("error", strings.Replace(g3Error, `, "error": {"message": "boom \u00e9", "type": "RuntimeError"}`, "", 1))
	if !strings.HasSuffix(out, want+doneFrame) {
		t.Errorf("want …%s\ngot %s", want, out)
	}
	if sum := repairSummary(role()+finishChunk("error", g3Error)+doneFrame, Options{}); sum.Code != "agent_error" || sum.FinishReason != "error" {
		t.Errorf("%+v", sum)
	}
}

func TestUpstreamErrorAnywhereInTheChunkIsSplit(t *testing.T) {
	const e = `"error": {"message": "boom", "type": "T"}`
	const choices = `"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]`
	for in, want := range map[string]string{
		`{` + e + `, ` + envelopeOfTests + `, ` + choices + `}`:                     `{` + envelopeOfTests + `, ` + choices + `}`,
		`{` + envelopeOfTests + `, ` + e + `, ` + choices + `}`:                     `{` + envelopeOfTests + `, ` + choices + `}`,
		`{` + envelopeOfTests + `, ` + choices + `, ` + e + `}`:                     `{` + envelopeOfTests + `, ` + choices + `}`,
		`{` + envelopeOfTests + ` , ` + choices + " ,\t" + e + ` }`:                 `{` + envelopeOfTests + ` , ` + choices + ` }`,
		`{"hermes": {"x": 1}, ` + e + `, ` + envelopeOfTests + `, ` + choices + `}`: `{"hermes": {"x": 1}, ` + envelopeOfTests + `, ` + choices + `}`,
	} {
		out := repair(role() + "data: " + in + "\n\n" + doneFrame)
		v := look(t, out)
		v.checkShape(t, "agent_error")
		if len(v.errors) == 1 && (v.errors[0].Message != "boom" || v.errors[0].Type != "T") {
			t.Errorf("%s: %+v", in, v.errors)
		}
		events := decode(out)
		got := compact(t, events[len(events)-2].data)
		kept := strings.TrimSuffix(compact(t, want), "}")
		if !strings.HasPrefix(got, kept) || strings.Contains(kept, `"hermes"`) && got != kept+"}" {
			t.Errorf("%s: finish chunk %s, want the members of %s", in, got, want)
		}
	}
}

// checkShape is checkErrorFinish without a look at the hermes block.
func (v *view) checkShape(t testing.TB, code string) {
	t.Helper()
	if len(v.errors) != 1 || v.errors[0].code() != code || len(v.finishes) != 1 || v.finishes[0] != "error" ||
		!strings.HasSuffix(v.story(), "error finish done") || len(v.finish.Error) > 0 {
		t.Errorf("errors %+v, finish %q, order %s", v.errors, v.finishes, v.story())
	}
}

func TestUpstreamErrorAloneIsSplit(t *testing.T) {
	v := look(t, repair(role()+text("x")+finishChunk("error", realUsage)+doneFrame))
	v.checkErrorFinish(t, "agent_error")
	if v.errors[0].Message == "" {
		t.Error("no message")
	}
	if compact(t, string(v.finish.Usage)) != `{"prompt_tokens":1234,"completion_tokens":56,"total_tokens":1290}` {
		t.Errorf("usage = %s", v.finish.Usage)
	}
}

func TestUpstreamErrorOfAnyFormIsSplit(t *testing.T) {
	for e, message := range map[string]string{
		`"boom"`:                         "boom",
		`null`:                           "",
		`{}`:                             "",
		`{"message": ""}`:                "",
		`{"message": null}`:              "",
		`{"message": {"a": 1}}`:          "",
		`[1]`:                            "",
		`7`:                              "",
		`-5`:                             "",
		`true`:                           "",
		`{"message": "m", "param": "p"}`: "m",
	} {
		v := look(t, repair(role()+finishChunk("error", `, "error": `+e)+doneFrame))
		if len(v.errors) != 1 || v.story() != "other error finish done" {
			t.Errorf("%s: %s", e, v.story())
			continue
		}
		if message != "" && v.errors[0].Message != message {
			t.Errorf("%s: message %q", e, v.errors[0].Message)
		}
	}
}

func TestUpstreamErrorInlinePassesByteForByte(t *testing.T) {
	o := Options{ErrorFinish: ErrorFinishInline}
	for _, more := range []string{g3Error, zeroUsage, "", `, "error": "boom"`} {
		in := role() + text("x") + finishChunk("error", more) + doneFrame
		same(t, repairWith(in, o), in, more+": bytes")
	}
}

// TestLengthPassesByteForByte but for secrets.
func TestLengthPassesByteForByte(t *testing.T) {
	for _, more := range []string{realUsage, zeroUsage, zeroUsage + `, "error": {"message": "truncated sk-abcdefghijkl", "type": "x"}, "hermes": {"error_code": "output_truncated"}`} {
		for _, o := range []Options{{}, {ErrorFinish: ErrorFinishInline}, {ZeroUsage: ZeroUsageError}} {
			in := role() + text("x") + finishChunk("length", more) + doneFrame
			want := strings.ReplaceAll(in, "sk-abcdefghijkl", "[redacted]")
			same(t, repairWith(in, o), want, "bytes")
		}
	}
}

// secrets are texts that must not leave in a message, with what must stay.
var secrets = []struct{ message, secret, stays string }{
	{"Incorrect API key provided: sk-abcdEFGH1234567890.", "sk-abcdEFGH", "Incorrect API key provided: "},
	{"key sk-proj-abc_DEF-1234567890", "abc_DEF", "key "},
	{"key 'sk-ant-api03-AAAABBBBCCCC'", "AAAABBBB", "key '"},
	{"key \"sk-abcdEFGH1234567890\" is bad", "sk-abcd", "is bad"},
	{"sk-abcdEFGH1234567890", "sk-abcd", ""},
	{"Authorization: Bearer abcdEFGH.1234-567_890", "abcdEFGH", "Authorization: "},
	{"authorization: bearer abcdEFGH1234567890==", "abcdEFGH", "authorization: "},
	{"BEARER abcdEFGH1234567890", "abcdEFGH", ""},
}

func TestSecretsAreRedactedInMessages(t *testing.T) {
	for _, s := range secrets {
		m := asciiJSON(s.message)
		for name, in := range map[string]string{
			"finish chunk": finishChunk("error", zeroUsage+`, "error": {"message": `+m+`, "type": "x"}, "hermes": {"failed": true, "error": `+m+`}`) + doneFrame,
			"hermes block": finishChunk("error", zeroUsage+`, "hermes": {"failed": true, "error": `+m+`}`) + doneFrame,
			"a string":     finishChunk("error", zeroUsage+`, "error": `+m) + doneFrame,
			"error frame":  `data: {"error": {"message": ` + m + `}}` + "\n\n",
			"named error":  named("error", `{"error": {"message": `+m+`}}`),
		} {
			for _, form := range ErrorFinishForms() {
				out := repairWith(role()+in, Options{ErrorFinish: form})
				look(t, out)
				if strings.Contains(out, s.secret) {
					t.Errorf("%s, %s: %q leaves in\n%s", name, form, s.secret, out)
				}
				if !strings.Contains(out, strings.Trim(asciiJSON(s.stays), `"`)) {
					t.Errorf("%s, %s: %q is gone in\n%s", name, form, s.stays, out)
				}
			}
		}
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	for _, m := range []string{"task-force one", "risk-averse people", "disk-usage-is-high", "the bearer of bad news", "boom: provider exploded", "sk-", "Error code: 401 - invalid api key"} {
		v := look(t, repair(role()+finishChunk("error", `, "error": {"message": `+asciiJSON(m)+`}`)+doneFrame))
		if v.errors[0].Message != m {
			t.Errorf("%q has become %q", m, v.errors[0].Message)
		}
	}
}

func TestMessagesOfOurOwnNameNoAddress(t *testing.T) {
	for _, code := range []string{CodeAborted, CodeIncomplete, CodeTimeout, CodeCrashed, CodeAgentError, CodeShutdown} {
		m := Message(code)
		if m == "" || strings.ContainsAny(m, ":/") || strings.Contains(m, "127.") || strings.Contains(m, "localhost") {
			t.Errorf("%s: %q", code, m)
		}
	}
}

func TestErrorFrameOfUpstreamIsNotSaidTwice(t *testing.T) {
	errorFrame := `data: {"error": {"message": "boom", "type": "x", "code": "agent_error"}}` + "\n\n"
	for _, end := range []string{"", doneFrame, finishChunk("error", zeroUsage) + doneFrame, finishChunk("error", g3Error) + doneFrame} {
		out := repair(role() + text("x") + errorFrame + end)
		v := look(t, out)
		v.checkErrorFinish(t, "agent_error")
		if !strings.HasPrefix(out, role()+text("x")+errorFrame) {
			t.Errorf("%q: upstream's error has changed:\n%s", end, out)
		}
	}
}

func TestSecretsBehindAnEscapeAreRedacted(t *testing.T) {
	for _, m := range []string{"bad key:\nsk-abcdEFGH1234567890", "bad key:\tsk-abcdEFGH1234567890", "é sk-abcdEFGH1234567890", "ésk-abcdEFGH1234567890", "headers:\nBearer abcdEFGH1234567890", "Bearer\tabcdEFGH1234567890", "Bearer \"abcdEFGH1234567890\""} {
		for _, form := range ErrorFinishForms() {
			out := repairWith(role()+finishChunk("error", `, "error": {"message": `+asciiJSON(m)+`}, "hermes": {"error": `+asciiJSON(m)+`}`)+doneFrame, Options{ErrorFinish: form})
			if strings.Contains(out, "abcdEFGH") {
				t.Errorf("%s: %q leaves", form, m)
			}
		}
	}
}

// The message of an error that has been sent is repeated by the error finish, but no
// more of it than is kept.
func TestLongErrorIsNotRepeated(t *testing.T) {
	for _, escape := range []string{"x", `\n`, "\u00e9", `\u00e9`, "💻", `\ud83d\udcbb`} {
		for n := range 13 {
			message := strings.Repeat("a", n) + strings.Repeat(escape, 2*maxMessage/len(escape))
			failure := `data: {"error": {"message": "` + message + `"}}` + "\n\n"
			out := repair(role() + text("a") + failure)
			v := look(t, out)
			if !strings.Contains(out, failure) {
				t.Fatalf("the error itself does not leave:\n%s", out)
			}
			block, _, _ := strings.Cut(out[strings.LastIndex(out, `"hermes":`):], "\n")
			said := *v.finish.Hermes.Error
			if len(block) > maxMessage+200 || len(block) < maxMessage || said == "" || strings.ContainsRune(said, utf8.RuneError) {
				t.Fatalf("%d bytes of %q are repeated", len(block), escape)
			}
		}
	}
}

// A finish reason is what it stands for, however it is escaped.
func TestFinishReasonMayBeEscaped(t *testing.T) {
	for _, c := range []struct{ in, reason, code string }{
		{role() + text("a") + named("error", `{"error": {"message": "m"}}`) + finishChunk(`st\u006fp`, realUsage), "error", CodeAgentError},
		{role() + finishChunk(`st\u006fp`, realUsage), "error", CodeEmpty},
		{role() + text("a") + finishChunk(`\u0065rror`, ""), "error", CodeAgentError},
		{role() + text("a") + finishChunk(`st\u006fp`, realUsage), "stop", ""},
	} {
		out, sum := run(c.in+doneFrame, Options{}, chatParams, inOne, CauseEOF)
		v := look(t, out)
		if len(v.finishes) != 1 || v.finishes[0] != c.reason || sum.FinishReason != c.reason || sum.Code != c.code {
			t.Errorf("%q: finish reasons %q, summary %+v, want %q with the code %q", c.in, v.finishes, sum, c.reason, c.code)
		}
	}
}

// Of an event: error secrets go wherever they stand, also where another sidecar has
// given it the members of a chunk.
func TestWrappedErrorEventHasNoSecrets(t *testing.T) {
	const empty = envelopeOfTests + `, "choices": [{"index": 0, "delta": {}, "finish_reason": null}]`
	in := role() + text("a") + g2Start("terminal", "💻", "ls", "call_1") + named("error", `{`+empty+`, "detail": "sk-abcdefghij", "error": "boom"}`) + finishChunk("stop", realUsage) + doneFrame
	for _, o := range allOptions() {
		out, sum := run(in, o, chatParams, oneByte, CauseEOF)
		if strings.Contains(out, "sk-abcdefghij") {
			t.Errorf("%+v: a secret has left:\n%s", o, out)
		}
		if sum.FinishReason != "error" || sum.Code != CodeAgentError {
			t.Errorf("%+v: summary %+v", o, sum)
		}
		same(t, repairWith(out, o), out, "twice and once")
	}
}

// A frame that keeps its place after text that is held back has its secrets taken out
// as any other.
func TestNoSecretLeavesBehindHeldText(t *testing.T) {
	for _, odd := range []string{
		strings.Replace(delta(""), `"finish_reason"`, `"error": "sk-abcdefghij", "finish_reason"`, 1),
		strings.Replace(delta(""), `"choices"`, `"error": "sk-abcdefghij", "error": null, "choices"`, 1),
		strings.Replace(delta(""), `"choices"`, `"err\u006fr": "sk-abcdefghij", "choices"`, 1),
	} {
		for _, begun := range []string{"`💻 ", "<thi", "a\n`"} {
			for _, o := range allOptions() {
				if out := repairWith(role()+text(begun)+odd+text("b")+stop(), o); strings.Contains(out, "sk-abcdefghij") {
					t.Errorf("%+v, behind %q: a secret has left:\n%s", o, begun, out)
				}
			}
		}
	}
}

// Nor does one leave in the parts of a chunk that is taken apart.
func TestNoSecretLeavesInParts(t *testing.T) {
	in := strings.Replace(text("a\n\n<think>b</think>c\n`💻 ls`\nd"), `"choices"`, `"error": "sk-abcdefghij", "error": null, "choices"`, 1)
	for _, o := range allOptions() {
		if out := repairWith(role()+in+stop(), o); strings.Contains(out, "sk-abcdefghij") {
			t.Errorf("%+v: a secret has left:\n%s", o, out)
		}
	}
}

// An error of upstream's without any member gets those that clients expect, and stays
// JSON, wherever its white space is.
func TestEmptyErrorsStayJSON(t *testing.T) {
	for _, e := range []string{`{}`, `{ }`, "{\ndata: }", `{"a": 1 }`, "{ \ndata: \"message\": null }"} {
		in := role() + text("a") + finishChunk("error", `, "error": `+e) + doneFrame
		out := repair(in)
		look(t, out).checkErrorFinish(t, CodeAgentError)
		same(t, repair(out), out, "twice and once")
	}
}
