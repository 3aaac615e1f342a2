package operations

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/child"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// repaired runs caddy hermes-repair and returns its exit status and output.
func repaired(t testing.TB, stdin string, args ...string) (status int, stdout string) {
	t.Helper()
	cmd := exec.Command(sidecar.Binary(t), append([]string{"hermes-repair"}, args...)...)
	cmd.Env = sidecar.Environment(t.TempDir())
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := child.Run(cmd)
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// What the record option writes, hermes-repair repairs as the sidecar did.
func TestRecordedStreamsAreRepairedOffline(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	all := hermes.Recordings(t, func(r hermes.Recording) bool {
		return r.Generation == "g0-v0.8.0" && strings.Contains("one_tool crash_in_tool think_tags model_imitates", r.Scenario)
	})
	scripts := upstream.Library(all, upstream.ByFrame)
	scripts["killed"] = func(x *upstream.Exchange) {
		x.Events()
		x.Chunk([]byte(strings.Split(string(all[0].Body), "\n\n")[0] + "\n\n"))
		x.Reset()
	}
	up := upstream.New(t, scripts.Play)
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "recordings")
			base, s := sidecar.Serve(t, up, sidecar.Still.With(sidecar.Options{"record": dir, "zero_usage": "pass"}))
			want := client.New(t, base).Play(name, "Authorization", "Bearer "+secret).All()
			s.Terminate()
			s.Exit()
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(files) != 2 {
				t.Fatalf("files %q, %v", files, err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil || bytes.Contains(b, []byte(secret)) || bytes.Contains(b, []byte("messages")) {
					t.Errorf("%s: %v: %s", f, err, b)
				}
				if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", f, info.Mode(), err)
				}
			}
			status, got := repaired(t, "", "--zero-usage", "pass", files[1])
			if got != want {
				t.Errorf("repaired offline\n%s\nwant\n%s", got, want)
			}
			bad := strings.Contains(want, `"code":"`)
			if bad != (status == 4) || !bad && status != 0 {
				t.Errorf("exit status %d", status)
			}
			if _, why := repaired(t, "", "--explain", files[1]); !strings.Contains(why, "\nended ") {
				t.Errorf("explained\n%s", why)
			}
		})
	}
}

// TestWhatOnlyShowsAtUseIsSaidAtTheStart, and by caddy validate: a directory that cannot be made,
// and a grace period that ends before drain_timeout.
func TestWhatOnlyShowsAtUseIsSaidAtTheStart(t *testing.T) {
	dir := t.TempDir()
	harness.WriteFile(t, filepath.Join(dir, "file"), nil)
	site := func(global, option string) string {
		return fmt.Sprintf("{\n\tadmin off\n\t%s\n}\n%s\thermes {\n\t\t%s\n\t}\n}\n", global, sidecar.OnLoopback(harness.FreePort(t)), option)
	}
	for _, command := range []string{"validate", "run"} {
		_, stderr, err := sidecar.CommandOn(t, command, site("", "record "+dir+"/file/recordings"))
		if err == nil || !strings.Contains(stderr, "record") || !strings.Contains(stderr, dir+"/file") {
			t.Errorf("%s: %v, %s", command, err, stderr)
		}
	}
	const tooShort = "grace_period is too short"
	for _, c := range []struct {
		global, option string
		warns          bool
	}{
		{"", "record " + dir + "/fine", false},
		{"grace_period 5s", "drain_timeout 30s", true},
		{"grace_period 5s", "progress bare", true}, // the default is 10s
		{"grace_period 30s", "drain_timeout 10s", false},
		{"grace_period 125s", "drain_timeout 120s", false}, // as the container of docs/install.md
		{"shutdown_delay 1m\n\tgrace_period 5s", "drain_timeout 10s", false},
		{"", "drain_timeout 1h", false}, // it is without end
	} {
		_, stderr, err := sidecar.CommandOn(t, "validate", site(c.global, c.option))
		if err != nil || strings.Contains(stderr, tooShort) != c.warns {
			t.Errorf("%s, %s: %v, %s", c.global, c.option, err, stderr)
		}
	}
	if _, err := os.Lstat(dir + "/fine"); err == nil {
		t.Error("caddy validate has made the directory")
	}
}
