package operations

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Reloads in the middle of a stream are not noticed: neither by the stream, nor by the rules
// that it runs under.
func TestReloadMidStream(t *testing.T) {
	for _, name := range []string{"g0-v0.8.0/parallel_tools", "g2-v0.13.0/seq_tools", "g0-v0.8.0/crash_in_tool"} {
		r := hermes.Recorded(t, name)
		frames := strings.SplitAfter(strings.TrimSuffix(string(r.Body), "\n\n"), "\n\n")
		for i := range frames {
			frames[i] = strings.TrimSuffix(frames[i], "\n\n") + "\n\n"
		}
		for _, grace := range []string{"", "10s"} {
			t.Run(fmt.Sprintf("%s with grace period %q", name, grace), func(t *testing.T) {
				rest := make(chan struct{})
				up := upstream.New(t, upstream.Router{
					"whole": upstream.Replay(r, upstream.ByFrame),
					"held": func(x *upstream.Exchange) {
						x.Raw(r.Header)
						for i, f := range frames {
							if i == 2 && !x.Wait(rest) {
								return
							}
							x.Chunk([]byte(f))
						}
						x.End()
					},
				}.Play)
				conf := sidecar.Config{Admin: harness.FreePort(t), Grace: grace, Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr, Options: sidecar.Still}}}
				s := sidecar.Run(t, t.TempDir(), conf)
				c := client.New(t, "http://"+conf.Sites[0].Listen)
				want := c.Play("whole").All()

				live := c.Play("held")
				got := live.Frame().Raw + live.Frame().Raw
				for _, o := range []sidecar.Options{{"progress": "bare"}, {"progress": "off", "error_finish": "inline"}} {
					next := conf
					next.Sites = []sidecar.Site{{Listen: conf.Sites[0].Listen, Upstream: up.Addr, Options: sidecar.Still.With(o)}}
					s.Load(next)
				}
				fresh := client.New(t, c.Base)
				fresh.Reloading = true
				if after := fresh.Play("whole").All(); strings.Contains(after, "hermes.tool.progress") {
					t.Errorf("the new configuration is not in force:\n%s", after)
				}
				close(rest)
				if got += live.All(); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// A stream outlives its configuration by as much as it wants, in every protocol.
func TestReloadInEveryProtocol(t *testing.T) {
	const grace = 300 * time.Millisecond
	dir, pool := client.Certificate(t)
	for protocol, transport := range client.Protocols(t, pool) {
		for _, period := range []string{"", grace.String()} {
			if period != "" && protocol == "HTTP/3.0" {
				// Caddy's HTTP/3 server closes its connections when the grace
				// period of a reload ends (H3_NO_ERROR), whatever a handler does.
				continue
			}
			t.Run(protocol+" with grace period "+period, func(t *testing.T) {
				rest := make(chan struct{})
				up := upstream.New(t, func(x *upstream.Exchange) {
					x.Begin()
					if x.Wait(rest) {
						x.Pause(2 * grace)
						x.Frame(hermes.Delta("content", "hi"))
						x.Finish()
					}
				})
				conf := sidecar.Config{Admin: harness.FreePort(t), Grace: period, Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr, TLS: dir}}}
				s := sidecar.Run(t, t.TempDir(), conf)
				c := client.Over(t, transport, "https://"+conf.Sites[0].Listen)
				live := c.Chat()
				live.Frame()
				next := conf
				next.Sites = []sidecar.Site{{Listen: conf.Sites[0].Listen, Upstream: up.Addr, TLS: dir, Options: sidecar.Options{"progress": "off"}}}
				s.Load(next)
				close(rest)
				a := live.Answer()
				a.CheckGood(t)
				if a.Content != "hi" {
					t.Errorf("content %q", a.Content)
				}
			})
		}
	}
}
