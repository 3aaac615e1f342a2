package jsonspan

import (
	"strings"
	"testing"
)

func TestMembersAreFoundByPosition(t *testing.T) {
	for object, want := range map[string]string{
		`{}`:                                 "",
		`{ }`:                                "",
		`{"a":1}`:                            `a=1`,
		`{ "a" : 1 , "b" : "x" }`:            `a=1 b="x"`,
		"{\t\"a\"\r\n:\n[1, {\"b\": 2}]}":    `a=[1, {"b": 2}]`,
		`{"a": "}\"]{", "b\"": null}`:        `a="}\"]{" b\"=null`,
		`{"a": {"b": {"c": []}}, "d": -1e5}`: `a={"b": {"c": []}} d=-1e5`,
		`{"a": "\\", "b": true}`:             `a="\\" b=true`,
		`{"": 0}`:                            `=0`,
		`{"a": 1, "a": 2}`:                   `a=1 a=2`,
		`{"💻": "\ud83d\udcbb"}`:              `💻="\ud83d\udcbb"`,
		`{"a":[],"b":{},"c":""}`:             `a=[] b={} c=""`,
	} {
		var got []string
		b := []byte(object)
		for key, value := range Members(b, Span{From: 0, To: len(b)}) {
			got = append(got, string(key.Of(b))+"="+string(value.Of(b)))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", object, s, want)
		}
	}
}

func TestSearchEndsWhereTheCallerStops(t *testing.T) {
	object, array := []byte(`{"a":1,"b":2}`), []byte(`[1,2]`)
	n := 0
	for range Members(object, Span{From: 0, To: len(object)}) {
		n++
		break
	}
	for range Elements(array, Span{From: 0, To: len(array)}) {
		n++
		break
	}
	if n != 2 {
		t.Errorf("%d members and elements", n)
	}
}

func TestBrokenJSONEndsTheSearch(t *testing.T) {
	for _, b := range []string{``, `"`, `"a`, `"a"`, `"a":`, `"a": "x`, `"a": [1`, `"a": {"b": 1`, `"a": "x\`, `"a":}`, `"a":,`, `:`, `\`, `"a": [}`} {
		for i := range len(b) + 1 {
			object, array := []byte("{"+b[i:]), []byte("["+b[i:])
			for range Members(object, Span{From: 0, To: len(object)}) { // must not panic
			}
			for range Elements(array, Span{From: 0, To: len(array)}) {
			}
			r := Reader{Data: []byte(b), Pos: i}
			r.Skip()
		}
		object := []byte("{" + b)
		for range Members(object, Span{From: 0, To: len(object)}) {
			if !strings.HasPrefix(b, `"a": [}`) {
				t.Errorf("a member in %q", b)
			}
		}
	}
}
