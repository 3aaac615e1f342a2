package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

// deployed is where the manifests are.
var deployed = harness.Path("deploy/kubernetes")

// A rendering is one way to deploy, as YAML that kubectl would apply.
type rendering struct {
	name string
	yaml []byte
}

// overlays are the ways by kustomize: the kustomization of a directory, or one
// that a user would write, with paths relative to a directory beside base.
var overlays = map[string]string{
	"base":    "resources: [../base]",
	"example": "resources: [../example]",
	"base, monitored": `
resources: [../base]
components: [../components/pod-monitor]`,
	"base, autoscaled": `
resources: [../base]
components: [../components/autoscaling]`,
	"base, all": `
namespace: agents
namePrefix: team-a-
resources: [../base]
components: [../components/pod-monitor, ../components/autoscaling]
images:
  - {name: hermes-sidecar, newName: registry.example.com/hermes-sidecar, newTag: 1.2.3}
  - {name: nousresearch/hermes-agent, digest: sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}`,
	"example, closed and monitored": `
resources: [../example]
components: [../components/network-policy, ../components/pod-monitor]`,
	"found by name and by label": `
resources: [named.yaml]
components: [../components/sidecar]`,
	"labelled StatefulSet": `
resources: [labelled.yaml]
components: [../components/sidecar]`,
}

// labelled is an existing deployment under another name and of another kind.
const labelled = `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: my-agent
  labels: {hermes-sidecar: "true"}
spec:
  serviceName: my-agent
  selector: {matchLabels: {app: mine}}
  template:
    metadata: {labels: {app: mine}}
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: hermes
          image: nousresearch/hermes-agent:v2026.8.27
          securityContext: {runAsUser: 10000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata:
  name: my-agent
  labels: {hermes-sidecar: "true"}
spec:
  selector: {app: mine}
  ports:
    - {name: api, port: 8642}
`

// kustomized renders one of overlays.
func kustomized(t *testing.T, name string) rendering {
	t.Helper()
	y, err := rendered(overlay(t, overlays[name]))
	if err != nil {
		t.Fatal(err)
	}
	return rendering{name, y}
}

// rendered is what kubectl would make of a directory.
func rendered(dir string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // kubectl's
	set, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	return set.AsYaml()
}

// overlay writes a kustomization, beside a copy of what it is about.
func overlay(t *testing.T, kustomization string) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"base", "components", "example"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join(deployed, dir))); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(root, "mine")
	if err := os.Mkdir(mine, 0o700); err != nil {
		t.Fatal(err)
	}
	named := strings.NewReplacer("my-agent", "hermes", "StatefulSet", "Deployment", "  serviceName: my-agent\n", "").Replace(labelled)
	for file, content := range map[string]string{"kustomization.yaml": kustomization, "labelled.yaml": labelled, "named.yaml": named} {
		if err := os.WriteFile(filepath.Join(mine, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return mine
}

// charts are values of the chart.
var charts = map[string]string{
	"default": "",
	"other ports and options": `
fullnameOverride: agent
hermes:
  port: 9642
  env: {WEBHOOK_PORT: 8644}
  home: {existingClaim: mine}
sidecar:
  port: 9643
  healthPort: 9644
  drainTimeout: 3
  gracePeriod: 8
  options:
    progress: unnamed
    status_line: on
    keepalive: off
    idle_timeout: 0
    max_frame: 2097152
    tool: {"🛰️": satellite}
termination: {waitSeconds: 20, hermesSeconds: 60}
service: {port: 80}`,
	"all": `
image: {repository: registry.example.com/hermes-sidecar, digest: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
imagePullSecrets: [{name: registry}]
podAnnotations: {a: b}
podLabels: {c: d}
nodeSelector: {disktype: ssd}
tolerations: [{key: agents, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: agents, operator: Exists}]}]}}}
hermes: {home: {storageClass: fast}}
service: {annotations: {e: f}}
networkPolicy: {from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}]}
podMonitor: {enabled: true, labels: {release: prometheus}}
autoscaling: {enabled: true}`,
	"bent": `
priorityClassName: system-cluster-critical
serviceAccount: {create: true, annotations: {iam.example.com/role: agent}}
hermes:
  env: {TZ: Europe/Berlin}
  extraEnv:
    - {name: GITHUB_TOKEN, valueFrom: {secretKeyRef: {name: github, key: token}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  extraVolumeMounts: [{name: ca, mountPath: /etc/ssl/own, readOnly: true}]
  probes: {startup: {failureThreshold: 240}, liveness: {periodSeconds: 30}}
sidecar:
  options: {progress: unnamed}
  extraEnv: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4318"}]
  extraVolumeMounts: [{name: ca, mountPath: /etc/ssl/own, readOnly: true}]
  probes: {liveness: {failureThreshold: 5}}
  record: {enabled: true, maxMegabytes: 50}
extraVolumes: [{name: ca, secret: {secretName: ca}}]
extraInitContainers:
  - name: skills
    image: registry.example.com/skills:1.2.3
    securityContext: &restricted {runAsUser: 10000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: home, mountPath: /opt/data}]
extraContainers: [{name: terminal, image: "registry.example.com/terminal:1.2.3", securityContext: *restricted}]
ingress:
  enabled: true
  className: nginx
  annotations: {nginx.ingress.kubernetes.io/proxy-body-size: 10m}
  hosts: [hermes.example.com, agent.example.com]
  tls: [{hosts: [hermes.example.com], secretName: hermes-tls}]
httpRoute: {enabled: true, annotations: {e: f}, parentRefs: [{name: public, namespace: gateways}], hostnames: [hermes.example.com]}
networkPolicy: {from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: gateways}}}]}
podDisruptionBudget: {enabled: true, maxUnavailable: 0}
prometheusRule: {enabled: true, labels: {release: prometheus}, runbookURL: "https://runbooks.example.com/hermes"}
dashboard: {enabled: true, labels: {folder: agents}, annotations: {grafana_folder: Agents}}`,
	"a Caddyfile of one's own": `
sidecar:
  record: {existingClaim: ""}
  caddyfile: |
    {
    	admin off
    	metrics
    	grace_period 20s
    }
    :8643 {
    	hermes_resume
    	hermes {
    		drain_timeout 10s
    	}
    	reverse_proxy {$HERMES_UPSTREAM}
    }
    :8644 {
    	respond /healthz 200
    	metrics /metrics
    }`,
	"recorded on a claim": `
sidecar: {record: {enabled: true, existingClaim: mine}}
serviceAccount: {name: existing}`,
}

// charted renders the chart with one of charts; release is the release's name.
func charted(t *testing.T, release, name string) rendering {
	t.Helper()
	out, err := helm(t, charts[name], "template", release, filepath.Join(deployed, "chart"), "--kube-version", "1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	return rendering{"chart, " + name, out}
}

// helm runs helm with values, or skips the test.
func helm(t *testing.T, values string, args ...string) ([]byte, error) {
	t.Helper()
	path := harness.Helm(t)
	file := filepath.Join(t.TempDir(), "values.yaml")
	harness.WriteFile(t, file, []byte(values))
	return run(exec.Command(path, append(args, "--values", file)...))
}

// run is the standard output of a command; an error has its standard error.
func run(cmd *exec.Cmd) ([]byte, error) {
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bad.String())
	}
	return out.Bytes(), nil
}

// TestWriteRenderings writes all of them into the directory that HERMES_RENDERED
// names, for the test with a real API server.
func TestWriteRenderings(t *testing.T) {
	dir := os.Getenv("HERMES_RENDERED")
	if dir == "" {
		t.Skip("HERMES_RENDERED names no directory")
	}
	put := func(r rendering) {
		if err := os.WriteFile(filepath.Join(dir, r.name+".yaml"), r.yaml, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(overlays)) {
		put(kustomized(t, name))
	}
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		put(charted(t, "hermes", name))
	}
}

// objects are the decoded objects of a rendering.
type objects []runtime.Object

// of returns the objects of a kind, such as *core.Service.
func of[T runtime.Object](all objects) (found []T) {
	for _, o := range all {
		if v, ok := o.(T); ok {
			found = append(found, v)
		}
	}
	return found
}

// strictly is a decoder that refuses members that the API does not have, and
// members that are there twice.
func strictly(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, core.AddToScheme, networking.AddToScheme, autoscaling.AddToScheme, policy.AddToScheme, monitoring.AddToScheme, gateway.Install,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// decode decodes all objects of a stream of YAML documents.
func decode(t *testing.T, r rendering) (o objects, err error) {
	t.Helper()
	decoder := strictly(t)
	docs := yaml.NewYAMLReader(newReader(r.yaml))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return o, nil
		}
		if err != nil {
			return o, err
		}
		if empty(doc) {
			continue
		}
		v, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			return o, fmt.Errorf("%w in\n%s", err, doc)
		}
		o = append(o, v)
	}
}

// must decodes what has to be right.
func must(t *testing.T, r rendering) objects {
	t.Helper()
	o, err := decode(t, r)
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	return o
}

// TestSourcesHaveNothingTwice: kustomize takes the last of two members alike, so
// its output does not tell.
func TestSourcesHaveNothingTwice(t *testing.T) {
	n := 0
	err := fs.WalkDir(os.DirFS(deployed), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" || strings.HasPrefix(path, "chart/templates") {
			return err
		}
		b, err := os.ReadFile(filepath.Join(deployed, path))
		if err != nil {
			return err
		}
		docs := yaml.NewYAMLReader(newReader(b))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			n++
			if _, err := sigsyaml.YAMLToJSONStrict(doc); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
	if err != nil || n < 15 {
		t.Fatalf("%d documents, %v", n, err)
	}
}

func newReader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

// empty says that a document has nothing but comments.
func empty(doc []byte) bool {
	for line := range strings.Lines(string(doc)) {
		if line = strings.TrimSpace(line); line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}
