package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// template renders the chart for a release with values.
func template(t *testing.T, release, values string, args ...string) ([]byte, error) {
	t.Helper()
	return helm(t, values, append([]string{"template", release, filepath.Join(deployed, "chart"), "--kube-version", "1.36.3"}, args...)...)
}

// chartOf renders the chart, which must succeed.
func chartOf(t *testing.T, release, values string, args ...string) objects {
	t.Helper()
	out, err := template(t, release, values, args...)
	if err != nil {
		t.Fatal(err)
	}
	return must(t, rendering{values, out})
}

// TestChartRefuses values that would not work, or would harm; the error says what
// to do, or at least where.
func TestChartRefuses(t *testing.T) {
	const outside = "networkPolicy: {from: [{ipBlock: {cidr: 203.0.113.0/24}}]}"
	for name, test := range map[string]struct{ values, says string }{
		"a name that is misspelt":         {"sidecar: {ports: 1}", "ports"},
		"an option that does not exist":   {"sidecar: {options: {progres: off}}", "progres"},
		"a value that does not exist":     {"sidecar: {options: {progress: loud}}", "progress"},
		"an option with a line break":     {`sidecar: {options: {keepalive: "10s\n\t}\n\tadmin"}}`, "keepalive"},
		"a tool that ends its line":       {`sidecar: {options: {tool: {"a\"": "b"}}}`, "propertyName"},
		"an emoji twice":                  {`sidecar: {options: {tool: {"🛰️": a, "🛰": b}}}`, "give each once"},
		"recordings, without a volume":    {"sidecar: {options: {record: /tmp}}", "record"},
		"latest":                          {"image: {tag: latest}", "image.tag is latest, which says nothing of what runs: name a version"},
		"latest of Hermes":                {"hermes: {image: {tag: latest}}", "hermes.image.tag is latest"},
		"a tag in the repository":         {"image: {repository: hermes-sidecar:1.2.3}", "repository"},
		"no version of Hermes":            {`hermes: {image: {tag: ""}}`, "/hermes/image"},
		"a version without its tag":       {`hermes: {image: {tag: null}}`, "/hermes/image"},
		"a tag that YAML takes apart":     {"hermes: {image: {tag: 0.10}}", "/hermes/image/tag"},
		"a drain that outlasts the grace": {"sidecar: {drainTimeout: 20}", "must be below"},
		"two servers on one port":         {"sidecar: {port: 8642}", "must differ"},
		"one port for both of ours":       {"sidecar: {port: 8644}", "must differ"},
		"webhooks on the sidecar's port":  {"hermes: {env: {WEBHOOK_ENABLED: true}}", "set hermes.env.WEBHOOK_PORT"},
		"webhooks set to another's port":  {`hermes: {env: {WEBHOOK_PORT: "8643"}}`, "set hermes.env.WEBHOOK_PORT"},
		"Hermes for everybody":            {"hermes: {env: {API_SERVER_HOST: 0.0.0.0}}", "hermes.env.API_SERVER_HOST is set by the chart"},
		"a key beside the Secret":         {"hermes: {env: {API_SERVER_KEY: abc}}", "hermes.secret"},
		"another home":                    {"hermes: {env: {HERMES_HOME: /tmp}}", "HERMES_HOME is set by the chart"},
		"a list for a variable":           {"hermes: {env: {A: [1]}}", "/hermes/env/A"},
		"an object for a variable":        {"hermes: {env: {A: {b: c}}}", "/hermes/env/A"},
		"nothing for a variable":          {"hermes: {env: {A: null}}", "/hermes/env/A"},
		"a number that YAML has rounded":  {"hermes: {env: {A: 12345678901234567890}}", "/hermes/env/A"},
		"a variable without a name":       {`hermes: {env: {"A=B": c}}`, "A=B"},
		"no Secret":                       {"hermes: {secret: null}", "secret"},
		"a Secret of no name":             {"hermes: {secret: My_Secret}", "secret"},
		"a policy that lets everybody in": {"networkPolicy: {from: []}", "from"},
		"a policy of no peer":             {"networkPolicy: {from: null}", "would let everybody in: name peers"},
		"no policy by accident":           {"networkPolicy: null", "networkPolicy"},
		"a peer that says nothing":        {"networkPolicy: {from: [{}]}", "/networkPolicy/from/0"},
		"a peer that is misspelt":         {"networkPolicy: {from: [{podSelectors: {}}]}", "podSelectors"},
		"an address for a network":        {"networkPolicy: {from: [{ipBlock: {cidr: 203.0.113.7}}]}", "cidr"},
		"a balancer that a policy closes": {"service: {type: LoadBalancer}", "networkPolicy.from keeps them out"},
		"a node's port that it closes":    {"service: {type: NodePort}", "networkPolicy.from keeps them out"},
		"more pods than there may be":     {"autoscaling: {enabled: true, minReplicas: 5}", "at most autoscaling.maxReplicas"},
		"one claim for many pods":         {"autoscaling: {enabled: true}\nhermes: {home: {existingClaim: mine}}", "remove one of the two"},
		"a label of ours":                 {`podLabels: {hermes-sidecar: "false"}`, "podLabels: hermes-sidecar is set by the chart"},
		"a label that selects":            {"podLabels: {app.kubernetes.io/instance: x}", "is set by the chart"},
		"a label that is none":            {`podLabels: {a: "b c"}`, "/podLabels/a"},
		"a label of PodMonitor's, twice":  {"podMonitor: {enabled: true, labels: {app.kubernetes.io/name: x}}", "podMonitor.labels: app.kubernetes.io/name is set"},
		"an annotation of ours":           {"podAnnotations: {checksum/caddyfile: x}", "podAnnotations: checksum/caddyfile is set"},
		"an annotation that is a number":  {outside + "\nservice: {type: LoadBalancer, annotations: {a: 1}}", "/service/annotations/a"},
		"a name with capitals":            {"fullnameOverride: Hermes", "fullnameOverride"},
		"a name with a number first":      {"fullnameOverride: 9lives", "fullnameOverride"},
		"a name that ends in a hyphen":    {"fullnameOverride: hermes-", "fullnameOverride"},
		"a name that is too long":         {"fullnameOverride: " + strings.Repeat("a", 64), "fullnameOverride"},
		"no limits by accident":           {"sidecar: {resources: null}", "resources"},
		"resources that are misspelt":     {"sidecar: {resources: {limit: {memory: 1Gi}}}", "limit"},
		"an amount that is none":          {"hermes: {resources: {limits: {memory: 4GB}}}", "/hermes/resources/limits/memory"},
		"a home of no size":               {`hermes: {home: {size: "0"}}`, "/hermes/home/size"},
		"a Secret by its bare name":       {"imagePullSecrets: [registry]", "/imagePullSecrets/0"},
		"an Ingress of every host":        {outside + "\ningress: {enabled: true}", "ingress.hosts is empty"},
		"a controller behind the policy":  {"ingress: {enabled: true, hosts: [hermes.example.com]}", "keeps the ingress controller"},
		"a gateway behind the policy":     {"httpRoute: {enabled: true, parentRefs: [{name: a}, {name: b, namespace: gateways}]}", "keeps the gateway of namespace gateways out"},
		"both behind the policy":          {"ingress: {enabled: true, hosts: [a.example.com]}\nhttpRoute: {enabled: true, parentRefs: [{name: a}]}", "keeps the ingress controller"},
		"a route without a gateway":       {outside + "\nhttpRoute: {enabled: true}", "name the gateway"},
		"a path of no host":               {outside + "\ningress: {enabled: true, hosts: [a.example.com], path: hermes}", "/ingress/path"},
		"a host that is a URL":            {outside + "\ningress: {enabled: true, hosts: ['https://hermes.example.com']}", "/ingress/hosts/0"},
		"a variable of ours, from a key":  {"hermes: {extraEnv: [{name: API_SERVER_KEY, value: x}]}", "API_SERVER_KEY is set by the chart already"},
		"a variable in both lists":        {"hermes: {env: {A: b}, extraEnv: [{name: A, value: c}]}", "hermes.extraEnv: A is set"},
		"a variable twice":                {"hermes: {extraEnv: [{name: A, value: b}, {name: A, value: c}]}", "hermes.extraEnv has a name twice"},
		"another upstream":                {"sidecar: {extraEnv: [{name: HERMES_UPSTREAM, value: x}]}", "HERMES_UPSTREAM is set by the chart already"},
		"a variable that is no object":    {"hermes: {extraEnv: [A]}", "/hermes/extraEnv/0"},
		"a volume of ours":                {"extraVolumes: [{name: home, emptyDir: {}}]", "extraVolumes: home is set"},
		"a container of ours":             {"extraContainers: [{name: hermes, image: x}]", "extraContainers: hermes is set"},
		"a mount without a place":         {"hermes: {extraVolumeMounts: [{name: a}]}", "/hermes/extraVolumeMounts/0"},
		"a probe of another kind":         {"hermes: {probes: {liveness: {tcpSocket: {port: 1}}}}", "tcpSocket"},
		"a probe that is misspelt":        {"sidecar: {probes: {live: {periodSeconds: 1}}}", "live"},
		"options beside a Caddyfile":      {"sidecar: {caddyfile: x, options: {progress: off}}", "sidecar.caddyfile replaces the chart's"},
		"recordings beside a Caddyfile":   {"sidecar: {caddyfile: x, record: {enabled: true}}", "sidecar.caddyfile replaces the chart's"},
		"links of several pods":           {"autoscaling: {enabled: true}\nsidecar: {approvals: {link: https://a.example.com/approve}}", "sidecar.approvals.replicasSecret is empty"},
		"a link that is no page":          {"sidecar: {approvals: {link: https://a.example.com}}", "/sidecar/approvals/link"},
		"a link that ends its line":       {`sidecar: {approvals: {link: "https://a.example.com/a\n}"}}`, "/sidecar/approvals/link"},
		"links beside a Caddyfile":        {"sidecar: {caddyfile: x, approvals: {link: https://a.example.com/a}}", "sidecar.caddyfile replaces the chart's"},
		"recordings of several pods":      {"autoscaling: {enabled: true}\nsidecar: {record: {enabled: true, existingClaim: mine}}", "sidecar.record.existingClaim belongs to one pod"},
		"more than may be recorded":       {"sidecar: {record: {enabled: true, maxMegabytes: 2000}}", "/sidecar/record/maxMegabytes"},
		"a runbook that is no page":       {"prometheusRule: {enabled: true, runbookURL: docs}", "/prometheusRule/runbookURL"},
		"a label of the rules, twice":     {"prometheusRule: {enabled: true, labels: {helm.sh/chart: x}}", "prometheusRule.labels: helm.sh/chart is set"},
		"another label of the dashboard":  {"dashboard: {enabled: true, labels: {grafana_dashboard: x}}", "dashboard.labels: grafana_dashboard is set"},
	} {
		out, err := template(t, "hermes", test.values)
		if err == nil {
			t.Errorf("%s is rendered:\n%s", name, out)
		} else if !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for release, says := range map[string]string{"9lives": "set fullnameOverride", "my.agent": "set fullnameOverride"} {
		if out, err := template(t, release, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("release %s: %v\n%s", release, err, out)
		}
		if _, err := template(t, release, "fullnameOverride: agent"); err != nil {
			t.Errorf("release %s under another name: %v", release, err)
		}
	}
}

// TestChartKeepsWhatIsNeeded: null takes a default away. Where the chart cannot do
// without, it says so; elsewhere null is as good as an empty value.
func TestChartKeepsWhatIsNeeded(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(deployed, "chart/values.yaml"))), &values); err != nil {
		t.Fatal(err)
	}
	empty := func(v any) bool {
		switch v := v.(type) {
		case string:
			return v == ""
		case map[string]any:
			return len(v) == 0
		case []any:
			return len(v) == 0
		}
		return false
	}
	n := 0
	var walk func(path []string, v any)
	walk = func(path []string, v any) {
		at := strings.Join(path, ".")
		if m, ok := v.(map[string]any); ok && !strings.HasSuffix(at, "resources") {
			for _, key := range slices.Sorted(maps.Keys(m)) {
				walk(append(slices.Clip(path), key), m[key])
			}
		}
		if len(path) == 0 || at == "hermes.command" || at == "hermes.args" {
			return
		}
		n++
		out, err := template(t, "hermes", strings.Join(path, ": {")+": null"+strings.Repeat("}", len(path)-1))
		if (err == nil) != empty(v) {
			t.Errorf("%s: null, %v\n%s", at, err, out)
		}
		if err != nil && (strings.Contains(err.Error(), "nil pointer") || !strings.Contains(err.Error(), path[len(path)-1])) {
			t.Errorf("%s: null says %v", at, err)
		}
	}
	walk(nil, values)
	if n < 40 {
		t.Errorf("%d values", n)
	}
}

// TestChartPassesVariables as they stand in the values file, or on the command line.
func TestChartPassesVariables(t *testing.T) {
	want := map[string]string{
		"BIG": "123456789", "BIGGER": "9007199254740991", "NEGATIVE": "-86400000", "SMALL": "7", "FRACTION": "0.7", "YES": "true", "NO": "false",
		"ZERO": "0", "MODE": "0755", "LONG": "12345678901234567890", "FLOAT": "1.10", "WORD": "null", "EXP": "1e9", "EMPTY": "", "QUOTED": "a \"b\" 'c' \\d # e", "LINES": "a\nb",
		"EMOJI": "👩‍🚀", "TEMPLATE": "{{ .Values }}", "COMMAND": "$(HOME)",
	}
	const values = `
hermes:
  env:
    BIG: 123456789
    BIGGER: 9007199254740991
    NEGATIVE: -86400000
    SMALL: 7
    FRACTION: 0.7
    "YES": on
    "NO": false
    ZERO: 0
    MODE: "0755"
    LONG: "12345678901234567890"
    FLOAT: "1.10"
    WORD: "null"
    EXP: "1e9"
    EMPTY: ""
    QUOTED: 'a "b" ''c'' \d # e'
    LINES: "a\nb"
    EMOJI: 👩‍🚀
    TEMPLATE: "{{ .Values }}"
    COMMAND: $(HOME)`
	check := func(o objects, want map[string]string) {
		t.Helper()
		have := map[string]string{}
		for _, e := range o.pods()[0].hermes().Env {
			if _, twice := have[e.Name]; twice {
				t.Errorf("%s is there twice", e.Name)
			}
			have[e.Name] = e.Value
		}
		for name, v := range want {
			if have[name] != v {
				t.Errorf("%s is %q, want %q", name, have[name], v)
			}
		}
	}
	check(chartOf(t, "hermes", values), want)
	o := chartOf(t, "hermes", "", "--set", "hermes.env.BIG=123456789,hermes.env.YES=true",
		"--set", "sidecar.options.max_frame=2097152,sidecar.options.idle_timeout=0", "--set-string", "hermes.env.LONG=12345678901234567890")
	check(o, map[string]string{"BIG": "123456789", "YES": "true", "LONG": "12345678901234567890"})
	if c := caddyfile(o); !strings.Contains(c, "max_frame 2097152\n") || !strings.Contains(c, "idle_timeout 0\n") {
		t.Error(c)
	}
}

// TestChartPassesNumbers that YAML's floats would be written with an exponent.
func TestChartPassesNumbers(t *testing.T) {
	o := chartOf(t, "hermes", "hermes: {user: 1000660000, group: 1000660000}\nautoscaling: {enabled: true, maxReplicas: 2000000, streams: 3000000}")
	p, s := o.pods()[0], of[*autoscaling.HorizontalPodAutoscaler](o)[0].Spec
	if c := p.hermes().SecurityContext; *c.RunAsUser != 1000660000 || *c.RunAsGroup != 1000660000 || *p.spec.SecurityContext.FSGroup != 1000660000 {
		t.Errorf("user %d, group %d and %d", *c.RunAsUser, *c.RunAsGroup, *p.spec.SecurityContext.FSGroup)
	}
	if s.MaxReplicas != 2000000 || s.Metrics[0].Pods.Target.AverageValue.String() != "3M" {
		t.Errorf("%d pods, %s streams", s.MaxReplicas, s.Metrics[0].Pods.Target.AverageValue)
	}
}

// TestChartNamesAreText, whatever YAML would take them for.
func TestChartNamesAreText(t *testing.T) {
	for _, name := range []string{"on", "true", "null", "e1", "y"} {
		for release, values := range map[string]string{name: "", "1e3": "fullnameOverride: '" + name + "'"} {
			o := chartOf(t, release, values+"\nautoscaling: {enabled: true}\npodMonitor: {enabled: true, prometheusNamespace: '1e3'}\nhermes: {secret: 'true'}")
			if in := of[*networking.NetworkPolicy](o)[0].Spec.Ingress; len(in) != 3 || in[1].From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "1e3" {
				t.Errorf("Prometheus is let in from %+v", in)
			}
			if of[*apps.Deployment](o)[0].Name != name || of[*core.Service](o)[0].Name != name || of[*autoscaling.HorizontalPodAutoscaler](o)[0].Spec.ScaleTargetRef.Name != name {
				t.Errorf("Deployment %s, Service %s, want %s", of[*apps.Deployment](o)[0].Name, of[*core.Service](o)[0].Name, name)
			}
		}
	}
}

// TestChartLetsClientsIn: with peers outside of the cluster a balancer leads to the pods. All
// namespaces, among the peers, let an ingress controller and a gateway in, and a gateway of the
// release's own namespace may be among that one's pods.
func TestChartLetsClientsIn(t *testing.T) {
	const (
		service = "service: {type: %s}\nnetworkPolicy: {from: [{podSelector: {}}, {ipBlock: {cidr: 203.0.113.0/24}}]}"
		ingress = "ingress: {enabled: true, hosts: [hermes.example.com]}\n"
		route   = "httpRoute: {enabled: true, parentRefs: [{name: public%s}]}\n"
		all     = "networkPolicy: {from: [{namespaceSelector: {}}]}"
	)
	for name, test := range map[string]struct {
		values string
		peers  int
	}{
		"a balancer":                   {fmt.Sprintf(service, "LoadBalancer"), 2},
		"a node's port":                {fmt.Sprintf(service, "NodePort"), 2},
		"a balancer without a policy":  {"service: {type: LoadBalancer}\nnetworkPolicy: {enabled: false}", 0},
		"all namespaces, an Ingress":   {ingress + all, 1},
		"all namespaces, a gateway":    {fmt.Sprintf(route, ", namespace: gateways") + all, 1},
		"all pods of all namespaces":   {ingress + "networkPolicy: {from: [{namespaceSelector: {}, podSelector: {}}]}", 1},
		"a gateway of this namespace":  {fmt.Sprintf(route, ""), 1},
		"likewise, by its name":        {fmt.Sprintf(route, ", namespace: agents"), 1},
		"likewise, with a pod's label": {fmt.Sprintf(route, "") + "networkPolicy: {from: [{podSelector: {matchLabels: {app: gateway}}}]}", 1},
	} {
		o := chartOf(t, "hermes", test.values, "--namespace", "agents")
		check(t, o, always)
		policies := of[*networking.NetworkPolicy](o)
		if test.peers == 0 && len(policies) == 0 {
			continue
		}
		if from := policies[0].Spec.Ingress[0].From; len(from) != test.peers {
			t.Errorf("%s: from %+v", name, from)
		}
	}
}

// TestChartLinksReachAnyPod: the pods ask each other, at a name for all of them that is there while they drain,
// whoever else the policy admits. The chart's Caddyfile runs as it is.
func TestChartLinksReachAnyPod(t *testing.T) {
	const values = `
autoscaling: {enabled: true}
sidecar: {port: 9643, approvals: {link: "https://hermes.example.com/team/approve", replicasSecret: replicas}}
networkPolicy: {from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}]}`
	o := chartOf(t, "agent", values)
	check(t, o, always)
	check(t, o, ours)
	p := o.pods()[0]
	services := of[*core.Service](o)
	s := services[len(services)-1]
	if s.Name != "agent-replicas" || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses || !within(p.labels, s.Spec.Selector) || s.Spec.Ports[0].Port != 9643 {
		t.Errorf("Service %s: %+v", s.Name, s.Spec)
	}
	const line = "approvals replicas http://agent-replicas:9643 {$HERMES_REPLICAS_SECRET}\n"
	text := caddyfile(o)
	if !strings.Contains(text, line) || !strings.Contains(text, "hermes_approvals /team/approve\n") || !strings.Contains(text, "approvals link https://hermes.example.com/team/approve text\n") {
		t.Errorf("the Caddyfile is\n%s", text)
	}
	in := of[*networking.NetworkPolicy](o)[0].Spec.Ingress
	if last := in[len(in)-1]; last.Ports[0].Port.IntVal != 9643 || !within(p.labels, last.From[0].PodSelector.MatchLabels) || len(last.From[0].PodSelector.MatchLabels) == 0 {
		t.Errorf("let in: %+v", in)
	}
	if i := slices.IndexFunc(p.sidecar().Env, func(e core.EnvVar) bool { return e.Name == "HERMES_REPLICAS_SECRET" }); i < 0 || p.sidecar().Env[i].ValueFrom.SecretKeyRef.Name != "replicas" {
		t.Errorf("variables: %+v", p.sidecar().Env)
	}
	home := t.TempDir()
	file := filepath.Join(home, "Caddyfile")
	harness.WriteFile(t, file, []byte(strings.ReplaceAll(text, "{$HERMES_REPLICAS_SECRET}", strings.Repeat("s", 32))))
	if _, bad, err := sidecar.Command(t, home, "validate", "--config", file); err != nil {
		t.Errorf("%v\n%s", err, bad)
	}
	if one := caddyfile(chartOf(t, "agent", "sidecar: {approvals: {link: https://hermes.example.com/approve}}")); strings.Contains(one, "replicas") || !strings.Contains(one, "hermes_approvals /approve\n") {
		t.Errorf("with one pod, the Caddyfile is\n%s", one)
	}
}

// TestChartWaitsForALongGrace: Hermes' liveness probe outlasts any grace period of
// the sidecar.
func TestChartWaitsForALongGrace(t *testing.T) {
	for _, grace := range []int{11, 89, 90, 91, 109, 110, 3600, 86400} {
		o := chartOf(t, "hermes", fmt.Sprintf("sidecar: {gracePeriod: %d}", grace))
		check(t, o, always)
		check(t, o, ours)
	}
}

// TestChartBends: what the values of the chart "bent" say arrives where it belongs.
func TestChartBends(t *testing.T) {
	o := must(t, charted(t, "hermes", "bent"))
	p := o.pods()[0]
	s, h := p.sidecar(), p.hermes()
	migrate := p.spec.InitContainers[1]

	if p.spec.PriorityClassName != "system-cluster-critical" || p.spec.ServiceAccountName != "hermes" {
		t.Errorf("priority %q, account %q", p.spec.PriorityClassName, p.spec.ServiceAccountName)
	}
	if a := of[*core.ServiceAccount](o)[0]; a.Name != "hermes" || a.Annotations["iam.example.com/role"] != "agent" || *a.AutomountServiceAccountToken {
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
	if b := of[*policy.PodDisruptionBudget](o); len(b) != 1 || b[0].Spec.MaxUnavailable.IntVal != 0 {
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
	i, r := of[*networking.Ingress](o)[0], of[*gateway.HTTPRoute](o)[0]
	if *i.Spec.IngressClassName != "nginx" || i.Annotations["nginx.ingress.kubernetes.io/proxy-body-size"] != "10m" ||
		len(i.Spec.Rules) != 2 || i.Spec.Rules[0].HTTP.Paths[0].Path != "/" || i.Spec.Rules[1].Host != "agent.example.com" || i.Spec.TLS[0].SecretName != "hermes-tls" {
		t.Errorf("Ingress %+v", i.Spec)
	}
	if r.Spec.ParentRefs[0].Name != "public" || *r.Spec.ParentRefs[0].Namespace != "gateways" || r.Spec.Hostnames[0] != "hermes.example.com" || r.Annotations["e"] != "f" {
		t.Errorf("HTTPRoute %+v", r.Spec)
	}
	for name := range charts {
		if o := must(t, charted(t, "hermes", name)); name != "bent" && len(of[*networking.Ingress](o))+len(of[*gateway.HTTPRoute](o))+len(of[*core.ServiceAccount](o))+len(of[*monitoring.PrometheusRule](o)) > 0 {
			t.Errorf("%s: something that is off is rendered", name)
		}
	}
}

// TestChartForOpenWebUI: values-open-webui.yaml is one that the chart takes, with the page on the host of Open WebUI and
// the keys from Secrets. What its Caddyfile does: TestTeamOnKubernetes.
func TestChartForOpenWebUI(t *testing.T) {
	values := harness.ReadFile(t, filepath.Join(deployed, "chart/values-open-webui.yaml"))
	o := chartOf(t, "hermes", values)
	if path := of[*networking.Ingress](o)[0].Spec.Rules[0].HTTP.Paths[0]; path.Path != "/hermes/approve" || *path.PathType != networking.PathTypePrefix {
		t.Errorf("the Ingress leads from %+v", path)
	}
	var set struct{ Sidecar struct{ Caddyfile string } }
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		t.Fatal(err)
	}
	configs := of[*core.ConfigMap](o)
	if i := slices.IndexFunc(configs, func(c *core.ConfigMap) bool { return strings.HasSuffix(c.Name, "-sidecar") }); i < 0 || strings.TrimSpace(configs[i].Data["Caddyfile"]) != strings.TrimSpace(set.Sidecar.Caddyfile) {
		t.Errorf("another Caddyfile: %v", configs)
	}
	secrets := map[string]string{}
	for _, e := range of[*apps.Deployment](o)[0].Spec.Template.Spec.InitContainers[0].Env {
		if e.ValueFrom != nil {
			secrets[e.Name] = e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
		}
	}
	if want := map[string]string{"KEY_OPENWEBUI": "hermes-open-webui/KEY_OPENWEBUI", "API_SERVER_KEY": "hermes-agent/API_SERVER_KEY"}; !maps.Equal(secrets, want) {
		t.Errorf("the secrets are %v", secrets)
	}
}

// TestChartRecords into a volume that is bounded, or on a claim.
func TestChartRecords(t *testing.T) {
	for name, want := range map[string]string{"bent": "record_max 50MB\n", "recorded": "record_max 100MB\n"} {
		o := must(t, charted(t, "hermes", name))
		if c := caddyfile(o); !strings.Contains(c, "record /record/streams\n") || !strings.Contains(c, want) {
			t.Errorf("%s: the Caddyfile is\n%s", name, c)
		}
		if !slices.ContainsFunc(o.pods()[0].sidecar().VolumeMounts, func(m core.VolumeMount) bool {
			return m.Name == "hermes-sidecar-record" && m.MountPath == "/record" && !m.ReadOnly
		}) {
			t.Errorf("%s: the sidecar mounts %v", name, o.pods()[0].sidecar().VolumeMounts)
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
	rules := of[*monitoring.PrometheusRule](o)[0]
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

	i := slices.IndexFunc(of[*core.ConfigMap](o), func(c *core.ConfigMap) bool { return c.Name == "hermes-dashboard" })
	if i < 0 {
		t.Fatal("there is no dashboard")
	}
	c := of[*core.ConfigMap](o)[i]
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
	o := must(t, charted(t, "hermes", "other"))
	if len(of[*core.Pod](o)) != 1 || of[*core.Pod](o)[0].Annotations["helm.sh/hook"] != "test" {
		t.Fatalf("%d hooks", len(of[*core.Pod](o)))
	}
	h, s := of[*core.Pod](o)[0], of[*core.Service](o)[0]
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
	own := must(t, charted(t, "hermes", "own-caddyfile"))
	if c := caddyfile(own); !strings.HasPrefix(c, "{\n\tadmin off\n") || !strings.Contains(c, "\thermes_resume\n") || strings.Contains(c, "handle /healthz") {
		t.Errorf("the sidecar is given\n%s", c)
	}
	changed := chartOf(t, "hermes", strings.Replace(charts["own-caddyfile"], "hermes_resume", "hermes_resume /v1/*", 1))
	sum := func(o objects) string { return o.pods()[0].meta.Annotations["checksum/caddyfile"] }
	if sum(own) == sum(changed) {
		t.Error("a change of the Caddyfile is no new pod")
	}

	for values, want := range map[string]string{
		"":                                 "",
		"serviceAccount: {name: existing}": "existing",
		"serviceAccount: {create: true}":   "hermes",
		"serviceAccount: {create: true, name: mine}": "mine",
	} {
		o := chartOf(t, "hermes", values)
		if got := o.pods()[0].spec.ServiceAccountName; got != want || strings.Contains(values, "create") != (len(of[*core.ServiceAccount](o)) == 1) {
			t.Errorf("%s: the account is %q, and %d are made", values, got, len(of[*core.ServiceAccount](o)))
		}
	}
}

// open are the values whose members are the user's own, so that values.yaml cannot have
// them.
var open = []string{"global", "sidecar.options"}

// TestSchemaOfTheChartIsComplete: the schema describes each value of values.yaml and no
// others, refuses every other name, and allows the defaults.
func TestSchemaOfTheChartIsComplete(t *testing.T) {
	file := filepath.Join(deployed, "chart/values.schema.json")
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(harness.ReadFile(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(deployed, "chart/values.yaml"))), &values); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(values); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if problems := undocumented(schema, values, ""); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
}

// undocumented returns what the schema has below a path and the values have not, and objects that take
// any name. That the schema has all of the values, helm checks.
func undocumented(s *jsonschema.Schema, values map[string]any, path string) (problems []string) {
	for s.Ref != nil && s.Properties == nil {
		s = s.Ref
	}
	if s.AdditionalProperties != false {
		problems = append(problems, path+" takes any name")
	}
	for name, property := range s.Properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		value, there := values[name]
		members, _ := value.(map[string]any)
		switch {
		case slices.Contains(open, at):
		case !there:
			problems = append(problems, at+" is not in values.yaml")
		case len(members) > 0 && !strings.HasSuffix(at, "resources"):
			problems = append(problems, undocumented(property, members, at)...)
		}
	}
	return problems
}
