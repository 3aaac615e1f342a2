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
	core "k8s.io/api/core/v1"
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
