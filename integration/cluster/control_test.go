package cluster

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// refuses shows that the API server would have told: of what is admitted above,
// one member less, or one more that it does not know.
func (a *api) refuses(base []object) {
	a.namespace("control")
	var pod object
	for _, o := range base {
		if p := podOf(o); p != nil {
			pod = p
		}
	}
	changed := func(change func(spec object)) object {
		b, err := json.Marshal(pod)
		if err != nil {
			a.t.Fatal(err)
		}
		var p object
		if err := json.Unmarshal(b, &p); err != nil {
			a.t.Fatal(err)
		}
		change(p["spec"].(object))
		return p
	}
	container := func(spec object, list string) object { return spec[list].([]any)[0].(object) }
	for what, test := range map[string]struct {
		says   string
		change func(spec object)
	}{
		"no allowPrivilegeEscalation": {"violates PodSecurity", func(s object) {
			delete(container(s, "initContainers")["securityContext"].(object), "allowPrivilegeEscalation")
		}},
		"no capabilities": {"violates PodSecurity", func(s object) {
			delete(container(s, "containers")["securityContext"].(object), "capabilities")
		}},
		"no securityContext of the sidecar": {"violates PodSecurity", func(s object) { delete(container(s, "initContainers"), "securityContext") }},
		"no seccompProfile anywhere": {"violates PodSecurity", func(s object) {
			delete(s["securityContext"].(object), "seccompProfile")
			delete(container(s, "initContainers")["securityContext"].(object), "seccompProfile")
		}},
		"root": {"violates PodSecurity", func(s object) {
			container(s, "containers")["securityContext"].(object)["runAsUser"] = 0
		}},
		"a volume of the node": {"violates PodSecurity", func(s object) {
			s["volumes"] = append(s["volumes"].([]any), object{"name": "node", "hostPath": object{"path": "/"}})
		}},
		"a member that does not exist": {"unknown field", func(s object) { container(s, "initContainers")["restartpolicy"] = "Always" }},
		"a probe of what is no port": {"must be between", func(s object) {
			container(s, "initContainers")["livenessProbe"].(object)["httpGet"].(object)["port"] = 0
		}},
		"a mount without a volume":           {"Not found", func(s object) { s["volumes"] = s["volumes"].([]any)[:1] }},
		"a probe on what is no sidecar":      {"may not be set for init containers", func(s object) { delete(container(s, "initContainers"), "restartPolicy") }},
		"a hook that does not know its form": {"unknown field", func(s object) { container(s, "containers")["lifecycle"].(object)["preStop"].(object)["wait"] = 1 }},
	} {
		r, err := a.do("POST", path(a.t, pod, "control")+"?fieldValidation=Strict&dryRun=All", "application/json", changed(test.change))
		if err != nil {
			a.t.Fatal(err)
		}
		message, _ := r.body["message"].(string)
		if r.status < 400 || !strings.Contains(message, test.says) {
			a.t.Errorf("%s: %d %s", what, r.status, message)
		}
	}
	r, err := a.do("POST", path(a.t, pod, "control")+"?fieldValidation=Strict&dryRun=All", "application/json", changed(func(object) {}))
	if err != nil || r.status != 201 {
		a.t.Errorf("without a change: %v, %v", r.body["message"], err)
	}
}

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
