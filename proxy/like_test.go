package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
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
	tp, d := new(tape), new(diary)
	x := begin(t, recorded(tp), observed(d))
	x.stream()
	in := append([]string{role}, alike(8)...)
	for _, f := range in {
		x.clock.Advance(time.Second)
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
	x := begin(t, option(func(o *proxy.Options) {
		o.IdleTimeout, o.StallTimeout, o.Keepalive = 10*time.Second, 10*time.Second, 3*time.Second
	}))
	x.stream()
	x.write(role)
	for _, f := range alike(12) {
		x.clock.Advance(2 * time.Second) // longer than each of them in all
		x.write(f)
	}
	body := role + strings.Join(alike(12), "")
	x.wantBody(body)
	x.clock.Advance(3 * time.Second)
	x.wantBody(body + beatForm)
	x.clock.Advance(7 * time.Second)
	if got := x.rec.body.String(); !strings.Contains(got, rewrite.CodeTimeout) {
		t.Errorf("10 s behind the last frame the stream goes on:\n%s", got[len(body):])
	}
	x.abort()
}

// A stream is recorded from its first byte on if up to 64 KiB of it have come before it
// is known, to the byte.
func TestWhatIsRecordedOfAnUnknownStream(t *testing.T) {
	for more, kept := range map[int]bool{0: true, 1: false} {
		tp := new(tape)
		x := begin(t, recorded(tp), path("/elsewhere"))
		x.stream()
		early := ": " + strings.Repeat("c", 64<<10-4+more) + "\n\n"
		x.write(early)
		x.write(role, stop, done)
		x.ret(nil)
		if tp.ended == 1 != kept || kept && tp.bytes != early+role+stop+done {
			t.Errorf("%d bytes before: ended %d, %d bytes", len(early), tp.ended, len(tp.bytes))
		}
	}
}

// A header that nobody has sent is no reason to record, or to tell of, anything.
func TestNobodyIsToldOfWhatIsNoStream(t *testing.T) {
	tp, d := new(tape), new(diary)
	x := begin(t, recorded(tp), observed(d), method(http.MethodGet), path("/v1/models"))
	x.do(func() {
		x.w.Header().Set("Content-Type", "application/json")
		_, _ = x.w.Write([]byte("{}"))
	})
	x.ret(nil).wantSwallowed(t)
	d.want(t)
	if tp.ended != 0 || tp.bytes != "" {
		t.Errorf("recorded %q", tp.bytes)
	}
}

// 101 is the answer, not a word before it: what comes behind it is no stream, and no
// timeout ends it.
func TestSwitchingProtocolsIsTheAnswer(t *testing.T) {
	for _, p := range []string{chatPath, otherPath} {
		x := begin(t, path(p), option(func(o *proxy.Options) { o.IdleTimeout, o.Keepalive = time.Second, time.Second }))
		x.do(func() {
			x.w.Header().Set("Content-Type", "text/event-stream")
			x.w.WriteHeader(http.StatusSwitchingProtocols)
			x.w.WriteHeader(http.StatusOK)
		})
		x.wantLog("header 101")
		x.clock.Advance(time.Minute)
		x.write("raw")
		x.ret(nil).wantSwallowed(t)
		x.wantLog("header 101", "write raw")
	}
}

// To read nothing of a request's body is no end of it.
func TestReadingNothingOfARequest(t *testing.T) {
	for _, body := range []string{clean, polluted, "[" + clean, ""} {
		x := begin(t, func(_ *proxy.Options, r *http.Request, _ *recorder) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		})
		x.do(func() {
			var all []byte
			for {
				if n, err := x.up.Body.Read(nil); len(all) < int(x.up.ContentLength) && (n != 0 || err != nil) {
					t.Errorf("behind %d bytes Read(nil) = %d, %v", len(all), n, err)
					return
				}
				b := make([]byte, 7)
				n, err := x.up.Body.Read(b)
				if all = append(all, b[:n]...); err != nil {
					break
				}
			}
			if len(all) != int(x.up.ContentLength) {
				t.Errorf("%d bytes of %d", len(all), x.up.ContentLength)
			}
		})
		x.ret(nil)
	}
}
