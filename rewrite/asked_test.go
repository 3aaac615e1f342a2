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
		if got := AskedOf([]byte(body)); got != want {
			t.Errorf("%s: %v alone, want %v", body, got, want)
		}
	}
}

// To ask costs no memory, whatever the values are.
func TestAskedOfAllocatesNothing(t *testing.T) {
	for _, body := range []string{
		`{"stream":[{"":0}` + strings.Repeat(`,{"":0}`, 10000) + `]}`,
		`{"a":0` + strings.Repeat(`,"\u0061\u0062\u0063":[[]]`, 10000) + `,"\u0073tream":true}`,
		`{"stream":` + strings.Repeat(`[`, 10000),
	} {
		if n := testing.AllocsPerRun(10, func() { AskedOf([]byte(body)) }); n > 1 { // the copy of body
			t.Errorf("%.20s…: %v allocations", body, n)
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
