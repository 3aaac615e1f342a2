package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	sigsyaml "sigs.k8s.io/yaml"
)

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
