package kubernetes

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	core "k8s.io/api/core/v1"
)

// TestChartBends: what the values of the chart "bent" say arrives where it belongs.
func TestChartBends(t *testing.T) {
	o := must(t, charted(t, "hermes", "bent"))
	p := o.pods()[0]
	s, h := p.sidecar(), p.hermes()
	migrate := p.spec.InitContainers[1]

	if p.spec.PriorityClassName != "system-cluster-critical" || p.spec.ServiceAccountName != "hermes" {
		t.Errorf("priority %q, account %q", p.spec.PriorityClassName, p.spec.ServiceAccountName)
	}
	if a := o.accounts[0]; a.Name != "hermes" || a.Annotations["iam.example.com/role"] != "agent" || *a.AutomountServiceAccountToken {
		t.Errorf("account %+v", a)
	}

	if e := variable(h, "GITHUB_TOKEN"); e.ValueFrom == nil || e.ValueFrom.SecretKeyRef.Name != "github" {
		t.Errorf("from a Secret: %+v", e)
	}
	if e := variable(h, "NODE"); e.ValueFrom == nil || e.ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
		t.Errorf("from a field: %+v", e)
	}
	if variable(&migrate, "TZ").Value != "Europe/Berlin" || variable(s, "TZ").Name != "" || variable(s, "OTEL_EXPORTER_OTLP_ENDPOINT").Value != "http://collector:4318" {
		t.Errorf("variables of migrate %v, of the sidecar %v", migrate.Env, s.Env)
	}
	for _, c := range []*core.Container{s, h} {
		if !slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == "ca" && m.ReadOnly }) {
			t.Errorf("%s mounts %v", c.Name, c.VolumeMounts)
		}
	}

	if p := h.StartupProbe; p.FailureThreshold != 240 || p.PeriodSeconds != 5 {
		t.Errorf("Hermes' startup probe %+v", p)
	}
	if p := h.LivenessProbe; p.PeriodSeconds != 30 || p.FailureThreshold != 9 || p.HTTPGet.Path != "/health" {
		t.Errorf("Hermes' liveness probe %+v", p)
	}
	if p := s.LivenessProbe; p.FailureThreshold != 5 || p.PeriodSeconds != 10 {
		t.Errorf("the sidecar's liveness probe %+v", p)
	}

	// The sidecar is up before the others; all of them are before Hermes.
	var names []string
	for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
		names = append(names, c.Name)
	}
	if want := []string{"hermes-sidecar", "migrate", "skills", "hermes", "terminal"}; !slices.Equal(names, want) {
		t.Errorf("containers %q, want %q", names, want)
	}
	if b := o.budgets; len(b) != 1 || b[0].Spec.MaxUnavailable.IntVal != 0 {
		t.Errorf("budgets %+v", b)
	}
}

// variable is that of a container with a name.
func variable(c *core.Container, name string) core.EnvVar {
	i := slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == name })
	if i < 0 {
		return core.EnvVar{}
	}
	return c.Env[i]
}

// TestChartWaysIn: hosts, certificates and gateways are those of the values.
func TestChartWaysIn(t *testing.T) {
	o := must(t, charted(t, "hermes", "bent"))
	i, r := o.ingresses[0], o.routes[0]
	if *i.Spec.IngressClassName != "nginx" || i.Annotations["nginx.ingress.kubernetes.io/proxy-body-size"] != "10m" ||
		len(i.Spec.Rules) != 2 || i.Spec.Rules[1].Host != "agent.example.com" || i.Spec.TLS[0].SecretName != "hermes-tls" {
		t.Errorf("Ingress %+v", i.Spec)
	}
	if r.Spec.ParentRefs[0].Name != "public" || *r.Spec.ParentRefs[0].Namespace != "gateways" || r.Spec.Hostnames[0] != "hermes.example.com" || r.Annotations["e"] != "f" {
		t.Errorf("HTTPRoute %+v", r.Spec)
	}
	for name := range charts {
		if o := must(t, charted(t, "hermes", name)); name != "bent" && len(o.ingresses)+len(o.routes)+len(o.accounts)+len(o.alerts) > 0 {
			t.Errorf("%s: something that is off is rendered", name)
		}
	}
}

// TestChartRecords into a volume that is bounded, or on a claim.
func TestChartRecords(t *testing.T) {
	for name, want := range map[string]string{"bent": "record_max 50MB\n", "recorded on a claim": "record_max 100MB\n"} {
		o := must(t, charted(t, "hermes", name))
		if c := caddyfile(o); !strings.Contains(c, "record /record/streams\n") || !strings.Contains(c, want) {
			t.Errorf("%s: the Caddyfile is\n%s", name, c)
		}
		volumes := o.pods()[0].spec.Volumes
		v := volumes[slices.IndexFunc(volumes, func(v core.Volume) bool { return v.Name == "hermes-sidecar-record" })]
		switch {
		case name == "bent" && (v.EmptyDir == nil || v.EmptyDir.SizeLimit.Value() != 100e6):
			t.Errorf("%s: the volume is %+v", name, v)
		case name != "bent" && (v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != "mine"):
			t.Errorf("%s: the volume is %+v", name, v)
		}
	}
}

// TestChartHasTheAlerts and the dashboard that deploy/observability has: a chart reads no
// file outside of it.
func TestChartHasTheAlerts(t *testing.T) {
	for _, file := range []string{"hermes.rules.yml", "dashboard.json"} {
		want, copied := harness.ReadFile(t, harness.Path("deploy/observability/"+file)), filepath.Join(deployed, "chart/files", file)
		if *update {
			harness.WriteFile(t, copied, []byte(want))
		}
		if harness.ReadFile(t, copied) != want {
			t.Errorf("chart/files/%s is not deploy/observability/%s (-update copies it)", file, file)
		}
	}

	o := must(t, charted(t, "hermes", "bent"))
	rules := o.alerts[0]
	if len(rules.Spec.Groups) != 1 || len(rules.Spec.Groups[0].Rules) < 8 || rules.Labels["release"] != "prometheus" {
		t.Errorf("PrometheusRule %+v", rules)
	}
	for _, r := range rules.Spec.Groups[0].Rules {
		if want := "https://runbooks.example.com/hermes#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook is %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if strings.Contains(r.Alert, "Down") && !strings.Contains(r.Annotations["summary"], "{{ $labels.instance }}") {
			t.Errorf("%s: the summary is %q", r.Alert, r.Annotations["summary"])
		}
	}

	i := slices.IndexFunc(o.configs, func(c *core.ConfigMap) bool { return c.Name == "hermes-dashboard" })
	if i < 0 {
		t.Fatal("there is no dashboard")
	}
	c := o.configs[i]
	if c.Labels["grafana_dashboard"] != "1" || c.Labels["folder"] != "agents" || c.Annotations["grafana_folder"] != "Agents" {
		t.Errorf("labels %v, annotations %v", c.Labels, c.Annotations)
	}
	text := c.Data["hermes-sidecar.json"]
	var dashboard struct{ Panels []any }
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil || len(dashboard.Panels) < 20 || strings.Contains(text, "${DS_PROMETHEUS}") {
		t.Errorf("%v: %d panels, %d members", err, len(dashboard.Panels), len(slices.Collect(maps.Keys(c.Data))))
	}
}

// TestChartTestsTheWayIn: helm test asks Hermes through the Service.
func TestChartTestsTheWayIn(t *testing.T) {
	o := must(t, charted(t, "hermes", "other ports and options"))
	if len(o.hooks) != 1 || o.hooks[0].Annotations["helm.sh/hook"] != "test" {
		t.Fatalf("%d hooks", len(o.hooks))
	}
	h, s := o.hooks[0], o.services[0]
	if args := strings.Join(h.Spec.Containers[0].Args, " "); args != "hermes-health --url http://agent:80/health --timeout 30s" || s.Name != "agent" || s.Spec.Ports[0].Port != 80 {
		t.Errorf("it runs %s", args)
	}
	if within(h.Labels, s.Spec.Selector) || h.Spec.Containers[0].Image != o.pods()[0].sidecar().Image {
		t.Errorf("the Service leads to the test itself, or its image is %s", h.Spec.Containers[0].Image)
	}
}

// TestChartTakesWhatIsThere: a Caddyfile of one's own, a change of which is a new pod, and
// an account.
func TestChartTakesWhatIsThere(t *testing.T) {
	own := must(t, charted(t, "hermes", "a Caddyfile of one's own"))
	if c := caddyfile(own); !strings.HasPrefix(c, "{\n\tadmin off\n") || !strings.Contains(c, "\thermes_resume\n") || strings.Contains(c, "handle /healthz") {
		t.Errorf("the sidecar is given\n%s", c)
	}
	changed, err := template(t, "hermes", strings.Replace(charts["a Caddyfile of one's own"], "hermes_resume", "hermes_resume /v1/*", 1))
	if err != nil {
		t.Fatal(err)
	}
	sums := [2]string{}
	for i, o := range []objects{own, must(t, rendering{"changed", changed})} {
		sums[i] = o.pods()[0].meta.Annotations["checksum/caddyfile"]
	}
	if sums[0] == sums[1] {
		t.Error("a change of the Caddyfile is no new pod")
	}

	for values, want := range map[string]string{
		"":                                 "",
		"serviceAccount: {name: existing}": "existing",
		"serviceAccount: {create: true}":   "hermes",
		"serviceAccount: {create: true, name: mine}": "mine",
	} {
		out, err := template(t, "hermes", values)
		if err != nil {
			t.Fatal(err)
		}
		o := must(t, rendering{values, out})
		if got := o.pods()[0].spec.ServiceAccountName; got != want || strings.Contains(values, "create") != (len(o.accounts) == 1) {
			t.Errorf("%s: the account is %q, and %d are made", values, got, len(o.accounts))
		}
	}
}

// TestWaysInAreChecked: the rule finds a way that leads elsewhere, or that ends a stream.
func TestWaysInAreChecked(t *testing.T) {
	for name, change := range map[string]func(o objects){
		"an Ingress to another port":  func(o objects) { o.ingresses[0].Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Name = "health" },
		"an Ingress to another":       func(o objects) { o.ingresses[0].Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = "other" },
		"a route to another port":     func(o objects) { *o.routes[0].Spec.Rules[0].BackendRefs[0].Port = 8644 },
		"a route that ends a request": func(o objects) { o.routes[0].Spec.Rules[0].Timeouts = nil },
	} {
		o := must(t, charted(t, "hermes", "bent"))
		change(o)
		if len(waysIn(o)) == 0 {
			t.Errorf("%s: nothing wrong is found", name)
		}
	}
}
