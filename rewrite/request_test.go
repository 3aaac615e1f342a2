package rewrite

import (
	"slices"
	"strings"
	"testing"
)

// The form of answer that a request asks for is known only if it is a complete JSON object.
func TestAskedOfARequest(t *testing.T) {
	deep := strings.Repeat("[", 1<<16) + strings.Repeat("]", 1<<16) // as a tool's arguments may be
	for body, want := range map[string]AnswerForm{
		`{}`: AnswerWhole, ` {"stream": false} `: AnswerWhole, `{"stream": null}`: AnswerWhole, `{"stream": true}`: AnswerStream, `{"stream" : true , "a": []}`: AnswerStream,
		`{"stream": true, "stream": false}`: AnswerWhole, `{"stream": false, "stream": true}`: AnswerStream, `{"\u0073tream": true}`: AnswerStream, `{"a": {"stream": true}}`: AnswerWhole,
		`{"stream": 1}`: AnswerUnknown, `{"stream": "true"}`: AnswerUnknown, `{"stream": [true]}`: AnswerUnknown, `{"stream": tru}`: AnswerUnknown,
		``: AnswerUnknown, `true`: AnswerUnknown, `[{"stream": true}]`: AnswerUnknown, `"stream"`: AnswerUnknown,
		`{"stream": true`: AnswerUnknown, `{"stream": true}}`: AnswerUnknown, `{"stream": true} x`: AnswerUnknown, `{"stream": true, "a": [`: AnswerUnknown, `{"stream": true, "a": "x`: AnswerUnknown,
		`{"x":"\"stream\":true"}`: AnswerWhole, `{"messages":[]}`: AnswerWhole,
		`{"stream":true,"messages":[{"a":1}]}`: AnswerStream, `{"messages":{},"stream":true}`: AnswerStream,
		`{"stream":true}{}`: AnswerUnknown, `{"stream":true,"x":` + deep + `}`: AnswerStream,
		`{"x":` + deep + `,"stream":true}`: AnswerStream,
		`{"stream": true, "a": }`:          AnswerUnknown, `{"stream": true, "messages": [{"content": "x}]}`: AnswerUnknown, `{"stream": true, "messages": {`: AnswerUnknown, `{"stream": true, "a"`: AnswerUnknown,
	} {
		healed, got := Heal([]byte(body), nil, nil)
		if got.Form != want || got.Markers != 0 || string(healed) != body {
			t.Errorf("%s: %+v, want %v", body, got, want)
		}
		equal(t, AnswerFormOf([]byte(body)), want, body)
	}
}

// A long body that is not JSON never counts as a request for a whole answer, for which deadlines would not
// run.
func TestABrokenHistoryDoesNotAskForAWholeAnswer(t *testing.T) {
	for _, stream := range []string{`"stream": true`, `"stream": false`} {
		body := `{` + stream + `, "messages": [{"role": "user", "content": "` + strings.Repeat("x", 8<<10) + `"}, {"role": "user", "content": "a"}], ` + stream + `}`
		if _, got := Heal([]byte(body), nil, nil); got.Form == AnswerUnknown {
			t.Fatalf("%s: %+v", stream, got)
		}
		for i, c := range body {
			if c == 'x' || !strings.ContainsRune(`{}[]":,`, c) {
				continue
			}
			if _, got := Heal([]byte(body[:i]+body[i+1:]), nil, nil); got.Form == AnswerWhole {
				t.Errorf("%s without the byte %d: %+v", stream, i, got)
			}
		}
	}
}

// Members of a request that Hermes ignores are named, wherever they stand and whatever else the request has. It says
// that it is a diagnostic one by a member that Hermes compares as a whole.
func TestIgnoredOfARequest(t *testing.T) {
	for want, requests := range map[string][]string{
		"tools": {`"tools":[{"type":"function"}]`}, "functions": {`"functions":[{"name":"f"}]`},
		"background":      {`"background":true`},
		"tool_choice":     {`"tool_choice":"required"`, `"tool_choice":"none"`, `"tool_choice":{"type":"function"}`},
		"n":               {`"n":2`, `"n":2.0`, `"n":1e3`, `"n":1,"n":2`},
		"response_format": {`"response_format":{"type":"json_object"}`, `"response_format":{"type":"json_schema","json_schema":{"type":"text"}}`, `"response_format":{"type":"text","type":"json_object"}`},
		"text.format":     {`"text":{"format":{"type":"json_schema"}}`},
		"": {
			`"tools":[]`, `"tools":[ ]`, `"tools":null`, `"functions":[]`, `"tool_choice":"auto"`,
			`"tool_choice":"\u0061uto"`, `"tool_choice":""`, `"tool_choice":null`,
			`"n":1`, `"n":1.0`, `"n":0`, `"n":-2`, `"n":null`, `"n":"2"`, `"n":[2]`, `"n":2,"n":1`,
			`"response_format":{"type":"text"}`,
			`"response_format":{ "\u0074ype" : "te\u0078t" }`, `"response_format":{}`,
			`"response_format":null`, `"text":{"verbosity":"low","format":{"type":"text"}}`,
			`"text":{"verbosity":"low"}`, `"text":"x"`, `"background":false`, `"background":null`,
			`"tools":[1],"tools":null`, `"x":{"tools":[1],"n":2}`, `"Tools":[1]`,
			`"hermes_notification_category":"result"`, `"hermes_notification_category":" diagnostic"`, `"hermes_notification_category":"Diagnostic"`,
			`"hermes_notification_category":true`, `"hermes_notification_category":["diagnostic"]`,
			`"hermes_notification_category":"diagnostic","hermes_notification_category":null`, `"metadata":{"hermes_notification_category":"diagnostic"}`,
		},
		"diagnostic": {
			`"hermes_notification_category":"diagnostic"`, `"hermes_notification_c\u0061tegory" : "\u0064iagnostic"`,
			`"` + escaped("hermes_notification_category") + `":"` + escaped("diagnostic") + `"`,
			`"hermes_notification_category":"result","hermes_notification_category":"diagnostic"`,
		},
		"background n tool_choice tools": {`"t\u006fols":[1],"\u006e":2,"tool\u005fchoice":"required","b\u0061ckground":true`},
		"background functions n response_format tool_choice tools": {
			`"tools":[1],"tool_choice":"none","functions":[1],"n":3,"response_format":{"type":"json_object"},"background":true`,
		},
	} {
		for _, members := range requests {
			for place, body := range requestsWith(members) {
				_, got := Heal([]byte(body), nil, nil)
				names := got.Ignored.Names()
				if got.Diagnostic {
					names = append(names, "diagnostic")
				}
				equal(t, strings.Join(names, " "), want, members+", "+place)
				equal(t, got.Form, AnswerStream, members+", "+place)
			}
		}
	}
	for _, body := range []string{``, `[{"tools":[1]}]`, `{"tools":[1]`, `{"tools":[1]}}`, `{"tools":[1]} x`, `{"tools":[1],"a":"x`} { // of what is no object nothing is known
		_, got := Heal([]byte(body), nil, nil)
		equal(t, got, Healed{}, body)
	}
}

// A request asks for a stream in the background by two members.
func TestAsksForBackground(t *testing.T) {
	for body, want := range map[string]bool{
		`{"background":true,"stream":true}`:                    true,
		`{"stream":true,"tools":[1],"background":true}`:        true,
		`{"background":true,"stream":true,"background":false}`: false,
		`{"background":true,"stream":false}`:                   false,
		`{"background":true}`:                                  false,
		`{"stream":true}`:                                      false,
		`{"stream":true,"tools":[1]}`:                          false,
		`{"background":true,"stream":true`:                     false,
		``:                                                     false,
	} {
		equal(t, AsksForBackground([]byte(body)), want, body)
		equal(t, Ignored(Background).Names()[0], "background", "the name")
	}
}

// requestsWith returns requests with the members, each for another way on which a request is read.
func requestsWith(members string) map[string]string {
	message := func(role, content string) string { return `{"role":"` + role + `","content":"` + content + `"}` }
	short := `"messages":[` + message("user", "hi") + `]`
	long := `"messages":[` + strings.Repeat(message("user", strings.Repeat("x", 1000))+",", 9) + message("user", "hi") + `]`
	marked := `"messages":[` + message("assistant", "a\\n`💻 ls`\\nb") + `,` + message("user", "hi") + `]`
	surrogate := `"messages":[` + message("assistant", "a\\n`💻 l\\ud800`\\nb") + `]`
	cards := `"messages":[` + message("user", "hi") +
		`,{"role":"assistant","content":"a","tool_calls":[{"id":"1","type":"function","function":{"name":"terminal","arguments":"{\"label\": \"ls\"}"}}]}` +
		`,{"role":"tool","tool_call_id":"1","content":"completed"},` + message("assistant", "b") + `]`
	return map[string]string{
		"alone": `{"stream":true,` + members + `}`, "before": `{` + members + `,"stream":true,` + short + `}`,
		"after":        `{"stream":true,` + short + `,` + members + `}`,
		"long, before": `{"stream":true,` + members + `,` + long + `}`, "long, after": `{"stream":true,` + long + `,` + members + `}`,
		"marked": `{"stream":true,` + marked + `,` + members + `}`, "surrogate": `{"stream":true,` + members + `,` + surrogate + `}`,
		"cards": `{"stream":true,` + members + `,` + cards + `}`,
	}
}

// escaped returns the text with an escape for each of its letters.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.WriteString(`\u00`)
		b.WriteByte("0123456789abcdef"[c>>4])
		b.WriteByte("0123456789abcdef"[c&15])
	}
	return b.String()
}

// The names are a fixed list: no client adds one.
func TestNamesOfIgnored(t *testing.T) {
	if names := (^Ignored(0)).Names(); !slices.IsSorted(names) || len(names) != 7 {
		t.Errorf("%q", names)
	}
}
