package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-sidecar/hermes-sidecar/caddymodule/internal/repair"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// TestPlantedLinksAreNotFollowed: whoever can write to the directory sees the name
// of a recording that is under way.
func TestPlantedLinksAreNotFollowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, logs := newTestRecorder(dir, 0)
	rec := c.begin(httptest.NewRequest("POST", "/x", nil), http.StatusOK, http.Header{}).(*recording)
	for _, name := range []string{rec.name + ".json.tmp", rec.name + ".json"} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	rec.End(proxy.Result{Outcome: "ok"}, rewrite.CauseEOF)
	if got, err := os.ReadFile(victim); err != nil || string(got) != "mine" {
		t.Errorf("the file behind the link is %q, %v", got, err)
	}
	meta := filepath.Join(dir, rec.name+repair.MetaExtension)
	if info, err := os.Lstat(meta); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s: %v, %v", meta, info, err)
	}
	if m, err := repair.ReadMeta(filepath.Join(dir, rec.name+repair.Extension)); err != nil || m.Outcome != "ok" {
		t.Errorf("meta %+v, %v", m, err)
	}
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// TestDirectoryThatIsAPlantedLinkIsNotFollowed: in /tmp anybody may put one. An
// operator's own is followed.
func TestDirectoryThatIsAPlantedLinkIsNotFollowed(t *testing.T) {
	for mode, recorded := range map[os.FileMode]int{0o777 | os.ModeSticky: 0, 0o755: 2} {
		parent, victim := t.TempDir(), t.TempDir()
		if err := os.Chmod(parent, mode); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(parent, "recordings")
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
		c, _ := newTestRecorder(link, 0)
		record(c, "x")
		if files := recordings(t, victim); len(files) != recorded {
			t.Errorf("%v: %d files behind the link, want %d", mode, len(files), recorded)
		}
		if err := provisionError(t, `"record":"`+filepath.ToSlash(link)+`"`); (err == nil) != (recorded > 0) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// TestRemovedDirectoryIsMadeAgain, for its owner only, and keeps its bounds.
func TestRemovedDirectoryIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	const max = 200_000
	c, logs := newTestRecorder(dir, max)
	for range 3 {
		under := c.begin(httptest.NewRequest("POST", "/x", nil), http.StatusOK, http.Header{})
		for range 30 {
			if record(c, strings.Repeat("x", 50_000)) == nil {
				t.Fatal("not recorded")
			}
		}
		if bytes, streams := disk(t, dir); bytes > max || streams < 5 {
			t.Errorf("%d bytes in %d recordings", bytes, streams)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the directory is %v, %v", info, err)
		}
		under.End(proxy.Result{Outcome: "ok"}, rewrite.CauseEOF)
		if logs.Len() != 0 {
			t.Fatalf("logged %v", logs.All())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnotherDirectoryIsRead: what is in it counts, and goes first.
func TestAnotherDirectoryIsRead(t *testing.T) {
	parent := t.TempDir()
	dir, other := filepath.Join(parent, "recordings"), filepath.Join(parent, "other")
	const max = 200_000
	old, _ := newTestRecorder(other, max)
	for range 8 {
		record(old, strings.Repeat("x", 50_000))
	}
	c, _ := newTestRecorder(dir, max)
	record(c, "x")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, dir); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		record(c, strings.Repeat("x", 50_000))
	}
	if bytes, streams := disk(t, dir); bytes > max || streams < 5 {
		t.Errorf("%d bytes in %d recordings", bytes, streams)
	}
}

// TestConfigurationThatIsNotRunDeletesNoRecordings: one that is only validated, or
// refused, with a smaller record_max.
func TestConfigurationThatIsNotRunDeletesNoRecordings(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	at := `"record": "` + filepath.ToSlash(dir) + `"`
	h, _ := provision(t, at, t.TempDir())
	for range 20 {
		serve(t, h, answer("a:1", textFrame+usedStop))
	}
	_, cleanup := provision(t, at+`,"record_max": 20000`, t.TempDir())
	cleanup()
	serve(t, h, answer("a:1", textFrame+usedStop))
	if _, streams := disk(t, dir); streams != 21 {
		t.Errorf("%d recordings, want 21", streams)
	}
}

// provisionError provisions a configuration with one hermes handler and returns the
// error.
func provisionError(t *testing.T, options string) error {
	t.Helper()
	config := `{"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"hermes",` + options + `}]}]}}}}}`
	return caddy.Validate(parseConfig(t, []byte(config)))
}

// TestDirectoryThatCannotBeWrittenToIsRefused when the configuration is loaded, and
// nothing is made for one that can.
func TestDirectoryThatCannotBeWrittenToIsRefused(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(home, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(home, "dangling")
	if err := os.Symlink(filepath.Join(home, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	refused := []string{file, filepath.Join(file, "dir"), dangling, "/proc/hermes/recordings"}
	if os.Getuid() != 0 { // root may write
		refused = append(refused, locked, filepath.Join(locked, "a", "b"))
	}
	for _, dir := range refused {
		err := provisionError(t, `"record":"`+filepath.ToSlash(dir)+`"`)
		if err == nil || !strings.Contains(err.Error(), "record") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	there := filepath.Join(home, "there")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{there, filepath.Join(there, "a", "b")} {
		if err := provisionError(t, `"record":"`+filepath.ToSlash(dir)+`"`); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(there); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 4 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestConfigurationThatHasNotStartedForGoodDeletesNoRecordings: its first servers
// answer already, and it may be refused yet.
func TestConfigurationThatHasNotStartedForGoodDeletesNoRecordings(t *testing.T) {
	dir := t.TempDir()
	c, _ := newTestRecorder(dir, 0)
	for range 20 {
		record(c, strings.Repeat("x", 50_000))
	}
	runs := false
	young := newRecorder(c.shelf, 200_000, func() bool { return runs }, c.logger)
	young.now = c.now
	record(young, strings.Repeat("x", 50_000))
	if _, streams := disk(t, dir); streams != 21 {
		t.Errorf("%d recordings, want 21", streams)
	}
	runs = true
	record(young, strings.Repeat("x", 50_000))
	if bytes, _ := disk(t, dir); bytes > 200_000 {
		t.Errorf("%d bytes of recordings after it has started", bytes)
	}
}
