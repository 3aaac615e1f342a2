package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// held is an upstream whose streams wait for their rest after the first frames.
func held(t testing.TB) (up *upstream, rest chan struct{}) {
	rest = make(chan struct{})
	up = newUpstream(t, router{
		"": func(x *exchange) {
			x.events()
			x.frame(role)
			x.frame(delta("content", "hi"))
			x.frame(delta("content", "\n`💻 make`\n"))
			if x.wait(rest) {
				x.frame(delta("content", "\n\nok"))
				x.finish()
			}
		},
		"header alone": func(x *exchange) { x.events(); x.wait(rest) },
		"no header":    (*exchange).silence,
	}.play)
	return up, rest
}

// After SIGTERM streams may end in good order for drain_timeout.
func TestStreamsThatEndWithinDrainTimeoutEndWell(t *testing.T) {
	up, rest := held(t)
	conf := config{grace: "2h", sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": "1h"}}}}
	s := run(t, t.TempDir(), conf)
	live := newClient(t, "http://"+conf.sites[0].listen).chat()
	for range 3 {
		live.frame()
	}
	s.terminate()
	close(rest)
	a := decode(t, live.all())
	if a.finish != "stop" || a.err != nil || !a.done || a.content != "\n\nok" {
		t.Errorf("frames %v, error %+v", a.names(), a.err)
	}
	s.exit() // within patience: with no stream left it does not wait for drain_timeout
}

// Those that are still open then get an error finish, before the grace period
// ends, in whichever configuration they were opened.
func TestStreamsBeyondDrainTimeoutGetAnErrorFinish(t *testing.T) {
	for name, test := range map[string]struct {
		grace, drain float64 // in multiples of a duration, 0 for none
		reload       bool
		stop         func(s *sidecar)
	}{
		"drain_timeout below the grace period":        {30, 1, false, (*sidecar).terminate},
		"no grace period":                             {0, 1, false, (*sidecar).terminate},
		"drain_timeout above the grace period":        {6, 1e4, false, (*sidecar).terminate},
		"a stream from before a reload":               {30, 1, true, (*sidecar).terminate},
		"SIGINT":                                      {30, 1, false, (*sidecar).interrupt},
		"a stop by the admin API":                     {30, 1, false, (*sidecar).stopByAdmin},
		"from before a reload, grace below the drain": {6, 1e4, true, (*sidecar).terminate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atAnyPace(t, 300*time.Millisecond, func(t testing.TB, d time.Duration) {
				times := func(n float64) time.Duration { return time.Duration(n * float64(d)) }
				up, _ := held(t)
				conf := config{admin: freePort(t), sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": times(test.drain).String()}}}}
				if test.grace > 0 {
					conf.grace = times(test.grace).String()
				}
				s := run(t, t.TempDir(), conf)
				c := newClient(t, "http://"+conf.sites[0].listen)
				live := c.chat()
				for range 3 {
					live.frame()
				}
				if test.reload {
					next := conf
					next.sites = []site{{listen: conf.sites[0].listen, upstream: up.addr, options: conf.sites[0].options.with(options{"progress": "off"})}}
					s.load(next)
				}
				began := time.Now()
				test.stop(s)
				a := decode(t, live.all())
				took := time.Since(began)
				if a.finish != "error" || a.err == nil || a.err.Code != "shutting_down" || !a.done || a.last.Hermes == nil {
					t.Errorf("frames %v, error %+v", a.names(), a.err)
				}
				if n := a.names(); len(n) == 0 || n[0] != "completed" {
					t.Errorf("frames %v: the open tool completes first", n)
				}
				// That it came before the end of the grace period shows in the body,
				// which would break off otherwise. That it came before drain_timeout
				// where that is longer, in that it came before patience ended.
				if test.drain == 1 && took < d {
					t.Errorf("the error finish came after %v, and drain_timeout is %v", took, d)
				}
				s.exit()
			})
		})
	}
}

// A stream outlives the last configuration with a handler in it, and hears of
// the end all the same.
func TestShutdownWithoutAHandlerToHearOfIt(t *testing.T) {
	up, _ := held(t)
	conf := config{admin: freePort(t), grace: "1h", sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": "300ms"}}}}
	s := run(t, t.TempDir(), conf)
	live := newClient(t, "http://"+conf.sites[0].listen).chat()
	for range 3 {
		live.frame()
	}
	next := conf
	next.sites = []site{{listen: freePort(t), upstream: up.addr, plain: true}}
	s.load(next)
	s.terminate()
	a := decode(t, live.all())
	if a.finish != "error" || a.err == nil || a.err.Code != "shutting_down" || !a.done {
		t.Errorf("frames %v, error %+v", a.names(), a.err)
	}
	s.exit()
}

// The error finish arrives whatever the client speaks.
func TestShutdownInEveryProtocol(t *testing.T) {
	dir, pool := certificate(t)
	for protocol, transport := range protocols(t, pool) {
		t.Run(protocol, func(t *testing.T) {
			up, _ := held(t)
			conf := config{grace: "1h", sites: []site{{listen: freePort(t), upstream: up.addr, tls: dir, options: options{"drain_timeout": "300ms"}}}}
			s := run(t, t.TempDir(), conf)
			c := clientOver(t, transport, "https://"+conf.sites[0].listen)
			live := c.chat()
			for range 3 {
				live.frame()
			}
			s.terminate()
			a := decode(t, live.all())
			if a.finish != "error" || a.err == nil || a.err.Code != "shutting_down" || !a.done {
				t.Errorf("frames %v, error %+v", a.names(), a.err)
			}
			s.exit()
		})
	}
}

// A client that does not read keeps nobody beyond the grace period.
func TestShutdownWithAClientThatDoesNotRead(t *testing.T) {
	up := newUpstream(t, func(x *exchange) {
		x.events()
		x.frame(role)
		big := []byte(delta("content", strings.Repeat("x", 64<<10)) + "\n\n")
		for range 1000 {
			x.chunk(big)
		}
	})
	conf := config{grace: "1s", sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": "200ms"}}}}
	s := run(t, t.TempDir(), conf)
	live := newClient(t, "http://"+conf.sites[0].listen).chat()
	live.frame()
	s.terminate()
	s.exit()
}

// A request that has no frame yet gets an HTTP error.
func TestShutdownBeforeTheFirstFrame(t *testing.T) {
	for _, name := range []string{"header alone", "no header"} {
		t.Run(name, func(t *testing.T) {
			up, _ := held(t)
			conf := config{grace: "1h", sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": "200ms", "keepalive": 0}}}}
			s := run(t, t.TempDir(), conf)
			got := make(chan *reply)
			c := newClient(t, "http://"+conf.sites[0].listen)
			go func() {
				r, err := c.try("/v1/chat/completions", "X-Play", name)
				if err != nil {
					t.Error(err)
				}
				got <- r
			}()
			<-up.asked
			s.terminate()
			if r := <-got; r != nil {
				e := checkJSON(t, r, http.StatusBadGateway, up.addr)
				if e.Code != "shutting_down" {
					t.Errorf("code %q", e.Code)
				}
				checkAgain(t, r, e, true)
			}
			s.exit()
		})
	}
}

// Without streams the process does not wait.
func TestShutdownWithoutStreams(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/plain"), byFrame))
	conf := config{grace: "2h", sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": "1h"}}}}
	s := run(t, t.TempDir(), conf)
	c := newClient(t, "http://"+conf.sites[0].listen)
	c.chat().answer().checkGood(t)
	c.http.CloseIdleConnections()
	s.terminate()
	s.exit()
}
