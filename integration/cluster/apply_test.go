// Package cluster applies deploy/kubernetes to a real API server,
// with its etcd and its controllers, all built from their Go modules and started on
// the loopback interface. It is a module of its own, for that takes minutes to
// compile the first time; .ci/kubernetes runs it. No kubelet runs: the pods are
// admitted and led to, not started.
package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// renderings are all ways to deploy, which the package kubernetes renders.
func renderings(t *testing.T) map[string][]object {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestWriteRenderings$", "./kubernetes")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "HERMES_RENDERED="+dir, "HERMES_HELM=required")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d renderings, %v", len(files), err)
	}
	all := make(map[string][]object)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".yaml")] = documents(t, b)
	}
	return all
}

// namespace makes one in which only pods of the restricted profile are admitted.
func (a *api) namespace(n string) {
	a.t.Helper()
	a.must(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": n, "labels": object{
		"pod-security.kubernetes.io/enforce": "restricted",
		"pod-security.kubernetes.io/warn":    "restricted",
	}}}, "")
	// A controller makes the first one, where one runs, and an operator the other one.
	for _, account := range []string{"default", "existing"} {
		a.must(object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": account}}, n)
	}
}

// definitions are the CRDs that are not Kubernetes' own, by module: their files, and where
// objects of theirs are listed.
var definitions = []struct{ module, file, list string }{
	{"github.com/prometheus-operator/prometheus-operator@v0.93.1", "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml", "/apis/monitoring.coreos.com/v1/podmonitors"},
	{"github.com/prometheus-operator/prometheus-operator@v0.93.1", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml", "/apis/monitoring.coreos.com/v1/prometheusrules"},
	{"sigs.k8s.io/gateway-api@v1.6.3", "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml", "/apis/gateway.networking.k8s.io/v1/httproutes"},
}

// define installs the CRDs from their modules.
func (a *api) define() {
	a.t.Helper()
	for _, d := range definitions {
		out, err := exec.Command("go", "mod", "download", "-json", d.module).Output()
		if err != nil {
			a.t.Fatal(err)
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(out, &module); err != nil {
			a.t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(module.Dir, d.file))
		if err != nil {
			a.t.Fatal(err)
		}
		for _, o := range documents(a.t, b) {
			a.must(o, "")
			a.until("the CRD is established", func() bool {
				r, err := a.do("GET", path(a.t, o, "")+"/"+name(o), "", nil)
				return err == nil && strings.Contains(fmt.Sprint(r.body["status"]), "status:True type:Established")
			})
		}
		a.until(d.list+" can be had", func() bool {
			r, err := a.do("GET", d.list, "", nil)
			return err == nil && r.status == 200
		})
	}
}

// TestCluster has one API server for all that follows.
func TestCluster(t *testing.T) {
	a := newCluster(t)
	a.define()
	all := renderings(t)
	for i, n := range slices.Sorted(maps.Keys(all)) {
		namespace := fmt.Sprintf("n%d", i)
		t.Run(n, func(t *testing.T) {
			a := a.of(t)
			a.namespace(namespace)
			for _, o := range all[n] {
				// The namespace that it names is the one that it is for.
				delete(o["metadata"].(object), "namespace")
				if o["kind"] == "Pod" { // of a hook; admission adds to it what it adds to all pods
					a.must(o, namespace)
					continue
				}
				a.isTaken(o, namespace)
				if template := podOf(o); template != nil {
					a.isAdmitted(template, namespace)
				}
			}
		})
	}
	a.run()
	for n, killed := range map[string]int{"base": 300, "example": 30, "chart, default": 300} {
		t.Run("controllers, "+n, func(t *testing.T) {
			a.of(t).rollsOut(all[n], "rollout-"+strings.Split(n, ",")[0], killed)
		})
	}
	t.Run("kubectl", func(t *testing.T) { a.of(t).kubectl() })
	t.Run("helm", func(t *testing.T) { a.of(t).helm() })
}

// isTaken applies an object, at first without effect, and reads back all that it said: the server
// drops a member silently whose feature is off.
func (a *api) isTaken(o object, namespace string) {
	a.t.Helper()
	what := fmt.Sprint(o["kind"], " ", name(o))
	for _, dry := range []bool{true, false} {
		r, err := a.apply(o, namespace, dry)
		if err != nil {
			a.t.Errorf("%s: %v", what, err)
			return
		}
		if len(r.warnings) > 0 {
			a.t.Errorf("%s: %q", what, r.warnings)
		}
	}
	live, err := a.do("GET", path(a.t, o, namespace)+"/"+name(o), "", nil)
	if err != nil || live.status != 200 {
		a.t.Errorf("%s: %v, %v", what, live.body["message"], err)
		return
	}
	for _, l := range lost("", o, live.body) {
		a.t.Errorf("%s: %s", what, l)
	}
}

// lost lists what of want is not in got.
func lost(at string, want, got any) (all []string) {
	switch w := want.(type) {
	case object:
		g, _ := got.(object)
		for k, v := range w {
			if g[k] != nil || v != nil && fmt.Sprint(v) != "map[]" && fmt.Sprint(v) != "[]" {
				all = append(all, lost(at+"."+k, v, g[k])...)
			}
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{fmt.Sprintf("%s has %d elements, not %d", at, len(g), len(w))}
		}
		for i := range w {
			all = append(all, lost(at+"[]", w[i], g[i])...)
		}
	default:
		if want != nil && fmt.Sprint(want) != fmt.Sprint(got) {
			all = append(all, fmt.Sprintf("%s is %v, not %v", at, got, want))
		}
	}
	return all
}

// podOf is the pod of a workload that has the sidecar.
func podOf(o object) object {
	spec, _ := o["spec"].(object)
	template, _ := spec["template"].(object)
	pod, _ := template["spec"].(object)
	if pod == nil || pod["initContainers"] == nil {
		return nil
	}
	meta := maps.Clone(template["metadata"].(object))
	meta["name"] = "from-the-template"
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod}
}

// isAdmitted makes the pod, as a controller would, and looks at what admission
// has made of it.
func (a *api) isAdmitted(pod object, namespace string) {
	a.t.Helper()
	r, err := a.do("POST", path(a.t, pod, namespace)+"?fieldValidation=Strict", "application/json", pod)
	if err != nil || r.status != 201 {
		a.t.Errorf("the pod is not admitted: %v, %v", r.body["message"], err)
		return
	}
	spec := r.body["spec"].(object)
	i := slices.IndexFunc(spec["initContainers"].([]any), func(c any) bool { return name(object{"metadata": c}) == "hermes-sidecar" })
	if i < 0 || spec["initContainers"].([]any)[i].(object)["restartPolicy"] != "Always" {
		a.t.Error("the sidecar is no native sidecar any more")
	}
	tokens := strings.Contains(fmt.Sprint(spec["volumes"]), "serviceAccountToken")
	if off := pod["spec"].(object)["automountServiceAccountToken"] == false; off && tokens {
		a.t.Error("the agent has a token of the cluster")
	}
	if lost := lost("", pod["spec"].(object)["securityContext"], spec["securityContext"]); len(lost) > 0 {
		a.t.Error(lost)
	}
}
