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
	"regexp"
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
				return err == nil && strings.Contains(fmt.Sprint(r.body["status"]), "type:Established") && strings.Contains(fmt.Sprint(r.body["status"]), "status:True type:Established")
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
			a := &api{t: t, base: a.base, http: a.http}
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
			(&api{t: t, base: a.base, http: a.http}).rollsOut(all[n], "rollout-"+strings.Split(n, ",")[0], killed)
		})
	}
	t.Run("kubectl", func(t *testing.T) { (&api{t: t, base: a.base, http: a.http}).kubectl() })
	t.Run("helm", func(t *testing.T) { (&api{t: t, base: a.base, http: a.http}).helm() })
}

// isTaken applies an object, at first without effect, and reads back all that it
// said and nothing that would surprise.
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
	lost, added := compare("", o, live.body)
	for _, l := range lost {
		a.t.Errorf("%s: %s", what, l)
	}
	for _, path := range added {
		if !harmless.MatchString(path) {
			a.t.Errorf("%s: the API server has added %s", what, path)
		}
	}
}

// harmless are the defaults that the API server may add: none changes what was
// said, or what is restricted.
var harmless = regexp.MustCompile(`^(\.status|\.metadata\.\w+|\.spec\.(revisionHistoryLimit|progressDeadlineSeconds|podManagementPolicy|updateStrategy|persistentVolumeClaimRetentionPolicy|volumeMode|` +
	`clusterIPs?|ipFamil\w+|internalTrafficPolicy|externalTrafficPolicy|allocateLoadBalancerNodePorts|sessionAffinity|type|strategy|replicas|` +
	`ports\[\]\.(protocol|nodePort)|behavior\.scale(Up|Down)\.selectPolicy|parentRefs\[\]\.(group|kind)|rules\[\]\.(matches|backendRefs\[\]\.(group|kind|weight)))` +
	`|\.spec(\.template\.spec)?\.(dnsPolicy|restartPolicy|schedulerName|serviceAccount|terminationGracePeriodSeconds|volumes\[\]\.(configMap|secret)\.defaultMode` +
	`|(initContainers|containers)\[\]\.(imagePullPolicy|resources|terminationMessage(Path|Policy)|ports\[\]\.protocol|env\[\]\.valueFrom\.fieldRef\.apiVersion|\w+Probe\.(successThreshold|failureThreshold|periodSeconds|timeoutSeconds|httpGet\.scheme))` +
	`|volumes\[\]\.ephemeral\.volumeClaimTemplate\.(metadata|spec\.volumeMode)))$`)

// compare lists what of want is not in got, and what got has besides. Lists of
// objects with names are compared by name.
func compare(at string, want, got any) (lost, added []string) {
	switch w := want.(type) {
	case object:
		g, ok := got.(object)
		if !ok {
			return []string{at + " is gone"}, nil
		}
		for k, v := range w {
			if g[k] == nil && v != nil && fmt.Sprint(v) != "map[]" && fmt.Sprint(v) != "[]" {
				lost = append(lost, at+"."+k+" is gone")
				continue
			}
			l, n := compare(at+"."+k, v, g[k])
			lost, added = append(lost, l...), append(added, n...)
		}
		for k := range g {
			if _, said := w[k]; !said {
				added = append(added, at+"."+k)
			}
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{fmt.Sprintf("%s has %d elements, not %d", at, len(g), len(w))}, nil
		}
		for i := range w {
			l, n := compare(at+"[]", w[i], g[i])
			lost, added = append(lost, l...), append(added, n...)
		}
	default:
		if want != nil && fmt.Sprint(want) != fmt.Sprint(got) {
			lost = append(lost, fmt.Sprintf("%s is %v, not %v", at, got, want))
		}
	}
	return lost, added
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
	lost, _ := compare("", pod["spec"].(object)["securityContext"], spec["securityContext"])
	if len(lost) > 0 {
		a.t.Error(lost)
	}
}
