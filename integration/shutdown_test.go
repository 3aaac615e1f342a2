package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// held is an upstream whose streams wait for their rest after the first frames.
func held(t *testing.T) (up *upstream, rest chan struct{}) {
	rest = make(chan struct{})
	up = newUpstream(t, router{
		"": func(x *exchange) {
			x.events()
			x.frame(role)
			x.frame(delta("content", "hi"))
			x.frame(delta("content", "\n`💻 make`\n"))
			if x.wait(rest) {
				x.frame(delta("content", "\n\nok"))
				x.frame(finish("stop", 5))
				x.frame("data: [DONE]")
				x.end()
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
	conf := config{grace: "10s", sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": "8s"}}}}
	s := run(t, t.TempDir(), conf)
	live := newClient(t, "http://"+conf.sites[0].listen).chat()
	for range 3 {
		live.frame()
	}
	s.terminate()
	began := time.Now()
	close(rest)
	a := decode(t, live.all())
	if a.finish != "stop" || a.err != nil || !a.done || a.content != "\n\nok" {
		t.Errorf("frames %v, error %+v", a.names(), a.err)
	}
	s.exit()
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the exit took %v with no stream left", d)
	}
}

// Those that are still open then get an error finish, before the grace period
// ends, in whichever configuration they were opened.
func TestStreamsBeyondDrainTimeoutGetAnErrorFinish(t *testing.T) {
	for name, test := range map[string]struct {
		grace, drain string
		least, most  time.Duration
		reload       bool
		stop         func(s *sidecar)
	}{
		"drain_timeout below the grace period":        {"10s", "300ms", 250 * time.Millisecond, 5 * time.Second, false, (*sidecar).terminate},
		"no grace period":                             {"", "300ms", 250 * time.Millisecond, 5 * time.Second, false, (*sidecar).terminate},
		"drain_timeout above the grace period":        {"2s", "30s", 0, 3 * time.Second, false, (*sidecar).terminate},
		"a stream from before a reload":               {"10s", "300ms", 250 * time.Millisecond, 5 * time.Second, true, (*sidecar).terminate},
		"SIGINT":                                      {"10s", "300ms", 250 * time.Millisecond, 5 * time.Second, false, (*sidecar).interrupt},
		"a stop by the admin API":                     {"10s", "300ms", 250 * time.Millisecond, 5 * time.Second, false, (*sidecar).stopByAdmin},
		"from before a reload, grace below the drain": {"2s", "30s", 0, 3 * time.Second, true, (*sidecar).terminate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, _ := held(t)
			conf := config{admin: freePort(t), grace: test.grace, sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": test.drain}}}}
			s := run(t, t.TempDir(), conf)
			c := newClient(t, "http://"+conf.sites[0].listen)
			live := c.chat()
			for range 3 {
				live.frame()
			}
			if test.reload {
				next := conf
				next.sites = []site{{listen: conf.sites[0].listen, upstream: up.addr, options: options{"drain_timeout": test.drain, "progress": "off"}}}
				s.load(next)
			}
			test.stop(s)
			began := time.Now()
			a := decode(t, live.all())
			took := time.Since(began)
			if a.finish != "error" || a.err == nil || a.err.Code != "shutting_down" || !a.done || a.last.Hermes == nil {
				t.Errorf("frames %v, error %+v", a.names(), a.err)
			}
			if n := a.names(); len(n) == 0 || n[0] != "completed" {
				t.Errorf("frames %v: the open tool completes first", n)
			}
			// That it came before the end of the grace period shows in the body,
			// which would break off otherwise.
			if took < test.least || took > test.most {
				t.Errorf("the error finish came after %v", took)
			}
			s.exit()
		})
	}
}

// A stream outlives the last configuration with a handler in it, and hears of
// the end all the same.
func TestShutdownWithoutAHandlerToHearOfIt(t *testing.T) {
	up, _ := held(t)
	conf := config{admin: freePort(t), grace: "10s", sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": "300ms"}}}}
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
			conf := config{grace: "10s", sites: []site{{listen: freePort(t), upstream: up.addr, tls: dir, options: options{"drain_timeout": "300ms"}}}}
			s := run(t, t.TempDir(), conf)
			c := &client{t: t, http: &http.Client{Transport: transport}, base: "https://" + conf.sites[0].listen}
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
	began := time.Now()
	s.terminate()
	s.exit()
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("the exit took %v", d)
	}
}

// A request that has no frame yet gets an HTTP error.
func TestShutdownBeforeTheFirstFrame(t *testing.T) {
	for _, name := range []string{"header alone", "no header"} {
		t.Run(name, func(t *testing.T) {
			up, _ := held(t)
			conf := config{grace: "10s", sites: []site{{listen: freePort(t), upstream: up.addr, options: options{"drain_timeout": "200ms", "keepalive": 0}}}}
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

// Without streams the process exits at once.
func TestShutdownWithoutStreams(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/plain"), byFrame))
	conf := config{grace: "10s", sites: []site{{listen: freePort(t), upstream: up.addr}}}
	s := run(t, t.TempDir(), conf)
	c := newClient(t, "http://"+conf.sites[0].listen)
	c.chat().answer().checkGood(t)
	c.http.CloseIdleConnections()
	began := time.Now()
	s.terminate()
	s.exit()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("the exit took %v", d)
	}
}
