package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// A stream is recorded from its first byte on if up to 64 KiB of it have come before it
// is known, to the byte.
func TestWhatIsRecordedOfAnUnknownStream(t *testing.T) {
	for more, kept := range map[int]bool{0: true, 1: false} {
		x := begin(t, recorded(), path("/elsewhere"))
		x.stream()
		early := ": " + strings.Repeat("c", 64<<10-4+more) + "\n\n"
		x.write(early)
		x.write(role, stop, done)
		x.ret(nil)
		if kept {
			x.wantRecorded(early + role + stop + done)
		} else {
			x.wantRecorded("")
		}
	}
}

// A header that nobody has sent is no reason to record, or to tell of, anything.
func TestNobodyIsToldOfWhatIsNoStream(t *testing.T) {
	x := begin(t, recorded(), method(http.MethodGet), path("/v1/models"))
	x.do(func() {
		x.w.Header().Set("Content-Type", "application/json")
		_, _ = x.w.Write([]byte("{}"))
	})
	x.ret(nil).wantSwallowed(t)
	x.wantObserved()
	x.wantRecorded("")
}

// 101 is the answer, not a word before it: what comes behind it is no stream, and no
// timeout ends it.
func TestSwitchingProtocolsIsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, p := range []string{chatPath, otherPath} {
			x := begin(t, path(p), option(func(o *proxy.Options) { o.IdleTimeout, o.Keepalive = time.Second, time.Second }))
			x.do(func() {
				x.w.Header().Set("Content-Type", "text/event-stream")
				x.w.WriteHeader(http.StatusSwitchingProtocols)
				x.w.WriteHeader(http.StatusOK)
			})
			x.wantLog("header 101")
			advance(time.Minute)
			x.write("raw")
			x.ret(nil).wantSwallowed(t)
			x.wantLog("header 101", "write raw")
		}
	})
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

// Where nobody says what an error stands for, it stands for none.
func TestErrorsStandForNoStatusByDefault(t *testing.T) {
	x := begin(t, asking(clean))
	x.do(func() { x.try("lost") })
	x.ret(errTest).wantError(t, errTest)
	if got := x.rec.header.Get("X-Should-Retry"); got != "false" || x.rec.status != 0 {
		t.Errorf("X-Should-Retry %q, status %d", got, x.rec.status)
	}
}

// What ends upstream's request says why, to whoever logs it.
func TestCauseOfTheEndOfUpstreamsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, option(func(o *proxy.Options) { o.IdleTimeout = time.Second }))
		x.stream()
		x.write(role)
		advance(time.Second)
		x.do(func() {
			err := context.Cause(x.up.Context())
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || !strings.Contains(err.Error(), "silent") {
				t.Errorf("upstream's request ends for %v", err)
			}
		})
		x.abort()
	})
}

// Trailers that are not announced need a body without a length, too.
func TestTrailersOfAnAnswerThatNobodyAnnounced(t *testing.T) {
	body := completion("<think>a</think>b", someTokens)
	for _, name := range []string{http.TrailerPrefix + "X-Sum", ""} {
		x := begin(t)
		x.answerWhole(body)
		x.write(body)
		if name != "" {
			x.do(func() { x.w.Header().Set(name, "1") })
		}
		x.ret(nil).wantSwallowed(t)
		if length := x.rec.sent.Get("Content-Length"); (length == "") != (name != "") {
			t.Errorf("with the trailer %q the answer has the length %q", name, length)
		}
	}
}

// A field that is nil keeps net/http from setting it, and has to arrive so.
func TestFieldsThatAreNil(t *testing.T) {
	for _, p := range []string{chatPath, otherPath} {
		x := begin(t, path(p))
		x.do(func() { x.w.Header()["Date"] = nil })
		x.stream("X-One", "1")
		x.write(role)
		if date, ok := x.rec.sent["Date"]; !ok || date != nil || x.rec.sent.Get("X-One") != "1" {
			t.Errorf("%s: the header is %v", p, x.rec.sent)
		}
		x.abort()
	}
}
