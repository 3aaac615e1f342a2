package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// among puts an exchange into the set, with a drain_timeout.
func among(s *proxy.Streams, drain time.Duration) setting {
	return option(func(o *proxy.Options) { o.Streams, o.DrainTimeout = s, drain })
}

func TestShutdownLetsStreamsFinishForTheDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, among(streams, 10*time.Second))
		x.stream()
		x.write(role)
		streams.Shutdown(0)
		advance(10*time.Second - 1)
		x.write(text("Hello"))
		x.wantRunning()
		advance(1)
		x.wantBody(role + text("Hello") + errorFinish("shutting_down", true))
		x.wantStopped()
		x.abort().wantSwallowed(t)
		if res := x.result(); res.Outcome != "shutting_down" || res.Code != "shutting_down" {
			t.Errorf("outcome %q, code %q; want shutting_down", res.Outcome, res.Code)
		}
		if n := streams.Open(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
	})
}

func TestStreamThatFinishesWhileDrainingEndsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, among(streams, 10*time.Second))
		x.stream()
		x.write(role)
		streams.Shutdown(0)
		advance(9 * time.Second)
		x.write(text("Hello"), stop, done)
		x.ret(nil).wantSwallowed(t)
		x.wantBody(role + text("Hello") + stop + done)
		if res := x.result(); res.Outcome != proxy.OutcomeOK {
			t.Errorf("outcome %q, want ok", res.Outcome)
		}
		if n := streams.Open(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
		advance(time.Hour)
	})
}

func TestStreamThatFinishedButIsOpenIsDrainedWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, among(streams, 10*time.Second))
		x.stream()
		x.write(role, text("Hello"), stop)
		streams.Shutdown(0)
		advance(10 * time.Second)
		x.wantBody(role + text("Hello") + stop + done)
		x.wantStopped()
		x.abort().wantSwallowed(t)
		if res := x.result(); res.Outcome != proxy.OutcomeOK {
			t.Errorf("outcome %q, want ok", res.Outcome)
		}
	})
}

func TestLimitCapsTheDrainTimeout(t *testing.T) {
	for name, c := range map[string]struct{ drain, limit, want time.Duration }{
		"limit is shorter": {10 * time.Second, 4 * time.Second, 4 * time.Second},
		"limit is longer":  {10 * time.Second, time.Minute, 10 * time.Second},
		"no limit":         {10 * time.Second, 0, 10 * time.Second},
		"no drain_timeout": {0, time.Minute, 0},
	} {
		bubble(t, name, func(t *testing.T) {
			streams := new(proxy.Streams)
			x := begin(t, among(streams, c.drain))
			x.stream()
			x.write(role)
			streams.Shutdown(c.limit)
			if c.want > 0 {
				advance(c.want - 1)
				x.wantBody(role)
			}
			advance(min(1, c.want))
			x.wantBody(role + errorFinish("shutting_down", false))
			x.wantStopped()
		})
	}
}

func TestEachStreamHasTheDrainTimeoutOfItsProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		short := begin(t, among(streams, 2*time.Second))
		long := begin(t, among(streams, 8*time.Second))
		for _, x := range []*exchange{short, long} {
			x.stream()
			x.write(role)
		}
		if n := streams.Open(); n != 2 {
			t.Errorf("%d streams are open, want 2", n)
		}
		streams.Shutdown(0)
		advance(2 * time.Second)
		short.wantBody(role + errorFinish("shutting_down", false))
		long.wantBody(role)
		advance(6 * time.Second)
		long.wantBody(role + errorFinish("shutting_down", false))
		short.ret(nil)
		if n := streams.Open(); n != 1 {
			t.Errorf("%d streams are open, want 1", n)
		}
		long.ret(nil)
		if n := streams.Open(); n != 0 {
			t.Errorf("%d streams are open, want none", n)
		}
	})
}

func TestLaterStreamsAreDrainedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		streams.Shutdown(0)
		x := begin(t, among(streams, 10*time.Second))
		x.stream()
		x.write(role)
		advance(10*time.Second - 1)
		x.wantBody(role)
		advance(1)
		x.wantBody(role + errorFinish("shutting_down", false))
		x.wantStopped()
	})
}

func TestRequestWithoutAnAnswerIsAnsweredAtTheEndOfTheDrain(t *testing.T) {
	bubble(t, "no header", func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, among(streams, 10*time.Second))
		streams.Shutdown(0)
		advance(10*time.Second - 1)
		x.wantRunning()
		advance(1)
		x.untilCancelled().wantSwallowed(t)
		x.wantAnswer(http.StatusBadGateway, "shutting_down")
		if res := x.result(); res.Outcome != "shutting_down" {
			t.Errorf("outcome %q, want shutting_down", res.Outcome)
		}
	})
	bubble(t, "the header is held", func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, among(streams, 10*time.Second))
		x.stream()
		streams.Shutdown(0)
		advance(10 * time.Second)
		x.wantAnswer(http.StatusBadGateway, "shutting_down")
		x.wantStopped()
		x.abort().wantSwallowed(t)
	})
}

func TestDrainLeavesOtherAnswersAlone(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *proxy.Streams) *exchange{
		"JSON": func(t *testing.T, s *proxy.Streams) *exchange {
			x := begin(t, among(s, time.Second))
			x.do(func() {
				x.w.Header().Set("Content-Type", "application/json")
				x.w.WriteHeader(http.StatusOK)
			})
			return x
		},
		"a foreign stream": func(t *testing.T, s *proxy.Streams) *exchange {
			x := begin(t, among(s, time.Second), path(otherPath))
			x.stream()
			return x
		},
		"another request": func(t *testing.T, s *proxy.Streams) *exchange {
			return begin(t, among(s, time.Second), path(otherPath))
		},
	} {
		bubble(t, name, func(t *testing.T) {
			streams := new(proxy.Streams)
			x := start(t, streams)
			streams.Shutdown(0)
			advance(time.Hour)
			x.wantRunning()
			x.write("as it is")
			x.ret(nil).wantSwallowed(t)
			x.wantBody("as it is")
		})
	}
}

// Nor does the limit of the drain: what is no answer of ours is cut by the server,
// as it would be without us.
func TestTheDrainsLimitLeavesOtherAnswersAlone(t *testing.T) {
	for name, c := range map[string]struct{ path, media string }{ // no media type for no answer yet
		"another request":          {otherPath, ""},
		"another's JSON":           {otherPath, "application/json"},
		"a foreign stream":         {otherPath, "text/event-stream"},
		"a download":               {chatPath, "application/octet-stream"},
		"a download that is large": {chatPath, "application/json"},
	} {
		bubble(t, name, func(t *testing.T) {
			streams := new(proxy.Streams)
			x := begin(t, among(streams, time.Second), path(c.path), asking(`{"stream": false}`))
			if c.media != "" {
				x.do(func() {
					x.w.Header().Set("Content-Type", c.media)
					if name == "a download that is large" {
						x.w.Header().Set("Content-Length", "9999999")
					}
					x.w.WriteHeader(http.StatusOK)
				})
			}
			streams.Shutdown(5 * time.Second)
			advance(time.Hour)
			x.wantRunning()
			x.write("as it is")
			x.ret(nil).wantSwallowed(t)
			x.wantBody("as it is")
			if x.rec.status != http.StatusOK {
				t.Errorf("status %d", x.rec.status)
			}
		})
	}
}

func TestShutdownTwiceIsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, among(streams, 10*time.Second))
		x.stream()
		x.write(role)
		streams.Shutdown(0)
		advance(9 * time.Second)
		streams.Shutdown(time.Second)
		advance(time.Second - 1)
		x.wantBody(role)
		advance(1)
		x.wantBody(role + errorFinish("shutting_down", false))
		x.wantStopped()
	})
}

func TestShutdownOfNothing(t *testing.T) {
	var streams proxy.Streams
	streams.Shutdown(time.Second)
	if n := streams.Open(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

func TestDrainSendsNothingToAClientThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, among(streams, time.Second))
		x.stream()
		x.write(role)
		x.leave()
		streams.Shutdown(0)
		advance(time.Second)
		x.wantBody(role)
		x.abort().wantPanic(t, http.ErrAbortHandler)
	})
}

func TestSlowClientDoesNotKeepOthersFromBeingDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		slow := begin(t, among(streams, 10*time.Second))
		quick := begin(t, among(streams, 5*time.Second))
		quick.stream()
		quick.write(role)
		slow.stream()

		taking, took := make(chan struct{}), make(chan struct{})
		slow.rec.onWrite = func(b []byte) (int, error) {
			close(taking)
			<-took
			return len(b), nil
		}
		slow.start(func() { _, _ = slow.w.Write([]byte(role)) })
		<-taking
		slow.rec.onWrite = nil

		returned := make(chan struct{})
		go func() {
			streams.Shutdown(0)
			close(returned)
		}()
		<-returned
		later := begin(t, among(streams, 5*time.Second))
		if n := streams.Open(); n != 3 {
			t.Errorf("%d streams are open, want 3", n)
		}
		advance(5 * time.Second)
		quick.wantBody(role + errorFinish("shutting_down", false))
		quick.ret(nil).wantSwallowed(t)
		later.untilCancelled().wantSwallowed(t)
		later.wantAnswer(http.StatusBadGateway, "shutting_down")

		time.Sleep(5 * time.Second) // the end waits for the client
		close(took)
		<-slow.ack
		synctest.Wait()
		slow.wantBody(role + errorFinish("shutting_down", false))
		slow.ret(nil).wantSwallowed(t)
		if n := streams.Open(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
	})
}

func TestLimitHoldsForLaterStreamsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		first := begin(t, among(streams, 10*time.Second))
		first.stream()
		streams.Shutdown(4 * time.Second)
		advance(3 * time.Second)
		later := begin(t, among(streams, 10*time.Second))
		later.stream()
		later.write(role)
		advance(time.Second - 1)
		later.wantBody(role)
		advance(1)
		later.wantBody(role + errorFinish("shutting_down", false))
		advance(time.Hour)
		last := begin(t, among(streams, 10*time.Second))
		advance(0)
		last.wantAnswer(http.StatusBadGateway, "shutting_down")
	})
}

func TestStreamThatBecomesActiveBehindTheDrainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := new(proxy.Streams)
		x := begin(t, among(streams, time.Second), path(otherPath))
		x.stream()
		x.write(foreign)
		streams.Shutdown(0)
		advance(time.Hour)
		x.wantBody(foreign)
		x.write(role)
		x.wantBody(foreign + role + errorFinish("shutting_down", false))
		x.wantStopped()
		x.abort().wantSwallowed(t)
		if res := x.result(); res.Outcome != "shutting_down" {
			t.Errorf("outcome %q, want shutting_down", res.Outcome)
		}
	})
}
