package rewrite

import "testing"

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
