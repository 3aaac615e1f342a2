package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// sharedEmoji are the emoji of Hermes that stand for several tools, which only the label can tell apart.
const sharedEmoji = "🔍 🧠 👁️ ⌨️ 📚 🏠 🧪 ⚡"

// The content of a repaired G0 or G1 answer is what a modern Hermes sends for the same scenario, and
// its tools are those that G2 announces itself.
func TestContentIsThatOfModernHermes(t *testing.T) {
	all := hermes.Recordings(t, hermes.Chats)
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Library(all, upstream.ByFrame).Play), sidecar.Options{"imitations": "strip"})))
	for _, r := range all {
		if !r.Legacy() || r.Live() {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			modern := modernOf(r, "g3-v0.20.3")
			c := c.Of(t)
			got := c.Play(r.String()).Answer()
			got.CheckLifecycle(t)
			want := strict.Decode(t, string(hermes.Recorded(t, modern).Body)).Content
			if r.Scenario == "model_imitates" {
				// A model's imitation of a marker is content to Hermes of any
				// release, and no content to the sidecar: both repaired are alike.
				want = c.Play(modern).Answer().Content
				if want != "Sure\ndone" {
					t.Errorf("the imitation leaves %q", want)
				}
			}
			if got.Content != want {
				t.Errorf("content\n%q, want that of %s\n%q", got.Content, modern, want)
			}
			checkStarts(t, r, got.Starts)
		})
	}
}

// checkStarts wants the tools of a repaired recording to be those of G2.
func checkStarts(t *testing.T, r hermes.Recording, got []strict.Start) {
	want := strict.Decode(t, string(hermes.Recorded(t, modernOf(r, "g2-v0.13.0")).Body)).Starts
	if r.Scenario == "emoji_all" {
		// It starts every tool that a release has: G2 has more of them.
		want = slices.DeleteFunc(want, func(w strict.Start) bool {
			return !slices.ContainsFunc(got, func(g strict.Start) bool { return g.Label == w.Label })
		})
		if len(want) < 40 {
			t.Fatalf("only %d tools of G2 are in the answer", len(want))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("starts\n%v, want those of G2\n%v", got, want)
	}
	for i, g := range got {
		w := want[i]
		if strings.Contains(sharedEmoji, w.Emoji) && strings.HasPrefix(r.Generation, "g0") && w.Label != w.Tool {
			w.Tool = g.Tool
		}
		if w.Emoji == "⚡" && strings.HasPrefix(r.Generation, "g0") {
			w.Tool = "tool" // of a tool that has no emoji nothing is known
		}
		if g != w {
			t.Errorf("start %d: %v, want %v", i, g, w)
		}
	}
}

// modernOf is the recording of r's scenario by another generation.
func modernOf(r hermes.Recording, generation string) string {
	if dir, _, ok := strings.Cut(r.Generation, "/"); ok {
		generation = dir + "/" + generation
	}
	return generation + "/" + r.Scenario
}

// texts is a G0 stream of deltas with these contents, and a good end.
func texts(contents ...string) upstream.Script {
	return func(x *upstream.Exchange) {
		x.Events()
		for _, s := range contents {
			x.Frame(hermes.Delta("content", s))
		}
		x.Frame(hermes.Finish("stop", 56))
		x.Frame("data: [DONE]")
		x.End()
	}
}

func TestMarkers(t *testing.T) {
	rule := []struct {
		name    string
		options sidecar.Options
		deltas  []string
		content string
		starts  []strict.Start
	}{
		{"of an unknown emoji start a tool", nil,
			[]string{"Hi", "\n`🦤 x`\n", "\n\nok"}, "Hi\n\nok", []strict.Start{{Emoji: "🦤", Label: "x", Tool: "tool"}}},
		{"with a newline in the label", nil,
			[]string{"Hi", "\n`🧪 lr=1\n2`\n", "\n\nok"}, "Hi\n\nok", []strict.Start{{Emoji: "🧪", Label: "lr=1\n2", Tool: ""}}},
		{"whose label is a backtick", nil,
			[]string{"\n`💻 ``\n", "\n\nok"}, "\n\nok", []strict.Start{{Emoji: "💻", Label: "`", Tool: "terminal"}}},
		{"need an emoji: an inline command is text", nil,
			[]string{"\n`git status`\n", "ok"}, "\n`git status`\nok", nil},
		{"back to back are a start each", nil,
			[]string{"a", "\n`💻 ls`\n", "\n`💻 ls`\n", "\n\nb"}, "a\n\nb", []strict.Start{{Emoji: "💻", Label: "ls", Tool: "terminal"}, {Emoji: "💻", Label: "ls", Tool: "terminal"}}},
		{"merged with text are imitations", nil,
			[]string{"Sure\n`💻 ls`\ndone"}, "Sure\ndone", nil},
		{"merged with text that has its own newline leave no other", nil,
			[]string{"Sure\n`💻 ls`\n\ndone"}, "Sure\ndone", nil},
		{"spread over deltas are imitations", nil,
			[]string{"Sure", "\n", "`", "💻", " l", "s", "`", "\n", "done"}, "Sure\ndone", nil},
		{"imitated at the start of a message leave nothing", nil,
			[]string{"`💻", " ls`\n", "done"}, "done", nil},
		{"imitated at the end of a message leave a newline", nil,
			[]string{"Sure", "\n`💻 l", "s`"}, "Sure\n", nil},
		{"imitated twice leave one newline", nil,
			[]string{"Sure\n`💻 ls`\n`📖 a`\ndone"}, "Sure\ndone", nil},
		{"imitated with an unknown emoji stay", nil,
			[]string{"Sure\n`🦤", " ls`\ndone"}, "Sure\n`🦤 ls`\ndone", nil},
		{"imitated inside a code fence stay", nil,
			[]string{"```\n", "`💻 ls`\n", "```\nok"}, "```\n`💻 ls`\n```\nok", nil},
		{"imitated inside a line stay", nil,
			[]string{"see `💻 ls`\nok"}, "see `💻 ls`\nok", nil},
		{"alone in backticks stay", nil,
			[]string{"a\n`💻`\n", "ok"}, "a\n`💻`\nok", nil},
		{"imitated and kept", sidecar.Options{"imitations": "keep"},
			[]string{"Sure\n`💻 ls`\ndone"}, "Sure\n`💻 ls`\ndone", nil},
		{"imitated and trusted start a tool", sidecar.Options{"imitations": "trust"},
			[]string{"Sure\n`💻 ls`\n\ndone"}, "Sure\ndone", []strict.Start{{Emoji: "💻", Label: "ls", Tool: "terminal"}}},
	}
	var scenes []scene
	for _, r := range rule {
		scenes = append(scenes, scene{name: r.name, options: r.options, play: texts(r.deltas...), content: r.content, starts: append([]strict.Start{}, r.starts...)})
	}
	// Upstream sends tool events, so the line is the user's (contract section 1): auto keeps it.
	for options, content := range map[string]string{"auto": "a\n`💻 rm`\nb", "strip": "a\nb"} {
		scenes = append(scenes, scene{
			name: "in one chunk after a tool event of upstream's own, " + options, content: content, options: sidecar.Options{"imitations": options},
			starts: []strict.Start{{Emoji: "💻", Label: "ls", Tool: "terminal"}},
			play: func(x *upstream.Exchange) {
				x.Events()
				x.Frame(hermes.Delta("content", "a"))
				x.Frame("event: hermes.tool.progress", `data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": "ls", "toolCallId": "c1", "status": "running"}`)
				x.Frame("event: hermes.tool.progress", `data: {"tool": "terminal", "toolCallId": "c1", "status": "completed"}`)
				x.Frame(hermes.Delta("content", "\n`💻 rm`\n"))
				x.Frame(hermes.Delta("content", "b"))
				x.Finish()
			},
		})
	}
	show(t, scenes...)
}

// Text that begins like a marker waits for the end of its line, but not beyond 4 KiB.
func TestHeldTextLeavesAtFourKiB(t *testing.T) {
	text := "`💻 " + strings.Repeat("x", 5<<10)
	rest := make(chan struct{})
	base, _ := sidecar.Serve(t, upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		x.Frame(hermes.Delta("content", text))
		if !x.Wait(rest) {
			return
		}
		x.Finish()
	}), nil)
	r := client.New(t, base).Chat()
	if e := r.Frame(); e.Chunk == nil || e.Choices[0].Delta.Content != text {
		t.Errorf("got %q, want the long line", harness.Clip(e.Raw))
	}
	close(rest)
	r.Answer().CheckLifecycle(t)
}

// The recordings in which a model thinks between tags: the content is that of a
// modern Hermes, and the reasoning what the tags held.
func TestThinkTagsBecomeReasoning(t *testing.T) {
	all := hermes.Recordings(t, func(r hermes.Recording) bool { return r.Scenario == "think_tags" })
	for _, cut := range []upstream.Cutter{upstream.ByFrame, upstream.ByByte, upstream.Whole} {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, upstream.Library(all, cut).Play), nil)))
		for _, r := range all {
			a := c.Play(r.String()).Answer()
			a.CheckGood(t)
			if a.Content != "Answer 42" {
				t.Errorf("%s, %s: content %q", r, cut.Name, a.Content)
			}
			want := ""
			if strings.Contains(string(r.Body), "<think>") {
				want = "secret plan"
			}
			if a.Reasoning != want {
				t.Errorf("%s, %s: reasoning %q", r, cut.Name, a.Reasoning)
			}
		}
	}
}

func TestReasoningOption(t *testing.T) {
	r := hermes.Recorded(t, "g0-v0.8.0/think_tags")
	up := upstream.New(t, upstream.Replay(r, upstream.ByFrame))
	t.Run("keep", func(t *testing.T) {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"reasoning": "keep"}))))
		if got := c.Chat().All(); got != string(r.Body) {
			t.Errorf("the stream has changed:\n%s", got)
		}
	})
	show(t, scene{name: "drop", options: sidecar.Options{"reasoning": "drop"}, play: upstream.Replay(r, upstream.ByFrame), names: "chunk text text finish stop done", content: "Answer 42"})
}

// A backend that dies while the model thinks: what has been thought arrives, and then an error.
func TestCrashInsideReasoning(t *testing.T) {
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Events()
		for _, s := range []string{"<thi", "nk>", "a plan", " that </th"} {
			x.Frame(hermes.Delta("content", s))
		}
		x.Reset()
	})
	c := client.New(t, sidecar.URL(sidecar.Serve(t, up, nil)))
	a := c.Chat().Answer()
	a.CheckError(t, "upstream_aborted")
	if a.Content != "" || !strings.HasPrefix("a plan that </th", a.Reasoning) || !a.Last.Hermes.Partial {
		t.Errorf("content %q, reasoning %q", a.Content, a.Reasoning)
	}
}

// Reasoning as providers of open models stream it: in the content, with the text
// repeated elsewhere, or in members of its own.
func TestReasoningOfProviders(t *testing.T) {
	const head = `{"id":"chatcmpl-7c","object":"chat.completion.chunk","created":1741000000,"model":"deepseek-r1-distill-llama-70b",`
	groq := func(s string) string {
		return "data: " + head + `"system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":` + hermes.Quoted(s) + `},"logprobs":null,"finish_reason":null}]}`
	}
	together := func(s string) string {
		return "data: " + head + `"choices":[{"index":0,"text":` + hermes.Quoted(s) + `,"logprobs":null,"finish_reason":null,"seed":null,"delta":{"token_id":128013,"role":"assistant","content":` +
			hermes.Quoted(s) + `,"tool_calls":null}}],"usage":null}`
	}
	deepseek := func(s string) string {
		member := `"content":null,"reasoning_content":` + hermes.Quoted(s)
		if !strings.HasPrefix(s, "I ") {
			member = `"content":` + hermes.Quoted(s) + `,"reasoning_content":null`
		}
		return "data: " + head + `"choices":[{"index":0,"delta":{` + member + `},"logprobs":null,"finish_reason":null}]}`
	}
	end := "data: " + head + `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`
	tagged := []string{"<think>", "\n", "I think", ", so", " I am.\n", "</think>", "\n\n", "The", " answer"}
	for _, c := range []struct {
		name      string
		form      func(string) string
		parts     []string
		reasoning string
	}{
		{"tags", groq, tagged, "\nI think, so I am.\n"},
		{"tags in pieces", groq, []string{"<", "think", ">", "I", " think", "</", "think", ">\n", "\nThe", " answer"}, "I think"},
		{"tags and a repeat", together, tagged, "\nI think, so I am.\n"},
		{"a member of its own", deepseek, []string{"I think", "The", " answer"}, "I think"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := upstream.New(t, func(x *upstream.Exchange) {
				x.Events()
				for _, s := range c.parts {
					x.Frame(c.form(s))
				}
				x.Frame(end)
				x.Frame("data: [DONE]")
				x.End()
			})
			cl := client.New(t, sidecar.URL(sidecar.Serve(t, up, nil)))
			body := cl.Chat().All()
			a := strict.Decode(t, body)
			a.CheckGood(t)
			if a.Content != "The answer" || a.Reasoning != c.reasoning {
				t.Errorf("content %q, reasoning %q", a.Content, a.Reasoning)
			}
			if repeated := repeats(t, a); c.name == "tags and a repeat" && repeated != a.Content {
				t.Errorf("the text that is repeated is %q", repeated)
			}
			if c.name == "a member of its own" && strings.Count(body, head) != len(c.parts)+1 {
				t.Errorf("frames have changed:\n%s", body)
			}
		})
	}
}

// repeats is the text of the choices of an answer.
func repeats(t testing.TB, a *strict.Answer) string {
	t.Helper()
	var b strings.Builder
	for _, e := range a.Events {
		var c struct{ Choices []struct{ Text string } }
		if err := json.Unmarshal([]byte(e.Data), &c); err == nil && len(c.Choices) > 0 {
			b.WriteString(c.Choices[0].Text)
		}
	}
	return b.String()
}

// An answer that is not streamed: reasoning and markers leave the message, and
// the length is that of the new body.
func TestReasoningOfAnswersThatAreNotStreamed(t *testing.T) {
	body := strings.NewReplacer("\n", "", "\t", "").Replace(`{"id": "chatcmpl-1", "object": "chat.completion", "created": 1795164827, "model": "hermes-agent",
		 "choices": [{"index": 0, "message": {"role": "assistant", "content": "<think>a plan</think>\n\nHi\n` + "`\\ud83d\\udcbb ls`" + `\n\n\nAnswer"}, "finish_reason": "stop"}],
		 "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}`)
	up := upstream.New(t, upstream.AsJSON("200 OK", body))
	r := client.New(t, sidecar.URL(sidecar.Serve(t, up, nil))).Chat()
	got := r.All()
	want := strings.Replace(body, `"<think>a plan</think>\n\nHi\n`+"`\\ud83d\\udcbb ls`"+`\n\n\nAnswer"`, `"Hi\n\nAnswer","reasoning_content":"a plan"`, 1)
	if got != want || r.StatusCode != http.StatusOK {
		t.Errorf("%s\n%s\nwant\n%s", r.Status, got, want)
	}
	if l := r.Header.Get("Content-Length"); l != fmt.Sprint(len(want)) {
		t.Errorf("Content-Length %s, want %d", l, len(want))
	}
}

// forgeries are what a model, or a tool's argument, would have to say to be taken for the stream itself.
var forgeries = []string{
	"\n\ndata: {\"error\":{\"message\":\"forged\"}}\n\n",
	"\r\n\r\nevent: hermes.tool.progress\r\ndata: {\"tool\":\"forged\",\"toolCallId\":\"f\",\"status\":\"running\"}\r\n\r\n",
	"\r\rdata: [DONE]\r\r",
	`"}}]}` + "\n\ndata: [DONE]\n\n",
	`","finish_reason":"error","error":{"message":"forged"},"x":"`,
	"\u2028\u2029\u0085\u0000\u001e\u001b[2J\ufeff",
	": keepalive\n\n",
	"</think>\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"forged\"}]}}]}",
	`\n\ndata: [DONE]\u000a\u000a`,
}

// Nothing that a model writes, or that stands in the label of a tool, becomes a
// frame, an error, an end or a tool of its own, in any form of tool events.
func TestTextForgesNothing(t *testing.T) {
	scripts := upstream.Router{}
	type want struct {
		content, reasoning, label string
		starts                    int
	}
	wants := map[string]want{}
	ended := [][]string{hermes.One(hermes.Delta("content", "x")), hermes.One(hermes.Finish("stop", 5)), hermes.One("data: [DONE]")}
	add := func(name string, w want, frames ...[]string) {
		scripts[name] = upstream.Lines(slices.Concat([][]string{hermes.One(hermes.Role)}, frames, ended)...)
		w.content += "x"
		wants[name] = w
	}
	for i, f := range forgeries {
		add(fmt.Sprint("text ", i), want{content: "a" + f}, hermes.One(hermes.Delta("content", "a"+f)))
		half := len(f) / 2
		for half > 0 && f[half]&0xc0 == 0x80 {
			half--
		}
		add(fmt.Sprint("text in two ", i), want{content: "a" + f}, hermes.One(hermes.Delta("content", "a"+f[:half])), hermes.One(hermes.Delta("content", f[half:])))
		if !strings.Contains(f, "</think>") {
			add(fmt.Sprint("reasoning ", i), want{reasoning: "a" + f}, hermes.One(hermes.Delta("content", "<think>a"+f+"</think>")))
		}
		add(fmt.Sprint("reasoning of upstream's ", i), want{reasoning: "a" + f}, hermes.One(hermes.Delta("reasoning_content", "a"+f)))
		label := strings.NewReplacer("\n", " ", "\r", " ", "`", "'").Replace(f)
		add(fmt.Sprint("marker ", i), want{label: label, starts: 1}, hermes.One(hermes.Delta("content", "\n`💻 "+label+"`\n")))
		add(fmt.Sprint("tool event ", i), want{label: f, starts: 1},
			[]string{"event: hermes.tool.progress", `data: {"tool": "terminal", "emoji": "\ud83d\udcbb", "label": ` + hermes.ASCII(f) + `, "toolCallId": "c1", "status": "running"}`})
	}
	base, _ := sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Options{"status_line": true, "cards": true})
	c := client.New(t, base)
	// A card shows one line, with escapes for what nobody would see.
	shown := strings.NewReplacer("\n", `\n`, "\r", `\r`, "\u2028", `\u2028`, "\u2029", `\u2029`, "\u0085", `\u0085`,
		"\x00", `\x00`, "\x1e", `\x1e`, "\x1b", `\x1b`, "\ufeff", `\ufeff`)
	for name, w := range wants {
		for _, form := range []string{"envelope", "bare", "unnamed", "comment", "off"} {
			a := c.Play(name, "X-Hermes-Tool-Progress", form).Answer()
			if a.Err != nil || a.Finish != "stop" || !a.Done || a.Content != w.content || a.Reasoning != w.reasoning {
				t.Errorf("%s, %s: finish %q, error %v, content %q, reasoning %q", name, form, a.Finish, a.Err, a.Content, a.Reasoning)
			}
			switch starts := a.Starts; {
			case form == "comment" || form == "off":
				if len(starts) != 0 {
					t.Errorf("%s, %s: starts %q", name, form, starts)
				}
			case len(starts) != w.starts || w.starts == 1 && starts[0].Label != w.label:
				t.Errorf("%s, %s: starts %q, want one of %q", name, form, starts, w.label)
			}
			if form == "envelope" || form == "unnamed" {
				for _, card := range a.Cards(t) {
					if card.Label != shown.Replace(w.label) || strings.ContainsAny(card.Name, "\r\n") {
						t.Errorf("%s, %s: card %+v", name, form, card)
					}
				}
			}
			for _, e := range a.Events {
				if e.Chunk != nil && e.Error != nil || e.Name != "" && e.Name != "hermes.tool.progress" && e.Name != "hermes.card" {
					t.Errorf("%s, %s: frame %q", name, form, e.Raw)
				}
			}
		}
	}
}

// Nor do the names that upstream gives, or its errors, become more than they are.
func TestNamesAndErrorsForgeNothing(t *testing.T) {
	scripts := upstream.Router{}
	for i, f := range forgeries {
		chunk := func(rest string) string {
			return `data: {"id": ` + hermes.ASCII("id"+f) + `, "object": "chat.completion.chunk", "created": 1, "model": ` + hermes.ASCII("m"+f) + `, ` + rest + `}`
		}
		scripts[fmt.Sprint("names ", i)] = upstream.Lines(hermes.One(chunk(`"choices": [{"index": 0, "delta": {"content": "\n`+"`💻 ls`"+`\n"}, "finish_reason": null}]`)),
			hermes.One(chunk(`"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": null}]`)))
		scripts[fmt.Sprint("error ", i)] = upstream.Lines(hermes.One(hermes.Role), hermes.One("data: "+hermes.Envelope+`"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": {"message": `+hermes.ASCII("e"+f)+`}}`), hermes.One("data: [DONE]"))
	}
	base, _ := sidecar.Serve(t, upstream.New(t, scripts.Play), sidecar.Still)
	c := client.New(t, base)
	for i, f := range forgeries {
		a := c.Play(fmt.Sprint("names ", i)).Answer()
		a.CheckError(t, "upstream_incomplete")
		if len(a.Starts) != 1 || a.Last.ID != "id"+f || a.Last.Model != "m"+f {
			t.Errorf("%q: starts %q, id %q", f, a.Starts, a.Last.ID)
		}
		a = c.Play(fmt.Sprint("error ", i)).Answer()
		a.CheckError(t, "agent_error")
		if a.Err.Message != "e"+f {
			t.Errorf("%q: message %q", f, a.Err.Message)
		}
	}
}

// In an answer that is not streamed, text stays text as well.
func TestTextOfAnswersForgesNothing(t *testing.T) {
	scripts := upstream.Router{}
	for i, f := range forgeries {
		scripts[fmt.Sprint(i)] = upstream.AsJSON("200 OK", `{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": `+
			hermes.ASCII("<think>r</think>\n`💻 ls`\n"+f)+`}, "finish_reason": "stop"}], "usage": {"total_tokens": 3}}`)
	}
	c := client.New(t, sidecar.URL(sidecar.Serve(t, upstream.New(t, scripts.Play), nil)))
	for i, f := range forgeries {
		var got struct {
			Choices []struct {
				Message struct{ Content, Reasoning_content string }
				Finish  string `json:"finish_reason"`
			}
			Error any
		}
		body := c.Play(fmt.Sprint(i)).All()
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error != nil || len(got.Choices) != 1 || got.Choices[0].Finish != "stop" {
			t.Errorf("%q: %v in %q", f, err, body)
			continue
		}
		// After a marker at the start of a text one newline more goes, LF or CR LF.
		want := strings.TrimPrefix(f, "\n")
		if rest, ok := strings.CutPrefix(f, "\r\n"); ok {
			want = rest
		}
		if m := got.Choices[0].Message; m.Reasoning_content != "r" || m.Content != want {
			t.Errorf("%q: content %q, reasoning %q", f, m.Content, m.Reasoning_content)
		}
	}
}
