package whole

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// glances are bodies, and whether glance knows enough of them.
var glances = map[string]bool{
	`{"messages":[{"role":"user","content":"a"}],"stream":true}`:                        true,
	`{"stream":true,"messages":[{"role":"user","content":"a"}]}`:                        true,
	` { "str\u0065am" : true , "messag\u0065s" : [ { "content" : "a" } ] , "n" : 1 } `:  true,
	`{"messages":[{"content":"a[0] = b], [1]"},{"content":"]"}],"stream":true}`:         true,
	`{"messages":[{"content":"see [1], \"b\" "}],"stream":true}`:                        true,
	`{"messages":[{"content":["a"]},{"content":[{"type":"text"},1]}],"stream":true}`:    true,
	`{"messages":[1],"stream":true}`:                                                    true,
	`{"messages":[],"stream":true}`:                                                     true,
	`{"messages":[{"content":"a"}],"stream":true,"tools":[{"a":[{}]}]}`:                 true,
	`{"messages":[{"content":"a"}],"stream":true,"stream":false}`:                       false,
	`{"messages":[{"content":"a"}],"stream":false,"stream":true}`:                       true,
	`{"messages":[{"content":"a"}]}`:                                                    false,
	`{"messages":[{"content":"a"}],"stream":1}`:                                         false,
	`{"messages":[{"content":"a"}],"stream":false}`:                                     false,
	`{"stream":true,"messages":[{"content":"a"}],"stream":false,"x":[{}]}`:              false,
	`{"stream":true,"messages":[1],"stream":false,"x":[{}]}`:                            false,
	`{"stream":true,"messages":[1],"x":2,"stream":false,"y":[{}]}`:                      false,
	`{"stream":true,"messages":{"a":[1]},"stream":false,"y":[{}]}`:                      false,
	`{"stream":true,"messages":"a]","y":[{}]}`:                                          false,
	`{"stream":true,"messages":[{"x":[{"stream":true}]}]}`:                              false,
	`{"stream":true,"messages":[{"tool_calls":[{"id":"1"}]}]}`:                          false,
	`{"stream":true,"messages":[{"tool_calls":[{"id":"1"} ] , "a":1}]}`:                 false,
	`{"stream":true,"messages":[{"content":"a"}],"messages":[{"content":"a"}]}`:         false,
	`{"stream":true,"messages":[{"content":"x}],"},{"content":":{\""}],"a":"b"}`:        false,
	`{"stream":true,"messages":[{"content":"x}],",":[{\"":0}],"stream":false,"y":[{}]}`: false,
	`{"stream":true,"messages":[{"content":"x}],",":true,"x":0}],"stream":false,"y":1}`: false,
	`{"stream":true,"messages":[{"content":"a"}],"x":nul}`:                              false,
	`{"stream":true,"messages":[{"content":"a"}]`:                                       false,
	`{"stream":true,"messages":[{"content":"a"}]}}`:                                     false,
	`{"stream":true,"messages":[{"content":"a"}]} {}`:                                   false,
	`{"stream":true}`:                   false,
	`[{"stream":true,"messages":[{}]}]`: false,
	``:                                  false,
	`{"stream":true,"messages":`:        false,
	`{"stream":true,"messages":[`:       false,
	`{"stream":true,"messages":[]`:      false,
	`{"stream":true,"messages":[],`:     false,
}

func TestGlance(t *testing.T) {
	for body, want := range glances {
		if _, got := glance([]byte(body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
		checkGlance(t, []byte(body))
	}
}

// checkGlance reads a body at which a glance is enough.
func checkGlance(t *testing.T, body []byte) {
	t.Helper()
	seen, ok := glance(body)
	if !json.Valid(body) || !ok {
		return
	}
	h := healer{Reader: jsonspan.Reader{Data: body}, tools: marker.Hermes}
	if ok := h.body(); !ok || h.healed.Asked != AskedStream || h.healed != seen {
		t.Errorf("%s: %v %+v, at a glance %+v", body, ok, h.healed, seen)
	}
	if joined, n := joinCards(body, nil); n > 0 {
		t.Errorf("%s: %d cards, joined to %s", body, n, joined)
	}
}

// FuzzGlance: what a glance at JSON tells is true. The script makes a body of parts that
// have to do with it, in which every value may be anything.
func FuzzGlance(f *testing.F) {
	for body := range glances {
		f.Add(body, []byte{})
	}
	card := `{"id":"c","function":{"name":"x","arguments":"{\"label\":\"l\"}"}}`
	output := `{"role":"tool","tool_call_id":"c","content":"completed"}`
	values := []string{
		`true`, `false`, `1`, `"a"`, `"]"`, `"x}],"`, `":[{\""`, `"}]}"`, `"\\"`, `[]`, `{}`, `[{}]`, `[1]`, `[{} ] `, `"`, `\`, `{`, `}`, `[`, `]`, `,`, `:`, ` `,
		`"stream"`, `"messages"`, `"tool_calls"`, `"stream":true,`, `"stream":false,`, `,"stream":false`, `"messages":[`, `{"role":"assistant","content":"a"}`,
		`{"role":"assistant","content":"a","tool_calls":[` + card + `]}`, output, `,"stream":true}`, `],"stream":true}`, `{"stream":true,"messages":[`, `"content":`,
		`,"tools":[1]`, `"n":2,`, `"n":1,`, `,"hermes_notification_category":"diagnostic"`,
	}
	f.Add("", []byte{35, 30, 20, 31, 20, 32, 34})
	f.Add("", []byte{35, 31, 20, 32, 19, 17})
	f.Fuzz(func(t *testing.T, body string, script []byte) {
		var b strings.Builder
		b.WriteString(body)
		for _, c := range script {
			b.WriteString(values[int(c)%len(values)])
		}
		checkGlance(t, []byte(b.String()))
	})
}
