package kubernetes

import (
	"bytes"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// check applies rules to a rendering.
func check(t *testing.T, o objects, rules map[string]rule) {
	t.Helper()
	for _, name := range names(rules) {
		for _, bad := range rules[name](o) {
			t.Errorf("%s: %s", name, bad)
		}
	}
}

func TestKustomizations(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(overlays)) {
		t.Run(name, func(t *testing.T) {
			o := must(t, kustomized(t, name))
			check(t, o, always)
			if strings.HasPrefix(name, "base") {
				check(t, o, ours)
			}
			if caddyfile(o) != harness.ReadFile(t, filepath.Join(deployed, "components/sidecar/Caddyfile")) {
				t.Errorf("the sidecar is given\n%s", caddyfile(o))
			}
		})
	}
}

func TestChart(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		t.Run(name, func(t *testing.T) {
			o := must(t, charted(t, "hermes", name))
			check(t, o, always)
			check(t, o, ours)
		})
	}
}

// TestChartIsTheBase: both say the same about the pod and what is around it, but
// for labels that Helm wants, the name of the ConfigMap and where the image is.
func TestChartIsTheBase(t *testing.T) {
	chart, base := must(t, charted(t, "hermes", "default")), must(t, kustomized(t, "base"))
	caddyfiles := [2]any{bare(caddyfile(chart)), bare(caddyfile(base))}
	configs := func(o objects) string {
		var name string
		for _, v := range o.pods()[0].spec.Volumes {
			if v.ConfigMap != nil {
				name, v.ConfigMap.Name = v.ConfigMap.Name, "hermes-sidecar"
			}
		}
		return name
	}
	if c, b := configs(chart), configs(base); c != "hermes-sidecar" || !strings.HasPrefix(b, "hermes-sidecar-") {
		t.Errorf("ConfigMaps %s and %s", c, b)
	}
	const registry = "ghcr.io/hermes-sidecar/"
	image := &chart.pods()[0].sidecar().Image
	if !strings.HasPrefix(*image, registry) {
		t.Errorf("the chart has the image %s, which is not that of the releases", *image)
	}
	*image = strings.TrimPrefix(*image, registry)
	for _, o := range []objects{chart, base} {
		for _, list := range [][]core.Container{o.pods()[0].spec.InitContainers, o.pods()[0].spec.Containers} {
			for i := range list {
				list[i].ImagePullPolicy = "" // IfNotPresent, the default for a tag
			}
		}
		slices.SortFunc(o.pods()[0].spec.Volumes, func(a, b core.Volume) int { return strings.Compare(a.Name, b.Name) })
		o.services[0].Spec.Type = "" // ClusterIP, the default
		for _, n := range o.policies {
			n.Spec.PodSelector.MatchLabels = nil // whose pods, selectors says
		}
	}
	for name, pair := range map[string][2]any{
		"pod":           {chart.deployments[0].Spec.Template.Spec, base.deployments[0].Spec.Template.Spec},
		"strategy":      {chart.deployments[0].Spec.Strategy, base.deployments[0].Spec.Strategy},
		"selector":      {chart.deployments[0].Spec.Selector, base.deployments[0].Spec.Selector},
		"Service":       {chart.services[0].Spec, base.services[0].Spec},
		"claim":         {chart.claims[0].Spec, base.claims[0].Spec},
		"NetworkPolicy": {chart.policies[0].Spec, base.policies[0].Spec},
		"Caddyfile":     caddyfiles,
	} {
		if c, b := text(t, pair[0]), text(t, pair[1]); c != b {
			t.Errorf("%s: the chart says\n%s\nthe base says\n%s", name, c, b)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// bare is a Caddyfile without comments, empty lines and the order of its options.
func bare(caddyfile string) []string {
	var lines []string
	for l := range strings.Lines(caddyfile) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			lines = append(lines, l)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestExistingDeployments keep what they have.
func TestExistingDeployments(t *testing.T) {
	o := must(t, kustomized(t, "example"))
	if len(o.deployments) != 2 || len(o.services) != 2 {
		t.Fatalf("%d Deployments, %d Services", len(o.deployments), len(o.services))
	}
	for _, d := range o.deployments {
		if got := len(d.Spec.Template.Spec.InitContainers); d.Name == "hermes-page" && got != 0 || d.Name == "hermes" && got != 2 {
			t.Errorf("%s has %d init containers", d.Name, got)
		}
	}
	for _, s := range o.services {
		port := s.Spec.Ports[0]
		switch {
		case port.Port != 80:
			t.Errorf("clients of %s must use port %d now", s.Name, port.Port)
		case s.Name == "hermes" && (port.TargetPort.IntVal != 8643 || port.Name != "api"), s.Name == "hermes-page" && port.TargetPort.StrVal != "http":
			t.Errorf("%s leads to %s", s.Name, port.TargetPort.String())
		}
	}
	p := o.pods()[0]
	if c := p.spec.Containers[0]; c.Name != "agent" || c.Ports[0].ContainerPort != 8642 || c.ReadinessProbe.HTTPGet.Port.StrVal != "api" {
		t.Errorf("the agent's container is %+v", c)
	}
	if p.labels["app"] != "hermes" || p.spec.TerminationGracePeriodSeconds != nil {
		t.Errorf("labels %v, killed after %v", p.labels, p.killed())
	}
}

// TestPrefixedNamesFit: what refers to a name gets its prefix too.
func TestPrefixedNamesFit(t *testing.T) {
	o := must(t, kustomized(t, "base, all"))
	if d := o.deployments[0]; d.Name != "team-a-hermes" || d.Namespace != "agents" || o.scalers[0].Spec.ScaleTargetRef.Name != d.Name {
		t.Errorf("Deployment %s in %s, scaled is %s", d.Name, d.Namespace, o.scalers[0].Spec.ScaleTargetRef.Name)
	}
	images := []string{o.pods()[0].sidecar().Image, o.pods()[0].hermes().Image}
	if images[0] != "registry.example.com/hermes-sidecar:1.2.3" || !strings.HasPrefix(images[1], "nousresearch/hermes-agent@sha256:") {
		t.Errorf("images %q", images)
	}
}

// TestRulesFindWhatIsWrong: each change breaks the rule that is there for it.
func TestRulesFindWhatIsWrong(t *testing.T) {
	yes := true
	sidecar := func(o objects) *core.Container { return o.pods()[0].sidecar() }
	hermes := func(o objects) *core.Container { return o.pods()[0].hermes() }
	changed := func(from, to string) func(objects) {
		return func(o objects) {
			for _, c := range o.configs {
				if !strings.Contains(c.Data["Caddyfile"], from) {
					t.Errorf("no %s in the Caddyfile", from)
				}
				c.Data["Caddyfile"] = strings.Replace(c.Data["Caddyfile"], from, to, 1)
			}
		}
	}
	for name, test := range map[string]struct {
		rule   string
		change func(o objects)
	}{
		"privileges may rise":       {"the restricted profile", func(o objects) { sidecar(o).SecurityContext.AllowPrivilegeEscalation = &yes }},
		"Hermes keeps capabilities": {"the restricted profile", func(o objects) { hermes(o).SecurityContext.Capabilities = nil }},
		"a volume of the node": {"the restricted profile", func(o objects) {
			o.pods()[0].spec.Volumes[3].VolumeSource = core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/"}}
		}},
		"a root file system to write to":   {"the restricted profile", func(o objects) { sidecar(o).SecurityContext.ReadOnlyRootFilesystem = nil }},
		"an init container that ends":      {"a native sidecar", func(o objects) { sidecar(o).RestartPolicy = nil }},
		"a start that waits for Hermes":    {"a native sidecar", func(o objects) { sidecar(o).StartupProbe.HTTPGet.Port = intstr.FromInt32(8643) }},
		"no liveness":                      {"a native sidecar", func(o objects) { sidecar(o).LivenessProbe = nil }},
		"memory without limit":             {"a native sidecar", func(o objects) { sidecar(o).Resources.Limits = nil }},
		"no tag":                           {"images are pinned", func(o objects) { sidecar(o).Image = "hermes-sidecar" }},
		"a port of a registry for a tag":   {"images are pinned", func(o objects) { sidecar(o).Image = "registry:5000/hermes-sidecar" }},
		"latest":                           {"images are pinned", func(o objects) { hermes(o).Image = "nousresearch/hermes-agent:latest" }},
		"no ConfigMap":                     {"volumes are there", func(o objects) { o.configs[0].Name = "other" }},
		"no volume":                        {"volumes are there", func(o objects) { o.pods()[0].spec.Volumes[0].Name = "other" }},
		"no place for Caddy's data":        {"volumes are there", func(o objects) { sidecar(o).VolumeMounts = sidecar(o).VolumeMounts[:1] }},
		"a policy for other pods":          {"selectors select", func(o objects) { o.policies[0].Spec.PodSelector.MatchLabels = map[string]string{"a": "b"} }},
		"a Deployment for other pods":      {"selectors select", func(o objects) { o.deployments[0].Spec.Selector.MatchLabels["a"] = "b" }},
		"a Service for other pods":         {"the Service leads to us", func(o objects) { o.services[0].Spec.Selector["a"] = "b" }},
		"a Service past us":                {"the Service leads to us", func(o objects) { o.services[0].Spec.Ports[0].TargetPort = intstr.FromInt32(8642) }},
		"killed too early":                 {"an orderly end", func(o objects) { *o.deployments[0].Spec.Template.Spec.TerminationGracePeriodSeconds = 20 }},
		"a grace that ends with the drain": {"an orderly end", changed("grace_period 20s", "grace_period 10s")},
		"no grace":                         {"an orderly end", changed("grace_period 20s", "")},
		"Hermes for everybody":             {"Hermes on loopback", func(o objects) { hermes(o).Env[1].Value = "0.0.0.0" }},
		"Hermes without a key":             {"Hermes on loopback", func(o objects) { hermes(o).Env[3].ValueFrom.SecretKeyRef.Optional = &yes }},
		"an upstream that is not there":    {"Hermes on loopback", func(o objects) { sidecar(o).Env[0].Value = "127.0.0.1:1" }},
		"probes that cannot arrive":        {"probes through us", func(o objects) { hermes(o).ReadinessProbe.HTTPGet.Port = intstr.FromInt32(8642) }},
		"a Hermes given up too early":      {"probes through us", func(o objects) { hermes(o).LivenessProbe.FailureThreshold = 3 }},
		"a token":                          {"no key to the cluster", func(o objects) { o.deployments[0].Spec.Template.Spec.AutomountServiceAccountToken = nil }},
		"no hook":                          {"time for what is open", func(o objects) { hermes(o).Lifecycle = nil }},
		"no time left for Hermes":          {"time for what is open", func(o objects) { *o.deployments[0].Spec.Template.Spec.TerminationGracePeriodSeconds = 280 }},
		"no policy":                        {"only through us", func(o objects) { o.policies[0].Spec.PodSelector.MatchLabels = map[string]string{"a": "b"} }},
		"the backend's port open": {"only through us", func(o objects) {
			port := intstr.FromInt32(8642)
			in := &o.policies[0].Spec.Ingress[0]
			in.Ports = append(in.Ports, networking.NetworkPolicyPort{Port: &port})
		}},
		"everything open": {"only through us", func(o objects) { o.policies[0].Spec.Ingress[0].Ports = nil }},
		"two pods for one home": {"one home, one pod", func(o objects) {
			two := int32(2)
			o.deployments[0].Spec.Replicas = &two
		}},
		"two pods during a rollout": {"one home, one pod", func(o objects) {
			o.deployments[0].Spec.Strategy = apps.DeploymentStrategy{Type: apps.RollingUpdateDeploymentStrategyType}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := must(t, kustomized(t, "base"))
			test.change(o)
			r := always[test.rule]
			if r == nil {
				r = ours[test.rule]
			}
			if len(r(o)) == 0 {
				t.Errorf("%s finds nothing wrong", test.rule)
			}
		})
	}
	for name, change := range map[string]func(o objects){
		"another target":      func(o objects) { o.scalers[0].Spec.ScaleTargetRef.Name = "other" },
		"another metric":      func(o objects) { o.scalers[0].Spec.Metrics = []autoscaling.MetricSpec{{}} },
		"a number of its own": func(o objects) { o.deployments[0].Spec.Replicas = new(int32) },
	} {
		o := must(t, kustomized(t, "base, autoscaled"))
		change(o)
		if len(scaled(o)) == 0 {
			t.Errorf("autoscaler, %s: nothing wrong is found", name)
		}
	}
	o := must(t, kustomized(t, "base, monitored"))
	o.policies = slices.DeleteFunc(o.policies, func(n *networking.NetworkPolicy) bool { return n.Name == "hermes-sidecar-metrics" })
	if len(monitors(o)) == 0 {
		t.Error("a Prometheus that is kept out is not found")
	}
}

// TestMetricOfTheAutoscalerIsDocumented, and so exposed (integration tests that).
func TestMetricOfTheAutoscalerIsDocumented(t *testing.T) {
	doc := harness.ReadFile(t, harness.Path("docs/observability.md"))
	for _, m := range must(t, kustomized(t, "base, autoscaled")).scalers[0].Spec.Metrics {
		if !strings.Contains(doc, "| `"+m.Pods.Metric.Name+"` | gauge |") {
			t.Errorf("%s is not in docs/observability.md", m.Pods.Metric.Name)
		}
	}
}

// TestKubectlRendersTheSame as the library that the other tests use.
func TestKubectlRendersTheSame(t *testing.T) {
	kubectl := harness.Program(t, "HERMES_KUBECTL", "kubectl")
	for _, name := range slices.Sorted(maps.Keys(overlays)) {
		out, err := run(exec.Command(kubectl, "kustomize", overlay(t, overlays[name])))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := kustomized(t, name).yaml; !bytes.Equal(out, want) {
			t.Errorf("%s: kubectl renders\n%s\nwant\n%s", name, out, want)
		}
	}
}

// TestHelmLint, strictly, with all values.
func TestHelmLint(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		if _, err := helm(t, charts[name], "lint", "--strict", filepath.Join(deployed, "chart"), "--kube-version", "1.36.3"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
