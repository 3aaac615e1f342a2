package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

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
func loopback(o objects) (bad []string) {
	for _, p := range o.pods() {
		env := map[string]core.EnvVar{}
		for _, e := range p.hermes().Env {
			if _, twice := env[e.Name]; twice {
				bad = append(bad, e.Name+" is there twice")
			}
			env[e.Name] = e
		}
		if env["API_SERVER_HOST"].Value != "127.0.0.1" || env["API_SERVER_ENABLED"].Value != "true" {
			bad = append(bad, "Hermes' API server does not listen on the loopback interface")
		}
		key := env["API_SERVER_KEY"].ValueFrom
		if key == nil || key.SecretKeyRef == nil || key.SecretKeyRef.Optional != nil && *key.SecretKeyRef.Optional {
			bad = append(bad, "Hermes' key is in no Secret, or may be missing")
		}
		for _, e := range p.sidecar().Env {
			if e.Name == "HERMES_UPSTREAM" && e.Value != "127.0.0.1:"+env["API_SERVER_PORT"].Value {
				bad = append(bad, "the sidecar asks "+e.Value)
			}
		}
		if p.spec.HostNetwork || len(p.hermes().Ports) > 0 {
			bad = append(bad, "Hermes has a port of its own, or that of the node")
		}
	}
	return bad
}

// patience is how long a probe fails before somebody acts.
func patience(p *core.Probe) time.Duration {
	return time.Duration(max(p.PeriodSeconds, 1)*max(p.FailureThreshold, 3)) * time.Second
}

// probes of Hermes go through the sidecar, and outlast a sidecar that hangs, is
// killed after its grace period, and starts again.
func probes(o objects) (bad []string) {
	for _, p := range o.pods() {
		h, s := p.hermes(), p.sidecar()
		for name, probe := range map[string]*core.Probe{"startup": h.StartupProbe, "readiness": h.ReadinessProbe, "liveness": h.LivenessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/health" || probe.HTTPGet.Port.IntVal != p.client() || probe.TimeoutSeconds < 5 {
				bad = append(bad, "Hermes' "+name+" probe does not go through the sidecar")
				return bad
			}
		}
		grace, err := option(caddyfile(o), "grace_period")
		if err != nil {
			return []string{err.Error()}
		}
		if restart := patience(s.LivenessProbe) + grace + patience(s.StartupProbe); patience(h.LivenessProbe) <= restart {
			bad = append(bad, fmt.Sprintf("Hermes is given up after %v, and the sidecar may take %v to come back", patience(h.LivenessProbe), restart))
		}
	}
	return bad
}

func tokens(o objects) (bad []string) {
	for _, p := range o.pods() {
		if a := p.spec.AutomountServiceAccountToken; a == nil || *a {
			bad = append(bad, "the agent has a token of the cluster")
		}
		if e := p.spec.EnableServiceLinks; e == nil || *e {
			bad = append(bad, "the agent's variables list the cluster's services")
		}
		if p.spec.ShareProcessNamespace != nil && *p.spec.ShareProcessNamespace || p.spec.HostPID {
			bad = append(bad, "the agent sees the sidecar's process")
		}
	}
	return bad
}

// waits: the hook's wait, half a minute for Hermes and the sidecar's grace period
// are over before the pod is killed.
func waits(o objects) (bad []string) {
	for _, p := range o.pods() {
		l := p.hermes().Lifecycle
		if l == nil || l.PreStop == nil || l.PreStop.Exec == nil || len(l.PreStop.Exec.Command) != 3 {
			return []string{"Hermes does not wait for what is in flight"}
		}
		script := l.PreStop.Exec.Command[2]
		wait, err := seconds(script, `time\.monotonic\(\) \+ (\d+)`)
		if err != nil {
			return []string{err.Error()}
		}
		grace, err := option(caddyfile(o), "grace_period")
		if err != nil {
			return []string{err.Error()}
		}
		if rest := p.killed() - wait - grace; rest < 30*time.Second {
			bad = append(bad, fmt.Sprintf("%v are left for Hermes to end: killed after %v, of which it waits %v and the sidecar %v", rest, p.killed(), wait, grace))
		}
		if !strings.Contains(script, fmt.Sprintf(`("127.0.0.1", %d,`, p.health())) {
			bad = append(bad, "the hook asks another port than the sidecar's")
		}
	}
	return bad
}

// policies: the backend, and any other port, only through the sidecar.
func policies(o objects) (bad []string) {
	for _, p := range o.pods() {
		for _, n := range []string{"", "other", "monitoring"} {
			for _, port := range []int32{8642, 9642, 9119, 22} {
				if p.reachable(o, n, port) {
					bad = append(bad, fmt.Sprintf("port %d is open to the namespace %q", port, n))
				}
			}
			if p.reachable(o, n, p.health()) && (n != "monitoring" || len(o.monitors) == 0) {
				bad = append(bad, fmt.Sprintf("the metrics are open to the namespace %q", n))
			}
		}
		if !p.reachable(o, "", p.client()) || p.reachable(o, "other", p.client()) {
			bad = append(bad, "the sidecar's port is closed to its own namespace, or open to others")
		}
	}
	return bad
}

// homes: a volume that outlives the pod is never that of two pods.
func homes(o objects) (bad []string) {
	for _, p := range o.pods() {
		i := slices.IndexFunc(p.spec.Volumes, func(v core.Volume) bool { return v.Name == "home" })
		if i < 0 {
			return []string{"Hermes has no home"}
		}
		switch v := p.spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			if len(o.scalers) > 0 || p.replicas == nil || *p.replicas != 1 || p.strategy.Type != apps.RecreateDeploymentStrategyType {
				bad = append(bad, "two pods may have one home")
			}
		case v.Ephemeral == nil:
			bad = append(bad, "the home is neither a claim nor a volume of the pod")
		}
	}
	return bad
}

func scaled(o objects) (bad []string) {
	for _, s := range o.scalers {
		for _, p := range o.pods() {
			if s.Spec.ScaleTargetRef.Name != p.name || s.Spec.ScaleTargetRef.Kind != "Deployment" {
				bad = append(bad, "the autoscaler scales "+s.Spec.ScaleTargetRef.Name)
			}
			if p.replicas != nil {
				bad = append(bad, "the autoscaler and the manifest both say how many there are")
			}
			if s.Spec.MinReplicas == nil || *s.Spec.MinReplicas < 1 || *s.Spec.MinReplicas > s.Spec.MaxReplicas {
				bad = append(bad, "the autoscaler's bounds are wrong")
			}
			for _, m := range s.Spec.Metrics {
				if m.Pods == nil || m.Pods.Metric.Name != "caddy_hermes_streams_active" || m.Pods.Target.AverageValue == nil || m.Pods.Target.AverageValue.Value() < 1 {
					bad = append(bad, "the autoscaler does not look at open streams")
				}
			}
		}
		if len(o.budgets) != 1 || o.budgets[0].Spec.MaxUnavailable == nil || o.budgets[0].Spec.MaxUnavailable.IntVal != 1 {
			bad = append(bad, "there is no budget that lets nodes be drained")
		}
	}
	return bad
}
