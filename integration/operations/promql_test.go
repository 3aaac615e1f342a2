package operations

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// scraped are the labels that Prometheus adds to all that it scrapes.
var scraped = []string{"job", "instance"}

// variables are Grafana's own, with a value of the kind that it puts in.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "3h")

// checkExpression parses an expression and checks each metric, label and value in it
// against what is exposed. It returns the metrics and the labels that may be in
// the result.
func checkExpression(t testing.TB, f metrics.Families, expr string) (metrics, known []string) {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(expr))
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return nil, nil
	}
	known = slices.Clone(scraped)
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if v.Name == "up" { // Prometheus' own
			return nil
		}
		name, exposed := family(f, v.Name)
		if exposed == nil {
			t.Errorf("%s: %s is not exposed", expr, v.Name)
			return nil
		}
		metrics = append(metrics, name)
		if strings.HasSuffix(v.Name, "_bucket") {
			known = append(known, "le")
		}
		for _, m := range exposed.GetMetric() {
			for _, l := range m.GetLabel() {
				known = append(known, l.GetName())
			}
		}
		for _, m := range v.LabelMatchers {
			checkMatcher(t, expr, exposed, m)
		}
		return nil
	})
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		var used []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			used = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				used = append(slices.Clone(n.VectorMatching.MatchingLabels), n.VectorMatching.Include...)
			}
		}
		for _, l := range used {
			if !slices.Contains(known, l) {
				t.Errorf("%s: there is no label %s", expr, l)
			}
		}
		return nil
	})
	return metrics, known
}

// family finds the family of a series, which of a histogram has a longer name.
func family(f metrics.Families, series string) (string, *dto.MetricFamily) {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if name, ok := strings.CutSuffix(series, suffix); ok && f[name].GetType() == dto.MetricType_HISTOGRAM {
			return name, f[name]
		}
	}
	if f[series].GetType() == dto.MetricType_HISTOGRAM {
		return series, nil // no such series
	}
	return series, f[series]
}

// literal are the values that a matcher names, apart from patterns and Grafana's
// variables.
var literal = regexp.MustCompile(`^[a-z_|]*$`)

// checkMatcher wants the label, and each value that is named, to exist.
func checkMatcher(t testing.TB, expr string, family *dto.MetricFamily, m *labels.Matcher) {
	t.Helper()
	if m.Name == model.MetricNameLabel || slices.Contains(scraped, m.Name) {
		return
	}
	var values []string
	for _, s := range family.GetMetric() {
		for _, l := range s.GetLabel() {
			if l.GetName() == m.Name {
				values = append(values, l.GetValue())
			}
		}
	}
	if values == nil {
		t.Errorf("%s: %s has no label %s", expr, family.GetName(), m.Name)
		return
	}
	if !literal.MatchString(m.Value) {
		return
	}
	for v := range strings.SplitSeq(m.Value, "|") {
		if !slices.Contains(values, v) {
			t.Errorf("%s: %s is never %q", expr, m.Name, v)
		}
	}
}

// TestCheckOfExpressionsFinds what is wrong: a check that finds nothing is none.
func TestCheckOfExpressionsFinds(t *testing.T) {
	f := exposed(t)
	for expr, wrong := range map[string]bool{
		`sum by (outcome) (rate(caddy_hermes_streams_total{outcome!~"ok|client_gone"}[5m]))`: false,
		`caddy_hermes_stream_total`:                                              true,
		`sum(caddy_hermes_streams_total`:                                         true,
		`caddy_hermes_streams_total{outcome="okay"}`:                             true,
		`caddy_hermes_streams_total{reason="ok"}`:                                true,
		`sum by (model) (caddy_hermes_streams_total)`:                            true,
		`caddy_hermes_tool_duration_seconds`:                                     true,
		`rate(caddy_hermes_tool_duration_seconds_count[5m])`:                     false,
		`caddy_hermes_streams_active * on (model) caddy_hermes_keepalives_total`: true,
	} {
		finds := &finder{TB: t}
		if checkExpression(finds, f, expr); finds.found != wrong {
			t.Errorf("%s: wrong is %t, want %t", expr, finds.found, wrong)
		}
	}
}

// finder is a test that records errors.
type finder struct {
	testing.TB
	found bool
}

func (f *finder) Errorf(string, ...any) { f.found = true }

func (f *finder) Helper() {}
