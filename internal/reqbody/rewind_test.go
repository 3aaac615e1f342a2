package reqbody

import (
	"io"
	"strings"
	"testing"
)

// TestRewind: a body that came whole is sent again, healed, however much of it was read, until the
// answer is decided.
func TestRewind(t *testing.T) {
	n := int64(len(polluted))
	for name, read := range map[string]func(io.ReadCloser){
		"nothing was read": func(io.ReadCloser) {},
		"a part":           func(b io.ReadCloser) { _, _ = b.Read(make([]byte, 9)) },
		"all":              func(b io.ReadCloser) { _, _ = io.Copy(io.Discard, b) },
		"closed":           func(b io.ReadCloser) { _ = b.Close() },
	} {
		_, up, b, _ := prepared(strings.NewReader(polluted), n, Plan{Heal: true, Limit: n, Again: true})
		for range 3 {
			first := up.Body
			read(first)
			if !b.MayRewind() || !b.Rewind(up) {
				t.Fatalf("%s: no rewind", name)
			}
			if got := all(t, up.Body); got != healed {
				t.Errorf("%s: upstream gets %q again", name, got)
			}
			_ = first.Close() // late, by the transport of the try before
			b.Rewind(up)
		}
		b.Decided()
		if b.MayRewind() || b.Rewind(up) {
			t.Errorf("%s: rewound after the answer", name)
		}
	}
}

// TestNoRewind of a body that has not come whole, or was not to be sent again.
func TestNoRewind(t *testing.T) {
	n := int64(len(polluted))
	for name, plan := range map[string]Plan{
		"not asked for": {Heal: true, Limit: n}, "too large": {Heal: true, Limit: n - 1, Again: true}, "not read": {Limit: n, Again: true},
	} {
		_, up, b, _ := prepared(strings.NewReader(polluted), n, plan)
		if b.MayRewind() || b.Rewind(up) {
			t.Errorf("%s: rewound", name)
		}
		if got := all(t, up.Body); got != polluted && got != healed {
			t.Errorf("%s: upstream gets %q", name, got)
		}
	}
}

// TestRewoundRequestIsGivenBack: what an error route gets after a try that has read nothing is what the
// client has sent.
func TestRewoundRequestIsGivenBack(t *testing.T) {
	n := int64(len(polluted))
	r, up, b, _ := prepared(strings.NewReader(polluted), n, Plan{Heal: true, Limit: n, Again: true})
	_ = all(t, up.Body)
	b.Rewind(up)
	b.GiveBack(r, up)
	if got := all(t, r.Body); got != polluted {
		t.Errorf("the client's request has %q", got)
	}
}
