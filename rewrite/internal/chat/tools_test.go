package chat

import (
	"fmt"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
)

func TestOpenToolsAreBounded(t *testing.T) {
	for _, c := range []struct {
		size, open int
	}{
		{0, contract.MaxOpenTools},
		{contract.MaxOpenBytes / contract.MaxOpenTools, contract.MaxOpenTools},
		{1 << 10, contract.MaxOpenBytes >> 10},
	} {
		l := tools{size: func(*encode.Tool) int { return c.size }}
		ended := 0
		for i := range 400 {
			start := encode.Transition{Tool: encode.Tool{Name: `"t"`, ID: fmt.Sprint(100 + i)}}
			ended += len(l.start(start, time.Time{}, time.Hour)) - 1
		}
		if len(l.open) != c.open || ended != 400-c.open || l.open[0].ID != fmt.Sprint(500-c.open) {
			t.Errorf("%+v: %d are open, %d have ended", c, len(l.open), ended)
		}
	}
}
