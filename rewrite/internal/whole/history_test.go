package whole

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// What leaves a history, and what keeps a message in it.
func TestHeal(t *testing.T) {
	const (
		marked = `{"role":"assistant","content":"` + "`💻 ls`" + `"}`
		tool   = `{"role":"tool","content":"x"}`
		calls  = `"tool_calls":[{"id":"1","function":{"arguments":"{\"label\":\"ls\"}"}}]`
		twice  = `{"type":"text","text":"a","text":"b"}`
		output = `{"role":"tool","tool_call_id":"1","content":"completed"}`
	)
	for _, c := range []struct {
		in, want       string // messages
		markers, cards int
	}{
		{marked, ``, 1, 0},
		{tool + `,` + marked, tool, 1, 0},
		{marked + `, ` + marked + `,1`, `1`, 2, 0},
		{marked + `,` + tool, `{"role":"assistant","content":""},` + tool, 1, 0},
		{strings.Replace(marked, "{", `{"refusal":"no",`, 1), `{"refusal":"no","role":"assistant","content":""}`, 1, 0},
		{strings.Replace(marked, "{", `{"name":"a",`, 1), ``, 1, 0},
		{strings.Replace(marked, "assistant", "user", 1), strings.Replace(marked, "assistant", "user", 1), 0, 0},
		{`{"role":"assistant","content":"a",` + calls + `},` + output + `,{"role":"assistant","content":"b"}`, `{"role":"assistant","content":"a\n\nb"}`, 0, 1},
		{`{"role":"assistant",` + calls + `},` + output + `,` + marked, ``, 1, 1},
		{`{"role":"assistant","content":[` + twice + `],` + calls + `},` + output, `{"role":"assistant","content":[` + twice + `],` + calls + `},` + output, 0, 0},
		{`{"role":"assistant",` + calls + `},` + tool, `{"role":"assistant",` + calls + `},` + tool, 0, 0},
	} {
		h, sound := Heal([]byte(`{"messages":[`+c.in+`]}`), marker.Hermes, 6, true, nil)
		if got := string(h.Body); got != `{"messages":[`+c.want+`]}` || h.Markers != c.markers || h.Cards != c.cards || !sound {
			t.Errorf("%s\n%+v, %v\n%s\nwant\n%s", c.in, h, sound, got, c.want)
		}
	}
	if h, sound := Heal([]byte(`{"messages":[`+marked+`]`), marker.Hermes, 3, false, nil); sound || h.Markers > 0 {
		t.Errorf("cut off: %+v, sound is %v", h, sound)
	}
}

// What an answer that is not streamed becomes.
func TestRepairAnswer(t *testing.T) {
	const zero = `"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	answer := func(message, usage string) string {
		return `{"object":"chat.completion","choices":[{"message":{` + message + `},"finish_reason":"stop"}],` + usage + `}`
	}
	for _, c := range []struct{ in, want, code string }{
		{answer(`"content":"a\n`+"`💻 ls`"+`\nb"`, `"x":1`), answer(`"content":"a\nb"`, `"x":1`), ""},
		{answer(`"content":"<think>r</think>a"`, `"x":1`), answer(`"content":"a","reasoning_content":"r"`, `"x":1`), ""},
		{answer(`"reasoning_content":"q","content":"<think>r</think>a"`, `"x":1`), answer(`"reasoning_content":"q","content":"<think>r</think>a"`, `"x":1`), ""},
		{answer(`"content":"a"`, zero), answer(`"content":"a"`, zero), ""},
		{answer(`"content":"Error code: 401"`, zero), string(failure([]byte("Error code: 401"))), CodeAgentIncomplete},
		{`{"object":"response","error":{"message":"sk-abcdefghijkl"}}`, `{"object":"response","error":{"message":"[redacted]"}}`, ""},
		{`{"object":"list","error":"sk-abcdefghijkl"}`, `{"object":"list","error":"sk-abcdefghijkl"}`, ""},
	} {
		a := RepairAnswer([]byte(c.in), &contract.Options{Tools: marker.Hermes}, nil)
		if string(a.Body) != c.want || a.Code != c.code || a.Changed != (c.in != c.want) {
			t.Errorf("%s\n%s, %+v\nwant\n%s", c.in, a.Body, a, c.want)
		}
	}
}
