package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A watched is a sidecar with all that an operator looks at.
type watched struct {
	*sidecar
	*client
	t    testing.TB
	up   *upstream
	site string // host:port of the site
}

// watch starts a sidecar of a Caddyfile with an admin endpoint: a site in front of
// up with directives, and the directive metrics at /metrics. global are options.
func watch(t testing.TB, up *upstream, global, directives string, env ...string) *watched {
	t.Helper()
	w := &watched{t: t, up: up, site: freePort(t)}
	w.client = newClient(t, "http://"+w.site)
	w.client.reloading = true
	admin := freePort(t)
	w.sidecar = runCaddyfile(t, t.TempDir(), w.caddyfile(admin, global, directives), env...)
	w.admin = admin
	return w
}

func (w *watched) caddyfile(admin, global, directives string) string {
	return fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n\t%s\n}\n%s\tmetrics /metrics\n\t%s\n\treverse_proxy %s {\n\t\ttransport http {\n\t\t\tkeepalive off\n\t\t}\n\t}\n}\n",
		admin, global, onLoopback(w.site), directives, w.up.addr)
}

// reload loads a Caddyfile with other directives, and returns what the admin
// endpoint has answered when that was an error.
func (w *watched) reload(directives string) (failed string) {
	w.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var res *http.Response
		if res, err = http.Post("http://"+w.admin+"/load", "text/caddyfile", strings.NewReader(w.caddyfile(w.admin, "", directives))); err != nil {
			continue // the admin server of a reload just before
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return string(body)
		}
		return ""
	}
	w.t.Fatal(err)
	return ""
}

// get is a GET that must be answered with the status.
func (w *watched) get(url string, status int, headers ...string) (*http.Response, string) {
	w.t.Helper()
	res, body := get(w.t, http.DefaultClient, url, headers...)
	if res.StatusCode != status {
		w.t.Fatalf("%s: %s, want %d: %s", url, res.Status, status, clip(body))
	}
	return res, body
}

// families is what a scrape finds, by name.
type families map[string]*dto.MetricFamily

// scrape reads the metrics that the site exposes.
func (w *watched) scrape() families {
	w.t.Helper()
	return scrape(w.t, "http://"+w.site+"/metrics")
}

// scrape reads the metrics at url as Prometheus does, strictly.
func scrape(t testing.TB, url string) families {
	t.Helper()
	res, body := get(t, http.DefaultClient, url)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, res.Status, clip(body))
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("metrics: %v", err)
	}
	return all
}

// value sums the samples of a family that have the labels, name, value, name,
// value: of a histogram their number. It is -1 where there is none.
func (f families) value(name string, labels ...string) float64 {
	sum, found := 0.0, false
	for _, m := range f[name].GetMetric() {
		if !hasLabels(m, labels) {
			continue
		}
		found = true
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	if !found {
		return -1
	}
	return sum
}

func hasLabels(m *dto.Metric, labels []string) bool {
	have := make(map[string]string)
	for _, l := range m.GetLabel() {
		have[l.GetName()] = l.GetValue()
	}
	for i := 0; i+1 < len(labels); i += 2 {
		if have[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// streams is how many have ended with the outcome.
func (f families) streams(outcome string) float64 {
	return f.value("caddy_hermes_streams_total", "outcome", outcome)
}
