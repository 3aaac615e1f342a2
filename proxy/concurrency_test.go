package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// TestNothingIsTorn has the three that write, the handler, the goroutine in
// which a proxy flushes and the timer, do so at once. The recorder has no lock:
// the race detector sees when two of them use it.
func TestNothingIsTorn(t *testing.T) {
	var frames strings.Builder
	frames.WriteString(role)
	for range 200 {
		frames.WriteString(text("Hello, ") + comment + text("world"))
	}
	frames.WriteString(text("end"))
	want := frames.String()

	for name, size := range map[string]int{"small pieces": 37, "whole": len(want)} {
		bubble(t, name, func(t *testing.T) {
			x := begin(t, option(func(o *proxy.Options) {
				o.Keepalive, o.IdleTimeout, o.StallTimeout = time.Millisecond, 10000*time.Hour, 10000*time.Hour
			}))
			x.stream()
			x.write(role) // so that keepalives are chunks

			over := make(chan struct{})
			var others sync.WaitGroup
			repeat := func(f func()) {
				others.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
							time.Sleep(time.Millisecond)
							f()
						}
					}
				})
			}
			repeat(func() { _ = http.NewResponseController(x.w).Flush() })
			repeat(func() { x.w.WriteHeader(http.StatusEarlyHints) })

			for rest := want[len(role):]; len(rest) > 0; {
				n := min(size, len(rest))
				time.Sleep(time.Millisecond)
				x.write(rest[:n])
				rest = rest[n:]
			}
			close(over)
			others.Wait()
			advance(time.Millisecond)

			x.ret(nil).wantSwallowed(t)
			got := x.rec.body.String()
			beats := strings.Count(got, beatForm)
			if beats == 0 {
				t.Error("no keepalive was sent")
			}
			if got, want := strings.ReplaceAll(got, beatForm, ""), want+errorFinish("upstream_incomplete", true); got != want {
				t.Errorf("without its keepalives the stream is\n%.2000s\nwant\n%.2000s", got, want)
			}
			if res := x.result(); res.Keepalives != beats {
				t.Errorf("%d keepalives were counted, %d sent", res.Keepalives, beats)
			}
		})
	}
}

// TestEndsAtOnce has a stream end for several reasons at the same time.
func TestEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 100 {
			streams := new(proxy.Streams)
			x := begin(t, option(func(o *proxy.Options) {
				o.Streams = streams
				o.IdleTimeout, o.Keepalive, o.DrainTimeout = time.Second, time.Second/2, time.Second
			}))
			x.stream()
			x.write(role)
			streams.Shutdown(time.Second)
			time.Sleep(time.Second)
			if i%4 == 0 {
				go x.leave()
			}
			e := x.abort()
			synctest.Wait()
			if i%4 == 0 {
				continue // the panic goes on when the client left first
			}
			e.wantSwallowed(t)
			got := strings.ReplaceAll(x.rec.body.String(), beatForm, "")
			if strings.Count(got, `"error":{`) != 1 || strings.Count(got, done) != 1 || !strings.HasSuffix(got, done) {
				t.Fatalf("want one end:\n%s", got)
			}
			x.result()
		}
	})
}

// TestHeaderIsTheHandlersAlone has the timer send the header while the handler
// sets a trailer, which net/http lets it do at any time.
func TestHeaderIsTheHandlersAlone(t *testing.T) {
	for name, set := range map[string]func(*proxy.Options){
		"keepalive":               func(o *proxy.Options) { o.Keepalive = time.Second },
		"an answer at a deadline": func(o *proxy.Options) { o.IdleTimeout = time.Second },
	} {
		for _, headerCame := range []bool{true, false} {
			bubble(t, name, func(t *testing.T) {
				x := begin(t, option(set))
				if headerCame {
					x.stream("Trailer", "X-Sum")
				}
				x.do(func() {
					time.Sleep(time.Second)
					for range 100 {
						x.w.Header().Set("X-Sum", "1")
					}
				})
				x.ret(nil)
			})
		}
	}
}
