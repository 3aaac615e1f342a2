package rewrite

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzHistory: a content is healed as the contract says, wherever it stands; any
// body at all leaves as it came or as well-formed JSON with fewer bytes, and a
// second time through changes nothing.
func FuzzHistory(f *testing.F) {
	f.Add(`{"messages":[{"role":"assistant","content":"`+"`💻 ls`"+`\nx"}]}`, []byte{14, 0, 4, 0, 0, 14})
	f.Add(`{"messages":[{"content":[{"text":"\u0060\ud83d\udcbb a\u0060","type":"text"}],"role":"assistant"}],"stream":true}`, []byte{0, 4, 0, 1, 4})
	f.Add(" {\"messages\" : [{}, 1]}\n{}", []byte{11, 0, 4, 0, 11, 0, 5, 2, 14})
	f.Add("Sure\n`💻 ls -la`\ndone", []byte{26, 26, 5, 0, 0, 26, 2, 14})
	f.Add("\\\"`", []byte{4, 0, 4, 0})
	fuzzSeeds(f, func(body string) { f.Add(look(f, body).content, []byte{}) })
	f.Fuzz(func(t *testing.T, raw string, script []byte) {
		out, req := heal(t, raw)
		if req.Changed() && (!json.Valid([]byte(out)) || !json.Valid([]byte(raw)) || len(out) >= len(raw)) {
			t.Errorf("%+v out of %q make %q", req, raw, out)
		}
		if !utf8.ValidString(raw) || len(raw)+len(script) > 1000 {
			return
		}
		content := raw
		for _, b := range script {
			content += contentTokens[int(b)%len(contentTokens)]
		}
		if strings.ContainsRune(content, utf8.RuneError) {
			return
		}
		want, _ := withoutMarkers(content)
		checkHealed(t, content, want)
	})
}

// FuzzCardsInHistories: an answer with cards becomes one message, among messages of every
// other kind, which stay as they are.
func FuzzCardsInHistories(f *testing.F) {
	f.Add([]byte{0, 1, 3, 2, 1, 4, 2, 2, 6, 0})
	f.Add([]byte{1, 1, 7, 1, 0, 3, 2, 0, 2, 9, 4, 1, 1, 5, 5, 3, 5, 2, 2, 8})
	f.Add([]byte{3, 3, 1, 1, 14, 4, 0, 1, 1, 11, 5, 1, 1, 3, 2, 3, 1, 26})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 300 {
			return
		}
		var all []historyMessage
		next := func() (b byte) {
			if len(script) > 0 {
				b, script = script[0], script[1:]
			}
			return b
		}
		for len(script) > 0 {
			m := historyMessage{kind: historyKind(next() % 6)}
			for range next() % 4 {
				m.text += contentTokens[int(next())%len(contentTokens)]
			}
			all = append(all, m)
		}
		var in, want []string
		for i, m := range all {
			in = append(in, m.wire(i))
		}
		for _, m := range withoutCards(all) {
			if m.kind == plainAnswer || m.kind == namedAnswer {
				var n int
				if m.text, n = withoutMarkers(m.text); n > 0 && strings.TrimSpace(m.text) == "" {
					continue
				}
			}
			want = append(want, m.wire(0))
		}
		got, _ := heal(t, request(in...))
		same(t, got, request(want...), "bodies")
	})
}
