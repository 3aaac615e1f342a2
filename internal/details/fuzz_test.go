package details

import (
	"fmt"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// FuzzRows: whatever Hermes answers, it means the same in any cut, and what is told of a call is JSON of a call
// that is there with this id and name.
func FuzzRows(f *testing.F) {
	f.Add([]byte(list(user(), calls("c1", "t", `{"a": 1}`, "c1", "t", "x"), result("c1", "t", "one"))), byte(3))
	f.Add([]byte(list(user(), calls("c1", "t", `{}`), result("c1", "u", "{\"exit_code\": 1}"), user())+" "), byte(0))
	f.Add([]byte(`{"data": [{"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "t", "arguments": "\ud800"}}]}, 7, NaN], "object": "list", "session_id": "z"}`), byte(1))
	f.Fuzz(func(t *testing.T, answer []byte, most byte) {
		whole, wholeErr := read(string(answer), len(answer)+1)
		cut, cutErr := read(string(answer), 1+int(most))
		if fmt.Sprint(wholeErr) != fmt.Sprint(cutErr) || fmt.Sprintf("%+v", whole) != fmt.Sprintf("%+v", cut) {
			t.Fatalf("%v, %+v\n%v, %+v", wholeErr, whole, cutErr, cut)
		}
		for i := range whole.calls {
			c := &whole.calls[i]
			d := whole.find(rewrite.ToolCall{ID: c.id, Name: c.name, Nth: int(most) % 4})
			if d.Args != nil && string(rewrite.ToolArgs(string(d.Args))) == "" {
				t.Errorf("%q", d.Args)
			}
			if other := whole.find(rewrite.ToolCall{ID: c.id, Name: c.name + "?"}); other.Args != nil || other.Result != nil {
				t.Errorf("a call of another name: %+v", other)
			}
		}
	})
}
