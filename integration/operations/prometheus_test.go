package operations

import (
	"encoding/json"
	"fmt"
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
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A scraper is a Prometheus that scrapes one sidecar each second, and evaluates the rules
// as often.
type scraper struct {
	t    *testing.T
	base string
}

func startPrometheus(t *testing.T, site string) scraper {
	t.Helper()
	prometheus := harness.Program(t, "HERMES_PROMETHEUS", "prometheus")
	dir, listen := t.TempDir(), harness.FreePort(t)
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n  - job_name: hermes-sidecar\n    static_configs: [{targets: [%q]}]\n",
		filepath.Join(deployed, "hermes.rules.yml"), site)
	harness.WriteFile(t, filepath.Join(dir, "prometheus.yml"), []byte(config))
	p := harness.Start(t, exec.Command(prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen))
	if !p.Says("Server is ready to receive web requests") {
		t.Fatal("Prometheus does not start")
	}
	return scraper{t, "http://" + listen}
}

// ask asks Prometheus' API, and decodes the data of its answer.
func (s scraper) ask(path string, data any) {
	s.t.Helper()
	res, body := client.Get(s.t, http.DefaultClient, s.base+path)
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Status != "success" {
		s.t.Fatalf("%s: %s %v %s", path, res.Status, err, answer.Error)
	}
}

// query returns how many series an expression has now.
func (s scraper) query(expr string) int {
	s.t.Helper()
	var data struct{ Result []any }
	s.ask("/api/v1/query?query="+url.QueryEscape(expr), &data)
	return len(data.Result)
}

// states are those of the alerts, by name.
func (s scraper) states() map[string]string {
	s.t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	s.ask("/api/v1/rules", &data)
	states := map[string]string{}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if r.Health == "err" {
				s.t.Errorf("%s: %s", r.Name, r.LastError)
			}
			if r.Health == "ok" {
				states[r.Name] = r.State
			}
		}
	}
	return states
}

// everything is a query of the dashboard for all that its variables may choose.
func everything(expr string) string {
	return strings.NewReplacer("$job", "hermes.*", "$instance", ".*", "$operation", ".*").Replace(variables.Replace(expr))
}

// TestPrometheusAnswersThePanels: of a sidecar under load, each query of the dashboard has
// series in a real Prometheus, and so has each variable; the alerts that it gives reason
// for wait to fire, and no others.
func TestPrometheusAnswersThePanels(t *testing.T) {
	scripts := scenes(t)
	scripts["run"] = upstream.Replay(hermes.Recorded(t, "g3-v0.20.3/runs.one_tool"), upstream.ByFrame)
	scripts["whole"] = upstream.AsJSON("200 OK", `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"total_tokens":2}}`)
	w := watch(t, upstream.New(t, scripts.Play), "", "hermes_resume\n\thermes")
	p := startPrometheus(t, w.site)

	queries := map[string]string{} // by what asks
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			expr := everything(target.Expr)
			queries[panel.Title+" "+target.RefID+" "+expr] = expr
		}
	}
	if len(queries) < 25 {
		t.Fatalf("%d queries", len(queries))
	}
	load := func() {
		for name := range scripts {
			path := "/v1/chat/completions"
			if name == "run" {
				path = "/v1/runs/run_1/events"
			}
			w.Post(path, "X-Play", name).All()
		}
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(harness.Patience); len(queries) > 0; <-tick.C {
		load()
		for what, expr := range queries {
			if p.query(expr) > 0 {
				delete(queries, what)
			}
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for what := range queries {
		t.Errorf("no data: %s", what)
	}

	series := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, v := range readDashboard(t).Templating.List {
		q, _ := v.Query.(map[string]any)
		m := series.FindStringSubmatch(fmt.Sprint(q["query"]))
		if m == nil {
			continue
		}
		var values []string
		p.ask("/api/v1/label/"+m[2]+"/values?match[]="+url.QueryEscape(strings.ReplaceAll(m[1], "$job", ".*")), &values)
		if len(values) == 0 {
			t.Errorf("variable %s has no values", v.Name)
		}
	}

	waits := func(when string, want ...string) {
		t.Helper()
		var have []string
		for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); <-tick.C {
			states := p.states()
			have = nil
			for name, state := range states {
				if state != "inactive" {
					have = append(have, name)
				}
			}
			slices.Sort(have)
			if len(states) >= 11 && slices.Equal(have, want) {
				return
			}
		}
		t.Errorf("%s: the alerts %q wait, want %q", when, have, want)
	}
	waits("under load", "HermesAgentCrashes", "HermesErrorRatioHigh", "HermesUpstreamBreaksOff")
	w.Kill()
	waits("without a sidecar", "HermesAgentCrashes", "HermesErrorRatioHigh", "HermesMetricsAbsent", "HermesSidecarDown", "HermesUpstreamBreaksOff")
}
