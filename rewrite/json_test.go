package rewrite

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
		for key, value := range membersOf(b, span{0, len(b)}) {
			got = append(got, string(key.of(b))+"="+string(value.of(b)))
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
			for range membersOf(object, span{0, len(object)}) { // must not panic
			}
			for range elementsOf(array, span{0, len(array)}) {
			}
			r := reader{b: []byte(b), i: i}
			r.pass()
		}
		object := []byte("{" + b)
		for range membersOf(object, span{0, len(object)}) {
			if !strings.HasPrefix(b, `"a": [}`) {
				t.Errorf("a member in %q", b)
			}
		}
	}
}

func TestValidJSON(t *testing.T) {
	for data, want := range map[string]bool{
		`{}`: true, ` {"a": [1, 2.5e-3, "x\u00e9", null, true]} `: true, `"x"`: true, `7`: true,
		``: false, `{`: false, `{"a"}`: false, `{"a": 1,}`: false, `{"a": nul}`: false, `{"a": 1}}`: false, `{'a': 1}`: false, `{"a": "` + "\n" + `"}`: false, `{"a": "\x"}`: false,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth):     true,
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1): false,
		strings.Repeat("[", 1<<20):                                        false,
		`"` + strings.Repeat("[", maxDepth*2) + `"`:                       true,
		`[` + strings.Repeat("[],", maxDepth*2) + `[]]`:                   true,
	} {
		if got := validJSON([]byte(data)); got != want {
			t.Errorf("%.60q: %v, want %v", data, got, want)
		}
	}
}

func TestTheLastOfMembersThatStandTwiceCounts(t *testing.T) {
	in := `data: {` + envelopeOfTests + `, "choices": [], "choices": [{"index": 0, "delta": {"content": "x"}, "delta": {"content": "lost", "content": "a\n` + "`💻 ls`" + `\nb"}}]}` + "\n\n"
	out := repair(in + stop())
	if want := strings.Replace(in, "`💻 ls`"+`\n`, "", 1); !strings.HasPrefix(out, want) {
		t.Errorf("%s", out)
	}
}

func TestChunkWithoutTheHeadOfTheOneBefore(t *testing.T) {
	// The beginning of a chunk is remembered; others must not be taken for it.
	for _, second := range []string{
		`data: {` + envelopeOfTests + `, "choices": [{"index": 1, "delta": {"content": "\n` + "`💻 ls`" + `\n"}, "finish_reason": "stop"}]}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": "x"}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": [], "object": "other"}` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": ` + "\n\n",
		`data: {` + envelopeOfTests + `, "choices": [{"index": 0, "delta": {"content": "x` + "\n\n",
	} {
		in := role() + text("a") + second + text("b") + stop()
		same(t, repair(in), in, "bytes")
	}
	// An id that changes is followed.
	out := repair(role() + strings.ReplaceAll(text("a"), "chatcmpl-1", "chatcmpl-2"))
	if v := look(t, out); *v.finish.ID != "chatcmpl-2" {
		t.Errorf("the error finish has the id %s", *v.finish.ID)
	}
}
