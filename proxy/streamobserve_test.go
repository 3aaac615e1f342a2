package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// tape is a recording in memory.
type tape struct {
	deaf
	bytes   string
	ended   int
	cause   rewrite.Cause
	outcome string
}

func (t *tape) Begin(_ *http.Request, b proxy.Begun) proxy.AnswerObserver {
	if !b.Raw || b.Status != http.StatusOK || b.Header.Get("Content-Type") != "text/event-stream" {
		return deaf{}
	}
	return t
}

func (t *tape) Raw(b []byte) { t.bytes += string(b) }

func (t *tape) End(_ *http.Request, res proxy.Result) {
	t.ended++
	t.cause, t.outcome = res.Cause, res.Outcome
}

// recorded has streams recorded on a tape.
func recorded(t *tape) setting {
	return option(func(o *proxy.Options) {
		o.ObserveRaw = true
		observe(o, t)
	})
}

// TestStreamIsRecordedAsItCame, whatever the client gets.
func TestStreamIsRecordedAsItCame(t *testing.T) {
	tp := new(tape)
	x := begin(t, recorded(tp))
	x.stream()
	in := role + text("\\n`💻 ls`\\n") + "data: {torn"
	x.write(in[:5], in[5:100], in[100:])
	x.abort().wantSwallowed(t)
	if tp.bytes != in || tp.ended != 1 || tp.cause != rewrite.CauseAborted || tp.outcome != "upstream_aborted" {
		t.Errorf("recorded %+v, want %q", tp, in)
	}
}

// TestStreamThatBecomesOursIsRecorded with what has come before; one that does
// not is never recorded.
func TestStreamThatBecomesOursIsRecorded(t *testing.T) {
	tp := new(tape)
	x := begin(t, recorded(tp), path("/elsewhere"))
	x.stream()
	x.write("data: x\n\n", role[:20])
	if tp.bytes != "" {
		t.Errorf("recorded %q of what may be anything", tp.bytes)
	}
	x.write(role[20:])
	x.ret(nil)
	if tp.bytes != "data: x\n\n"+role || tp.ended != 1 || tp.cause != rewrite.CauseEOF {
		t.Errorf("recorded %+v", tp)
	}

	for name, in := range map[string]string{"never": "data: x\n\n", "too late": "data: " + strings.Repeat("x", 70_000) + "\n\n" + role} {
		tp = new(tape)
		x = begin(t, recorded(tp), path("/elsewhere"))
		x.stream()
		half := len(in) - len(role)
		x.write(in[:max(half, 1)], in[max(half, 1):])
		x.ret(nil)
		if tp.bytes != "" || tp.ended != 0 {
			t.Errorf("%s: recorded %d bytes", name, len(tp.bytes))
		}
	}
}

func TestWhatIsNoStreamIsNotRecorded(t *testing.T) {
	tp := new(tape)
	x := begin(t, recorded(tp))
	x.answerWhole(completion("Hello", someTokens))
	x.write(completion("Hello", someTokens))
	x.ret(nil)
	if tp.ended != 0 || tp.bytes != "" {
		t.Errorf("recorded %+v", tp)
	}
}
