package rewrite

import (
	"strings"
	"testing"
)

// A frame of very many secrets takes a few times its length, wherever they stand: an edit
// of each would take more.
func TestManySecretsTakeLittleMemory(t *testing.T) {
	if poolForgets {
		t.Skip("nothing can be said of allocations")
	}
	const secret, n = "sk-abc ", 100_000
	for name, c := range map[string]struct {
		p     Params
		times uint64 // the length of the frame
		in    func(secret string) string
	}{
		"a message that is no JSON": {chatParams, 7, func(s string) string { return role() + named("error", strings.Repeat(s, n)) }},
		"errors": {chatParams, 3, func(s string) string {
			return role() + "data: {" + strings.Repeat(`"error":"`+s+`",`, n) + `"x":1}` + "\n\n"
		}},
		"an error of a run": {Params{RunID: "run_1"}, 7, func(s string) string {
			return `data: {"run_id":"run_1","event":"x","error":"` + strings.Repeat(s, n) + "\"}\n\n"
		}},
	} {
		took := func(in string) uint64 {
			s := New(&Options{MaxFrame: 8 << 20}, c.p)
			out := make([]byte, 0, 4*len(in)+1<<20)
			before := allocated()
			out = s.Feed(out, []byte(in), epoch)
			if strings.Contains(string(out), "sk-") {
				t.Errorf("%s: a secret is left", name)
			}
			return allocated() - before
		}
		in := c.in(secret)
		if got, least := took(in), took(c.in("xx-abc ")); got > least+c.times*uint64(len(in)) {
			t.Errorf("%s: %d bytes take %d, without secrets %d", name, len(in), got, least)
		}
	}
}

// An error that is none says nothing: what else the frame has stays, however much it is.
func TestManySecretsBesideAnErrorThatIsNull(t *testing.T) {
	in := role() + `data: {"error": null, "message": "` + strings.Repeat("sk-abcdef ", 2*maxRedactedEdits) + "\"}\n\n" + text("x") + stop()
	same(t, repair(in), in, "bytes")
}
