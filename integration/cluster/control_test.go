package cluster

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kubeconfig is one for the cluster.
func (a *api) kubeconfig() string {
	file := filepath.Join(a.t.TempDir(), "kubeconfig")
	content := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "` + a.base + `", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: ` + token + `}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return file
}

// command runs a program that has to succeed.
func (a *api) command(program string, args ...string) string {
	a.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+a.kubeconfig(), "HOME="+a.t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		a.t.Errorf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// kubectl applies the base as the README says, twice: the second time nothing is
// left to do.
func (a *api) kubectl() {
	a.namespace("by-kubectl")
	kubectl := build(a.t, "k8s.io/kubernetes/cmd/kubectl")
	for range 2 {
		out := a.command(kubectl, "apply", "--server-side", "-n", "by-kubectl", "-k", "../../deploy/kubernetes/base")
		if strings.Count(out, "serverside-applied") != 5 || strings.Contains(out, "Warning") {
			a.t.Errorf("kubectl says\n%s", out)
		}
	}
	out := a.command(kubectl, "diff", "--server-side", "-n", "by-kubectl", "-k", "../../deploy/kubernetes/base")
	if out != "" {
		a.t.Errorf("there still is a difference\n%s", out)
	}
}

// helm installs the chart as the README says, upgrades it, and takes it away: the
// volume of Hermes stays.
func (a *api) helm() {
	a.namespace("by-helm")
	const chart = "../../deploy/kubernetes/chart"
	out := a.command("helm", "install", "hermes", chart, "-n", "by-helm")
	if !strings.Contains(out, "STATUS: deployed") || !strings.Contains(out, "http://hermes.by-helm:8643/v1") {
		a.t.Errorf("helm says\n%s", out)
	}
	out = a.command("helm", "upgrade", "hermes", chart, "-n", "by-helm", "--set", "podMonitor.enabled=true", "--set", "sidecar.options.progress=unnamed",
		"--set", "ingress.enabled=true", "--set", "ingress.hosts={hermes.example.com}",
		"--set-json", `networkPolicy.from=[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"ingress-nginx"}}}]`)
	if !strings.Contains(out, "from outside: http://hermes.example.com/v1\n") || !strings.Contains(out, "helm test hermes -n by-helm\n") {
		a.t.Errorf("helm says\n%s", out)
	}
	r, err := a.do("GET", "/api/v1/namespaces/by-helm/configmaps/hermes-sidecar", "", nil)
	if data, _ := r.body["data"].(object); err != nil || !strings.Contains(data["Caddyfile"].(string), "progress unnamed") {
		a.t.Errorf("%v: the upgrade has changed nothing: %v", err, r.body)
	}
	a.command("helm", "uninstall", "hermes", "-n", "by-helm")
	for at, want := range map[string]int{
		"/api/v1/namespaces/by-helm/persistentvolumeclaims/hermes-home": 200,
		"/apis/apps/v1/namespaces/by-helm/deployments/hermes":           404,
	} {
		if r, err := a.do("GET", at, "", nil); err != nil || r.status != want {
			a.t.Errorf("%s: %d, %v", at, r.status, err)
		}
	}
	// And the next release takes it over.
	a.command("helm", "install", "hermes", chart, "-n", "by-helm")
}

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

// patience bounds every wait.
const patience = 5 * time.Minute

// version is that of the API server. Built from modules, it does not know.
const version = "1.36.3"

// token is that of the cluster's administrator.
const token = "loopback-only"

// build builds one of the module's tools, and returns its path.
func build(t *testing.T, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	const at = "k8s.io/component-base/version."
	minor := strings.Split(version, ".")[1]
	flags := fmt.Sprintf("-X %sgitVersion=v%s -X %sgitMajor=1 -X %sgitMinor=%s", at, version, at, at, minor)
	cmd := exec.Command("go", "build", "-ldflags", flags, "-o", path, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return path
}

// freed are the addresses that free has returned.
var freed = map[string]bool{}

// free is an address of the loopback interface that is not in use, another one
// each time.
func free(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if addr := l.Addr().String(); !freed[addr] {
			freed[addr] = true
			return addr
		}
	}
}

// start runs a server until the end of the test.
func start(t *testing.T, path string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := startTied(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			lines := strings.Split(log.String(), "\n")
			t.Logf("the end of the log of %s:\n%s", filepath.Base(path), strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
}

// newCluster starts etcd and the API server, and waits until that is ready.
func newCluster(t *testing.T) *api {
	t.Helper()
	store, peers, secure, dir := free(t), free(t), free(t), t.TempDir()
	start(t, build(t, "go.etcd.io/etcd/server/v3"), "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", "http://"+store, "--advertise-client-urls", "http://"+store,
		"--listen-peer-urls", "http://"+peers, "--initial-advertise-peer-urls", "http://"+peers, "--initial-cluster", "default=http://"+peers)

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{
		"key.pem":    pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"tokens.csv": []byte(token + `,admin,admin,"system:masters"` + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port, err := net.SplitHostPort(secure)
	if err != nil {
		t.Fatal(err)
	}
	start(t, build(t, "k8s.io/kubernetes/cmd/kube-apiserver"), "--etcd-servers", "http://"+store,
		"--bind-address", host, "--advertise-address", host, "--secure-port", port, "--endpoint-reconciler-type", "none",
		"--cert-dir", filepath.Join(dir, "certs"), "--token-auth-file", filepath.Join(dir, "tokens.csv"), "--authorization-mode", "RBAC",
		"--service-cluster-ip-range", "10.96.0.0/24", "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", filepath.Join(dir, "key.pem"), "--service-account-signing-key-file", filepath.Join(dir, "key.pem"))

	a := newAPI(t, "https://"+secure)
	a.until("the API server is ready", func() bool {
		res, err := a.do("GET", "/readyz", "", nil)
		return err == nil && res.status == 200
	})
	return a
}
