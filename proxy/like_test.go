package proxy_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// alike are frames that differ in nothing but their text: most of them take the
// shortest way through the proxy.
func alike(n int) (frames []string) {
	for i := range n {
		frames = append(frames, text("word "+string(rune('a'+i%26))))
	}
	return frames
}

// Frames that are alike are recorded and told of as all others, and leave one by one.
func TestFramesThatAreAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tp, d := new(tape), new(diary)
		x := begin(t, recorded(tp), observed(d))
		x.stream()
		in := append([]string{role}, alike(8)...)
		for _, f := range in {
			advance(time.Second)
			x.write(f)
		}
		x.write(stop, done)
		x.ret(nil).wantSwallowed(t)
		all := strings.Join(in, "") + stop + done
		x.wantBody(all)
		if tp.bytes != all || tp.ended != 1 {
			t.Errorf("recorded %q, want %q", tp.bytes, all)
		}
		want := []string{"begin /v1/chat/completions chat"}
		for i := range in {
			want = append(want, `chunks of "chatcmpl-1" after `+(time.Duration(i+1)*time.Second).String())
			want[len(want)-1] = string(rune('1'+i)) + " " + want[len(want)-1]
		}
		d.want(t, append(want, `10 chunks of "chatcmpl-1" after 9s`, `10 chunks of "chatcmpl-1" after 9s`, "end ok")...)
		if res := x.result(); res.Chunks != 10 || res.Frames != 11 {
			t.Errorf("%d chunks, %d frames", res.Chunks, res.Frames)
		}
	})
}

// A client that takes no more of them is noticed at once.
func TestWriteErrorOfAFrameThatIsAlike(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func(x *exchange)
	}{
		{"write", func(x *exchange) { x.rec.onWrite = func([]byte) (int, error) { return 3, io.ErrShortWrite } }},
		{"flush", func(x *exchange) { x.rec.onFlush = func() error { return io.ErrShortWrite } }},
	} {
		x := begin(t)
		x.stream()
		x.write(append([]string{role}, alike(5)...)...)
		c.fails(x)
		if _, err := x.tryWrite(text("more")); err != io.ErrShortWrite { //nolint:errorlint // the very error
			t.Errorf("%s: Write says %v", c.name, err)
		}
		x.do(func() {
			select {
			case <-x.up.Context().Done():
			default:
				t.Errorf("%s: upstream's request goes on", c.name)
			}
		})
		x.abort()
	}
}

// They put the deadlines off as all others do, and keepalives, too.
func TestFramesThatAreAlikeAndTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) {
			o.IdleTimeout, o.StallTimeout, o.Keepalive = 10*time.Second, 10*time.Second, 3*time.Second
		}))
		x.stream()
		x.write(role)
		for _, f := range alike(12) {
			advance(2 * time.Second) // longer than each of them in all
			x.write(f)
		}
		body := role + strings.Join(alike(12), "")
		x.wantBody(body)
		advance(3 * time.Second)
		x.wantBody(body + beatForm)
		advance(7 * time.Second)
		if got := x.rec.body.String(); !strings.Contains(got, rewrite.CodeTimeout) {
			t.Errorf("10 s behind the last frame the stream goes on:\n%s", got[len(body):])
		}
		x.abort()
	})
}
