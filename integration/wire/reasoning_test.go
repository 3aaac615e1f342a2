package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

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
	t.Run("drop", func(t *testing.T) {
		c := client.New(t, sidecar.URL(sidecar.Serve(t, up, sidecar.Options{"reasoning": "drop"})))
		if a := c.Chat().Answer(); a.Content != "Answer 42" || a.Reasoning != "" {
			t.Errorf("content %q, reasoning %q", a.Content, a.Reasoning)
		}
	})
}

// A backend that dies while the model thinks: what has been thought arrives, and
// then an error.
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
// the length is that of what is sent.
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
