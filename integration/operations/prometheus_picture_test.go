package operations

import (
	"encoding/json"
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

	page, titles := p.base+"/classic/graph?", []string{}
	for _, title := range []string{"Streams by outcome", "Open streams", "Tool duration", "Tools that start and end"} {
		for _, panel := range readDashboard(t).Panels {
			if panel.Title != title || panel.Type != "timeseries" {
				continue
			}
			n := len(titles)
			expr := strings.ReplaceAll(panel.Targets[len(panel.Targets)-1].Expr, "$__rate_interval", "1m")
			page += fmt.Sprintf("g%d.range_input=9m&g%d.tab=0&g%d.expr=%s&", n, n, n, url.QueryEscape(everything(expr)))
			titles = append(titles, title)
		}
	}
	names, err := json.Marshal(titles)
	if err != nil {
		t.Fatal(err)
	}
	b := browser.New(t, 1200, 400)
	b.Do(chromedp.Navigate(strings.TrimSuffix(page, "&")))
	drawn := fmt.Sprintf(`document.querySelectorAll(".rickshaw_graph svg path").length >= %d`, len(titles))
	b.Wait(drawn)
	browser.Eval[any](b, fmt.Sprintf(onlyGraphs, names))
	b.Wait(drawn)
	harness.WriteFile(t, file, b.Shoot(chromedp.FullScreenshot(100)))
	all.Wait()
}

// onlyGraphs leaves the graphs of Prometheus' page, two in a row and with titles, and draws
// them again.
const onlyGraphs = `(() => {
	const style = document.createElement("style");
	style.textContent = "body { padding: 0; margin: 0 } nav, .query-history, .form-inline, textarea, .eval_stats, .nav-tabs, .graph_container > .clearfix, a[name=remove], #add_graph { display: none !important }" +
		"#graph_container { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; padding: 1rem } #graph_container > .clearfix { display: none }" +
		"h6 { margin: 0 0 0 3rem; font: 600 15px sans-serif } .tab-content, .tab-pane { border: 0 !important }";
	document.head.append(style);
	const titles = %s;
	document.querySelectorAll(".graph_wrapper").forEach((graph, i) => {
		const title = document.createElement("h6");
		title.textContent = titles[i];
		graph.prepend(title);
		graph.querySelector(".graph_area").replaceChildren();
		graph.querySelector(".execute_btn").click();
	});
})()`
