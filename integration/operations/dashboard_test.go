package operations

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v2"
)

// deployed is where the dashboard and the rules are.
var deployed = harness.Path("deploy/observability")

// exposed returns the metrics of the binary after a few streams of every kind.
func exposed(t *testing.T) metrics.Families {
	t.Helper()
	scripts := everyKind(t)
	w := watch(t, upstream.New(t, scripts.Play), "", "hermes_resume\n\thermes_queue\n\thermes")
	playAll(w, scripts)
	all := w.scrape()
	maps.DeleteFunc(all, func(name string, _ *dto.MetricFamily) bool {
		return !strings.HasPrefix(name, "caddy_hermes_") && !strings.HasPrefix(name, "gen_ai_")
	})
	if len(all) < 10 {
		t.Fatalf("%d metrics are exposed", len(all))
	}
	return all
}

// everyKind has answers that end in each way, one of another stream, and a whole one.
func everyKind(t *testing.T) upstream.Router {
	scripts := scenes(t)
	scripts["run"] = upstream.Replay(hermes.Recorded(t, "g3-v0.20.3/runs.one_tool"), upstream.ByFrame)
	scripts["whole"] = upstream.AsJSON("200 OK", `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":2}}`)
	return scripts
}

// playAll asks for each of everyKind.
func playAll(w *watched, scripts upstream.Router) {
	for name := range scripts {
		path := "/v1/chat/completions"
		if name == "run" {
			path = "/v1/runs/run_1/events"
		}
		w.Post(path, "X-Play", name).All()
	}
}

// A dashboard is what matters of Grafana's.
type dashboard struct {
	Inputs []struct{ Name, Type, PluginID string } `json:"__inputs"`
	Title  string
	UID    string
	Schema int `json:"schemaVersion"`
	ID     any
	Panels []struct {
		ID          int
		Type, Title string
		Datasource  *source
		Grid        struct{ H, W, X, Y int } `json:"gridPos"`
		Targets     []struct {
			Datasource   *source
			Expr         string
			LegendFormat string
			RefID        string
		}
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
			Datasource *source
		}
	}
}

type source struct{ Type, UID string }

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(deployed, "dashboard.json"))), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// inLegend are the labels that a legend names.
var inLegend = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// TestDashboardIsAboutWhatIsExposed: each metric, label and value in it exists, and no metric is left out.
func TestDashboardIsAboutWhatIsExposed(t *testing.T) {
	f := exposed(t)
	used := make(map[string]bool)
	for _, p := range readDashboard(t).Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			metrics, known := checkExpression(t, f, target.Expr)
			for _, m := range metrics {
				used[m] = true
			}
			for _, l := range inLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(known, l[1]) {
					t.Errorf("panel %q: the legend names %s", p.Title, l[1])
				}
			}
		}
	}
	for name := range f {
		if !used[name] {
			t.Errorf("%s is in no panel", name)
		}
	}
}

// TestDashboardCanBeImported: it asks for a data source, everything uses it, and no panel lies upon another.
func TestDashboardCanBeImported(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.ID != nil || d.Schema < 39 {
		t.Errorf("title %q, uid %q, id %v, schemaVersion %d", d.Title, d.UID, d.ID, d.Schema)
	}
	if len(d.Inputs) != 1 || d.Inputs[0].Type != "datasource" || d.Inputs[0].PluginID != "prometheus" {
		t.Errorf("inputs %+v", d.Inputs)
	}
	want := source{"prometheus", "${datasource}"}
	variables, f := make(map[string]bool), exposed(t)
	series := regexp.MustCompile(`^label_values\(([^,{]+)(?:\{.*\})?, (\w+)\)$`)
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if v.Type != "query" {
			continue
		}
		q, _ := v.Query.(map[string]any)
		m := series.FindStringSubmatch(fmt.Sprint(q["query"]))
		if m == nil || v.Datasource == nil || *v.Datasource != want {
			t.Errorf("variable %s: query %v, data source %+v", v.Name, v.Query, v.Datasource)
			continue
		}
		if _, known := checkExpression(t, f, m[1]); !slices.Contains(known, m[2]) {
			t.Errorf("variable %s: %s has no label %s", v.Name, m[1], m[2])
		}
	}
	if !variables["datasource"] {
		t.Error("there is no variable datasource")
	}
	ids, cells := make(map[int]bool), make(map[string]string)
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || p.Grid.W < 1 || p.Grid.H < 1 || p.Grid.X+p.Grid.W > 24 {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
			for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
				cell := fmt.Sprint(x, ",", y)
				if other, taken := cells[cell]; taken {
					t.Fatalf("panels %q and %q lie upon each other", p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
		for _, target := range p.Targets {
			if p.Datasource == nil || *p.Datasource != want || target.Datasource == nil || *target.Datasource != want || target.RefID == "" {
				t.Errorf("panel %q: data source %+v", p.Title, p.Datasource)
			}
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !variables[v[1]] && !strings.HasPrefix(v[1], "__") {
					t.Errorf("panel %q: there is no variable %s", p.Title, v[1])
				}
			}
		}
	}
}

// rules is a rule file of Prometheus'.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// TestRulesAreAboutWhatIsExposed, and say what an alert has to say.
func TestRulesAreAboutWhatIsExposed(t *testing.T) {
	var r rules
	if err := yaml.UnmarshalStrict([]byte(harness.ReadFile(t, filepath.Join(deployed, "hermes.rules.yml"))), &r); err != nil {
		t.Fatal(err)
	}
	readme := harness.ReadFile(t, filepath.Join(deployed, "README.md"))
	runbook := harness.ReadFile(t, harness.Path("docs/alerts.md"))
	tests := harness.ReadFile(t, filepath.Join(deployed, "hermes.rules.test.yml"))
	f, names := exposed(t), make(map[string]bool)
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			checkExpression(t, f, rule.Expr)
			if d, err := model.ParseDuration(rule.For); err != nil || d == 0 {
				t.Errorf("%s: for %q: %v", rule.Alert, rule.For, err)
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
				t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s: annotations %v", rule.Alert, rule.Annotations)
			}
			const page = "https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/alerts.md#"
			if rule.Annotations["runbook_url"] != page+strings.ToLower(rule.Alert) || strings.Count(runbook, "\n## "+rule.Alert+"\n") != 1 {
				t.Errorf("%s: the runbook is %s, or has no such heading", rule.Alert, rule.Annotations["runbook_url"])
			}
			for _, l := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(fmt.Sprint(rule.Annotations), -1) {
				if !strings.Contains(rule.Expr, l[1]) && !strings.HasPrefix(rule.Expr, "up{") {
					t.Errorf("%s: the annotations name %s, which the expression has not", rule.Alert, l[1])
				}
			}
			if rule.Alert == "" || names[rule.Alert] || !strings.Contains(readme, "`"+rule.Alert+"`") {
				t.Errorf("%q: no name, one that is there twice, or not in README.md", rule.Alert)
			}
			if !strings.Contains(tests, `alertname="`+rule.Alert+`"`) {
				t.Errorf("no test in hermes.rules.test.yml has %s fire", rule.Alert)
			}
			names[rule.Alert] = true
		}
	}
	if len(names) < 8 {
		t.Errorf("%d alerts", len(names))
	}
}

// TestPromtool has Prometheus' own tool check the rules, fire each alert, and see that none fires
// without a reason.
func TestPromtool(t *testing.T) {
	promtool := harness.Program(t, "HERMES_PROMETHEUS", "promtool")
	for _, args := range [][]string{{"check", "rules", "hermes.rules.yml"}, {"test", "rules", "hermes.rules.test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = deployed
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestPrometheusAnswersThePanels: of a sidecar under load, each query of the dashboard has
// series in a real Prometheus, which scrapes it each second.
func TestPrometheusAnswersThePanels(t *testing.T) {
	prometheus := harness.Program(t, "HERMES_PROMETHEUS", "prometheus")
	scripts := everyKind(t)
	w := watch(t, upstream.New(t, scripts.Play), "", "hermes_resume\n\thermes_queue\n\thermes")
	dir, listen := t.TempDir(), harness.FreePort(t)
	config := "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: hermes-sidecar, static_configs: [{targets: ['" + w.site + "']}]}]\n"
	harness.WriteFile(t, filepath.Join(dir, "prometheus.yml"), []byte(config))
	p := harness.Start(t, exec.Command(prometheus, "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+listen))
	if !p.Await("Server is ready to receive web requests") {
		t.Fatal("Prometheus does not start")
	}

	all := strings.NewReplacer("$job", "hermes.*", "$instance", ".*", "$operation", ".*") // that the variables may choose
	queries := map[string]bool{}                                                          // without an answer
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			queries[all.Replace(variables.Replace(target.Expr))] = true
		}
	}
	if len(queries) < 25 {
		t.Fatalf("%d queries", len(queries))
	}
	answers := func(expr string) bool {
		var answer struct {
			Data struct{ Result []any }
		}
		_, body := w.get("http://"+listen+"/api/v1/query?query="+url.QueryEscape(expr), http.StatusOK)
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		return len(answer.Data.Result) > 0
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Patience); len(queries) > 0 && time.Now().Before(deadline); <-tick.C {
		playAll(w, scripts)
		maps.DeleteFunc(queries, func(expr string, _ bool) bool { return answers(expr) })
	}
	for expr := range queries {
		t.Errorf("no data: %s", expr)
	}
}

// variables are Grafana's own, with a value of the kind that it puts in.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "3h")

var (
	inSeries = regexp.MustCompile(`\b(?:caddy_hermes|gen_ai_client)_\w+`)
	inLabels = regexp.MustCompile(`(\w+)(?:=~?|!=|!~)"|\b(?:by|on|group_left) ?\(([^)]*)\)`)
)

// checkExpression checks each metric and label in an expression against what is exposed, and returns the
// metrics and the labels that these have. That the values exist shows TestPrometheusAnswersThePanels.
func checkExpression(t testing.TB, f metrics.Families, expr string) (metrics, known []string) {
	t.Helper()
	known = []string{"job", "instance", "le"} // which Prometheus adds, or a histogram has
	for _, series := range inSeries.FindAllString(expr, -1) {
		name := series
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if of, ok := strings.CutSuffix(series, suffix); ok && f[of].GetType() == dto.MetricType_HISTOGRAM {
				name = of
			}
		}
		if f[name] == nil || name == series && f[name].GetType() == dto.MetricType_HISTOGRAM {
			t.Errorf("%s: %s is not exposed", expr, series)
		}
		metrics = append(metrics, name)
		for _, m := range f[name].GetMetric() {
			for _, l := range m.GetLabel() {
				known = append(known, l.GetName())
			}
		}
	}
	for _, m := range inLabels.FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.FieldsFunc(m[1]+m[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(known, l) {
				t.Errorf("%s: there is no label %s", expr, l)
			}
		}
	}
	return metrics, known
}

// documented is docs/observability.md.
func documented(t *testing.T) string {
	t.Helper()
	return harness.ReadFile(t, harness.Path("docs/observability.md"))
}

// TestDocumentedMetricsAreExposed, with the types and the labels that the table says, and no others are.
func TestDocumentedMetricsAreExposed(t *testing.T) {
	f := exposed(t)
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| ([^|]*)\\|")
	seen := make(map[string]bool)
	for _, m := range row.FindAllStringSubmatch(documented(t), -1) {
		name, kind, labels := m[1], m[2], strings.Fields(strings.ReplaceAll(m[3], "`", ""))
		seen[name] = true
		if f[name] == nil {
			t.Errorf("%s is not exposed", name)
			continue
		}
		if got := strings.ToLower(f[name].GetType().String()); got != kind {
			t.Errorf("%s is a %s, documented as a %s", name, got, kind)
		}
		for _, s := range f[name].GetMetric() {
			var have []string
			for _, l := range s.GetLabel() {
				have = append(have, l.GetName())
			}
			slices.Sort(have)
			slices.Sort(labels)
			if !slices.Equal(have, labels) {
				t.Errorf("%s has the labels %q, documented are %q", name, have, labels)
			}
		}
	}
	for name := range f {
		if !seen[name] {
			t.Errorf("%s is not documented", name)
		}
	}
}

// TestDocumentedOutcomesAreCounted, each under its own name, and no others are.
func TestDocumentedOutcomesAreCounted(t *testing.T) {
	_, table, _ := strings.Cut(documented(t), "\n| outcome | what happened |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want, got []string
	for row := range strings.SplitSeq(table, "\n") {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(row+"||", "|")[1], -1) {
			want = append(want, m[1])
		}
	}
	for _, s := range exposed(t)["caddy_hermes_streams_total"].GetMetric() {
		got = append(got, s.GetLabel()[0].GetValue())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("outcomes are %q, documented are %q", got, want)
	}
}

// TestDocumentedJSONIsWhatComes: the examples of a line of the log, of an event
// and of the admin API have the members that real ones have.
func TestDocumentedJSONIsWhatComes(t *testing.T) {
	rest := make(chan struct{})
	scripts := scenes(t)
	scripts["tool"] = func(x *upstream.Exchange) {
		x.Begin("\n`💻 ls -la`\n")
		x.Wait(rest)
		x.End()
	}
	w := watch(t, upstream.New(t, scripts.Play), "debug", "hermes_queue {\n\t\truns 1\n\t}\n\thermes")
	w.Play("crash").All()
	live := w.Play("tool")
	live.Frame()
	live.Frame()
	waits := w.Play("crash")
	waits.Frame() // its place
	_, admin := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK)
	close(rest)
	live.All()
	waits.All()
	var list any
	if err := json.Unmarshal([]byte(admin), &list); err != nil {
		t.Fatal(err)
	}
	real := []any{w.named("http.handlers.hermes", "agent_crashed"), w.named("events", "hermes_stream_failed"), list}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(documented(t), -1)
	if len(examples) != len(real) {
		t.Fatalf("%d examples, want %d", len(examples), len(real))
	}
	for i, e := range examples {
		var example any
		if err := json.Unmarshal([]byte(e[1]), &example); err != nil {
			t.Errorf("%v in %s", err, e[1])
		}
		if got, want := members(example), members(real[i]); !slices.Equal(got, want) {
			t.Errorf("the example has\n%q\nwhat comes has\n%q", got, want)
		}
	}
}

// members lists the paths of all members.
func members(v any) []string {
	all := make(map[string]bool)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, m := range v {
				all[path+"."+name] = true
				walk(path+"."+name, m)
			}
		case []any:
			for _, m := range v {
				walk(path+"[]", m)
			}
		}
	}
	walk("", v)
	return slices.Sorted(maps.Keys(all))
}

// TestDocumentedAttributesAreThose of real spans.
func TestDocumentedAttributesAreThose(t *testing.T) {
	c := newCollector(t)
	w := watch(t, upstream.New(t, upstream.Router{
		"good":  upstream.Replay(hermes.Recorded(t, "g3-v0.20.3/one_tool"), upstream.ByFrame),
		"crash": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/crash_in_tool"), upstream.ByFrame),
	}.Play), "", "tracing\n\thermes", c.environment()...)
	have := make(map[string]bool)
	for _, name := range []string{"good", "crash"} {
		w.Play(name).All()
		s := c.receive("chat hermes-agent")
		for a := range attributes(s.GetAttributes()) {
			have[a] = true
		}
	}
	said := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+\\.[a-z_.]+` ?)+)\\|").FindAllStringSubmatch(documented(t), -1) {
		for name := range strings.FieldsSeq(row[1]) {
			said[strings.Trim(name, "`")] = true
		}
	}
	if !maps.Equal(have, said) {
		t.Errorf("documented are\n%q\nspans have\n%q", slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(have)))
	}
}
