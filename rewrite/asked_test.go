package rewrite

import (
	"strings"
	"testing"
)

// What form of answer a request asks for is known of a JSON object that is complete, and
// of nothing else.
func TestAskedOfARequest(t *testing.T) {
	for body, want := range map[string]Asked{
		`{}`: AskedWhole, ` {"stream": false} `: AskedWhole, `{"stream": null}`: AskedWhole, `{"stream": true}`: AskedStream, `{"stream" : true , "a": []}`: AskedStream,
		`{"stream": true, "stream": false}`: AskedWhole, `{"stream": false, "stream": true}`: AskedStream, `{"\u0073tream": true}`: AskedStream, `{"a": {"stream": true}}`: AskedWhole,
		`{"stream": 1}`: AskedUnknown, `{"stream": "true"}`: AskedUnknown, `{"stream": [true]}`: AskedUnknown, `{"stream": tru}`: AskedUnknown,
		``: AskedUnknown, `true`: AskedUnknown, `[{"stream": true}]`: AskedUnknown, `"stream"`: AskedUnknown,
		`{"stream": true`: AskedUnknown, `{"stream": true}}`: AskedUnknown, `{"stream": true} x`: AskedUnknown, `{"stream": true, "a": [`: AskedUnknown, `{"stream": true, "a": "x`: AskedUnknown,
		`{"stream": true, "a": }`: AskedUnknown, `{"stream": true, "messages": [{"content": "x}]}`: AskedUnknown, `{"stream": true, "messages": {`: AskedUnknown, `{"stream": true, "a"`: AskedUnknown,
	} {
		healed, got := Heal([]byte(body), nil)
		if got.Asked != want || got.Markers != 0 || string(healed) != body {
			t.Errorf("%s: %+v, want %v", body, got, want)
		}
	}
}

// A long body that is no JSON is nowhere taken for a request that asks for an answer that
// comes whole: deadlines would not run.
func TestABrokenHistoryDoesNotAskForAWholeAnswer(t *testing.T) {
	for _, stream := range []string{`"stream": true`, `"stream": false`} {
		body := `{` + stream + `, "messages": [{"role": "user", "content": "` + strings.Repeat("x", 8<<10) + `"}, {"role": "user", "content": "a"}], ` + stream + `}`
		if _, got := Heal([]byte(body), nil); got.Asked == AskedUnknown {
			t.Fatalf("%s: %+v", stream, got)
		}
		for i, c := range body {
			if c == 'x' || !strings.ContainsRune(`{}[]":,`, c) {
				continue
			}
			if _, got := Heal([]byte(body[:i]+body[i+1:]), nil); got.Asked == AskedWhole {
				t.Errorf("%s without the byte %d: %+v", stream, i, got)
			}
		}
	}
}
