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
var overlays = fixtures("overlays")

// labelled is an existing deployment under another name and of another kind.
var labelled = fixture("testdata/labelled.yaml")

// fixtures returns the files of YAML in a directory of testdata, by their names.
func fixtures(dir string) map[string]string {
	all := make(map[string]string)
	files, _ := filepath.Glob("testdata/" + dir + "/*.yaml") // the pattern is right
	for _, file := range files {
		all[strings.TrimSuffix(filepath.Base(file), ".yaml")] = fixture(file)
	}
	if len(all) == 0 {
		panic("no fixtures in " + dir)
	}
	return all
}

func fixture(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return string(b)
}

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
var charts = fixtures("charts")

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
	path := harness.Program(t, "HERMES_HELM", "helm")
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
