package network

import (
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// After SIGTERM streams may end in good order for drain_timeout.
func TestStreamsThatEndWithinDrainTimeoutEndWell(t *testing.T) {
	up, rest := upstream.Held(t)
	conf := sidecar.Config{Grace: "2h", Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr, Options: sidecar.Options{"drain_timeout": "1h"}}}}
	s := sidecar.Run(t, t.TempDir(), conf)
	live := client.New(t, "http://"+conf.Sites[0].Listen).Chat()
	for range 3 {
		live.Frame()
	}
	s.Terminate()
	close(rest)
	a := strict.Decode(t, live.All())
	if a.Finish != "stop" || a.Err != nil || !a.Done || a.Content != "\n\nok" {
		t.Errorf("frames %v, error %+v", a.Names(), a.Err)
	}
	s.Exit() // within patience: with no stream left it does not wait for drain_timeout
}

// Those that are still open then get an error finish, before the grace period
// ends, in whichever configuration they were opened, and whatever
// the client speaks.
func TestStreamsBeyondDrainTimeoutGetAnErrorFinish(t *testing.T) {
	dir, pool := client.Certificate(t)
	for name, test := range map[string]struct {
		grace, drain float64 // in multiples of a duration, 0 for none
		reload       bool
		stop         func(s *sidecar.Process)
		protocol     string // over TLS, "" for HTTP/1.1 without
		gone         bool   // with the reload, the handler
		late         bool   // the grace period of the reload is over
	}{
		"drain_timeout below the grace period":        {grace: 30, drain: 1, stop: (*sidecar.Process).Terminate},
		"no grace period":                             {grace: 0, drain: 1, stop: (*sidecar.Process).Terminate},
		"drain_timeout above the grace period":        {grace: 6, drain: 1e4, stop: (*sidecar.Process).Terminate},
		"a stream from before a reload":               {grace: 30, drain: 1, reload: true, stop: (*sidecar.Process).Terminate},
		"SIGINT":                                      {grace: 30, drain: 1, stop: (*sidecar.Process).Interrupt},
		"a stop by the admin API":                     {grace: 30, drain: 1, stop: (*sidecar.Process).StopByAdmin},
		"from before a reload, grace below the drain": {grace: 6, drain: 1e4, reload: true, stop: (*sidecar.Process).Terminate},
		"from long before a reload":                   {grace: 6, drain: 1, reload: true, late: true, stop: (*sidecar.Process).Terminate},
		"from long before, grace below the drain":     {grace: 6, drain: 1e4, reload: true, late: true, stop: (*sidecar.Process).Terminate},
		"from before the last handler":                {grace: 30, drain: 1, reload: true, gone: true, stop: (*sidecar.Process).Terminate},
		"HTTP/1.1 over TLS":                           {grace: 30, drain: 1, stop: (*sidecar.Process).Terminate, protocol: "HTTP/1.1"},
		"HTTP/2":                                      {grace: 30, drain: 1, stop: (*sidecar.Process).Terminate, protocol: "HTTP/2.0"},
		"HTTP/3":                                      {grace: 30, drain: 1, stop: (*sidecar.Process).Terminate, protocol: "HTTP/3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			harness.AtAnyPace(t, 300*time.Millisecond, func(t testing.TB, d time.Duration) {
				times := func(n float64) time.Duration { return time.Duration(n * float64(d)) }
				up, _ := upstream.Held(t)
				conf := sidecar.Config{Admin: harness.FreePort(t), Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr, Options: sidecar.Still.With(sidecar.Options{"drain_timeout": times(test.drain).String()})}}}
				if test.grace > 0 {
					conf.Grace = times(test.grace).String()
				}
				if test.protocol != "" {
					conf.Sites[0].TLS = dir
				}
				s := sidecar.Run(t, t.TempDir(), conf)
				c := client.New(t, "http://"+conf.Sites[0].Listen)
				if test.protocol != "" {
					c = client.Over(t, client.Protocols(t, pool)[test.protocol], "https://"+conf.Sites[0].Listen)
				}
				live := c.Chat()
				for range 3 {
					live.Frame()
				}
				if test.reload {
					next := conf
					next.Sites = []sidecar.Site{{Listen: conf.Sites[0].Listen, Upstream: up.Addr, Options: conf.Sites[0].Options.With(sidecar.Options{"progress": "off"})}}
					if test.gone {
						next.Sites = []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr, Plain: true}}
					}
					s.Load(next)
				}
				if test.late && !s.Await("server graceful shutdown") {
					t.Fatalf("the server of before the reload still waits:\n%s", s.Log)
				}
				began := time.Now()
				test.stop(s)
				a := strict.Decode(t, live.All())
				took := time.Since(began)
				if a.Finish != "error" || a.Err == nil || a.Err.Code != "shutting_down" || !a.Done || a.Last.Hermes == nil {
					t.Errorf("frames %v, error %+v", a.Names(), a.Err)
				}
				if n := a.Names(); len(n) == 0 || n[0] != "completed" {
					t.Errorf("frames %v: the open tool completes first", n)
				}
				// That it came before the end of the grace period shows in the body,
				// which would break off otherwise. That it came before drain_timeout
				// where that is longer, in that it came before patience ended.
				if test.drain == 1 && took < d {
					t.Errorf("the error finish came after %v, and drain_timeout is %v", took, d)
				}
				s.Exit()
			})
		})
	}
}

// A client that does not read does not delay the end beyond the grace period.
func TestShutdownWithAClientThatDoesNotRead(t *testing.T) {
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin()
		big := []byte(hermes.Delta("content", strings.Repeat("x", 64<<10)) + "\n\n")
		for range 1000 {
			x.Chunk(big)
		}
	})
	conf := sidecar.Config{Grace: "1s", Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr, Options: sidecar.Options{"drain_timeout": "200ms"}}}}
	s := sidecar.Run(t, t.TempDir(), conf)
	live := client.New(t, "http://"+conf.Sites[0].Listen).Chat()
	live.Frame()
	s.Terminate()
	s.Exit()
}
