package deployment

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
	"go.yaml.in/yaml/v2"
)

// TestChartRecordsStreams where the chart mounts the volume.
func TestChartRecordsStreams(t *testing.T) {
	cmd := exec.Command(harness.Helm(t), "template", "hermes", filepath.Join(manifests, "chart"), "--kube-version", "1.36.3", "--set", "sidecar.record.enabled=true")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var d deployment
	for doc := range strings.SplitSeq(string(out), "\n---\n") {
		var o struct {
			Kind string
			Data struct {
				Caddyfile string `yaml:"Caddyfile"`
			}
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		switch o.Kind {
		case "ConfigMap":
			d.caddyfile = o.Data.Caddyfile
		case "Deployment":
			if !strings.Contains(doc, "mountPath: /record\n") {
				t.Fatal("nothing is mounted at /record")
			}
			d.port, d.health = "8643", "8644"
			d = d.with(t, []byte(doc), []byte(doc))
		}
	}
	dir := t.TempDir()
	if !strings.Contains(d.caddyfile, "record /record/") {
		t.Fatalf("the Caddyfile records nowhere below the volume:\n%s", d.caddyfile)
	}
	d.caddyfile = strings.Replace(d.caddyfile, "record /record/", "record "+dir+"/", 1)
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	s, base, _ := d.start(t, up.Addr)
	client.New(t, base).Chat().Answer().CheckGood(t)
	s.Terminate() // a recording is whole behind the end of its stream
	s.Exit()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.sse"))
	if err != nil || len(files) != 1 {
		t.Fatalf("recordings %q, %v", files, err)
	}
	if b, err := os.ReadFile(files[0]); err != nil || string(b) != string(hermes.Recorded(t, "g0-v0.8.0/one_tool").Body) {
		t.Errorf("the recording is not what upstream sent, %v", err)
	}
}
