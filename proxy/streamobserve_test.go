package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// recorded has the observer observe the bytes of streams.
func recorded() setting { return option(func(o *proxy.Options) { o.ObserveRaw = true }) }

// wantRecorded checks what was recorded of a stream, "" for nothing.
func (x *exchange) wantRecorded(want string) {
	x.t.Helper()
	b := x.begun
	if x.raw != want || want != "" && (!b.Raw || b.Status != http.StatusOK || b.Header.Get("Content-Type") != "text/event-stream") {
		x.t.Errorf("recorded %d bytes %.200q of %+v, want %d bytes", len(x.raw), x.raw, b, len(want))
	}
	if want == "" && b.Raw && len(x.ends) > 0 {
		x.t.Error("nothing was recorded where all bytes were to be")
	}
}

// TestStreamIsRecordedAsItCame, whatever the client gets.
func TestStreamIsRecordedAsItCame(t *testing.T) {
	x := begin(t, recorded())
	x.stream()
	in := role + text("\\n`💻 ls`\\n") + "data: {torn"
	x.write(in[:5], in[5:100], in[100:])
	x.abort().wantSwallowed(t)
	x.wantRecorded(in)
	if res := x.result(); res.Cause != rewrite.CauseAborted || res.Outcome != "upstream_aborted" {
		t.Errorf("result %+v", res)
	}
}

// TestStreamThatBecomesOursIsRecorded with what has come before; one that does
// not is never recorded.
func TestStreamThatBecomesOursIsRecorded(t *testing.T) {
	x := begin(t, recorded(), path("/elsewhere"))
	x.stream()
	x.write("data: x\n\n", role[:20])
	x.wantRecorded("")
	x.write(role[20:])
	x.ret(nil)
	x.wantRecorded("data: x\n\n" + role)
	if res := x.result(); res.Cause != rewrite.CauseEOF {
		t.Errorf("result %+v", res)
	}

	for _, in := range map[string]string{"never": "data: x\n\n", "too late": "data: " + strings.Repeat("x", 70_000) + "\n\n" + role} {
		x = begin(t, recorded(), path("/elsewhere"))
		x.stream()
		half := len(in) - len(role)
		x.write(in[:max(half, 1)], in[max(half, 1):])
		x.ret(nil)
		x.wantRecorded("")
	}
}

func TestWhatIsNoStreamIsNotRecorded(t *testing.T) {
	x := begin(t, recorded())
	x.answerWhole(completion("Hello", someTokens))
	x.write(completion("Hello", someTokens))
	x.ret(nil)
	x.wantRecorded("")
}
