// Package operations tests what an operator sees and does: metrics and the dashboard of them,
// logs, traces, the admin API, recordings, reloads, the commands hermes-proxy,
// hermes-repair and hermes-doctor; and that nothing secret is in any of it. The pages docs/observability.md and
// docs/security.md are compared with the program.
package operations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestAdminListsStreams while they are open, across a reload, and once they have ended. What it says of each is in
// package telemetry and in TestDocumentedJSONIsWhatComes.
func TestAdminListsStreams(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("\n`💻 ls -la /secret`\n")
		if x.Wait(rest) {
			x.Reset()
		}
	})
	w := watch(t, up, "", "hermes")
	check := func(when string, open, ended int) {
		t.Helper()
		var l struct{ Open, Ended, Waiting []struct{ Upstream string } }
		res, body := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK)
		if err := json.Unmarshal([]byte(body), &l); err != nil || res.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%v in %s", err, body)
		}
		if len(l.Open) != open || len(l.Ended) != ended || l.Open == nil || l.Ended == nil || l.Waiting == nil || len(l.Waiting) != 0 {
			t.Fatalf("%s: %s", when, body)
		}
		for _, s := range append(l.Open, l.Ended...) {
			if s.Upstream != up.Addr || strings.Contains(body, "secret") {
				t.Errorf("%s: %s", when, body)
			}
		}
	}
	check("at the beginning", 0, 0)
	live := w.Chat()
	live.Frame()
	live.Frame()
	check("while it is open", 1, 0)
	w.reload("hermes {\n\t\tprogress off\n\t}")
	check("after a reload", 1, 0)
	close(rest)
	live.All()
	check("at the end", 0, 1)
}

// TestAdminEndpointIsGuarded as Caddy guards its own: other methods, hosts and origins are refused.
func TestAdminEndpointIsGuarded(t *testing.T) {
	w := watch(t, upstream.New(t, upstream.AsJSON("200 OK", "{}")), "", "hermes")
	url := "http://" + w.Admin + "/hermes/streams"
	w.get(url, http.StatusForbidden, "Host", "evil.example")
	w.get(url, http.StatusForbidden, "Origin", "http://evil.example", "Sec-Fetch-Mode", "cors")
	w.get(url+"/more", http.StatusNotFound)
	res := client.New(t, "http://"+w.Admin).Send(http.MethodPost, "/hermes/streams", nil)
	if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %s, Allow %q", res.Status, res.Header.Get("Allow"))
	}
}

// A watched is a sidecar with all that an operator looks at.
type watched struct {
	*sidecar.Process
	*client.Client
	t    testing.TB
	up   *upstream.Server
	site string // host:port of the site
}

// watch starts a sidecar of a Caddyfile with an admin endpoint: a site in front of
// up with directives, and the directive metrics at /metrics. global are options.
func watch(t testing.TB, up *upstream.Server, global, directives string, env ...string) *watched {
	t.Helper()
	w := &watched{t: t, up: up, site: harness.FreePort(t)}
	w.Client = client.New(t, "http://"+w.site)
	w.Client.Reloading = true
	admin := harness.FreePort(t)
	w.Process = sidecar.RunCaddyfile(t, t.TempDir(), w.caddyfile(admin, global, directives), env...)
	w.Admin = admin
	return w
}

func (w *watched) caddyfile(admin, global, directives string) string {
	return fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\t%s\n}\n%s\tmetrics /metrics\n\t%s\n\treverse_proxy %s {\n\t\ttransport http {\n\t\t\tkeepalive off\n\t\t}\n\t}\n}\n",
		admin, global, sidecar.OnLoopback(w.site), directives, w.up.Addr)
}

// reload loads a Caddyfile with other directives.
func (w *watched) reload(directives string) {
	w.t.Helper()
	w.LoadCaddyfile(w.caddyfile(w.Admin, "", directives))
}

// get is a GET that must be answered with the status.
func (w *watched) get(url string, status int, headers ...string) (*http.Response, string) {
	w.t.Helper()
	res, body := client.Get(w.t, http.DefaultClient, url, headers...)
	if res.StatusCode != status {
		w.t.Fatalf("%s: %s, want %d: %s", url, res.Status, status, harness.Clip(body))
	}
	return res, body
}

// scrape reads the metrics that the site exposes.
func (w *watched) scrape() metrics.Families {
	w.t.Helper()
	return metrics.Scrape(w.t, "http://"+w.site+"/metrics")
}

// TestBuildIsToldOnce in the log, however often the configuration is loaded, and always in the metrics.
func TestBuildIsToldOnce(t *testing.T) {
	w := watch(t, upstream.New(t, upstream.AsJSON("200 OK", "{}")), "", "hermes")
	w.reload("hermes {\n\t\tprogress off\n\t}")
	line := w.named("http.handlers.hermes", "hermes sidecar")
	if n := strings.Count(w.Log.String(), `"msg":"hermes sidecar"`); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
	build := w.scrape()["caddy_hermes_build_info"]
	if build == nil || len(build.GetMetric()) != 1 || build.GetMetric()[0].GetGauge().GetValue() != 1 {
		t.Fatalf("the metric is %v", build)
	}
	logged := map[string]string{"version": "version", "commit": "commit", "goversion": "go", "caddyversion": "caddy"}
	for _, l := range build.GetMetric()[0].GetLabel() {
		if l.GetValue() != line[logged[l.GetName()]] || l.GetValue() == "" && l.GetName() != "commit" {
			t.Errorf("%s is %q in the metrics, %q in the log", l.GetName(), l.GetValue(), line[logged[l.GetName()]])
		}
	}
}

// Reloads in the middle of a stream are not noticed: neither by the stream, nor by the rules
// that it runs under.
func TestReloadMidStream(t *testing.T) {
	for _, name := range []string{"g0-v0.8.0/parallel_tools", "g2-v0.13.0/seq_tools", "g0-v0.8.0/crash_in_tool"} {
		r := hermes.Recorded(t, name)
		frames := upstream.ByFrame(r.Body)
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
							x.Chunk(f)
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
