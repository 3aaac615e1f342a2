package cluster

import (
	"fmt"
	"maps"
	"net"
	"strings"
)

// run starts the controllers that make pods of Deployments and endpoints of
// Services.
func (a *api) run() {
	a.t.Helper()
	host, port, err := net.SplitHostPort(free(a.t))
	if err != nil {
		a.t.Fatal(err)
	}
	start(a.t, build(a.t, "k8s.io/kubernetes/cmd/kube-controller-manager"), "--kubeconfig", a.kubeconfig(), "--leader-elect=false",
		"--bind-address", host, "--secure-port", port,
		"--controllers", "deployment-controller,replicaset-controller,endpointslice-controller,disruption-controller,serviceaccount-controller")
}

// items are the objects of a collection.
func (a *api) items(path string) (all []object) {
	a.t.Helper()
	r, err := a.do("GET", path, "", nil)
	if err != nil || r.status != 200 {
		a.t.Fatalf("%s: %d, %v", path, r.status, err)
	}
	list, _ := r.body["items"].([]any)
	for _, i := range list {
		all = append(all, i.(object))
	}
	return all
}

// rollsOut has the controllers deploy a rendering, and plays the part of the
// scheduler and of the kubelet: the pod has a node, an address, and is ready. The
// Service then leads there, to the sidecar's port. A new Caddyfile is a new pod,
// but only once the old one, which may take its time, has gone.
func (a *api) rollsOut(objects []object, namespace string, killed int) {
	a.namespace(namespace)
	a.must(object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": namespace}}, "")
	pods := "/api/v1/namespaces/" + namespace + "/pods"
	with := func() (with []object) {
		for _, p := range a.items(pods) {
			if labels, _ := p["metadata"].(object)["labels"].(object); labels["hermes-sidecar"] == "true" {
				with = append(with, p)
			}
		}
		return with
	}
	for _, o := range objects {
		delete(o["metadata"].(object), "namespace")
		a.must(o, namespace)
	}
	a.until("there is a pod with the sidecar", func() bool { return len(with()) == 1 })

	first := name(with()[0])
	a.sends("POST", pods+"/"+first+"/binding", "application/json", object{
		"apiVersion": "v1", "kind": "Binding", "metadata": object{"name": first}, "target": object{"apiVersion": "v1", "kind": "Node", "name": namespace},
	})
	a.sends("PATCH", pods+"/"+first+"/status", "application/merge-patch+json", object{"status": object{
		"phase": "Running", "podIP": "10.244.0.5", "podIPs": []any{object{"ip": "10.244.0.5"}},
		"conditions": []any{object{"type": "Ready", "status": "True"}, object{"type": "ContainersReady", "status": "True"}},
	}})
	a.until("the Service leads to the sidecar", func() bool { return a.leads(namespace, "ready:true serving:true terminating:false") })

	for _, o := range objects {
		if podOf(o) == nil {
			continue
		}
		// What kustomize and the chart do when the Caddyfile changes.
		meta := o["spec"].(object)["template"].(object)["metadata"].(object)
		annotations, _ := meta["annotations"].(object)
		if annotations = maps.Clone(annotations); annotations == nil {
			annotations = object{}
		}
		annotations["checksum/caddyfile"] = "another"
		meta["annotations"] = annotations
		a.must(o, namespace)
	}
	// The first pod is to go: no new client is led to it, while it still serves.
	a.until("the Service leads no new client to the pod that is to go", func() bool {
		return a.leads(namespace, "ready:false serving:true terminating:true")
	})
	old := with()
	if len(old) != 1 || name(old[0]) != first {
		a.t.Fatalf("%d pods while the first is to go", len(old))
	}
	if got := fmt.Sprint(old[0]["metadata"].(object)["deletionGracePeriodSeconds"]); got != fmt.Sprint(killed) {
		a.t.Errorf("the pod is killed after %s s, not %d", got, killed)
	}
	a.sends("DELETE", pods+"/"+first+"?gracePeriodSeconds=0", "", nil)
	a.until("there is a new pod", func() bool {
		now := with()
		return len(now) == 1 && name(now[0]) != first
	})
}

// sends is a request that has to be granted.
func (a *api) sends(method, path, media string, v any) {
	a.t.Helper()
	if r, err := a.do(method, path, media, v); err != nil || r.status >= 300 {
		a.t.Fatalf("%s %s: %d, %v, %v", method, path, r.status, r.body["message"], err)
	}
}

// leads says that the Service leads to the sidecar of the pod, in that state.
func (a *api) leads(namespace, state string) bool {
	a.t.Helper()
	for _, s := range a.items("/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices") {
		at := fmt.Sprint(s["endpoints"], s["ports"])
		if s["metadata"].(object)["labels"].(object)["kubernetes.io/service-name"] != "hermes" || !strings.Contains(at, "10.244.0.5") {
			continue
		}
		if !strings.Contains(at, "port:8643") || strings.Contains(at, "port:8642") {
			a.t.Fatalf("the Service leads to %s", at)
		}
		return strings.Contains(at, state)
	}
	return false
}
