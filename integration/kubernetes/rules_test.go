package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	disruption "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

// A rule reports the faults of a deployment about a pod.
type rule func(o objects, p pod, bad func(fault string))

// always are the rules for every rendering, and ours those for what is not an
// existing deployment.
var (
	always = map[string]rule{
		"the restricted profile":   restricted,
		"a native sidecar":         native,
		"images are pinned":        pinned,
		"volumes are there":        volumes,
		"selectors select":         selectors,
		"the Service leads to us":  services,
		"an orderly end":           ends,
		"monitors see the metrics": monitors,
		"ways in lead to us":       waysIn,
	}
	ours = map[string]rule{
		"Hermes on loopback":      loopback,
		"probes through us":       probes,
		"no key to the cluster":   tokens,
		"time for what is open":   waits,
		"only through us":         policies,
		"one home, one pod":       homes,
		"as many as streams need": scaled,
	}
)

// A pod is the template of a workload.
type pod struct {
	name     string
	labels   map[string]string
	selector *meta.LabelSelector
	replicas *int32
	strategy apps.DeploymentStrategy
	meta     meta.ObjectMeta
	spec     *core.PodSpec
}

// pods are those with the sidecar in them.
func (o objects) pods() (all []pod) {
	for _, d := range of[*apps.Deployment](o) {
		all = append(all, pod{d.Name, d.Spec.Template.Labels, d.Spec.Selector, d.Spec.Replicas, d.Spec.Strategy, d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec})
	}
	for _, s := range of[*apps.StatefulSet](o) {
		all = append(all, pod{s.Name, s.Spec.Template.Labels, s.Spec.Selector, s.Spec.Replicas, apps.DeploymentStrategy{}, s.Spec.Template.ObjectMeta, &s.Spec.Template.Spec})
	}
	return slices.DeleteFunc(all, func(p pod) bool { return p.sidecar() == nil })
}

// sidecar is the container of that name, wherever it is.
func (p pod) sidecar() *core.Container {
	for _, list := range [][]core.Container{p.spec.InitContainers, p.spec.Containers} {
		for i := range list {
			if list[i].Name == "hermes-sidecar" {
				return &list[i]
			}
		}
	}
	return nil
}

// port is that of the sidecar with a name.
func (p pod) port(name string) int32 {
	for _, port := range p.sidecar().Ports {
		if port.Name == name {
			return port.ContainerPort
		}
	}
	return 0
}

func (p pod) client() int32 { return p.port("sidecar") }
func (p pod) health() int32 { return p.port("sidecar-health") }

// restricted asks the API server's own implementation of the profile.
func restricted(o objects, p pod, bad func(fault string)) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		bad(err.Error())
		return
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for _, p := range append(of[*core.Pod](o), &core.Pod{ObjectMeta: p.meta, Spec: *p.spec}) {
		for _, r := range evaluator.EvaluatePod(level, &p.ObjectMeta, &p.Spec) {
			if !r.Allowed {
				bad(p.Name + ": " + r.ForbiddenReason + ": " + r.ForbiddenDetail)
			}
		}
	}
	c := p.sidecar().SecurityContext
	if c == nil || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem || c.RunAsUser == nil || *c.RunAsUser != 65532 {
		bad("the sidecar's root file system can be written, or its user is another")
	}
}

func native(o objects, p pod, bad func(fault string)) {
	c := p.sidecar()
	if i := slices.IndexFunc(p.spec.InitContainers, func(c core.Container) bool { return c.Name == "hermes-sidecar" }); i < 0 || c.RestartPolicy == nil || *c.RestartPolicy != core.ContainerRestartPolicyAlways {
		bad("it is no init container that is restarted always")
	}
	for name, probe := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		// Not by way of Hermes, which is started only when this one is up.
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/healthz" || probe.HTTPGet.Port.IntVal != p.health() {
			bad("its " + name + " probe is not /healthz on its own port")
		}
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		bad("its resources are not limited")
	}
	if p.client() == 0 || p.health() == 0 || p.client() == p.health() {
		bad("it has not two ports")
	}
	for _, port := range []int32{p.client(), p.health()} {
		if strings.Count("\n"+caddyfile(o), fmt.Sprintf("\n:%d {\n", port)) != 1 {
			bad(fmt.Sprintf("its Caddyfile has no site on port %d", port))
		}
	}
}

// tagged is an image with a tag or a digest.
var tagged = regexp.MustCompile(`^[^@]+[^/](:[\w.-]+|@sha256:[0-9a-f]{32,64})$`)

func pinned(o objects, p pod, bad func(fault string)) {
	for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
		if m := tagged.FindStringSubmatch(c.Image); m == nil || slices.Contains([]string{":latest", ":stable", ":main"}, m[1]) {
			bad(c.Name + " has the image " + c.Image)
		}
	}
}

// volumes: each mount has one, and each volume what it is made of.
func volumes(o objects, p pod, bad func(fault string)) {
	configs, claims := map[string]bool{}, map[string]bool{"mine": true} // a claim that is there already
	for _, c := range of[*core.ConfigMap](o) {
		configs[c.Name] = true
	}
	for _, c := range of[*core.PersistentVolumeClaim](o) {
		claims[c.Name] = true
	}
	have := map[string]bool{}
	for _, v := range p.spec.Volumes {
		have[v.Name] = true
		if v.ConfigMap != nil && !configs[v.ConfigMap.Name] {
			bad("there is no ConfigMap " + v.ConfigMap.Name)
		}
		if v.PersistentVolumeClaim != nil && !claims[v.PersistentVolumeClaim.ClaimName] {
			bad("there is no claim " + v.PersistentVolumeClaim.ClaimName)
		}
	}
	writable := map[string]bool{}
	for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
		for _, m := range c.VolumeMounts {
			if !have[m.Name] {
				bad(c.Name + " mounts " + m.Name + ", which is no volume")
			}
			if c.Name == "hermes-sidecar" {
				writable[m.MountPath] = !m.ReadOnly
			}
		}
	}
	for _, e := range p.sidecar().Env {
		if regexp.MustCompile(`^XDG_.*_HOME$`).MatchString(e.Name) && !writable[e.Value] {
			bad(e.Name + " is no volume that it can write to")
		}
	}
	if file := "/etc/hermes-sidecar/Caddyfile"; !slices.Contains(p.sidecar().Args, file) || len(caddyfile(o)) == 0 {
		bad("the sidecar is not given " + file)
	}
}

// caddyfile is the one that the sidecar mounts.
func caddyfile(o objects) string {
	for _, p := range o.pods() {
		for _, v := range p.spec.Volumes {
			for _, c := range of[*core.ConfigMap](o) {
				if v.ConfigMap != nil && v.ConfigMap.Name == c.Name && v.Name == "hermes-sidecar-config" {
					return c.Data["Caddyfile"]
				}
			}
		}
	}
	return ""
}

// within says that labels have all of want, which says something.
func within(labels, want map[string]string) bool {
	if len(want) == 0 {
		return false
	}
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func selectors(o objects, p pod, bad func(fault string)) {
	if !within(p.labels, p.selector.MatchLabels) {
		bad(p.name + " does not select its own pods")
	}
	chosen := map[string]map[string]string{}
	for _, n := range of[*networking.NetworkPolicy](o) {
		chosen["NetworkPolicy "+n.Name] = n.Spec.PodSelector.MatchLabels
	}
	for _, m := range of[*monitoring.PodMonitor](o) {
		chosen["PodMonitor "+m.Name] = m.Spec.Selector.MatchLabels
	}
	for _, b := range of[*disruption.PodDisruptionBudget](o) {
		chosen["PodDisruptionBudget "+b.Name] = b.Spec.Selector.MatchLabels
	}
	for _, s := range p.spec.TopologySpreadConstraints {
		chosen["topologySpreadConstraints"] = s.LabelSelector.MatchLabels
	}
	for who, labels := range chosen {
		if !within(p.labels, labels) {
			bad(who + " selects none of our pods")
		}
	}
}

func services(o objects, p pod, bad func(fault string)) {
	n := 0
	for _, s := range of[*core.Service](o) {
		if !within(p.labels, s.Spec.Selector) {
			continue
		}
		n++
		if s.Spec.Ports[0].TargetPort.IntVal != p.client() {
			bad(fmt.Sprintf("Service %s leads to port %s", s.Name, s.Spec.Ports[0].TargetPort.String()))
		}
	}
	if n == 0 {
		bad("no Service selects " + p.name)
	}
}

// option is a duration in the Caddyfile, where it has to be once.
func option(o objects, name string, bad func(fault string)) time.Duration {
	m := regexp.MustCompile(`(?m)^\s+`+name+` (\S+)$`).FindAllStringSubmatch(caddyfile(o), -1)
	if len(m) != 1 {
		bad(fmt.Sprintf("%s is there %d times", name, len(m)))
		return 0
	}
	d, err := time.ParseDuration(m[0][1])
	if err != nil {
		bad(err.Error())
	}
	return d
}

// killed is when the pod is killed.
func (p pod) killed() time.Duration {
	if s := p.spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

// ends: 0 < drain_timeout < grace_period < terminationGracePeriodSeconds.
func ends(o objects, p pod, bad func(fault string)) {
	drain, grace := option(o, "drain_timeout", bad), option(o, "grace_period", bad)
	if drain <= 0 || grace <= drain || p.killed() <= grace {
		bad(fmt.Sprintf("drain_timeout %v, grace_period %v, and killed after %v", drain, grace, p.killed()))
	}
}

func monitors(o objects, p pod, bad func(fault string)) {
	for _, m := range of[*monitoring.PodMonitor](o) {
		if len(m.Spec.PodMetricsEndpoints) != 1 {
			bad("not one endpoint")
			continue
		}
		e := m.Spec.PodMetricsEndpoints[0]
		if e.PortNumber == nil || *e.PortNumber != p.health() || e.Path != "/metrics" {
			bad(m.Name + " does not scrape /metrics of the sidecar")
		}
		if !p.reachable(o, "monitoring", p.health()) {
			bad("Prometheus is kept out")
		}
	}
}

// reachable says that the policies let clients in a namespace reach a port: "" is
// the pod's own namespace.
func (p pod) reachable(o objects, namespace string, port int32) bool {
	closed := false
	for _, n := range of[*networking.NetworkPolicy](o) {
		if !within(p.labels, n.Spec.PodSelector.MatchLabels) {
			continue
		}
		closed = true
		for _, in := range n.Spec.Ingress {
			through := len(in.Ports) == 0
			for _, allowed := range in.Ports {
				through = through || allowed.Port == nil || allowed.Port.IntVal == port
			}
			from := len(in.From) == 0
			for _, peer := range in.From {
				switch {
				case peer.IPBlock != nil:
					from = true // some address
				case peer.NamespaceSelector == nil:
					from = from || namespace == ""
				default:
					from = from || within(map[string]string{"kubernetes.io/metadata.name": namespace}, peer.NamespaceSelector.MatchLabels) ||
						len(peer.NamespaceSelector.MatchLabels)+len(peer.NamespaceSelector.MatchExpressions) == 0
				}
			}
			if through && from {
				return true
			}
		}
	}
	return !closed
}

// The rules in this file are about Hermes' own container, which is ours to say in
// the base and in the chart.

// hermes is the container that the agent runs in.
func (p pod) hermes() *core.Container {
	for i := range p.spec.Containers {
		if p.spec.Containers[i].Name == "hermes" {
			return &p.spec.Containers[i]
		}
	}
	return &core.Container{}
}

// loopback: Hermes listens there, where the sidecar asks it, and has a key.
func loopback(o objects, p pod, bad func(fault string)) {
	env := map[string]core.EnvVar{}
	for _, e := range p.hermes().Env {
		if _, twice := env[e.Name]; twice {
			bad(e.Name + " is there twice")
		}
		env[e.Name] = e
	}
	if env["API_SERVER_HOST"].Value != "127.0.0.1" || env["API_SERVER_ENABLED"].Value != "true" {
		bad("Hermes' API server does not listen on the loopback interface")
	}
	key := env["API_SERVER_KEY"].ValueFrom
	if key == nil || key.SecretKeyRef == nil || key.SecretKeyRef.Optional != nil && *key.SecretKeyRef.Optional {
		bad("Hermes' key is in no Secret, or may be missing")
	}
	for _, e := range p.sidecar().Env {
		if e.Name == "HERMES_UPSTREAM" && e.Value != "127.0.0.1:"+env["API_SERVER_PORT"].Value {
			bad("the sidecar asks " + e.Value)
		}
	}
	if p.spec.HostNetwork || len(p.hermes().Ports) > 0 {
		bad("Hermes has a port of its own, or that of the node")
	}
}

// patience is how long a probe fails before Kubernetes acts.
func patience(p *core.Probe) time.Duration {
	return time.Duration(max(p.PeriodSeconds, 1)*max(p.FailureThreshold, 3)) * time.Second
}

// probes of Hermes go through the sidecar, and outlast a sidecar that hangs, is
// killed after its grace period, and starts again.
func probes(o objects, p pod, bad func(fault string)) {
	h, s := p.hermes(), p.sidecar()
	for name, probe := range map[string]*core.Probe{"startup": h.StartupProbe, "readiness": h.ReadinessProbe, "liveness": h.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/health" || probe.HTTPGet.Port.IntVal != p.client() || probe.TimeoutSeconds < 5 {
			bad("Hermes' " + name + " probe does not go through the sidecar")
			return
		}
	}
	grace := option(o, "grace_period", bad)
	if restart := patience(s.LivenessProbe) + grace + patience(s.StartupProbe); patience(h.LivenessProbe) <= restart {
		bad(fmt.Sprintf("Hermes is given up after %v, and the sidecar may take %v to come back", patience(h.LivenessProbe), restart))
	}
}

func tokens(o objects, p pod, bad func(fault string)) {
	if a := p.spec.AutomountServiceAccountToken; a == nil || *a {
		bad("the agent has a token of the cluster")
	}
	if e := p.spec.EnableServiceLinks; e == nil || *e {
		bad("the agent's variables list the cluster's services")
	}
	if p.spec.ShareProcessNamespace != nil && *p.spec.ShareProcessNamespace || p.spec.HostPID {
		bad("the agent sees the sidecar's process")
	}
}

// waits: the hook's wait, half a minute for Hermes and the sidecar's grace period
// are over before the pod is killed.
func waits(o objects, p pod, bad func(fault string)) {
	l := p.hermes().Lifecycle
	if l == nil || l.PreStop == nil || l.PreStop.Exec == nil || len(l.PreStop.Exec.Command) != 3 {
		bad("Hermes does not wait for what is in flight")
		return
	}
	script := l.PreStop.Exec.Command[2]
	m := regexp.MustCompile(`time\.monotonic\(\) \+ (\d+)`).FindStringSubmatch(script)
	if m == nil {
		bad("the preStop hook does not say how long it waits")
		return
	}
	n, _ := strconv.Atoi(m[1]) // they are digits
	wait, grace := time.Duration(n)*time.Second, option(o, "grace_period", bad)
	if rest := p.killed() - wait - grace; rest < 30*time.Second {
		bad(fmt.Sprintf("%v are left for Hermes to end: killed after %v, of which it waits %v and the sidecar %v", rest, p.killed(), wait, grace))
	}
	if !strings.Contains(script, fmt.Sprintf(`("127.0.0.1", %d,`, p.health())) {
		bad("the hook asks another port than the sidecar's")
	}
}

// policies: the backend, and any other port, only through the sidecar.
func policies(o objects, p pod, bad func(fault string)) {
	for _, n := range []string{"", "other", "monitoring"} {
		for _, port := range []int32{8642, 9642, 9119, 22} {
			if p.reachable(o, n, port) {
				bad(fmt.Sprintf("port %d is open to the namespace %q", port, n))
			}
		}
		if p.reachable(o, n, p.health()) && (n != "monitoring" || len(of[*monitoring.PodMonitor](o)) == 0) {
			bad(fmt.Sprintf("the metrics are open to the namespace %q", n))
		}
	}
	if !p.reachable(o, "", p.client()) || p.reachable(o, "other", p.client()) {
		bad("the sidecar's port is closed to its own namespace, or open to others")
	}
}

// homes: a volume that outlives the pod is never that of two pods.
func homes(o objects, p pod, bad func(fault string)) {
	i := slices.IndexFunc(p.spec.Volumes, func(v core.Volume) bool { return v.Name == "home" })
	if i < 0 {
		bad("Hermes has no home")
		return
	}
	switch v := p.spec.Volumes[i]; {
	case v.PersistentVolumeClaim != nil:
		if len(of[*autoscaling.HorizontalPodAutoscaler](o)) > 0 || p.replicas == nil || *p.replicas != 1 || p.strategy.Type != apps.RecreateDeploymentStrategyType {
			bad("two pods may have one home")
		}
	case v.Ephemeral == nil:
		bad("the home is neither a claim nor a volume of the pod")
	}
}

func scaled(o objects, p pod, bad func(fault string)) {
	for _, s := range of[*autoscaling.HorizontalPodAutoscaler](o) {
		if s.Spec.ScaleTargetRef.Name != p.name || s.Spec.ScaleTargetRef.Kind != "Deployment" {
			bad("the autoscaler scales " + s.Spec.ScaleTargetRef.Name)
		}
		if p.replicas != nil {
			bad("the autoscaler and the manifest both say how many there are")
		}
		if s.Spec.MinReplicas == nil || *s.Spec.MinReplicas < 1 || *s.Spec.MinReplicas > s.Spec.MaxReplicas {
			bad("the autoscaler's bounds are wrong")
		}
		for _, m := range s.Spec.Metrics {
			if m.Pods == nil || m.Pods.Metric.Name != "caddy_hermes_streams_active" || m.Pods.Target.AverageValue == nil || m.Pods.Target.AverageValue.Value() < 1 {
				bad("the autoscaler does not look at open streams")
			}
		}
		if b := of[*disruption.PodDisruptionBudget](o); len(b) != 1 || b[0].Spec.MaxUnavailable == nil || b[0].Spec.MaxUnavailable.IntVal != 1 {
			bad("there is no budget that lets nodes be drained")
		}
	}
}

// waysIn from outside of the cluster: each leads to a port of the Service that we have.
func waysIn(o objects, p pod, bad func(fault string)) {
	leads := func(what, service string, port func(core.ServicePort) bool) {
		for _, s := range of[*core.Service](o) {
			if s.Name == service && slices.ContainsFunc(s.Spec.Ports, port) {
				return
			}
		}
		bad(what + " leads to no Service of ours")
	}
	for _, i := range of[*networking.Ingress](o) {
		for _, r := range i.Spec.Rules {
			for _, p := range r.HTTP.Paths {
				leads("Ingress "+r.Host, p.Backend.Service.Name, func(s core.ServicePort) bool { return s.Name == p.Backend.Service.Port.Name })
			}
		}
	}
	for _, r := range of[*gateway.HTTPRoute](o) {
		for _, rule := range r.Spec.Rules {
			for _, b := range rule.BackendRefs {
				leads("HTTPRoute "+r.Name, string(b.Name), func(s core.ServicePort) bool { return b.Port != nil && s.Port == int32(*b.Port) })
			}
			if rule.Timeouts == nil || rule.Timeouts.Request == nil || *rule.Timeouts.Request != "0s" {
				bad("HTTPRoute " + r.Name + " may end a stream")
			}
		}
	}
}
