package jsonspan

import (
	"strings"
	"testing"
)

func TestClose(t *testing.T) {
	for in, want := range map[string]string{
		`{`: `{}`, `{"a`: `{}`, `{"a"`: `{}`, `{"a":`: `{}`, `{"a":1`: `{}`, `{"a":1,`: `{"a":1}`, `{"a":"x`: `{"a":"x"}`, `{"a":"x\`: `{"a":"x"}`, `{"a":"x\u12`: `{"a":"x"}`,
		`{"a":"x\n`: `{"a":"x\n"}`, `{"a":"x"`: `{"a":"x"}`, `{"a":[1,{"b":tru`: `{"a":[1,{}]}`, `{"a":[1,{"b":true}`: `{"a":[1,{"b":true}]}`, `{"a":[["x"`: `{"a":[["x"]]}`,
		` {"a" : 1 , "b`: ` {"a" : 1}`, `{} rest`: `{}`, `{"a":"}"`: `{"a":"}"}`, ``: ``, `x`: ``, `{"a":?`: ``, `{]`: ``, strings.Repeat("[", MaxDepth+1): ``,
	} {
		closed, n := Close([]byte(in))
		if string(closed) != want || !strings.HasPrefix(in, want[:min(n, len(want))]) {
			t.Errorf("%q: %q, %d of it; want %q", in, closed, n, want)
		}
	}
}

// Every beginning of a well-formed object is well formed when it is closed, and all of it is
// itself.
func TestCloseIsWellFormed(t *testing.T) {
	const whole = ` {"id":"a\u00e9\\","n":[1,-2.5e3,{"x":{},"y":[]},null,"é💻"],"choices":[{"index":0,"delta":{"content":"x\ny \" z"},"finish_reason":null}],"t":true}`
	for i := range len(whole) + 1 {
		closed, n := Close([]byte(whole[:i]))
		if i < 2 {
			continue
		}
		if !Valid(closed) || string(closed[:n]) != whole[:n] || i == len(whole) && string(closed) != whole {
			t.Errorf("%q becomes %q, %d of it", whole[:i], closed, n)
		}
	}
}
