package chat

import "testing"

func TestIDsOfToolsCountThem(t *testing.T) {
	m := toolHead{}
	for n, want := range map[int]string{1: "0001", 9: "0009", 10: "0010", 256: "0256", 999: "0999", 1000: "1000", 12345: "12345"} {
		if got := string(m.appendCallID(nil, n)); got != `"call_`+string(m.calls[:])+want+`"` || len(got) > len(`""`)+40 {
			t.Errorf("%d: %s", n, got)
		}
	}
}
