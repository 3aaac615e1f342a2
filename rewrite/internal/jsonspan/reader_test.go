package jsonspan

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
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
		`{"a":1, "b":"x\u00`:                 `a=1 b="x\u00`, // the last value is cut
		`{"a":1, "b":[{"c":"}"`:              `a=1 b=[{"c":"}"`,
		`{"a":1, "b":tru`:                    `a=1 b=tru`,
		`{"a":1, "b":`:                       `a=1`,
		`{"a":1, "b`:                         `a=1`,
		`{"a":1`:                             `a=1`,
		`{`:                                  "",
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
			if strings.HasSuffix(b, ":}") || strings.HasSuffix(b, ":,") {
				t.Errorf("a member in %q", b)
			}
		}
	}
}

// python matches strings, and the values that Python's json.dumps writes and JSON does not have.
var python = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|NaN|-?Infinity`)

// standard returns b with null in the place of those values.
func standard(b []byte) []byte {
	return python.ReplaceAllFunc(b, func(v []byte) []byte {
		if v[0] == '"' {
			return v
		}
		return []byte("null")
	})
}

// checkValid compares Valid with the standard library's, which allows deeper
// nesting and does not know Python's values.
func checkValid(t *testing.T, b []byte) {
	t.Helper()
	finite := Finite(b) // also of what is not valid
	if Valid(b) && string(finite) != string(standard(b)) {
		t.Fatalf("%q: finite is %q", b, finite)
	}
	if got, want := Valid(b), json.Valid(standard(b)); got != want && strings.Count(string(b), "{")+strings.Count(string(b), "[") <= MaxDepth {
		t.Fatalf("%q: valid is %v, want %v", b, got, want)
	}
}

var jsonSeeds = []string{
	`{"a": [1, -2.5e+3, "x\u00e9\n", true, false, null, {}, []], "b": {"c": "\ud83d"}}`, ` 0 `, `-0`, `01`, `1.`, `.5`, `1e`, `1e+`, `-`, `+1`, `1.0E-2`, `00`, `"\x"`, `"a`, `"`, `""`, `tru`, `nulll`,
	`[]`, `[ ]`, `{ }`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{1:2}`, `[1}`, `{"a":1]`, `[[]`, `]`, `}`, ``, ` `, `1 2`, `{"a":1}{}`, "\"\n\"", "\"\x7f\"", "\v1", "[1\f]", `["a" "b"]`, `{"a" 1}`, `[1:2]`,
	`[NaN, Infinity, -Infinity, {"NaN": NaN}]`, `NaN`, `-NaN`, `nan`, `NaNs`, `1NaN`, `NaN1`, `- Infinity`, `+Infinity`, `Infinit`, `["NaN \" NaN", NaN]`, `[NaN,Infinity,-Infinity,NaN]`, `"NaN`, `{"NaN": "NaN \" Infinity", "a":-Infinity}`, `{NaN: 1}`,
}

// nearJSON are the bytes that turn JSON into something like it.
const nearJSON = `{}[]",:0123-+.eEtruefalsnNaIity\ud ` + "\n\t\x00\x80"

func TestValidIsWhatTheStandardSays(t *testing.T) {
	for _, s := range jsonSeeds {
		checkValid(t, []byte(s))
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 300000 { // a byte or two of something well formed, changed
		b := []byte(jsonSeeds[r.IntN(len(jsonSeeds))])
		for range 1 + r.IntN(3) {
			if len(b) == 0 {
				break
			}
			i := r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b[i] = nearJSON[r.IntN(len(nearJSON))]
			case 1:
				b = append(b[:i], b[i+1:]...)
			default:
				b = append(b[:i], append([]byte{nearJSON[r.IntN(len(nearJSON))]}, b[i:]...)...)
			}
		}
		checkValid(t, b)
	}
}

// Any byte counts, wherever it is in a string.
func TestValidReadsEachByteOfAString(t *testing.T) {
	const text = `"aaaaaaaaaaaaaaaaaaa"`
	for i := 1; i < len(text)-1; i++ {
		for c := range 256 {
			b := []byte(text)
			b[i] = byte(c)
			checkValid(t, b)
			b[i+1] = 'n' // what follows a backslash
			checkValid(t, b)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkValid(t, b) })
}

func TestValidIsNestedNoMoreThanMaxDepth(t *testing.T) {
	for _, pair := range []string{"[]", "{}"} {
		unit := map[string]string{"[]": "[", "{}": `{"a":`}[pair]
		for depth, want := range map[int]bool{MaxDepth: true, MaxDepth + 1: false, 1 << 20: false} {
			in := strings.Repeat(unit, depth-1) + pair + strings.Repeat(pair[1:], depth-1)
			if got := Valid([]byte(in)); got != want {
				t.Errorf("%d times %s: %v", depth, pair, got)
			}
		}
	}
}
