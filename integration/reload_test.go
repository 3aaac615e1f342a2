package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A reload in the middle of a stream is not noticed: not by a stream, and not
// by the rules that it runs under.
func TestReloadMidStream(t *testing.T) {
	for _, name := range []string{"g0-v0.8.0/parallel_tools", "g2-v0.13.0/seq_tools", "g0-v0.8.0/crash_in_tool"} {
		r := recorded(t, name)
		frames := strings.SplitAfter(strings.TrimSuffix(string(r.body), "\n\n"), "\n\n")
		for i := range frames {
			frames[i] = strings.TrimSuffix(frames[i], "\n\n") + "\n\n"
		}
		for _, grace := range []string{"", "10s"} {
			t.Run(fmt.Sprintf("%s with grace period %q", name, grace), func(t *testing.T) {
				rest := make(chan struct{})
				up := newUpstream(t, router{
					"whole": replay(r, byFrame),
					"held": func(x *exchange) {
						x.raw(r.header)
						for i, f := range frames {
							if i == 2 && !x.wait(rest) {
								return
							}
							x.chunk([]byte(f))
						}
						x.end()
					},
				}.play)
				conf := config{admin: freePort(t), grace: grace, sites: []site{{listen: freePort(t), upstream: up.addr, options: still}}}
				s := run(t, t.TempDir(), conf)
				c := newClient(t, "http://"+conf.sites[0].listen)
				want := c.play("whole").all()

				live := c.play("held")
				got := live.frame().raw + live.frame().raw
				next := conf
				next.sites = []site{{listen: conf.sites[0].listen, upstream: up.addr, options: still.with(options{"progress": "off", "error_finish": "inline"})}}
				s.load(next)
				fresh := newClient(t, c.base)
				fresh.reloading = true
				if after := fresh.play("whole").all(); strings.Contains(after, "hermes.tool.progress") {
					t.Errorf("the new configuration is not in force:\n%s", after)
				}
				close(rest)
				if got += live.all(); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// A stream outlives its configuration by as much as it wants, in every protocol.
func TestReloadInEveryProtocol(t *testing.T) {
	const grace = 300 * time.Millisecond
	dir, pool := certificate(t)
	for protocol, transport := range protocols(t, pool) {
		for _, period := range []string{"", grace.String()} {
			if period != "" && protocol == "HTTP/3.0" {
				// Caddy's HTTP/3 server closes its connections when the grace
				// period of a reload ends (H3_NO_ERROR), whatever a handler does.
				continue
			}
			t.Run(protocol+" with grace period "+period, func(t *testing.T) {
				rest := make(chan struct{})
				up := newUpstream(t, func(x *exchange) {
					x.events()
					x.frame(role)
					if x.wait(rest) {
						x.pause(2 * grace)
						x.frame(delta("content", "hi"))
						x.finish()
					}
				})
				conf := config{admin: freePort(t), grace: period, sites: []site{{listen: freePort(t), upstream: up.addr, tls: dir}}}
				s := run(t, t.TempDir(), conf)
				c := clientOver(t, transport, "https://"+conf.sites[0].listen)
				live := c.chat()
				live.frame()
				next := conf
				next.sites = []site{{listen: conf.sites[0].listen, upstream: up.addr, tls: dir, options: options{"progress": "off"}}}
				s.load(next)
				close(rest)
				a := live.answer()
				a.checkGood(t)
				if a.content != "hi" {
					t.Errorf("content %q", a.content)
				}
			})
		}
	}
}

// Several reloads are not noticed either.
func TestSeveralReloadsMidStream(t *testing.T) {
	rest := make(chan struct{})
	up := newUpstream(t, heldBack(rest))
	conf := config{admin: freePort(t), sites: []site{{listen: freePort(t), upstream: up.addr}}}
	s := run(t, t.TempDir(), conf)
	live := newClient(t, "http://"+conf.sites[0].listen).chat()
	live.frame()
	for _, o := range []options{{"progress": "bare"}, {"progress": "off"}, {"keepalive": "1s"}} {
		next := conf
		next.sites = []site{{listen: conf.sites[0].listen, upstream: up.addr, options: o}}
		s.load(next)
	}
	close(rest)
	live.answer().checkGood(t)
}
