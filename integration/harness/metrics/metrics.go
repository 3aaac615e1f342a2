// Package metrics reads the metrics that a sidecar exposes.
package metrics

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Families are the metrics of a scrape by their names.
type Families map[string]*dto.MetricFamily

// Scrape reads the metrics at url as Prometheus does, strictly.
func Scrape(t testing.TB, url string) Families {
	t.Helper()
	res, body := client.Get(t, http.DefaultClient, url)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, res.Status, harness.Clip(body))
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("metrics: %v", err)
	}
	return all
}

// Value returns the sum of the samples of a family that have the labels (name, value, name,
// value), of a histogram their number, or -1 if there are none.
func (f Families) Value(name string, labels ...string) float64 {
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

// Streams returns how many streams have ended with the outcome.
func (f Families) Streams(outcome string) float64 {
	return f.Value("caddy_hermes_streams_total", "outcome", outcome)
}
