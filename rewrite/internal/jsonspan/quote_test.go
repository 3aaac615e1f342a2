package jsonspan

import (
	"encoding/json"
	"testing"
)

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
