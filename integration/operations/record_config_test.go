package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// TestReloadThatIsRefusedKeepsTheRecordings: a smaller record_max takes effect when
// the configuration that has it runs for good.
func TestReloadThatIsRefusedKeepsTheRecordings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	up := upstream.New(t, upstream.Router{"good": upstream.Replay(hermes.Recorded(t, "g3-v0.20.3/one_tool"), upstream.ByFrame)}.Play)
	record := "hermes {\n\t\trecord " + dir + "\n\t\trecord_max "
	w := watch(t, up, "", record+"100MB\n\t}")
	play := func(n int) int {
		t.Helper()
		for range n {
			w.Play("good").All()
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.sse"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if n := play(10); n != 10 {
		t.Fatalf("%d recordings, want 10", n)
	}
	// The second site wants an address that is taken.
	taken := record + "20KB\n\t}\n}\n" + sidecar.OnLoopback(up.Addr)
	if w.reload(taken) == "" {
		t.Fatal("the configuration is not refused")
	}
	if n := play(1); n != 11 {
		t.Errorf("%d recordings after a refused reload, want 11", n)
	}
	if failed := w.reload(record + "20KB\n\t}"); failed != "" {
		t.Fatal(failed)
	}
	if n := play(1); n < 1 || n > 5 {
		t.Errorf("%d recordings after a reload with a smaller record_max", n)
	}
}

// TestWhatOnlyShowsAtUseIsSaidAtTheStart, and by caddy validate.
func TestWhatOnlyShowsAtUseIsSaidAtTheStart(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	harness.WriteFile(t, file, nil)
	site := func(global, option string) string {
		name := filepath.Join(home, "Caddyfile")
		harness.WriteFile(t, name, fmt.Appendf(nil, "{\n\tadmin off\n\t%s\n}\n%s\thermes {\n\t\t%s\n\t}\n}\n", global, sidecar.OnLoopback(harness.FreePort(t)), option))
		return name
	}
	for _, command := range []string{"validate", "run"} {
		_, stderr, err := sidecar.Command(t, home, command, "--adapter", "caddyfile", "--config", site("", "record "+file+"/recordings"))
		if err == nil || !strings.Contains(stderr, "record") || !strings.Contains(stderr, file) {
			t.Errorf("%s: %v, %s", command, err, stderr)
		}
	}

	fine := filepath.Join(home, "fine")
	if _, stderr, err := sidecar.Command(t, home, "validate", "--adapter", "caddyfile", "--config", site("", "record "+fine)); err != nil {
		t.Errorf("%v: %s", err, stderr)
	}
	if _, err := os.Lstat(fine); err == nil {
		t.Error("caddy validate has made the directory")
	}

	for _, c := range []struct {
		global, option string
		warns          bool
	}{
		{"grace_period 5s", "drain_timeout 30s", true},
		{"grace_period 5s", "progress bare", true}, // the default is 10s
		{"grace_period 30s", "drain_timeout 10s", false},
		{"grace_period 125s", "drain_timeout 120s", false}, // as the container of docs/install.md
		{"shutdown_delay 1m\n\tgrace_period 5s", "drain_timeout 10s", false},
		{"", "drain_timeout 1h", false}, // it is without end
	} {
		_, stderr, err := sidecar.Command(t, home, "validate", "--adapter", "caddyfile", "--config", site(c.global, c.option))
		if err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		if warns := strings.Contains(stderr, "grace_period is too short"); warns != c.warns {
			t.Errorf("%s, %s: %s", c.global, c.option, stderr)
		}
	}
}
