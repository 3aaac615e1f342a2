package jsonspan

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// checkText checks that inner, the inside of a JSON string, is read as the standard library reads it, lone surrogates
// included.
func checkText(t *testing.T, inner string) {
	t.Helper()
	var want string
	if err := json.Unmarshal([]byte(`"`+inner+`"`), &want); err != nil {
		t.Fatal(err)
	}
	if got := string(AppendText(nil, []byte(inner))); got != want {
		t.Fatalf("%s is %+q, want %+q", inner, got, want)
	}
	if got := HasText([]byte(inner)); got != (strings.TrimSpace(want) != "") {
		t.Fatalf("%s has text: %v", inner, got)
	}
}

func TestTextIsUnescapedAsTheStandardSays(t *testing.T) {
	for _, inner := range []string{
		``, `abc`, `é💻`, `\n\t\r\b\f\"\\\/`, `\u0041\u00e9\u20ac`, `\ud83d\udcbb`, `\uD83D\uDCBB x`, `\u270d\ufe0f`, `a\u0000b`,
		`\ud83d`, `\udcbb`, `\ud83dx`, `\ud83d\n`, `\ud83d\u0041`, `\ud83d\ud83d\udcbb`,
		` `, "\u2028\u3000", `\u00a0\u2003\u0085`, `\n\u000B\f\u000D`, `\n.`, `\u200b`, `\ufe0f`, `\u001f`, "\u007f", `\u00a1`, // white space, and what is none
	} {
		checkText(t, inner)
	}
	pieces := []string{`\ud83d`, `\uDCBB`, `\udcbb`, "u", "x", `\n`, "dcbb", "udcbb", `\\`, `\"`, `\/`, `\b`, `\f`, `\r`, `\t`, `\u0041`, `\u00E9`, `\uffff`, `\ue000`, `\ud7ff`, `\udbff`, `\udfff`, "é", "💻", `\u0000`, "\ufffd", " ", `\u00a0`, "\u2003"}
	r := rand.New(rand.NewPCG(7, 8))
	for range 20000 {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		checkText(t, b.String())
	}
}

func TestBrokenEscapesDoNotPanic(t *testing.T) {
	for _, inner := range []string{`\`, `\u`, `\u1`, `\u12`, `\u123`, `\uzzzz`, `\ud83d\`, `\ud83d\u`, `\ud83d\udc`, "\xff", "\xf0\x9f", `\x`} {
		AppendText(nil, []byte(inner)) // which also ends
	}
}

func TestPlain(t *testing.T) {
	for _, spellings := range [][]string{
		{`"call_1"`, `"c\u0061ll_1"`, `"\u0063all\u005F1"`}, {`"é/💻"`, `"\u00e9\/\ud83d\udcbb"`, `"\u00E9/\uD83D\uDCBB"`},
		{`"\"\\\b\f\n\r\t"`, `"\u0022\u005c\u0008\u000c\u000a\u000d\u0009"`}, {`"\u001f"`, `"\u001F"`}, {"\"\u007f\u2028\"", `"\u007f\u2028"`},
		{`"\ud83da"`, `"\ud83d\u0061"`}, {"\"\xffa\"", "\"\xff\\u0061\""}, {`"\ufffd"`}, {`""`}, {``},
	} {
		for _, raw := range spellings {
			plain := string(Plain([]byte(raw)))
			if plain != spellings[0] {
				t.Errorf("%s becomes %s, want %s", raw, plain, spellings[0])
			}
			var got, want string
			if raw != "" && (json.Unmarshal([]byte(plain), &got) != nil || json.Unmarshal([]byte(raw), &want) != nil || got != want) {
				t.Errorf("%s is %q, want %q", plain, got, want)
			}
		}
	}
}

// TestQuoteIsWhatTheEncoderWrites, for each character alone and in the middle of a text, and for bytes that are
// none.
func TestQuoteIsWhatTheEncoderWrites(t *testing.T) {
	check := func(text string) {
		t.Helper()
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got, want := string(Quote(text)), strings.TrimSuffix(b.String(), "\n"); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	for r := rune(0); r <= 0x1f9ff; r++ {
		check(string(r))
		check("a" + string(r) + "💻")
	}
	for _, text := range []string{"", "a", "\xff", "a\xc3", "\xed\xa0\xbd", "a\ufffdb", "\U0010ffff"} {
		check(text)
	}
}
