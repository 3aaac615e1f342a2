package whole

import (
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// FuzzMayMark: of a body that may have no marker, looking through its texts changes
// nothing either, and what else is read of it is the same.
func FuzzMayMark(f *testing.F) {
	for _, body := range []string{
		`{"messages":[{"role":"assistant","content":"a\n\u0060💻 ls\u0060\nb"}],"stream":true}`,
		`{"messages":[{"role":"assistant","content":"a\n\u0060\ud83d\udcbb ls\u0060"}]}`,
		`{"messages":[{"role":"assistant","content":[{"type":"text","text":"` + "`💻 6`" + `"}]}]}`,
		`{"messages":[{"role":"assistant","content":"6 u0060 \\u0060 0060 60 \u00606"}],"stream":false}`,
		`{"messages":[{"role":"assistant","content":"666666","tool_calls":[{"function":{"arguments":"{\"label\":\"\"}"}}]}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Add([]byte(`{"messages":[{"role":"assistant","content":"` + "a ` b\\n`c`\\n`💻\\n``💻 ls`" + `"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if mayMark(body) {
			return
		}
		slow := healer{Reader: jsonspan.Reader{Data: body}, tools: marker.Hermes}
		fast := healer{Reader: jsonspan.Reader{Data: body}, tools: marker.Hermes, clean: true}
		if s, f := slow.body(), fast.body(); s != f || slow.healed != fast.healed || slow.mayBeCards != fast.mayBeCards {
			t.Errorf("%v %+v and %v %+v", s, slow.healed, f, fast.healed)
		}
		if slow.out != nil || slow.loneSurrogate {
			t.Error("it was cut")
		}
	})
}

func mayMark(body []byte) bool {
	h := healer{tools: marker.Hermes}
	return h.mayMark(body, len(body)/256)
}

func TestMayMark(t *testing.T) {
	for body, want := range map[string]bool{
		``:                                           false,
		`{"a":"b"}`:                                  false,
		"{\"a\":\"`\"}":                              false,
		"{\"a\":\"`💻 ls`\"}":                         true,
		"{\"a\":\"a\\n`💻 ls`\"}":                     true,
		"{\"a\":\"a\\u000A`💻 ls`\"}":                 true,
		"{\"a\":\"a `💻 ls`\"}":                       false,
		"{\"a\":\"``💻 ls`\"}":                        false,
		"{\"a\":\"`\\ud83d\\udcbb ls`\"}":            true,
		"{\"a\":\"`💻ls`\"}":                          false,
		"{\"a\":\"`ls`\\n`\\ud83d\\n`\"}":            false,
		`{"a":"\u0060"}`:                             true,
		`{"a":"u0060 60"}`:                           true, // too short a body to look at all of it
		string(make([]byte, 1000)) + `006 60 u0060`:  false,
		string(make([]byte, 1000)) + `6 666 \u0060`:  true,
		string(make([]byte, 1000)) + `6 666 \\u0061`: true,
	} {
		if got := mayMark([]byte(body)); got != want {
			t.Errorf("%q: %v", body, got)
		}
	}
}
