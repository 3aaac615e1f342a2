package encode

import (
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
)

func TestIDsOfToolsCountThem(t *testing.T) {
	w := NewWriter(nil, &contract.Options{}, &contract.Params{ID: func() string { return "chatcmpl-1" }})
	prefix := w.CallID("", 1)[:len(`"call_`)+20]
	for n, want := range map[int]string{1: "0001", 9: "0009", 10: "0010", 256: "0256", 999: "0999", 1000: "1000", 12345: "12345"} {
		if got := w.CallID("", n); got != prefix+want+`"` || len(got) > len(`""`)+40 {
			t.Errorf("%d: %s", n, got)
		}
	}
}
