package operations

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestPrometheusPicture takes a picture of Prometheus' own page with queries of the
// dashboard, of a sidecar that has been under load for ten minutes. HERMES_PROMETHEUS_PICTURE
// names the file, which docs/observability.md shows.
func TestPrometheusPicture(t *testing.T) {
	file := os.Getenv("HERMES_PROMETHEUS_PICTURE")
	if file == "" {
		t.Skip("HERMES_PROMETHEUS_PICTURE names no file")
	}
	scripts := scenes(t)
	for name, delay := range map[string]time.Duration{"quick": 2 * time.Second, "slow": 20 * time.Second} {
		scripts[name] = func(x *upstream.Exchange) {
			time.Sleep(rand.N(delay / 5))
			x.Begin("\n`💻 make`\n")
			time.Sleep(rand.N(delay))
			x.Frame(hermes.Delta("content", "\n\nok"))
			x.Finish()
		}
	}
	w := watch(t, upstream.New(t, scripts.Play), "", "hermes")
	p := startPrometheus(t, w.site)

	kinds := []string{"quick", "quick", "quick", "quick", "slow", "slow", "good", "good", "good", "good", "crash", "cut"}
	var all sync.WaitGroup
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 10*time.Minute; <-tick.C {
		all.Go(func() {
			if r, err := w.Try("/v1/chat/completions", "X-Play", kinds[rand.N(len(kinds))]); err == nil {
				r.All()
			}
		})
		if time.Since(began) > 5*time.Minute { // more of them from then on
			all.Go(func() {
				if r, err := w.Try("/v1/chat/completions", "X-Play", kinds[rand.N(4)]); err == nil {
					r.All()
				}
			})
		}
	}

	page := p.base + "/classic/graph?"
	n := 0
	for _, title := range []string{"Streams by outcome", "Open streams", "Tool duration", "Tools that start and end"} {
		for _, panel := range readDashboard(t).Panels {
			if panel.Title != title || len(panel.Targets) == 0 || panel.Type != "timeseries" {
				continue
			}
			last := panel.Targets[len(panel.Targets)-1]
			expr := strings.ReplaceAll(last.Expr, "$__rate_interval", "1m")
			page += fmt.Sprintf("g%d.range_input=9m&g%d.tab=0&g%d.expr=%s&", n, n, n, url.QueryEscape(everything(expr)))
			n++
		}
	}
	b := browser.New(t, 1100, 900)
	b.Do(chromedp.Navigate(strings.TrimSuffix(page, "&")))
	b.Wait(fmt.Sprintf(`document.querySelectorAll(".rickshaw_graph svg path").length >= %d`, n))
	harness.WriteFile(t, file, b.Shoot(chromedp.FullScreenshot(100)))
	all.Wait()
}
